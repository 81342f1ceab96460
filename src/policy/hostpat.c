/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and matches patterns of host names (hostpat.h). Pure. */

#include "policy/hostpat.h"

#include "base/str.h"

#include <errno.h>
#include <string.h>

const char *hostpat_base(const struct hostpat *p)
{
	return p->kind == HOSTPAT_EXACT ? p->text : p->kind == HOSTPAT_BELOW ? p->text + 2 : "";
}

/* Parses the name: the whole text, or the part after "*.". */
static int parse_pattern_name(const char *s, size_t len, bool below, struct hostpat *ret, struct err *e)
{
	struct host h;
	int r = host_canon(s, len, &h, e);

	if (r < 0)
		return r;
	if (h.kind == HOST_ADDR) {
		err_set(e, -EINVAL, "'%s' is an address and not a name", h.text);
		return below ? -EINVAL : err_hint(e, -EINVAL, "address: %s", h.text);
	}
	if (h.len != len || memcmp(h.text, s, len) != 0) {
		char shown[HOST_MAX + 8], text[HOST_MAX + 1];

		memcpy(text, s, len < HOST_MAX ? len : HOST_MAX);
		text[len < HOST_MAX ? len : HOST_MAX] = '\0';
		return err_set(e, -EINVAL, "'%s' is not how that name is written in a policy; write %s%s",
			       str_safe(text, shown, sizeof(shown)), below ? "*." : "", h.text);
	}
	ret->kind = below ? HOSTPAT_BELOW : HOSTPAT_EXACT;
	memcpy(ret->text, "*.", 3);
	memcpy(ret->text + (below ? 2 : 0), h.text, h.len + 1u);
	return 0;
}

int hostpat_parse(const char *s, size_t len, struct hostpat *ret, struct err *e)
{
	struct hostpat p = { .kind = HOSTPAT_ANY, .text = "*" };
	bool below = len > 2 && s[0] == '*' && s[1] == '.';
	size_t skip = below ? 2 : 0;
	int r = 0;

	if (len == 0)
		return err_set(e, -EINVAL, "a host name is missing");
	if (!(len == 1 && s[0] == '*')) {
		if (memchr(s + skip, '*', len - skip)) {
			err_set(e, -EINVAL, "only the whole first label of a name may be *");
			return err_hint(e, -EINVAL,
					"\"*.example.com\" for all below example.com, \"*\" for all");
		}
		r = parse_pattern_name(s + skip, len - skip, below, &p, e);
	}
	if (r == 0)
		*ret = p;
	return r;
}

static bool is_name_below(const char *name, size_t len, const char *base)
{
	size_t n = strlen(base);

	return len > n + 1 && name[len - n - 1] == '.' && memcmp(name + len - n, base, n) == 0;
}

bool hostpat_match(const struct hostpat *p, const struct host *name)
{
	if (p->kind == HOSTPAT_ANY)
		return true;
	if (name->kind != HOST_NAME)
		return false;
	if (p->kind == HOSTPAT_EXACT)
		return str_eq(p->text, name->text);
	return is_name_below(name->text, name->len, p->text + 2);
}

unsigned hostpat_rank(const struct hostpat *p)
{
	unsigned labels = 1;

	if (p->kind == HOSTPAT_ANY)
		return 0;
	for (const char *c = hostpat_base(p); *c; c++)
		labels += *c == '.';
	return p->kind == HOSTPAT_EXACT ? HOST_MAX + 1 + labels : labels;
}

bool hostpat_covers(const struct hostpat *outer, const struct hostpat *inner)
{
	if (outer->kind == HOSTPAT_ANY || str_eq(outer->text, inner->text))
		return true;
	if (outer->kind != HOSTPAT_BELOW || inner->kind == HOSTPAT_ANY)
		return false;
	return is_name_below(hostpat_base(inner), strlen(hostpat_base(inner)), outer->text + 2);
}
