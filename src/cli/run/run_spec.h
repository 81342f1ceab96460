/* SPDX-License-Identifier: Apache-2.0 */
/* From the options of `coffer run` to a spec: everything that can be refused is refused here. */
#ifndef CLI_RUN_SPEC_H
#define CLI_RUN_SPEC_H

#include "base/str.h"
#include "netd/plan/net_offer.h"
#include "sandbox/spec/spec.h"

struct run_opts {
	const char *workspace; /* -C as typed; NULL: the current directory */
	/* Of a call over another's workspace: its directory, as it was resolved then; and whether there is none. */
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
	const struct spec_files *files; /* made inside, for a profile; NULL: none */
	const char
		*first_in_path; /* with a root of its own: this before what the image says; NULL: nothing */
	const char *profile;	/* its name; NULL: none */
	size_t n_profile;	/* so many of `allow`, the last, are its */
	const char *net;	/* --net as typed; NULL: not given */
	struct strv allow;	/* --allow as typed */
	struct strv secret;	/* --secret as typed */
	const struct net_offers *offers; /* secrets of a profile; NULL: none */
	const char *policy;		 /* --policy as typed; NULL: none */
	const char *acts_policy;	 /* the same, where it says nothing of the network; NULL: none */
	struct strv resolvers;		 /* --resolver as typed */
	uint64_t ask_timeout;		 /* s; 0: as usual */
	bool no_prompt;			 /* --ask-prompt never */
	struct strv publish;		 /* -p as typed */
	bool public;
	bool has_net; /* without --net there is one: only where the verb says so */
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

/* Why the workspace is not the current directory, when that was the default and cannot be one; empty otherwise. */
struct run_spec_note {
	char workspace[1024];
};

/* An absolute path without empty, "." and ".." parts; NULL when it has ".." or is not absolute. */
char *run_spec_normal_path(const char *path);

/* The variables by which programs find the sandbox's own certificate authority, but for those that were given. */
int run_spec_trust(struct spec *s, struct err *e) MUST_CHECK;

int run_spec_build(struct spec *s, const struct run_opts *o, struct state *st, struct run_spec_note *note,
		   struct err *e) MUST_CHECK;

#endif
