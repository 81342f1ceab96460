/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of cofferd, and how it is started. There is one cofferd for each state directory: it keeps the
 * warm pool of sandboxes for `coffer call`, restarts those with a restart policy (keeper.h, doc/adr/0012),
 * keeps the vault and serves the API. It is started when it is needed, by hand (`coffer gateway start`) or by
 * a service manager; unless told to stay, it exits when it has nothing to do. It makes sandboxes by executing
 * coffer, so that each has a launcher and a guard of its own. It reads nothing from a sandbox, and no command
 * passes through it.
 *
 * On STATE/cofferd.sock (SOCK_SEQPACKET) a client sends struct cofferd_ask followed by the body of the
 * request. The response is struct cofferd_reply, with a descriptor where the request has one for a result.
 *
 * On STATE/metrics.sock it serves metrics of the running sandboxes (metrics.h), and stays while they are
 * scraped.
 *
 * Invariants (cited elsewhere as cofferd_client.D1 …)
 * D1  A sandbox's descriptor is handed out once, and cofferd closes its own copy at the same time.
 * D2  There is one cofferd per state directory: it holds a lock as long as it lives.
 * D3  A client gets a sandbox only if it is the same build of the same program and sees the same / and /usr:
 *     a sandbox shows those of its maker, and a container may share the state directory. Another client gets
 *     none, and stops a cofferd that has nothing else to do.
 */
#ifndef COFFERDC_COFFERD_CLIENT_H
#define COFFERDC_COFFERD_CLIENT_H

#include "base/str.h"
#include "sandbox/state/state.h"

#include <stdint.h>

#define COFFERD_MAGIC 0x33444343u /* "CCD3" */
#define COFFERD_TEMPLATE_MAX (16u << 10)

enum cofferd_want {
	COFFERD_TAKE = 1, /* a sandbox of the template in the body, which is worth keeping ready */
	COFFERD_STOP,	  /* exit, and end all ready sandboxes */
	COFFERD_STAT,	  /* number of ready sandboxes */
	COFFERD_KEEP,	  /* register the run whose id is the body for its restart policy */
	COFFERD_STATUS,	  /* complete status: a memory file with JSON */
	COFFERD_RELOAD,	  /* check everything again; exit if the program was replaced */
	COFFERD_STAY,	  /* do not exit when idle */
	COFFERD_DROP,	  /* drop the warm pool; exit unless there is other work */
	COFFERD_HOLD,	  /* body: id, packed grants. A vault channel, valid as long as this connection */
	COFFERD_UNLOCK,	  /* open the vault; the response may be a channel to type the passphrase over */
	COFFERD_UNLOCKED, /* the passphrase was typed; on the same connection */
	COFFERD_LOCK,	  /* lock the vault */
	COFFERD_WEB,	  /* a request about the API: body is a struct webctl; a memory file with JSON */
	COFFERD_WANT_END
};

/* Identifies a build of a program by its file. */
struct cofferd_build {
	uint64_t dev, ino, size, mtime;
	uint64_t root_dev, root_ino, usr_dev,
		usr_ino; /* identifies the machine or container whose files it sees */
};

struct cofferd_ask {
	uint32_t magic, want;
	struct cofferd_build build;
};

/* The state of the vault that cofferd keeps; daemon/vaultd.h says what each allows. */
enum vaultd_state {
	VAULTD_ABSENT, /* there is no vault file */
	VAULTD_LOCKED, /* it needs a passphrase, which has not been typed */
	VAULTD_READY,  /* it opens by itself when needed */
	VAULTD_OPEN,
	VAULTD_STATE_COUNT
};

struct cofferd_reply {
	uint32_t magic;
	bool has;    /* a descriptor is attached */
	bool stays;  /* it does not exit when idle */
	bool leaves; /* it exits after this response */
	char id[RUN_ID_LEN + 1];
	int32_t error; /* negative errno; the reason is in `why` */
	uint32_t pid;
	uint32_t ready, starting, templates; /* COFFERD_STAT */
	uint64_t held;
	uint32_t vault;	  /* enum vaultd_state */
	uint64_t counter; /* COFFERD_HOLD: save counter of the vault file */
	char why[320];
	char hint[160];
};

/* Takes a ready sandbox: 0 with its descriptor in *ret_sock; -ENOENT if none is ready; -ECONNREFUSED if there
 * is no cofferd. */
int cofferd_take(struct state *st, const struct strv *template, int *ret_sock,
		 char ret_id[RUN_ID_LEN + 1]) MUST_CHECK;
int cofferd_ask(struct state *st, enum cofferd_want want, struct cofferd_reply *ret) MUST_CHECK;
/* The same for requests that must reach a cofferd that is just starting: waits for it. */
int cofferd_tell(struct state *st, enum cofferd_want want, struct cofferd_reply *ret) MUST_CHECK;
/* Gets the status, one JSON object. -ECONNREFUSED if there is no cofferd. */
int cofferd_status(struct state *st, struct buf *ret, struct err *e) MUST_CHECK;
struct webctl;
/* Sends a request about the API; starts cofferd if there is none. *ret is one JSON object. */
int cofferd_web(struct state *st, const struct webctl *c, struct buf *ret, struct err *e) MUST_CHECK;
/* Lists tokens and sessions, as WEBCTL_LS of cofferd_web(), without starting a daemon: also works where
 * nothing can be written. */
int cofferd_list_tokens(struct state *st, struct buf *ret, struct err *e) MUST_CHECK;
/* Registers a sandbox for its restart policy; starts cofferd if there is none. */
int cofferd_keep(struct state *st, const char *id, struct err *e) MUST_CHECK;

struct vault_grants;
struct vault_proc;

/* Gets a channel of cofferd's vault for one run, which behaves as if the caller had started the vault; valid
 * while *ret_lease is open. -ECONNREFUSED if there is no cofferd, -VAULT_LOCKED. `patience` is a timeout in
 * ms. */
int cofferd_hold(struct state *st, const char *id, const struct vault_grants *ask, int patience,
		 struct vault_proc *ret, int *ret_lease, struct err *e) MUST_CHECK;
/* 0: the vault is open. 1: *ret is a vault that needs its passphrase; then call cofferd_unlocked() with
 * *ret_conn. */
int cofferd_unlock(struct state *st, struct vault_proc *ret, int *ret_conn, struct err *e) MUST_CHECK;
int cofferd_unlocked(int conn, struct err *e) MUST_CHECK;

/* Starts cofferd in the background with a first template, without waiting for it. */
int cofferd_start(struct state *st, const struct strv *template) MUST_CHECK;
/* Starts cofferd and waits until it serves, or returns its reason for not doing so. 0 also if another one was
 * faster. */
int cofferd_launch(struct state *st, bool stay, struct err *e) MUST_CHECK;
/* Executes cofferd in place of this process, in the foreground, with the descriptors of the service manager.
 * Returns only on failure. */
int cofferd_exec(struct state *st, struct err *e) MUST_CHECK;

#endif
