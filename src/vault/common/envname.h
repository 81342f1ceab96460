/* SPDX-License-Identifier: Apache-2.0 */
/* Well-known secrets by their names in the vault and the variables that programs look for them under. One table, read both ways: what is
 * imported from a .env file is found by the profiles, and a run gives it the variable that it came from. Pure. */
#ifndef VAULT_ENVNAME_H
#define VAULT_ENVNAME_H

/* "github" is GITHUB_TOKEN; NULL for what is not in the table. */
const char *envname_variable(const char *name);
const char *envname_secret(const char *variable);

#endif
