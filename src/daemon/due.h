/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotation and expiry of secrets by date. cofferd sees no secret: it reads names and dates from the file
 * beside the vault (vault/client/schedule.h), and does nothing if there is none.
 *
 * Invariants (cited elsewhere as due.U1 …)
 * U1  Due secrets are rotated by `coffer secret rotate --due`, one process at a time, which opens the vault
 *     itself. It is not killed with cofferd: its command may already have made a new key, which would be
 *     lost.
 * U2  After a failure there is a pause of a minute, doubling up to about an hour. The rotating process logs
 *     each failure.
 * U3  A vault with a passphrase is not tried, since nobody is there to type it: reported once in the log, and
 *     in the status.
 * U4  Secrets that expire soon are logged once a day, however often cofferd is started.
 */
#ifndef DAEMON_DUE_H
#define DAEMON_DUE_H

#include "base/json.h"
#include "daemon/child/helpers.h"
#include "daemon/vaultd.h"
#include "vault/client/schedule.h"

struct due {
	struct state *st;
	struct audit *audit;
	struct helpers *helpers;
	const struct vaultd *vault;
	int coffer_fd;
	/* Internal. */
	struct helper helper;
	struct schedule schedule;
	uint64_t ino, mtime; /* of the schedule file when it was read; 0: none */
	uint64_t tell_at;    /* CLOCK_REALTIME s of the next report of expiring secrets */
	pid_t pid;	     /* of the rotating process; 0: none */
	int said;	     /* its standard error; -1: none */
	bool is_typed;	     /* a secret is due, but the vault needs a passphrase */
};

/* The fields of the owner must be set. */
void due_begin(struct due *d);
void due_end(struct due *d);
/* Call once a second. */
void due_tick(struct due *d);
void due_retry_now(struct due *d); /* a person reloaded cofferd: ends the pause after a failure */
bool due_reaped(struct due *d, pid_t pid, int status);
/* Is there a reason not to exit? */
bool due_is_busy(const struct due *d);
void due_json(const struct due *d, struct json *j);

#endif
