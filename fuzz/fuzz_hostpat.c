/* SPDX-License-Identifier: Apache-2.0 */
/* "PATTERN\nNAME": what matches is the name itself or something below it, and nothing but canonical text is taken. */
#include "policy/hostpat.h"

#include "base/str.h"
#include "policy/psl.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_suffix(const struct host *h)
{
	const char *reg = psl_registrable(h->text);

	BUG_ON(psl_is_suffix(h->text) != (reg == NULL));
	if (!reg)
		return;
	BUG_ON(reg < h->text || reg >= h->text + h->len || (reg > h->text && reg[-1] != '.'));
	BUG_ON(!strchr(reg, '.') || psl_is_suffix(reg) || !psl_is_suffix(strchr(reg, '.') + 1));
}

static void check_match(const struct hostpat *p, const struct host *h)
{
	BUG_ON(p->kind != HOSTPAT_ANY && h->kind != HOST_NAME);
	BUG_ON(p->kind == HOSTPAT_EXACT && !str_eq(p->text, h->text));
	BUG_ON(p->kind == HOSTPAT_BELOW && (!str_ends(h->text, p->text + 1) || str_eq(h->text, p->text + 2)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *nl = size ? memchr(text, '\n', size) : NULL;
	size_t n = nl ? (size_t)(nl - text) : size;
	struct hostpat p, again;
	struct host h;
	bool have = nl && host_canon(nl + 1, size - n - 1, &h, NULL) == 0;

	if (have && h.kind == HOST_NAME)
		check_suffix(&h);
	if (hostpat_parse(text, n, &p, NULL) < 0)
		return 0;
	BUG_ON(strlen(p.text) != n || memcmp(p.text, text, n) != 0);
	BUG_ON(hostpat_parse(p.text, n, &again, NULL) < 0 || again.kind != p.kind);
	BUG_ON(!hostpat_covers(&p, &p));
	if (have && hostpat_match(&p, &h))
		check_match(&p, &h);
	return 0;
}
