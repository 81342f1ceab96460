/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cofferd, one for each state directory: keeps sandboxes ready for `coffer call`, and those with a restart policy going
 * (keeper.h, doc/adr/0012). Started when it is needed, by hand (`coffer gateway start`) or by a service manager; unless it
 * is to stay, it leaves when there is nothing to keep. It makes sandboxes by executing coffer, so that every one has a
 * launcher and a guard of its own as any other. It reads nothing from a sandbox, and no command passes through it.
 *
 * Over STATE/cofferd.sock (SOCK_SEQPACKET): a client sends struct cofferd_ask and what belongs to the question behind it.
 * The answer is struct cofferd_reply, with a descriptor where the question has one for an answer.
 *
 * Over STATE/metrics.sock it tells how the running sandboxes are (metrics.h), and stays while somebody asks for that.
 *
 * Invariants
 *  D1  A sandbox's descriptor is handed out once, and closed here at the same time.
 *  D2  There is one cofferd per state directory: it holds a lock for as long as it lives.
 *  D3  Who is handed a sandbox is the same build of the same program and has the same / and /usr, for a sandbox shows those
 *      of who makes it, and a container may share the state directory. A client of whom that is not true gets none, and
 *      ends a cofferd that has nothing else to do.
 */
#ifndef COFFERDC_COFFERD_CLIENT_H
#define COFFERDC_COFFERD_CLIENT_H

#include "base/str.h"
#include "sandbox/state/state.h"

#include <stdint.h>

#define COFFERD_MAGIC 0x33444343u /* "CCD3" */
#define COFFERD_TEMPLATE_MAX (16u << 10)

enum cofferd_want {
	COFFERD_TAKE = 1, /* a sandbox of the template behind it; the template is worth keeping ready */
	COFFERD_STOP,	  /* leave, and take all that is ready along */
	COFFERD_STAT,	  /* how many are ready */
	COFFERD_KEEP,	  /* the run whose id is behind it has a restart policy */
	COFFERD_STATUS,	  /* all there is to tell: a memory file with JSON */
	COFFERD_RELOAD,	  /* look at everything again; leave when the program was replaced */
	COFFERD_STAY,	  /* do not leave for want of work */
	COFFERD_DROP,	  /* let go of the pool; leave unless there is something else to do */
	COFFERD_HOLD, /* a channel of the vault for the run whose id is behind it, and packed grants that ask; as long as
			   * this connection lasts */
	COFFERD_UNLOCK,	  /* have the vault open; with a passphrase the answer is a channel to type it over */
	COFFERD_UNLOCKED, /* that is done; over the same connection */
	COFFERD_LOCK,	  /* close it */
	COFFERD_WEB,	  /* about the API: the struct webctl behind it; a memory file with JSON */
	COFFERD_WANT_END
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

/* The state of the vault that cofferd keeps; daemon/vaultd.h says what each allows. */
enum vaultd_state {
	VAULTD_ABSENT, /* there is no vault file */
	VAULTD_LOCKED, /* it has a passphrase, which nobody has typed */
	VAULTD_READY,  /* it opens by itself when it is needed */
	VAULTD_OPEN,
	VAULTD_STATE_COUNT
};

struct cofferd_reply {
	uint32_t magic;
	bool has;    /* a descriptor comes with it */
	bool stays;  /* it does not leave for want of work */
	bool leaves; /* this was its last word */
	char id[RUN_ID_LEN + 1];
	int32_t error; /* negative errno, and why */
	uint32_t pid;
	uint32_t ready, starting, templates; /* COFFERD_STAT */
	uint64_t held;
	uint32_t vault;	  /* enum vaultd_state */
	uint64_t counter; /* COFFERD_HOLD: how often its file was saved */
	char why[320];
	char hint[160];
};

/* The client's side. 0 with a descriptor in *ret_sock; -ENOENT when none is ready; -ECONNREFUSED when there is no
 * cofferd. */
int cofferd_take(struct state *st, const struct strv *template, int *ret_sock,
		 char ret_id[RUN_ID_LEN + 1]) MUST_CHECK;
int cofferd_ask(struct state *st, enum cofferd_want want, struct cofferd_reply *ret) MUST_CHECK;
/* The same for who wants it to stop something: also of one that is only just being started, for which it waits. */
int cofferd_tell(struct state *st, enum cofferd_want want, struct cofferd_reply *ret) MUST_CHECK;
/* One JSON object. -ECONNREFUSED when there is no cofferd. */
int cofferd_status(struct state *st, struct buf *ret, struct err *e) MUST_CHECK;
struct webctl;
/* About the API: asks a cofferd that is started when there is none. One JSON object. */
int cofferd_web(struct state *st, const struct webctl *c, struct buf *ret, struct err *e) MUST_CHECK;
/* Which tokens and sessions there are, where nothing can be written: no cofferd is started for it. As WEBCTL_LS of cofferd_web(). */
int cofferd_look_tokens(struct state *st, struct buf *ret, struct err *e) MUST_CHECK;
/* Has a sandbox with a restart policy kept, by a cofferd that is started when there is none. */
int cofferd_keep(struct state *st, const char *id, struct err *e) MUST_CHECK;

struct vault_grants;
struct vault_proc;

/* A channel of the vault that cofferd keeps, for one run, as if it had been started by the caller; it is the run's as long as
 * *ret_lease is open. -ECONNREFUSED when there is no cofferd, -VAULT_LOCKED. `patience` in ms. */
int cofferd_hold(struct state *st, const char *id, const struct vault_grants *ask, int patience,
		 struct vault_proc *ret, int *ret_lease, struct err *e) MUST_CHECK;
/* 0: it is open. 1: *ret is a vault to be opened; then cofferd_unlocked() with *ret_conn. */
int cofferd_unlock(struct state *st, struct vault_proc *ret, int *ret_conn, struct err *e) MUST_CHECK;
int cofferd_unlocked(int conn, struct err *e) MUST_CHECK;

/* Starts one in the background, with a first template, and does not wait for it. */
int cofferd_start(struct state *st, const struct strv *template) MUST_CHECK;
/* Starts one and waits until it serves, or says why it does not. 0 also when another one was quicker. */
int cofferd_launch(struct state *st, bool stay, struct err *e) MUST_CHECK;
/* Becomes cofferd, in the foreground, with what a service manager has handed over. Returns on failure only. */
int cofferd_become(struct state *st, struct err *e) MUST_CHECK;

#endif
