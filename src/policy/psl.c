/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rule is the hash of its name with its kind in the lowest bits: a plain suffix, one whose children are suffixes
 * ("*.ck"), or an exception to such ("!www.ck").
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

static unsigned kinds_of(const char *name)
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

static const char *parent_of(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot ? dot + 1 : NULL;
}

/* The longest suffix in `name`: the first that is met from the left. The last label when the list has none. */
static const char *suffix_of(const char *name)
{
	const char *parent = parent_of(name);

	for (; parent; name = parent, parent = parent_of(name)) {
		unsigned k = kinds_of(name);

		if (k & PSL_EXCEPT)
			return parent;
		if (k & PSL_PLAIN || kinds_of(parent) & PSL_WILD)
			return name;
	}
	return name;
}

bool psl_is_suffix(const char *name)
{
	return suffix_of(name) == name;
}

const char *psl_registrable(const char *name)
{
	const char *suffix = suffix_of(name), *at;

	if (suffix == name)
		return NULL;
	for (at = suffix - 1; at > name && at[-1] != '.'; at--)
		;
	return at;
}
