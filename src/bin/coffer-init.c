/* SPDX-License-Identifier: Apache-2.0 */
/* coffer-init: pid 1 of a sandbox. The launcher leaves the stream on descriptor 3. */
#include "sandbox/init.h"

int main(void)
{
	return init_main(3, 3);
}
