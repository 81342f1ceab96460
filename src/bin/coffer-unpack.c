/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/image/unpack.h"

int main(int argc, char **argv)
{
	return unpack_main(argc, argv);
}
