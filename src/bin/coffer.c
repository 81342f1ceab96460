/* SPDX-License-Identifier: Apache-2.0 */
/* coffer: the command-line client. All of it is in src/cli. Nothing may be done here. */
#include "base/signals.h"
#include "cli/main.h"

int main(int argc, char **argv)
{
	signals_begin();
	return coffer_main(argc, argv);
}
