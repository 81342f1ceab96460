/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the vault's secrets want by their dates. cofferd sees none of them: it reads names and dates from the file beside the
 * vault (vault/client/schedule.h), and where there is none does nothing at all.
 *
 * Invariants
 *  U1  What is due is rotated by `coffer secret rotate --due`, a process of its own that opens the vault by itself, one at a time. It is
 *      not ended with cofferd: a command may have made a new key already, which would be lost.
 *  U2  After a failure there is a pause of a minute, which doubles up to about an hour. Each failure is in the log, by whom it concerns.
 *  U3  A vault with a passphrase is not tried, for nobody is there to type it: said once in the log, and in the status.
 *  U4  What expires soon is in the log once a day, however often cofferd is started.
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
	/* Its own. */
	struct helper helper;
	struct schedule schedule;
	uint64_t ino, mtime; /* of the file that it was read from; 0: none */
	uint64_t tell_at;    /* CLOCK_REALTIME s: when what expires is to be told of next */
	pid_t pid;	     /* of what rotates; 0: nothing does */
	int said;	     /* what it says; -1: none */
	bool is_typed;	     /* something is due, and the vault has a passphrase */
};

/* What the owner sets is set. */
void due_begin(struct due *d);
void due_end(struct due *d);
/* Once a second. */
void due_tick(struct due *d);
void due_soon(struct due *d); /* somebody has looked after it: the pause after a failure is over */
bool due_reaped(struct due *d, pid_t pid, int status);
/* Is there a reason not to leave? */
bool due_is_busy(const struct due *d);
void due_json(const struct due *d, struct json *j);

#endif
