/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-dial: makes the outgoing connections that a sandbox's policy allows. Started by the guard; see
 * egress/wire/fds.h for its descriptors. It may not read what flows over a connection of the sandbox.
 */
#include "base/signals.h"
#include "dial/dial.h"

int main(int argc, char **argv)
{
	signals_begin();
	return dial_main(argc, argv);
}
