/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and formats the line that says where a server issues credentials (issue.h). Pure. */

#include "vault/common/issue.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const how_names[] = {
	[ISSUE_ACCESS] = "", [ISSUE_CLAIMS] = "=claims", [ISSUE_REFRESH] = "=refresh"
};
static_assert(ARRAY_SIZE(how_names) == ISSUE_HOW_COUNT, "a name for each");

bool issue_is_member(const char *name)
{
	size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.");

	return n && n <= ISSUE_MEMBER_MAX && !name[n] && name[0] != '.' && name[n - 1] != '.' &&
	       !strstr(name, "..");
}

static bool is_http_method(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	return n && n <= ISSUE_METHOD_MAX && !s[n];
}

/* Parses "NAME", "NAME=claims" or "NAME=refresh". */
static bool parse_issue_member(struct issue *s, char *word)
{
	char *eq = strchr(word, '=');
	struct issue_member *m = &s->v[s->n];
	unsigned how = ISSUE_ACCESS;

	while (eq && how < ISSUE_HOW_COUNT && !str_eq(eq, how_names[how]))
		how++;
	if (s->n == ISSUE_MEMBERS_MAX || how == ISSUE_HOW_COUNT)
		return false;
	if (eq)
		*eq = '\0';
	if (!issue_is_member(word) || issue_find(s, slice_of(word)))
		return false;
	memcpy(m->name, word, strlen(word) + 1);
	m->how = (enum issue_how)how;
	s->n++;
	return true;
}

static bool is_valid_issue(const struct issue *s)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].how == ISSUE_REFRESH && pathpat_has_star(s->path))
			return false;
	}
	return s->n && is_http_method(s->method) && pathpat_check(s->path, strlen(s->path), NULL) == 0;
}

static bool parse_issue_endpoint(struct issue *s, const char *word)
{
	const char *slash = word ? strchr(word, '/') : NULL;

	if (!slash || strlen(slash) > PATHPAT_MAX ||
	    host_port_parse(word, (size_t)(slash - word), 0, &s->host, &s->port, NULL) < 0)
		return false;
	memcpy(s->path, slash, strlen(slash) + 1);
	return s->port != 0;
}

int issue_parse(const char *text, struct issue *ret)
{
	char copy[ISSUE_TEXT_MAX + 1], *save = NULL, *word;
	autobuf struct buf again = BUF_INIT;
	struct issue s = { 0 };

	if (strlen(text) > ISSUE_TEXT_MAX)
		return -EINVAL;
	memcpy(copy, text, strlen(text) + 1);
	word = strtok_r(copy, " ", &save);
	if (!word || strlen(word) > ISSUE_METHOD_MAX)
		return -EINVAL;
	memcpy(s.method, word, strlen(word) + 1);
	if (!parse_issue_endpoint(&s, strtok_r(NULL, " ", &save)))
		return -EINVAL;
	while ((word = strtok_r(NULL, " ", &save)) != NULL) {
		if (!parse_issue_member(&s, word))
			return -EINVAL;
	}
	if (!is_valid_issue(&s))
		return -EINVAL;
	/* issue.I1: only the canonical spelling is accepted. */
	issue_format(&s, &again);
	if (buf_error(&again) || !str_eq(buf_cstr(&again), text))
		return -EINVAL;
	*ret = s;
	return 0;
}

void issue_format(const struct issue *s, struct buf *out)
{
	bool brackets = strchr(s->host.text, ':') != NULL;

	buf_addf(out, brackets ? "%s [%s]:%u%s" : "%s %s:%u%s", s->method, s->host.text, s->port, s->path);
	for (size_t i = 0; i < s->n; i++)
		buf_addf(out, " %s%s", s->v[i].name, how_names[s->v[i].how]);
}

const struct issue_member *issue_find(const struct issue *s, struct slice name)
{
	for (size_t i = 0; i < s->n; i++) {
		if (slice_eq(name, s->v[i].name))
			return &s->v[i];
	}
	return NULL;
}

/* The path without a suffix of its last segment: some servers accept /token.json for /token. */
static struct slice strip_path_suffix(struct slice path)
{
	const char *last, *dot;

	while (path.len && path.p[path.len - 1] == '/')
		path.len--;
	last = path.len ? memrchr(path.p, '/', path.len) : NULL;
	last = last ? last : path.p;
	dot = path.len ? memchr(last, '.', path.len - (size_t)(last - path.p)) : NULL;
	if (dot)
		path.len = (size_t)(dot - path.p);
	return path;
}

bool issue_is_endpoint(const struct issue *s, const char *method, struct slice path)
{
	if (!str_eq(s->method, method))
		return false;
	return pathpat_match(s->path, path, PATHPAT_LOOSE) ||
	       pathpat_match(s->path, strip_path_suffix(path), PATHPAT_LOOSE);
}
