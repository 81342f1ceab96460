/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a policy file, and any place and rule to be added: refused with words, or a file that parses and has every line of the
 * old one, in its order.
 */
#include "config/edit/policy_edit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "config/ytree.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Without the bytes that were added it is what it was. */
static void check_added(const char *old, size_t len, const struct buf *now)
{
	size_t head = 0, tail = 0;

	BUG_ON(now->len <= len);
	while (head < len && old[head] == now->data[head])
		head++;
	while (tail < len - head && old[len - 1 - tail] == now->data[now->len - 1 - tail])
		tail++;
	BUG_ON(head + tail != len);
}

/* A single word has become another: the rest is as it was. */
static void check_turned(const char *old, size_t len, const struct buf *now, const char *from, const char *to)
{
	size_t head = 0, tail = 0, longer = strlen(to) - strlen(from);

	BUG_ON(now->len != len + longer);
	while (head < len && old[head] == now->data[head])
		head++;
	while (tail < len - head && old[len - 1 - tail] == now->data[now->len - 1 - tail])
		tail++;
	BUG_ON(len - head - tail > strlen(from));
}

/* All but margins. */
static size_t words(const char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += s[i] != ' ';
	return n;
}

static void check_edit(const struct policy_edit *ed, const char *text, size_t size, const struct buf *out)
{
	if (ed->act == POLICY_EDIT_MOVE_RULE)
		BUG_ON(words(out->data, out->len) < words(text, size));
	else if (ed->act == POLICY_EDIT_TURN_ENTRY || ed->act == POLICY_EDIT_TURN_APPLY)
		check_turned(text, size, out, "ask", "allow");
	else if (ed->act == POLICY_EDIT_TURN_SECRET)
		check_turned(text, size, out, "true", "false");
	else if (ed->act != POLICY_EDIT_TURN_TOOL)
		check_added(text, size, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const lists[] = { "http", "graphql", "git" };
	static const char *const entries[] = { "PUT /a/b:c", "mutation merge", "push o/r refs/heads/x create",
					       "GET /a\n- b" };
	static const char *const names[] = { "deploy", "d*", "a", "b.c" };
	CLEANUP(ynode_freep) struct ynode *tree = NULL;
	autobuf struct buf out = BUF_INIT, again = BUF_INIT;
	struct err e = ERR_INIT;
	struct policy_edit ed;
	const char *text;
	bool tool;

	if (size < 4)
		return 0;
	ed = (struct policy_edit){ .act = data[0] % POLICY_EDIT_ACT_COUNT,
				   .rule_line = data[1],
				   .entry_line = data[2],
				   .list = lists[data[3] % 3],
				   .entry = entries[data[3] / 3 % 4],
				   .host = data[3] & 128 ? "a.example.com" : "2001:db8::1",
				   .port = 443,
				   .turn = data[3] & 32,
				   .http = data[3] & 64 ? "GET /x" : NULL };
	tool = ed.act == POLICY_EDIT_ADD_TOOL || ed.act == POLICY_EDIT_TURN_TOOL;
	if (tool) {
		ed.name = names[data[3] % 4];
		ed.entry = ed.act == POLICY_EDIT_TURN_TOOL ? ed.name : "deploy";
	}
	text = (const char *)data + 4;
	size -= 4;
	if (config_edit_policy("f", text, size, &ed, &out, &e) < 0) {
		BUG_ON(e.msg[0] == '\0' || out.len);
		return 0;
	}
	BUG_ON(ytree_parse("f", out.data, out.len, &tree, &e) < 0);
	check_edit(&ed, text, size, &out);
	/* A rule that was moved or changed cannot be so once more. */
	if (ed.act == POLICY_EDIT_TURN_ENTRY || ed.act == POLICY_EDIT_TURN_APPLY ||
	    ed.act == POLICY_EDIT_TURN_SECRET)
		BUG_ON(config_edit_policy("f", out.data, out.len, &ed, &again, &e) == 0);
	return 0;
}
