/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of host names: "a.example.com" (itself), "*.example.com" (any depth below, not example.com), "*" (all).
 * Only a whole leading label may be "*". The rest stands in the form that codec/net/host.h gives, or is refused with that
 * form named: two spellings of one name can never be two rules.
 */
#ifndef POLICY_HOSTPAT_H
#define POLICY_HOSTPAT_H

#include "codec/net/host.h"

enum hostpat_kind { HOSTPAT_ANY, HOSTPAT_BELOW, HOSTPAT_EXACT };

struct hostpat {
	enum hostpat_kind kind;
	char text[HOST_MAX + 3]; /* as written: a pattern has one spelling */
};

/* -EINVAL with what is wrong and, where there is one, the right form. */
int hostpat_parse(const char *s, size_t len, struct hostpat *ret, struct err *e) MUST_CHECK;

bool hostpat_match(const struct hostpat *p, const struct host *name);

/* Of two patterns that match one name, the greater is the more specific; equal only when they are the same. */
unsigned hostpat_rank(const struct hostpat *p);

/* Does `outer` match whatever `inner` matches? */
bool hostpat_covers(const struct hostpat *outer, const struct hostpat *inner);

/* What stands behind "*."; the name itself when exact; "" for "*". */
const char *hostpat_base(const struct hostpat *p);

#endif
