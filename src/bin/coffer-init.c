/* SPDX-License-Identifier: Apache-2.0 */
/* coffer-init: pid 1 of a sandbox. The launcher leaves the stream on descriptor 3. Any argument: somebody waits for the
 * greeting. */
#include "sandbox/init/init.h"

int main(int argc, char **argv)
{
	(void)argv;
	return init_main(3, 3, argc > 1);
}
