/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the lines of proxy_credentials.h. Copies nothing: the slices point into the caller's text, which the
 * caller zeroes.
 */
#include "dial/proxy/proxy_credentials.h"

#include "base/err.h"
#include "base/str.h"

struct credential_line {
	struct slice set, user, password;
};

/* Parses one line at *at, and advances *at past it. */
static bool next_credential_line(const char **at, const char *end, struct credential_line *ret)
{
	const char *nl = memchr(*at, '\n', (size_t)(end - *at));
	const char *start = *at, *tab, *colon;

	if (!nl)
		return false;
	*at = nl + 1;
	tab = memchr(start, '\t', (size_t)(nl - start));
	colon = tab ? memchr(tab, ':', (size_t)(nl - tab)) : NULL;
	if (!colon)
		return false;
	*ret = (struct credential_line){ .set = { start, (size_t)(tab - start) },
					 .user = { tab + 1, (size_t)(colon - tab - 1) },
					 .password = { colon + 1, (size_t)(nl - colon - 1) } };
	return true;
}

static bool is_credential_half(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return false;
	}
	return s.len > 0 && s.len <= PROXY_CREDENTIAL_MAX;
}

size_t proxy_credentials_check(const char *text, size_t len)
{
	const char *at = text, *end = text + len;
	struct credential_line l;

	for (size_t n = 1; at < end; n++) {
		if (!next_credential_line(&at, end, &l) || l.set.len == 0 || l.set.len > 31 ||
		    !is_credential_half(l.user) || !is_credential_half(l.password))
			return n;
	}
	return 0;
}

static size_t count_credentials(const char *text, size_t len, const char *set)
{
	const char *at = text, *end = text + len;
	struct credential_line l;
	size_t n = 0;

	while (at < end && next_credential_line(&at, end, &l))
		n += slice_eq(l.set, set);
	return n;
}

bool proxy_credentials_find(const char *text, size_t len, const char *set, size_t i, struct slice *ret_user,
			    struct slice *ret_password)
{
	const char *at = text, *end = text + len;
	size_t n = count_credentials(text, len, set);
	struct credential_line l;

	if (n == 0)
		return false;
	i %= n;
	while (next_credential_line(&at, end, &l)) {
		if (!slice_eq(l.set, set) || i-- > 0)
			continue;
		*ret_user = l.user;
		*ret_password = l.password;
		return true;
	}
	BUG("a line that was counted is gone");
}
