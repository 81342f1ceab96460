/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public suffix list (publicsuffix.org), built in as a table of hashes: below which names anybody may register.
 * Made by tools/gen-psl from the list that the distribution ships. Takes names in canonical form (codec/net/host.h).
 */
#ifndef POLICY_PSL_H
#define POLICY_PSL_H

#include <stdbool.h>
#include <stddef.h>

/* Is this name itself a public suffix ("com", "co.uk", "github.io")? A lone label always is. */
bool psl_is_suffix(const char *name);

/* Where in `name` its registrable domain begins: "example.co.uk" of "a.b.example.co.uk"; NULL when name is a suffix. */
const char *psl_registrable(const char *name);

/* How many rules are in the table. */
size_t psl_count(void);

#endif
