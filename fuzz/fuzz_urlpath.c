/* SPDX-License-Identifier: Apache-2.0 */
/* Paths: what comes out is canonical and has nothing in it that two servers would read in two ways. */
#include "codec/http/urlpath.h"

#include <stdint.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A segment that some servers leave out, or take for the directory above. */
static bool is_dots(struct slice s)
{
	return slice_eq(s, ".") || slice_eq(s, "..") || slice_eq(s, "...") || slice_starts(s, "..;") ||
	       slice_eq(s, "..%20");
}

static bool is_blank(struct slice s)
{
	return slice_starts(s, ";") || slice_starts(s, "%3B") || slice_eq(s, "%20");
}

static void check_segments(struct slice path)
{
	size_t start = 1;

	BUG_ON(path.len == 0 || path.p[0] != '/');
	for (size_t i = 1; i <= path.len; i++) {
		struct slice s = { path.p + start, i - start };

		if (i < path.len && path.p[i] != '/')
			continue;
		BUG_ON(is_dots(s) || is_blank(s) || (s.len == 0 && i < path.len));
		start = i + 1;
	}
}

static void check(const struct buf *out, const struct urlpath *p, unsigned flags)
{
	autobuf struct buf again = BUF_INIT, other = BUF_INIT, folded = BUF_INIT;
	struct slice path = urlpath_path(out, p);
	struct urlpath q;
	int is_folded;

	check_segments(path);
	BUG_ON(urlpath_canon(out->data, out->len, flags, &again, &q, NULL) < 0);
	BUG_ON(again.len != out->len || memcmp(again.data, out->data, out->len) != 0 || q.slash != p->slash);
	BUG_ON(memmem(path.p, path.len, "%2F", 3) && !flags);
	BUG_ON(urlpath_slashed(path, &other) < 0);
	check_segments((struct slice){ other.data, other.len });
	BUG_ON(slice_same(path, (struct slice){ other.data, other.len }) == p->slash);
	is_folded = urlpath_folded(path, &folded);
	BUG_ON(is_folded < 0);
	check_segments((struct slice){ folded.data, folded.len });
	BUG_ON(!is_folded &&
	       (folded.len != other.len || strncasecmp(folded.data, other.data, other.len) != 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = ERR_INIT;

	for (unsigned flags = 0; flags < 2; flags++) {
		autobuf struct buf out = BUF_INIT;
		struct urlpath p;

		if (urlpath_canon((const char *)data, size, flags, &out, &p, &e) == 0)
			check(&out, &p, flags);
		else
			BUG_ON(!e.msg[0]);
	}
	return 0;
}
