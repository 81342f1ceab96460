/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-vault: the only process that holds secrets. Started by coffer or by a sandbox's guard; see
 * vault/serve/serve.h.
 */
#include "vault/serve/serve.h"

int main(int argc, char **argv)
{
	return vault_main(argc, argv);
}
