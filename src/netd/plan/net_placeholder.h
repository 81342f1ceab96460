/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The placeholders of a run: each has the mark of the state directory (vault/common/mark.h), and with a named home each secret has the
 * same one in every run. Programs save what they find in their variables; what they saved goes on standing for the same secret.
 *
 * They are remembered, not derived: `vault/placeholders/HOME` in the state directory has a line "NAME PLACEHOLDER" for each secret
 * that a run with that home was given. There is no value in it.
 *
 * Invariants
 *  H1  The same secret (by its name) and the same home give the same placeholder in every run, whatever the vault's key, file,
 *      process or the secret's value are by then: also after `rotate`, `rekey`, and `rm` with a `set` after it. Two homes, two
 *      secrets, and two state directories have nothing in common but what the look of the token and the mark say.
 *  H2  One is random and was made for this home: nothing from inside a sandbox tells that of another home.
 *  H3  Without a named home each run has fresh ones, as has a home that was forgotten (coffer secret forget).
 *  H4  A line that is malformed, or without the mark, counts as none: a fresh one takes its place. A file that cannot be read, locked
 *      or written is an error before anything starts: nothing runs with placeholders that the next run would not know.
 */
#ifndef NETD_NET_PLACEHOLDER_H
#define NETD_NET_PLACEHOLDER_H

#include "vault/common/grants.h"
#include "vault/common/mark.h"

/* The marks of the state directory. dir: that of the vault. With `make` the seed is made where there is none; else there are no marks
 * then. */
int net_marks_read(int dir, bool make, struct marks *ret, struct err *e) MUST_CHECK;

/* What was granted gets the placeholders that are to be inside. home: the name of one, NULL: none. */
int net_placeholders_put(int dir, const char *home, const struct marks *m, struct vault_grants *g,
			 struct err *e) MUST_CHECK;

#endif
