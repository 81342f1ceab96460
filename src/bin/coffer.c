/* SPDX-License-Identifier: Apache-2.0 */
/* The command line client. All it does is in src/cli. */
#include "cli/main.h"

int main(int argc, char **argv)
{
	return coffer_main(argc, argv);
}
