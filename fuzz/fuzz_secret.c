/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same bytes as a git configuration, and as a name from inside. A text that was redacted once must hold nothing
 * more to redact; names of any shape are judged without reading past them.
 */
#include "base/cleanup.h"
#include "workspace/tree/path.h"
#include "workspace/tree/trigger.h"
#include "workspace/view/secret.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void redact(const char *text, size_t len)
{
	autobuf struct buf once = BUF_INIT, twice = BUF_INIT;
	bool changed = false;

	secret_redact_git(text, len, &once, &changed);
	BUG_ON(buf_error(&once));
	BUG_ON(!changed && (once.len != len || memcmp(buf_cstr(&once), text, len) != 0));
	secret_redact_git(buf_cstr(&once), once.len, &twice, &changed);
	BUG_ON(once.len != twice.len || memcmp(buf_cstr(&once), buf_cstr(&twice), once.len) != 0);
}

/* As many names as before, none longer; what is folded stays as it is but for a name that is nothing else. */
static void fold(const char *name)
{
	autofree char *once = path_fold(name);
	size_t before = 0, after = 0;

	BUG_ON(!once || strlen(once) > strlen(name));
	for (const char *p = name; *p; p++)
		before += *p == '/';
	for (const char *p = once; *p; p++)
		after += *p == '/';
	BUG_ON(before != after);
}

static void judge(const char *name)
{
	const struct secret_rule *rule = NULL;
	struct strv none = STRV_INIT;
	char *path = NULL;

	BUG_ON(secret_match_path(name, false, &rule) > strlen(name));
	for (size_t at = 0; at <= strlen(name) && at < 8; at++) {
		const struct trigger_place place = { .in_git = at > 0, .git_at = at };
		struct trigger t = trigger_find(name, false, &place);

		BUG_ON(trigger_allowed(&t, name, &none) != !t.why);
	}
	fold(name);
	if (path_normalise(name, &path, NULL) == 0)
		BUG_ON(path_link_leaves("l", path)); /* without "..", and relative */
	free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	redact(text, size);
	judge(text);
	free(text);
	return 0;
}
