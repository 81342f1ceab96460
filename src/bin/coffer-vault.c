/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-vault: the only process that holds secrets. Started by coffer or by a sandbox's guard; see
 * vault/serve/serve.h.
 */
#include "base/signals.h"
#include "vault/serve/serve.h"

int main(int argc, char **argv)
{
	signals_begin();
	return vault_main(argc, argv);
}
