/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a spec from the options of `coffer run`: everything that can be refused is refused here. */
#ifndef CLI_RUN_SPEC_H
#define CLI_RUN_SPEC_H

#include "base/str.h"
#include "netd/plan/net_offer.h"
#include "sandbox/spec/spec.h"

struct run_opts {
	const char *workspace; /* -C as typed; NULL: the current directory */
	/* For a call over another sandbox's workspace: its directory, as resolved when that sandbox began;
	 * ws_none: it has none. */
	const char *ws_exact;
	bool ws_none;
	const char *workdir;
	const char *user;
	const char *home;
	const char *name;
	const char *restart;	/* --restart as typed; NULL: never */
	const char *root;	/* --root as typed; NULL: not given */
	const char *image;	/* --image as typed; NULL: none */
	const char *entrypoint; /* --entrypoint as typed; NULL: the image's own */
	struct strv env;	/* -e as typed */
	struct strv volumes;	/* -v as typed */
	struct strv show;
	const struct spec_files *files;	 /* files to be made inside, for a profile; NULL: none */
	const char *first_in_path;	 /* with another root: goes before the image's PATH; NULL: nothing */
	const char *profile;		 /* its name; NULL: none */
	size_t n_profile;		 /* how many of `allow`, at its end, come from the profile */
	const char *net;		 /* --net as typed; NULL: not given */
	struct strv allow;		 /* --allow as typed */
	struct strv secret;		 /* --secret as typed */
	const struct net_offers *offers; /* secrets of a profile; NULL: none */
	const char *policy;		 /* --policy as typed; NULL: none */
	const char *acts_policy;	 /* --policy, if it has no rules for the network; NULL: none */
	struct strv resolvers;		 /* --resolver as typed */
	uint64_t ask_timeout;		 /* seconds; 0: the default */
	bool no_prompt;			 /* --ask-prompt never */
	struct strv publish;		 /* -p as typed */
	bool public;
	bool has_net; /* there is a network without --net */
	bool ephemeral;
	bool map_ids;
	bool i_know;
	bool tty, detach, nested;
	bool each; /* --checkpoint each */
	bool each_named;
	uint64_t keep; /* --keep; 0: all */
	uint64_t caps;
	struct limits limits;
	int argc;
	char **argv;
};

/* Why the workspace is empty, if the current directory was the default and cannot be shown; "" otherwise. */
struct run_spec_note {
	char workspace[1024];
};

/* Removes empty and "." parts from an absolute path. NULL if it has ".." or is not absolute. */
char *cli_run_spec_normal_path(const char *path);

/* Adds the variables by which programs find the sandbox's own certificate authority, except those that are
 * set already. */
int cli_run_spec_trust(struct spec *s, struct err *e) MUST_CHECK;

int cli_run_spec_build(struct spec *s, const struct run_opts *o, struct state *st, struct run_spec_note *note,
		       struct err *e) MUST_CHECK;

#endif
