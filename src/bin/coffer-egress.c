/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-egress: terminates one sandbox's network and decides about its requests. Started by the guard; see
 * egress/wire/fds.h for its descriptors. It may not open a file, make a socket or execute anything once it is
 * confined.
 */
#include "base/signals.h"
#include "egress/exchange/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	unsigned long mask;
	char *end = NULL;

	signals_begin();
	errno = 0;
	mask = argc == 2 ? strtoul(argv[1], &end, 16) : 0;
	if (argc != 2 || errno || *end || mask > UINT32_MAX) {
		fprintf(stderr, "coffer-egress: started by coffer when it is needed, not by hand\n");
		return 2;
	}
	return egress_main((uint32_t)mask, inspect_install);
}
