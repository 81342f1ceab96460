/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-netd: reads the journals of a sandbox's network and tells the guard what is in them. Started by the guard with the first packet;
 * see netd/wire/netd_proto.h. It may not open a file, a socket or a process.
 */
#include "base/signals.h"
#include "netd/read/netd_read.h"

int main(int argc, char **argv)
{
	signals_begin();
	return netd_main(argc, argv);
}
