/* SPDX-License-Identifier: Apache-2.0 */
/* --root, --image and what an image says about its command: from the options to a spec. */
#ifndef CLI_RUN_ROOT_H
#define CLI_RUN_ROOT_H

#include "cli/run/run_spec.h"

/* What the root itself wants; all of it empty for a view of the host. */
struct run_root {
	struct strv argv; /* goes before the arguments of the command line */
	struct strv env;
	char *cwd;  /* NULL: the workspace */
	char *want; /* the user that the image names, NULL: none */
	char *user; /* the user's name inside, NULL: unknown */
};

void run_root_release(struct run_root *r);

/* Opens the root that was asked for. */
int run_root_open(struct spec *s, const struct run_opts *o, struct state *st, struct run_root *ret,
		  struct err *e) MUST_CHECK;

/* The user and home inside a root that is not the host's: --user, else the image's, else the caller's own. */
int run_root_user(struct spec *s, const struct run_opts *o, struct run_root *root, struct err *e) MUST_CHECK;

#endif
