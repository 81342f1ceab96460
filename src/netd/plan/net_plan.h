/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a run's network: what the command line, the policy file and earlier grants come to, before there is a sandbox.
 * The launcher makes it; the guard compiles it anew when a file changes. Nothing here opens a connection or starts a process.
 */
#ifndef NETD_NET_PLAN_H
#define NETD_NET_PLAN_H

#include "approval/list/granted.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "config/policy_file.h"
#include "netd/plan/net_secret.h"
#include "sandbox/spec/spec.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The network as it was asked for: filled in before the guard is forked (net_plan_open()). The mode itself is in the
 * spec (spec->net), for the engines.
 */
struct net_plan {
	struct strv allow; /* --allow as typed */
	char *profile;	   /* whose the last n_profile of these are; NULL: nobody's */
	size_t n_profile;
	struct strv resolvers; /* --resolver as typed */
	char *file; /* --policy, the path as given, absolute: where its links lead may change; NULL: none */
	char *real; /* where it was when the run began */
	struct config_policy cp; /* compiled; generation 1 */
	struct strv
		read_from; /* directories and files that the sandbox may write: no policy may come from there */
	struct strv
		conflicts; /* what the command line asks for in vain, and what is to be known of secrets; said at the start */
	char digest[72];	     /* "sha256:…" */
	char base[72];		     /* the same without what was granted on top */
	struct strv widen, widen_by; /* rules that a person granted on top, and by which question each */
	uint32_t generation;
	uint64_t ask_timeout; /* s; 0: as usual */
	int mode;	      /* enum policy_mode that --net names; -1: the file's own */
	bool needs_ca;
	struct net_secrets secrets;
};

#define NET_PLAN_INIT ((struct net_plan){ .mode = -1, .secrets = NET_SECRETS_INIT })

/* Compiles the plan's policy anew; the plan is as it was when that fails. 1: something has changed, 0: nothing. */
int net_plan_compile(struct net_plan *p, struct err *e) MUST_CHECK;
/* Puts the rules in `widen` on top of the policy as it is, without reading a file. 1, 0 as above; the policy is as it was when
 * that fails. */
int net_plan_widen(struct net_plan *p, struct err *e) MUST_CHECK;
/* Those that the run's session has (granted.h), on top as well: for its guard, which takes out what is taken
 * back meanwhile. */
int net_plan_grant(struct net_plan *p, struct spec *s, int run_fd, struct err *e) MUST_CHECK;
/* The first time. A file that the sandbox could write to is refused. What mode it comes to stands in the spec then. */
int net_plan_open(struct net_plan *p, struct spec *s, struct err *e) MUST_CHECK;
void net_plan_release(struct net_plan *p);
/*
 * runs/ID/net.json: what the policy of a run is compiled from, for who is to compile it as its guard does (always.h). Written by
 * the guard before it asks anybody anything. -ENOENT: nothing was ever asked there.
 */
#define NET_PLAN_FILE "net.json"
int net_plan_store(const struct net_plan *p, int run_fd) MUST_CHECK;
int net_plan_recall(struct net_plan *p, int run_fd, struct err *e) MUST_CHECK;
struct config_policy_args net_plan_args(const struct net_plan *p);
/* Members "net", "policy_digest", "policy_base" (without what was granted on top, where something was), "policy", "allow",
 * "resolvers": for the log and the report. */
void net_plan_json(const struct net_plan *p, enum net_mode mode, struct json *j);

#endif
