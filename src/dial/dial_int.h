/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of coffer-dial; the contract is in dial.h. */
#ifndef DIAL_DIAL_INT_H
#define DIAL_DIAL_INT_H

#include "dial/connect/dial_race.h"
#include "dial/connect/resolve.h"
#include "dial/dial.h"
#include "dial/proxy/dial_vault.h"
#include "dial/proxy/proxy.h"
#include "egress/wire/dialproto.h"
#include "egress/wire/fds.h"
#include "egress/wire/journal.h"
#include "egress/wire/seen.h"
#include "policy/policy.h"
#include "sys/fence/fence.h"

#include <sys/queue.h>

#define REQUEST_BUCKETS 4096
#define REPLIES_MAX 8192 /* unsent; beyond that no request is read */
#define DIAL_BATCH 32	 /* messages per system call */

/* The policy's decision about one request. */
struct dial_plan {
	struct host name;		    /* of DIAL_NAME; else the address as a host */
	struct policy_target to;	    /* points to name */
	bool is_pinned;			    /* addr and port are a rule's `to:` */
	struct addr addr;		    /* pinned, or DIAL_ADDR */
	uint16_t port;			    /* to dial */
	char proxy_set[DIAL_PROXY_SET_LEN]; /* not empty: through this proxy set or not at all */
	uint32_t generation;		    /* of the policy that decided */
};

struct dial_request {
	struct dial *dial;
	struct dial_request *chain;
	TAILQ_ENTRY(dial_request) link; /* by deadline */
	uint64_t started, deadline;
	struct dial_req q;
	struct dial_plan plan;
	uint32_t ttl;
	struct resolve_lookup lookup;
	struct race race;
	struct proxy_use use;
};

TAILQ_HEAD(dial_requests, dial_request);

struct dial_reply {
	TAILQ_ENTRY(dial_reply) link;
	struct dial_rep rep;
	int fd;	       /* ours until it is sent */
	bool has_line; /* its line must be in the journal before it is sent */
};

TAILQ_HEAD(dial_replies, dial_reply);

struct dial_counts {
	uint64_t requests, connected, resolved, refused, failed, cancelled, busy;
};

struct dial {
	struct loop loop;
	struct watch egress, control;
	struct timer resend;
	struct journal journal;
	struct seen seen; /* keys that have a line with `first` (journal.h) */
	struct resolver *resolver;
	struct resolve_server conf[RESOLVE_SERVERS_MAX]; /* of resolv.conf */
	size_t n_conf;

	struct policy *policy; /* NULL: everything is denied, and why_none has the reason */
	char why_none[160];
	void *bundle; /* mapped; the policy refers to it */
	size_t bundle_len;
	struct proxy_sets *proxy_sets;
	struct dial_vault vault;
	struct own_probe own;

	struct dial_request *by_id[REQUEST_BUCKETS];
	struct dial_requests direct, proxied; /* each in the order of its deadlines */
	struct timer expire;
	size_t n_requests;
	struct dial_replies replies;
	size_t n_replies;
	struct dial_counts counts;
	union dial_msg in[DIAL_BATCH]; /* as received */
	bool is_gone;		       /* egress has closed the link */
	bool is_broken;		       /* or broke the protocol */
};

/* dial_plan.c: decisions. 0, or the status of the reply with `why`. */
int dial_plan(struct dial *d, const struct dial_req *q, struct dial_plan *ret,
	      char why[DIAL_WHY_LEN]) MUST_CHECK;
/* The addresses of an answer that may be dialled. A special address is reported once for each answer. */
int dial_judge(struct dial *d, const struct dial_plan *p, struct resolve_answer *a,
	       struct addr ret[RACE_ADDRS_MAX], size_t *ret_n, char why[DIAL_WHY_LEN]) MUST_CHECK;
/* One address: pinned, or requested as such. */
int dial_judge_one(struct dial *d, const struct dial_plan *p, const struct addr *a,
		   char why[DIAL_WHY_LEN]) MUST_CHECK;
/* A connection that was begun under an older policy is judged again before it is handed over. */
int dial_plan_holds(struct dial *d, const struct dial_plan *p, const struct dial_req *q, const struct addr *a,
		    char why[DIAL_WHY_LEN]) MUST_CHECK;

/* dial_request.c */
void dial_request_new(struct dial *d, const struct dial_req *q);
struct dial_request *dial_request_find(struct dial *d, uint32_t id);
void dial_request_end(struct dial_request *r, int status, int fd, const struct addr *a, const char *proxy,
		      const char *why);
void dial_request_drop_all(struct dial *d);

/* dial_serve.c: handles one message from egress, and queues replies. */
int dial_take(struct dial *d, const void *data, size_t len) MUST_CHECK;
void dial_queue(struct dial *d, const struct dial_rep *rep, int fd, bool has_line); /* takes fd */
void dial_settle(struct dial *d); /* after each round: journal, then replies */
int dial_serve_open(struct dial *d, int fd, struct err *e) MUST_CHECK;

/* dial_ctl.c: the guard. */
int dial_ctl_open(struct dial *d, int fd, struct err *e) MUST_CHECK;
void dial_ctl_say(struct dial *d, uint32_t type, const char *text, size_t len);
int dial_load(struct dial *d, int bundle, int proxy_sets, struct err *e) MUST_CHECK;
int dial_new_vault(struct dial *d, int list, int channel, struct err *e) MUST_CHECK; /* takes the channel */
/*
 * Reads all of a memory file, from its start: its position is shared with the process that keeps it for the
 * next start. The buffer gets its full size at once: a growing one would leave copies of secrets behind.
 */
int dial_read(int fd, size_t cap, struct buf *b) MUST_CHECK;
void dial_stats(struct dial *d, struct buf *out);

/* dial_fence.c: dial.L6 */
extern const struct fence dial_fence;

int dial_init(struct dial *d, struct err *e) MUST_CHECK;
void dial_release(struct dial *d);

#endif
