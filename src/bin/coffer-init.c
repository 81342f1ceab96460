/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-init: pid 1 of a sandbox. The launcher passes the stream to it as descriptor 3. With any argument,
 * it sends a greeting for which the launcher waits. Nothing outside trusts it.
 */
#include "sandbox/init/init.h"

int main(int argc, char **argv)
{
	(void)argv;
	return init_main(3, 3, argc > 1);
}
