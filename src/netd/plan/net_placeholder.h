/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The placeholders of a run: each has the mark of the state directory (vault/common/mark.h), and with a named
 * home each secret has the same one in every run. Programs save the values of their variables; a saved
 * placeholder stays valid for the same secret.
 *
 * They are stored, not derived: `vault/placeholders/HOME` in the state directory has a line "NAME
 * PLACEHOLDER" for each secret that a run with that home was given. It contains no secret value.
 *
 * Invariants (cited elsewhere as net_placeholder.H1 …)
 * H1  The same secret (by its name) and the same home give the same placeholder in every run, whatever
 *     becomes of the vault's key, file or process, or of the secret's value: also after `rotate`, `rekey`,
 *     and `rm` followed by `set`. Two homes, two secrets or two state directories have nothing in common but
 *     the shape of the token and the mark.
 * H2  A placeholder is random and made for its home: nothing inside a sandbox reveals that of another home.
 * H3  Without a named home each run has new ones; so has a home after `coffer secret forget`.
 * H4  A malformed line, or one without the mark, is ignored and replaced. A file that cannot be read, locked
 *     or written is an error before anything starts: nothing runs with placeholders that the next run would
 *     not know.
 */
#ifndef NETD_NET_PLACEHOLDER_H
#define NETD_NET_PLACEHOLDER_H

#include "vault/common/grants.h"
#include "vault/common/mark.h"

/* Reads the marks of the state directory; dir is that of the vault. With `make`, the seed is made if there is
 * none; otherwise the marks are empty then. */
int net_marks_read(int dir, bool make, struct marks *ret, struct err *e) MUST_CHECK;

/* Gives each grant the placeholder that is used inside. home: its name; NULL: none. */
int net_placeholders_put(int dir, const char *home, const struct marks *m, struct vault_grants *g,
			 struct err *e) MUST_CHECK;

#endif
