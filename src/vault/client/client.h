/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The starter's side of coffer-vault: where its file and key are, starting it, and asking it. Whoever starts it never
 * holds a secret: it opens descriptors and passes them on. (A new key file is filled here, and wiped here.)
 *
 * The files, in `vault/` (0700) of the state directory: `secrets`, sealed; `secrets.old`, the one before it, until the new
 * one was read back; `saved`, how often it was saved, to notice an old file in its place; `lock`, held by whoever changes it from reading it to having renamed the new one; `key-file`, the
 * path of the key where it is not the usual one; `schedule` (schedule.h); `told`, when cofferd last told of what expires; `issued/HOME`,
 * what servers issued to sandboxes with that home, sealed (keep.h).
 *
 * To grant secrets to a sandbox: vault_files_open() without VAULT_FILES_WRITE, vault_start(), vault_open(), then
 * vault_grant() with one end of a SOCK_SEQPACKET pair. The descriptors of struct vault_files can be kept and, after
 * vault_files_reopen(), used for a second vault_start() and vault_open() when the first process dies or the file is another
 * one. Only a passphrase cannot be asked for again by a process without a terminal (vault_files.may_reopen).
 */
#ifndef VAULT_CLIENT_H
#define VAULT_CLIENT_H

#include "base/buf.h"
#include "base/cleanup.h"
#include "vault/common/grants.h"
#include "vault/common/vaultproto.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>

/* How the key is found; all zero: as the file says, else the usual key file. */
struct vault_key_want {
	enum vault_key kind;	/* 0: not said */
	const char *key_file;	/* a path; NULL: as remembered, else the usual one */
	const char *credential; /* a name in $CREDENTIALS_DIRECTORY; NULL: "coffer-vault-key" */
	int passphrase_fd;	/* a pipe or file with the passphrase; -1: the terminal */
};

#define VAULT_KEY_WANT_INIT ((struct vault_key_want){ .passphrase_fd = -1 })

#define VAULT_ISSUED_DIR "issued"
#define VAULT_PLACEHOLDERS_DIR "placeholders" /* netd/plan/net_placeholder.h */

#define VAULT_LOCKED EKEYREVOKED /* as an error: a passphrase is wanted */

enum vault_files_flags {
	VAULT_FILES_WRITE = 1,	/* takes the lock, waiting for it */
	VAULT_FILES_NEW = 2,	/* makes directory, and key file where that is the kind, if there are none */
	VAULT_FILES_NO_KEY = 4, /* the key is not looked for: vault_files_take_key() */
	VAULT_FILES_TRY = 8,	/* with WRITE: -EAGAIN, and no word of it, where somebody else has the lock */
};

struct vault_files {
	int dir, lock;
	int file; /* -1: there is none yet */
	int key;  /* key file, credential, terminal or pipe */
	enum vault_key kind;
	bool is_terminal;
	bool may_reopen;
	bool made_key;	     /* a key file was made now */
	bool is_rekey;	     /* another key for a vault that is there */
	uint64_t saved;	     /* how often the file was saved, as remembered beside it; 0: nobody knows */
	char key_path[4096]; /* for people */
};

#define VAULT_FILES_INIT ((struct vault_files){ .dir = -1, .lock = -1, .file = -1, .key = -1 })

/* state_fd: the state directory. -ENOENT without VAULT_FILES_NEW when there is no vault yet. A key file that others may read
 * or that is somebody else's is refused. */
int vault_files_open(struct vault_files *ret, int state_fd, const struct vault_key_want *want, unsigned flags,
		     struct err *e) MUST_CHECK;
void vault_files_close(struct vault_files *f);
/* The lock of WRITE, let go of and taken again: what the vault has is then older than the file, and vault_revert() reads that.
 * Without `wait` -EAGAIN. */
void vault_files_unlock(struct vault_files *f);
int vault_files_lock(struct vault_files *f, bool wait, struct err *e) MUST_CHECK;
/* A second lock, for the time from running a command to saving what it made; until it is closed. Taken before the first. */
int vault_files_lock_rotation(struct vault_files *f, bool wait, struct err *e) MUST_CHECK;
/* The key that was left out; -VAULT_LOCKED where it is a passphrase, and there is nobody to ask. */
int vault_files_take_key(struct vault_files *f, const struct vault_key_want *want, struct err *e) MUST_CHECK;

/* Is another file under the name now, or none? */
bool vault_files_changed(const struct vault_files *f);
/* The file that is there now, and its key; for a second vault_open(), which must not see what was removed since. */
int vault_files_reopen(struct vault_files *f, struct err *e) MUST_CHECK;

/* Another key for a vault that is open for writing; a key file is made where there is none. Only `key` and what is about it
 * is filled in, and the directory. vault_files_remember() once the file is sealed with it. */
int vault_files_open_key(struct vault_files *ret, const struct vault_files *of,
			 const struct vault_key_want *want, struct err *e) MUST_CHECK;
int vault_files_remember(const struct vault_files *f, struct err *e) MUST_CHECK;

struct vault_proc {
	pid_t pid; /* -1: none */
	int pidfd;
	int control;
	uint32_t last_id;
	enum vault_fault fault; /* of the last answer that was an error */
	uint64_t counter;	/* how often its file was saved, as the file itself says */
	int patience; /* ms until an answer must be there, else it is killed; 0: for ever, where somebody types */
};

#define VAULT_PROC_INIT ((struct vault_proc){ .pid = -1, .pidfd = -1, .control = -1 })

/* Starts the program behind exe_fd and waits until it is confined. It ends when its control channel does. `patience` is kept. */
int vault_start(struct vault_proc *p, int exe_fd, struct err *e) MUST_CHECK;

/* Closes the channel and waits for its end; kills it where it does not end by itself. */
void vault_end(struct vault_proc *p);

/* Unseals. May ask for a passphrase on the terminal. */
int vault_open(struct vault_proc *p, const struct vault_files *f, unsigned flags, struct err *e) MUST_CHECK;

/* What comes before the answer to a request: VAULT_ITEM, VAULT_HIT. A negative number from it is passed on at the end. */
typedef int vault_each(const struct vault_msg *m, void *ctx);

/* Any request; *ret (may be NULL) is the answer, its texts in `mem`, which is cleared first. A VAULT_ERROR becomes `e`, its status
 * the result. -EPIPE: the vault is gone. */
int vault_call(struct vault_proc *p, struct vault_msg *ask, const int *fds, size_t n_fds, vault_each *each,
	       void *ctx, struct buf *mem, struct vault_msg *ret, struct err *e) MUST_CHECK;

/* `ask` is what is wanted, *ret what was granted: same order, same names, with handles and placeholders. The client's channel
 * is duplicated: the caller closes its own copy. A grant ends with its channel, or by vault_ungrant(). keep_fd: where what servers
 * issue is kept (keep.h), -1: nowhere; then it is what was issued before that stands behind what was asked for. */
int vault_grant(struct vault_proc *p, const char *sandbox, const struct vault_grants *ask, int client_fd,
		int keep_fd, struct vault_grants *ret, struct err *e) MUST_CHECK;
/* The same for its ssh-agent, beside or without the above: keys that sign, over a channel of their own. *ret_n: how many there
 * are now. */
int vault_agent(struct vault_proc *p, const char *sandbox, const struct vault_grants *ask, int agent_fd,
		size_t *ret_n, struct err *e) MUST_CHECK;
int vault_ungrant(struct vault_proc *p, const char *sandbox, struct err *e) MUST_CHECK;

/* A channel for who is to ask in the name of one sandbox, for these secrets: what comes over the other end of `channel`, which
 * must not block, is served as vault_call() and vault_grant() ask. */
int vault_hold(struct vault_proc *p, const char *sandbox, const struct vault_grants *ask, int channel,
	       struct err *e) MUST_CHECK;
/* Another file, opened with the key that the vault has; all other channels end. */
int vault_reload(struct vault_proc *p, const struct vault_files *f, struct err *e) MUST_CHECK;

/* Undoes what was asked for since the vault was opened or saved: it has what the file has now. Where it fails, nothing may
 * be saved any more. */
int vault_revert(struct vault_proc *p, const struct vault_files *f, struct err *e) MUST_CHECK;

/* Writes what the vault has now beside the old file, and puts it in its place once it was read back. */
int vault_save(struct vault_proc *p, const struct vault_files *f, struct err *e) MUST_CHECK;

#endif
