/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-unpack: unpacks one layer of an untrusted image, inside a fence. See sandbox/image/unpack.h. It may
 * not open anything outside the directory that it fills, make a socket or start a process.
 */
#include "base/signals.h"
#include "sandbox/image/unpack.h"

int main(int argc, char **argv)
{
	signals_begin();
	return unpack_main(argc, argv);
}
