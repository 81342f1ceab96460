/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the daemon share; its invariants are in cofferd_client.h. */
#ifndef DAEMON_COFFERD_DAEMON_H
#define DAEMON_COFFERD_DAEMON_H

#include "cofferdc/cofferd_int.h"
#include "daemon/gate.h"
#include "daemon/pool/pool_demand.h"
#include "ipc/loop.h"

#define SOCKET "cofferd.sock"

struct daemon;
struct template;

/* One sandbox that is being made or stands ready. */
struct ready {
	struct ready *next;
	struct template *t;
	struct watch w; /* its socket */
	bool is_ready;
	char id[RUN_ID_LEN + 1];
};

struct template
{
	struct template *next;
	struct daemon *d;
	struct buf key;	  /* the options with their NULs */
	struct strv args; /* the same as a list */
	struct pool_demand demand;
	struct ready *list; /* oldest first */
	unsigned n_ready, n_starting;
	uint64_t each;	      /* bytes, of one */
	struct helper helper; /* a sandbox that could not be made is not tried again at once */
};

struct client {
	struct client *next;
	struct daemon *d;
	struct watch w;
	struct gate_lease lease;
};

struct daemon {
	struct state *st;
	struct loop loop;
	struct watch w_listen;
	struct timer tick, refill;
	uint64_t taken_at; /* ns: when one was handed out last */
	int coffer_fd, lock_fd;
	struct cofferd_build build;
	struct template *templates;
	unsigned n_templates;
	struct client *clients;
	unsigned n_clients;
	uint64_t budget;
	unsigned builders; /* made at the same time, at most */
	uint64_t busy_at;  /* ns: when there was something to do last */
	bool leaving;
	struct metrics *metrics;
	struct gate gate;
	struct err *err;
};

/* cofferd_pool.c */
/* Makes what is missing and lets go of what is too much. */
void cofferd_pool_balance(struct daemon *d);
void cofferd_pool_refill(struct timer *timer); /* the same, once a call has had the processors for a while */
/* The one of these options, made when there is none; NULL when there may be no more. */
struct template *cofferd_pool_template(struct daemon *d, const char *key, size_t len);
void cofferd_pool_drop(struct daemon *d, struct template *t);
/* What a client asks for, and having one more of it soon. */
void cofferd_pool_give(struct daemon *d, struct client *c, const struct cofferd_msg *m);
void cofferd_pool_hand_out(struct daemon *d, struct client *c, struct template *t); /* `t` may be NULL */
void cofferd_pool_count(void *ctx, struct pool_count *ret);			    /* ctx: the daemon */
uint64_t cofferd_pool_budget(void);

/* cofferd_socket.c */
int cofferd_take_lock(struct daemon *d, bool activated, struct err *e) MUST_CHECK;
int cofferd_make_socket(struct daemon *d, struct err *e) MUST_CHECK;

#endif
