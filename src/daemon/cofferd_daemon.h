/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the daemon's own files (cofferd_*.c). The invariants are those of cofferd_client.h. */
#ifndef DAEMON_COFFERD_DAEMON_H
#define DAEMON_COFFERD_DAEMON_H

#include "cofferdc/cofferd_int.h"
#include "daemon/gate.h"
#include "daemon/pool/pool_demand.h"
#include "ipc/loop.h"

#define SOCKET "cofferd.sock"

struct daemon;
struct template;

/* One sandbox of the warm pool, ready or still being made. */
struct ready {
	struct ready *next;
	struct template *t;
	struct watch w; /* the socket to its launcher */
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
	uint64_t each;	      /* bytes that one sandbox holds */
	struct helper helper; /* after a failure the next sandbox is not made at once */
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
	uint64_t taken_at; /* ns: when a sandbox was handed out last */
	int coffer_fd, lock_fd;
	struct cofferd_build build;
	struct template *templates;
	unsigned n_templates;
	struct client *clients;
	unsigned n_clients;
	uint64_t budget;
	unsigned builders; /* maximum number being made at the same time */
	uint64_t busy_at;  /* ns: when there was work last */
	bool leaving;
	struct metrics *metrics;
	struct gate gate;
	struct err *err;
};

/* cofferd_pool.c: the warm pool. */
/* Makes missing sandboxes and drops superfluous ones. */
void cofferd_pool_balance(struct daemon *d);
void cofferd_pool_refill(struct timer *timer); /* the same, after a call has had the processors for a while */
/* The template with these options, made if there is none; NULL if there are too many. */
struct template *cofferd_pool_template(struct daemon *d, const char *key, size_t len);
void cofferd_pool_drop(struct daemon *d, struct template *t);
/* Answers COFFERD_TAKE, and has another sandbox made soon. */
void cofferd_pool_give(struct daemon *d, struct client *c, const struct cofferd_msg *m);
void cofferd_pool_hand_out(struct daemon *d, struct client *c, struct template *t); /* `t` may be NULL */
void cofferd_pool_count(void *ctx, struct pool_count *ret);			    /* ctx: the daemon */
uint64_t cofferd_pool_budget(void);

/* cofferd_socket.c: the lock and the socket. */
int cofferd_take_lock(struct daemon *d, bool activated, struct err *e) MUST_CHECK;
int cofferd_make_socket(struct daemon *d, struct err *e) MUST_CHECK;

#endif
