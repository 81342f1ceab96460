/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks names up in the public suffix list (psl.h). A rule is the hash of its name with its kind in the lowest bits: a plain
 * suffix, one whose children are suffixes ("*.ck"), or an exception to that ("!www.ck"). Pure: no I/O, no clock. A name must
 * be canonical.
 */
#include "policy/psl.h"

#include "policy/namehash.h"

#include <stdint.h>
#include <string.h>

enum { PSL_PLAIN = 1, PSL_WILD = 2, PSL_EXCEPT = 4, PSL_KINDS = 7 };

static const uint64_t table[] = {
#include "policy/psl_table.inc"
};

#define TABLE_LEN (sizeof(table) / sizeof(table[0]))

size_t psl_count(void)
{
	return TABLE_LEN;
}

/* The kinds of rules that the list has for exactly this name. */
static unsigned psl_kinds(const char *name)
{
	uint64_t want = namehash(name, strlen(name)) & ~(uint64_t)PSL_KINDS;
	size_t lo = 0, hi = TABLE_LEN;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if ((table[mid] & ~(uint64_t)PSL_KINDS) < want)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < TABLE_LEN && (table[lo] & ~(uint64_t)PSL_KINDS) == want ? table[lo] & PSL_KINDS : 0;
}

static const char *parent_name(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot ? dot + 1 : NULL;
}

/* The longest suffix of `name`, which is the first one found from the left; the last label if the list has
 * none. */
static const char *public_suffix(const char *name)
{
	const char *parent = parent_name(name);

	for (; parent; name = parent, parent = parent_name(name)) {
		unsigned k = psl_kinds(name);

		if (k & PSL_EXCEPT)
			return parent;
		if (k & PSL_PLAIN || psl_kinds(parent) & PSL_WILD)
			return name;
	}
	return name;
}

bool psl_is_suffix(const char *name)
{
	return public_suffix(name) == name;
}

const char *psl_registrable(const char *name)
{
	const char *suffix = public_suffix(name), *at;

	if (suffix == name)
		return NULL;
	for (at = suffix - 1; at > name && at[-1] != '.'; at--)
		;
	return at;
}
