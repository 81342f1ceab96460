/* SPDX-License-Identifier: Apache-2.0 */
/* Well-known secrets: the name in the vault and the environment variable that programs read. One table for
 * both directions, so that profiles find what was imported from a .env file, and a run passes it under the
 * variable that it came from. Pure. */
#ifndef VAULT_ENVNAME_H
#define VAULT_ENVNAME_H

/* "github" gives GITHUB_TOKEN; NULL for names that the table does not have. */
const char *envname_variable(const char *name);
const char *envname_secret(const char *variable);

#endif
