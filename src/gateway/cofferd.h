/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cofferd, as far as it goes: one for each user, started by the first `coffer call`, keeps sandboxes ready and leaves when
 * nobody has asked for one in a while. It makes them by executing `coffer call --standby`, so that every sandbox has a
 * launcher and a guard of its own as any other; it only holds the other ends of their sockets, and hands one out for each
 * request. It reads nothing from a sandbox, and no command passes through it.
 *
 * Over STATE/cofferd.sock (SOCK_SEQPACKET): a client sends struct cofferd_ask and the template behind it, the options that
 * describe the sandbox, each with its NUL. The answer is struct cofferd_reply, with the descriptor of a sandbox when there
 * is one. Without one the client makes its own: there is no waiting, and no sharing.
 *
 * Invariants
 *  D1  A descriptor is handed out once, and closed here at the same time.
 *  D2  There is one cofferd per state directory: it holds a lock for as long as it lives.
 *  D3  Both sides are the same build of the same program and have the same / and /usr, for a sandbox shows those of who
 *      makes it, and a container may share the state directory: a client of whom that is not true is refused, and ends
 *      this cofferd.
 */
#ifndef GATEWAY_COFFERD_H
#define GATEWAY_COFFERD_H

#include "base/str.h"
#include "sandbox/state.h"

#include <stdint.h>

#define COFFERD_MAGIC 0x31444343u /* "CCD1" */
#define COFFERD_TEMPLATE_MAX (16u << 10)

enum cofferd_want {
	COFFERD_TAKE = 1, /* a sandbox of this template; the template is worth keeping ready */
	COFFERD_STOP,	  /* leave, and take all that is ready along */
	COFFERD_STAT	  /* how many are ready */
};

/* Which build a program is: its file. */
struct cofferd_build {
	uint64_t dev, ino, size, mtime;
	uint64_t root_dev, root_ino, usr_dev, usr_ino; /* which machine's or container's files it sees */
};

struct cofferd_ask {
	uint32_t magic, want;
	struct cofferd_build build;
};

struct cofferd_reply {
	uint32_t magic;
	bool has; /* a descriptor comes with it */
	char id[RUN_ID_LEN + 1];
	uint32_t ready, starting, templates; /* COFFERD_STAT */
	uint64_t held;
};

/* Serves until idle or told to go. `coffer_fd` is the coffer program; `first` a template to begin with, may be empty. */
int cofferd_serve(struct state *st, int coffer_fd, const struct strv *first, struct err *e) MUST_CHECK;

/* The client's side. 0 with a descriptor in *ret_sock; -ENOENT when none is ready; -ECONNREFUSED when there is no
 * cofferd. */
int cofferd_take(struct state *st, const struct strv *template, int *ret_sock,
		 char ret_id[RUN_ID_LEN + 1]) MUST_CHECK;
int cofferd_ask(struct state *st, enum cofferd_want want, struct cofferd_reply *ret) MUST_CHECK;

/* Starts one in the background, with a first template, and does not wait for it. */
int cofferd_start(struct state *st, const struct strv *template) MUST_CHECK;

#endif
