/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The git service of an HTTP request, by path and query. Reads both as leniently as any server might, so that no
 * spelling of a push passes as another request.
 */
#include "base/hex.h"
#include "codec/body/gitpkt.h"

/* Cuts the last segment off *s. Returns it without ";parameters" and trailing dots, which some file systems drop. */
static struct slice last_segment(struct slice *s)
{
	const char *slash = s->len ? memrchr(s->p, '/', s->len) : NULL;
	size_t before = slash ? (size_t)(slash - s->p) : 0, from = slash ? before + 1 : 0;
	struct slice seg = { s->p + from, s->len - from };
	const char *semi = seg.len ? memchr(seg.p, ';', seg.len) : NULL;

	if (semi)
		seg.len = (size_t)(semi - seg.p);
	while (seg.len && seg.p[seg.len - 1] == '.')
		seg.len--;
	s->len = before;
	return seg;
}

/* Does the path end with the segments `before` (NULL: any) and `last`? A trailing slash is ignored. */
static bool ends_with_segments(struct slice s, const char *last, const char *before, struct slice *ret_front)
{
	if (s.len && s.p[s.len - 1] == '/')
		s.len--;
	if (!slice_eq_nocase(last_segment(&s), last) ||
	    (before && !slice_eq_nocase(last_segment(&s), before)))
		return false;
	*ret_front = s;
	return true;
}

/* Finds the text anywhere in the path, in whatever letter case. */
static bool has_segment(struct slice s, const char *part, struct slice *ret_front)
{
	size_t len = strlen(part);

	for (size_t i = 0; i + len <= s.len; i++) {
		if (!slice_eq_nocase((struct slice){ s.p + i, len }, part))
			continue;
		*ret_front = (struct slice){ s.p, i };
		return true;
	}
	return false;
}

/* Is this, percent-decoded and in lower case, the text? Some servers ignore letter case. */
static bool decodes_to(struct slice s, const char *text)
{
	size_t i = 0;

	for (; i < s.len && *text; i++, text++) {
		char c = s.p[i];
		int byte = c == '%' && s.len - i >= 3 ? hex_byte(s.p + i + 1) : -1;

		if (byte >= 0) {
			c = (char)byte;
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

	if (ends_with_segments(path, "git-receive-pack", NULL, &front))
		s = GITPKT_PUSH;
	else if (ends_with_segments(path, "git-upload-pack", NULL, &front))
		s = GITPKT_FETCH;
	else if (ends_with_segments(path, "refs", "info", &front))
		s = query_has(query, "service=git-receive-pack")  ? GITPKT_REFS_PUSH
		    : query_has(query, "service=git-upload-pack") ? GITPKT_REFS_FETCH
								  : GITPKT_DUMB;
	else if (has_segment(path, "/objects/info/", &front) ||
		 has_segment(path, "/objects/pack/pack-", &front))
		s = GITPKT_DUMB;
	if (ret_repo)
		*ret_repo = front;
	return s;
}
