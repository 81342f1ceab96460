/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of host names: "a.example.com" (itself), "*.example.com" (any depth below, not example.com), "*" (all).
 * Only a whole leading label may be "*". The rest must be in the canonical form of codec/net/host.h; otherwise the pattern is
 * refused, and the message names that form: two spellings of one name can never be two rules.
 */
#ifndef POLICY_HOSTPAT_H
#define POLICY_HOSTPAT_H

#include "codec/net/host.h"

enum hostpat_kind { HOSTPAT_ANY, HOSTPAT_BELOW, HOSTPAT_EXACT };

struct hostpat {
	enum hostpat_kind kind;
	char text[HOST_MAX + 3]; /* as written: a pattern has one spelling */
};

/* -EINVAL with the reason and, if there is one, the right form. */
int hostpat_parse(const char *s, size_t len, struct hostpat *ret, struct err *e) MUST_CHECK;

bool hostpat_match(const struct hostpat *p, const struct host *name);

/* Of two patterns that match the same name, the one with the greater rank is more specific; equal only if
 * they are identical. */
unsigned hostpat_rank(const struct hostpat *p);

/* Does `outer` match everything that `inner` matches? */
bool hostpat_covers(const struct hostpat *outer, const struct hostpat *inner);

/* The part after "*."; the name itself if exact; "" for "*". */
const char *hostpat_base(const struct hostpat *p);

#endif
