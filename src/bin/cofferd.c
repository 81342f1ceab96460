/* SPDX-License-Identifier: Apache-2.0 */
/* cofferd: keeps sandboxes ready. Started by coffer, with the coffer program on descriptor 3; arguments are a template. */
#include "gateway/cofferd.h"
#include "base/fd.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	const struct strv first = { .v = argv + 1, .n = argc > 0 ? (size_t)argc - 1 : 0 };
	struct err e = ERR_INIT;
	int r = fd_set_cloexec(3, true);

	if (r < 0) {
		fprintf(stderr, "cofferd: started by coffer when it is needed, not by hand\n");
		return 2;
	}
	r = state_open(&st, &e);
	if (r == 0)
		r = cofferd_serve(&st, 3, &first, &e);
	if (r < 0)
		fprintf(stderr, "cofferd: %s\n", e.msg);
	return r < 0;
}
