/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP methods as sets of bits: parsing, formatting, and the stricter reading for denials (method.h). Pure.
 */

#include "policy/method.h"

#include "base/str.h"

#include <ctype.h>
#include <errno.h>

#define OTHERS (UINT64_C(1) << 63)
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The index of a name is its bit. Bundles store bits, so new names are appended. */
static const char *const names[] = { "GET",	  "HEAD",    "POST",   "PUT",	  "PATCH",
				     "DELETE",	  "OPTIONS", "TRACE",  "CONNECT", "PROPFIND",
				     "PROPPATCH", "MKCOL",   "COPY",   "MOVE",	  "LOCK",
				     "UNLOCK",	  "REPORT",  "SEARCH", "MERGE",	  "CHECKOUT",
				     "LINK",	  "UNLINK",  "PURGE",  "QUERY",	  METHOD_WEBSOCKET_NAME };

_Static_assert(METHOD_WEBSOCKET == UINT64_C(1) << (ARRAY_LEN(names) - 1), "its place in the list");

#define KNOWN ((UINT64_C(1) << ARRAY_LEN(names)) - 1)
#define GET_BIT UINT64_C(1)
#define HEAD_BIT UINT64_C(2)

method_set method_strictly(method_set bit)
{
	return bit == METHOD_WEBSOCKET ? METHOD_WEBSOCKET | GET_BIT : bit;
}

method_set method_bit(struct slice method)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (slice_eq(method, names[i]))
			return UINT64_C(1) << i;
	}
	return OTHERS;
}

static int refuse_method(const char *s, size_t len, struct err *e)
{
	char upper[24] = "", shown[SLICE_QUOTE_LEN];
	const char *near;

	for (size_t i = 0; i < len && i < sizeof(upper) - 1; i++)
		upper[i] = (char)toupper((unsigned char)s[i]);
	near = str_nearest(upper, names, ARRAY_LEN(names));
	err_set(e, -EINVAL, "'%s' is not an HTTP method", slice_quote(s, len, shown));
	return near ? err_hint(e, -EINVAL, "%s", near)
		    : err_hint(e, -EINVAL, "GET, POST, PUT … or * for all");
}

int method_parse(const char *s, size_t len, method_set *ret, struct err *e)
{
	method_set set = 0;

	for (size_t at = 0; at <= len;) {
		const char *comma = memchr(s + at, ',', len - at);
		size_t n = comma ? (size_t)(comma - s) - at : len - at;
		bool all = n == 1 && s[at] == '*';
		method_set bit = all ? METHOD_ALL : method_bit((struct slice){ s + at, n });

		if (bit == OTHERS)
			return refuse_method(s + at, n, e);
		if (all && (set & ~METHOD_WEBSOCKET))
			return err_set(e, -EINVAL,
				       "* means every method already; only " METHOD_WEBSOCKET_NAME
				       " can be added to it");
		set |= bit == GET_BIT ? GET_BIT | HEAD_BIT : bit;
		at += n + 1;
	}
	*ret = set;
	return 0;
}

bool method_is_valid(method_set set)
{
	if ((set & METHOD_ALL) == METHOD_ALL)
		return true;
	return set != 0 && (set & ~KNOWN) == 0 && (!(set & GET_BIT) || (set & HEAD_BIT));
}

void method_format(method_set set, struct buf *out)
{
	bool first = true;

	if ((set & METHOD_ALL) == METHOD_ALL) {
		buf_adds(out, set & METHOD_WEBSOCKET ? "*," METHOD_WEBSOCKET_NAME : "*");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		method_set bit = UINT64_C(1) << i;

		if (!(set & bit) || (bit == HEAD_BIT && (set & GET_BIT)))
			continue;
		buf_addf(out, "%s%s", first ? "" : ",", names[i]);
		first = false;
	}
}
