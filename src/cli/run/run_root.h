/* SPDX-License-Identifier: Apache-2.0 */
/* --root and --image: opens the root file system for a spec, and reads an image's configuration. */
#ifndef CLI_RUN_ROOT_H
#define CLI_RUN_ROOT_H

#include "cli/run/run_spec.h"

/* The defaults that an image's configuration gives; all empty for a view of the host's root. */
struct run_root {
	struct strv argv; /* precedes the arguments of the command line */
	struct strv env;
	char *cwd;  /* NULL: the workspace */
	char *want; /* the user that the image names, unresolved; NULL: none */
	char *user; /* the user's name inside; NULL: unknown */
};

void cli_run_root_release(struct run_root *r);

/* Opens the root of --image or --root; nothing to do for the host's. */
int cli_run_root_open(struct spec *s, const struct run_opts *o, struct state *st, struct run_root *ret,
		      struct err *e) MUST_CHECK;

/* Sets user and home inside a root that is not the host's: those of --user, else the image's, else the
 * caller's own. */
int cli_run_root_user(struct spec *s, const struct run_opts *o, struct run_root *root,
		      struct err *e) MUST_CHECK;

#endif
