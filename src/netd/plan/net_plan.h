/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a run's network: the policy compiled from the command line, the policy file and earlier grants,
 * before there is a sandbox. The launcher makes it. When a file changes a child of the guard compiles it
 * (net_plan_load()), and the guard adopts the checked result (net_plan_adopt()): the guard itself parses no file of a
 * policy. Nothing here opens a connection or starts a process.
 */
#ifndef NETD_NET_PLAN_H
#define NETD_NET_PLAN_H

#include "approval/list/granted.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "config/policy_file.h"
#include "netd/plan/net_compiled.h"
#include "netd/plan/net_secret.h"
#include "sandbox/spec/spec.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The network as requested: filled in before the guard is forked (net_plan_open()). The mode itself is in the
 * spec (spec->net), for the engines.
 */
struct net_plan {
	struct strv allow; /* --allow as typed */
	char *profile;	   /* profile that brought the last n_profile of these; NULL: none */
	size_t n_profile;
	struct strv resolvers;	 /* --resolver as typed */
	char *file;		 /* --policy, the path as given, absolute: its links may change; NULL: none */
	char *real;		 /* its real path when the run began */
	struct config_policy cp; /* compiled; generation 1. An adopted one has only `policy` and `files` */
	struct buf bytes;	 /* the result that an adopted policy uses in place */
	struct strv read_from;	 /* paths that the sandbox may write: no policy may be read from there */
	struct strv conflicts;	 /* ineffective options, and notes about secrets; reported at the start */
	char digest[72];	 /* "sha256:…" */
	char base[72];		 /* the same without granted rules */
	struct strv widen, widen_by; /* granted rules (ASK_WIDEN), and the id of the ask of each */
	uint32_t generation;
	uint64_t ask_timeout; /* s; 0: the default */
	int mode;	      /* enum policy_mode that --net names; -1: the file's own */
	bool needs_ca;
	struct net_secrets secrets;
};

#define NET_PLAN_INIT ((struct net_plan){ .mode = -1, .secrets = NET_SECRETS_INIT })

/* Compiles the plan's policy anew; on failure the plan is unchanged. 1: the policy has changed, 0: it has
 * not. For the launcher, before there is a sandbox. */
int net_plan_compile(struct net_plan *p, struct err *e) MUST_CHECK;
/* For the process that the guard has compile: parses the files and changes nothing. *ret_same: this is the policy of
 * `base`. */
int net_plan_load(const struct net_plan *p, struct config_policy *ret, bool *ret_same,
		  struct err *e) MUST_CHECK;
/* For the guard: puts that process's result in force, and takes from it what it needs. Returns as
 * net_plan_compile(). */
int net_plan_adopt(struct net_plan *p, struct net_compiled *c, struct err *e) MUST_CHECK;
/* Applies the rules in `widen` to the current policy, without reading a file. Returns as above; on failure
 * the policy is unchanged. */
int net_plan_widen(struct net_plan *p, struct err *e) MUST_CHECK;
/* Applies the granted rules of the run's session (granted.h) too: for its guard, which removes those that are
 * revoked. */
int net_plan_grant(struct net_plan *p, struct spec *s, int run_fd, struct err *e) MUST_CHECK;
/* Compiles the plan for the first time and sets the mode of the spec. A file that the sandbox could write to
 * is refused. */
int net_plan_open(struct net_plan *p, struct spec *s, struct err *e) MUST_CHECK;
void net_plan_release(struct net_plan *p);
/*
 * runs/ID/net.json: the inputs of the run's policy, for a process that compiles it as its guard does
 * (always.h). The guard writes it before it asks its first question. -ENOENT: nothing was ever asked.
 */
#define NET_PLAN_FILE "net.json"
int net_plan_store(const struct net_plan *p, int run_fd) MUST_CHECK;
int net_plan_recall(struct net_plan *p, int run_fd, struct err *e) MUST_CHECK;
struct config_policy_args net_plan_args(const struct net_plan *p);
/* Members "net", "policy_digest", "policy_base" (without granted rules, if there are any), "policy", "allow",
 * "resolvers", for the log and the report. */
void net_plan_json(const struct net_plan *p, enum net_mode mode, struct json *j);

#endif
