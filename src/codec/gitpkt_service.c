/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/gitpkt.h"

static bool ends(struct slice s, const char *suffix, struct slice *ret_front)
{
	size_t n = strlen(suffix);

	if (s.len < n || strncasecmp(s.p + s.len - n, suffix, n) != 0)
		return false;
	*ret_front = (struct slice){ s.p, s.len - n };
	return true;
}

static bool has(struct slice s, const char *part, struct slice *ret_front)
{
	const char *p = s.len ? memmem(s.p, s.len, part, strlen(part)) : NULL;

	if (p)
		*ret_front = (struct slice){ s.p, (size_t)(p - s.p) };
	return p != NULL;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Is this, percent-decoded, the text? In any case, for whoever folds it. */
static bool decodes_to(struct slice s, const char *text)
{
	size_t i = 0;

	for (; i < s.len && *text; i++, text++) {
		char c = s.p[i];

		if (c == '%' && s.len - i >= 3 && hex_digit(s.p[i + 1]) >= 0 && hex_digit(s.p[i + 2]) >= 0) {
			c = (char)(hex_digit(s.p[i + 1]) << 4 | hex_digit(s.p[i + 2]));
			i += 2;
		}
		if (c >= 'A' && c <= 'Z')
			c |= 0x20;
		if (c != *text)
			return false;
	}
	return i == s.len && !*text;
}

static bool query_has(struct slice query, const char *param)
{
	size_t start = 0;

	for (size_t i = 0; i <= query.len; i++) {
		if (i < query.len && query.p[i] != '&' && query.p[i] != ';')
			continue;
		if (i > start && decodes_to((struct slice){ query.p + start, i - start }, param))
			return true;
		start = i + 1;
	}
	return false;
}

enum gitpkt_service gitpkt_service(struct slice path, struct slice query, struct slice *ret_repo)
{
	enum gitpkt_service s = GITPKT_NONE;
	struct slice front = SLICE_NONE;

	if (ends(path, "/git-receive-pack", &front))
		s = GITPKT_PUSH;
	else if (ends(path, "/git-upload-pack", &front))
		s = GITPKT_FETCH;
	else if (ends(path, "/info/refs", &front))
		s = query_has(query, "service=git-receive-pack")  ? GITPKT_REFS_PUSH
		    : query_has(query, "service=git-upload-pack") ? GITPKT_REFS_FETCH
								  : GITPKT_DUMB;
	else if (has(path, "/objects/info/", &front) || has(path, "/objects/pack/pack-", &front))
		s = GITPKT_DUMB;
	if (ret_repo)
		*ret_repo = front;
	return s;
}
