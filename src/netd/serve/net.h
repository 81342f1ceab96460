/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard's network part: holds the sockets of the wall, starts coffer-egress and coffer-dial on them, watches both,
 * folds their journals into the audit log, and gives them a new policy when the file has changed.
 *
 * Invariants
 *  G1  Nothing but the guard and coffer-egress holds the wall's sockets. While coffer-egress is down they stay open and
 *      unanswered: connections wait in the backlog, and nothing opens.
 *  G2  Neither program lives longer than the guard (parent-death signal, end of file on the control socket), and the
 *      guard ends both before it says that the run's network is over.
 *  G3  What a journal says is hostile until it was checked line by line (net_fold.h); a run's traffic cannot push other
 *      events out of the log.
 *  G4  A policy file that is broken after a change grants nothing: the policy that was in force stays in force, said
 *      aloud. A bundle that one of the two does not take ends that one, and it comes back with the bundle.
 *  G5  What cannot be started at all ends the sandbox (cause "network"); there is no way around the two.
 *
 * The launcher says to the guard, over a SOCK_SEQPACKET: who the sandbox is (guard_tell()), then the wall (wall_send()),
 * then what is to be asked before a key signs (net_sign.h), at the end NET_END. The guard answers with struct net_msg, and at most one descriptor.
 */
#ifndef NETD_NET_H
#define NETD_NET_H

#include "approval/list/granted.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "config/policy_file.h"
#include "netd/plan/net_secret.h"
#include "sandbox/spec/spec.h"

#include <stdbool.h>
#include <stdint.h>

struct run;

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

#define NET_MSG_TEXT 512

enum net_msg_type {
	NET_END = 1, /* to the guard: the command has ended: end both, fold all, answer NET_ENDED */
	NET_ROOM,    /* to the guard: two files inside, to which the certificate is appended when it comes */
	NET_CA,	     /* the sandbox's CA: a memfd with the certificate (PEM), sealed */
	NET_SAY,     /* a line for the terminal of `coffer run`; level: enum net_level */
	NET_FAILED,  /* why there is no network: the sandbox is to be ended */
	NET_AGENT,   /* a channel of the ssh-agent of a vault that was started again */
	NET_ENDED,   /* a memfd: members of the "network" object of the report, JSON */
	/* A person is asked before a key signs (net_sign.h). `level` is the launcher's ticket. */
	NET_SIGN,	 /* to the guard: struct net_sign */
	NET_SIGN_DROP,	 /* to the guard: who wanted it has gone */
	NET_SIGN_TAKEN,	 /* to the guard: it was allowed, and signed */
	NET_SIGN_UNUSED, /* to the guard: it was allowed, and nothing was signed */
	NET_ALLOW,	 /* text: the question's id */
	NET_DENY,	 /* text: the question's id or nothing, a space, why */
	NET_ASKED, /* something waits for a person: as NET_SAY, for a launcher that does not ask them itself */
	NET_MSG_COUNT
};

enum net_level { NET_LEVEL_NOTE, NET_LEVEL_WARN };

/* What a line of NET_SAY is about, so that lines about one thing can be told as one. */
#define NET_SAY_PLAIN 0u	/* nothing that is counted: the text is all of it */
#define NET_SAY_REST UINT32_MAX /* denials that no line names */

struct net_msg {
	uint32_t type;
	uint32_t level;
	uint32_t about; /* NET_SAY: NET_SAY_PLAIN, NET_SAY_REST, or a number that each denied thing has */
	uint32_t again; /* it was told before */
	uint64_t count; /* so many times */
	char text[NET_MSG_TEXT]; /* ends with NUL; nothing in it that a terminal would act on */
};

/* The whole line of a NET_SAY. */
void net_say_format(const struct net_msg *m, char out[NET_MSG_TEXT]);

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

/*
 * The guard's loop for a run with a network, once it knows the sandbox; `launcher` is the socket. Returns when the
 * launcher is gone. `idle` is called once when there was nothing to do for a while, `dead` when the sandbox is.
 */
void net_guard(struct run *r, int launcher, void (*idle)(struct run *r), void (*dead)(struct run *r));

/* Folds what is left in the journals of a run whose guard is gone; idempotent, for what was folded is punched out. */
int net_finish(struct run *r, struct err *e) MUST_CHECK;

#endif
