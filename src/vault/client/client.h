/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The starter's side of coffer-vault: where its file and key are, starting it, and sending requests. The starter never
 * holds a secret: it opens descriptors and passes them on. (A new key file is filled here, and the bytes are wiped here.)
 *
 * The files, in `vault/` (0700) of the state directory: `secrets`, sealed; `secrets.old`, the previous one, until the new
 * one was read back; `saved`, the save counter, to detect that an old file was put back; `lock`, held by a writer from reading
 * the file until the new one is renamed; `key-file`, the path of the key if it is not the default; `schedule` (schedule.h);
 * `told`, when cofferd last reported expiring secrets; `issued/HOME`, credentials that servers issued to sandboxes with that
 * home, sealed (keep.h).
 *
 * To grant secrets to a sandbox: vault_files_open() without VAULT_FILES_WRITE, vault_start(), vault_open(), then
 * vault_grant() with one end of a SOCK_SEQPACKET pair. The descriptors of struct vault_files can be kept and, after
 * vault_files_reopen(), used for a second vault_start() and vault_open() when the first process dies or the file was replaced.
 * Only a passphrase cannot be asked for again by a process without a terminal (vault_files.may_reopen).
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

/* How to find the key; all zero: as the file says, otherwise the default key file. */
struct vault_key_want {
	enum vault_key kind;	/* 0: not specified */
	const char *key_file;	/* a path; NULL: the remembered one, otherwise the default */
	const char *credential; /* a name in $CREDENTIALS_DIRECTORY; NULL: "coffer-vault-key" */
	int passphrase_fd;	/* a pipe or file with the passphrase; -1: the terminal */
};

#define VAULT_KEY_WANT_INIT ((struct vault_key_want){ .passphrase_fd = -1 })

#define VAULT_ISSUED_DIR "issued"
#define VAULT_PLACEHOLDERS_DIR "placeholders" /* netd/plan/net_placeholder.h */

#define VAULT_LOCKED EKEYREVOKED /* error code: a passphrase is needed */

enum vault_files_flags {
	VAULT_FILES_WRITE = 1, /* takes the lock, waiting for it */
	VAULT_FILES_NEW =
		2, /* creates the directory, and a key file if that is the kind, if they are missing */
	VAULT_FILES_NO_KEY = 4, /* does not open the key; see vault_files_take_key() */
	VAULT_FILES_TRY = 8,	/* with WRITE: -EAGAIN, without a message, if another process has the lock */
};

struct vault_files {
	int dir, lock;
	int file; /* -1: there is none yet */
	int key;  /* key file, credential, terminal or pipe */
	enum vault_key kind;
	bool is_terminal;
	bool may_reopen;
	bool made_key;	     /* a key file was created just now */
	bool is_rekey;	     /* another key for an existing vault */
	uint64_t saved;	     /* the save counter, as remembered beside the file; 0: unknown */
	char key_path[4096]; /* for messages */
};

#define VAULT_FILES_INIT ((struct vault_files){ .dir = -1, .lock = -1, .file = -1, .key = -1 })

/* state_fd: the state directory. Without VAULT_FILES_NEW, -ENOENT if there is no vault yet. A key file that
 * others may read or that another user owns is refused. */
int vault_files_open(struct vault_files *ret, int state_fd, const struct vault_key_want *want, unsigned flags,
		     struct err *e) MUST_CHECK;
void vault_files_close(struct vault_files *f);
/* Releases and takes the lock of WRITE again: meanwhile the file may have become newer than what the vault
 * has, and vault_revert() reads it. Without `wait` -EAGAIN. */
void vault_files_unlock(struct vault_files *f);
int vault_files_lock(struct vault_files *f, bool wait, struct err *e) MUST_CHECK;
/* A second lock, from running a rotation command to saving its result; held until the files are closed. Taken
 * before the first. */
int vault_files_lock_rotation(struct vault_files *f, bool wait, struct err *e) MUST_CHECK;
/* Opens the key that VAULT_FILES_NO_KEY left out; -VAULT_LOCKED if it is a passphrase and there is no
 * terminal. */
int vault_files_take_key(struct vault_files *f, const struct vault_key_want *want, struct err *e) MUST_CHECK;

/* Has the file been replaced or removed since? */
bool vault_files_changed(const struct vault_files *f);
/* Opens the current file and its key, for a second vault_open(), which must not see secrets that were removed
 * since. */
int vault_files_reopen(struct vault_files *f, struct err *e) MUST_CHECK;

/* Another key for a vault that is open for writing; a key file is created if missing. Fills in only `key`,
 * the fields that describe it, and the directory. Call vault_files_remember() once the file is sealed with
 * it. */
int vault_files_open_key(struct vault_files *ret, const struct vault_files *of,
			 const struct vault_key_want *want, struct err *e) MUST_CHECK;
int vault_files_remember(const struct vault_files *f, struct err *e) MUST_CHECK;

struct vault_proc {
	pid_t pid; /* -1: none */
	int pidfd;
	int control;
	uint32_t last_id;
	enum vault_fault fault; /* of the last VAULT_ERROR */
	uint64_t counter;	/* the save counter of its file, as the file itself has it */
	/* ms until a response must come, else it is killed; 0: no limit, because a person may be typing */
	int patience;
};

#define VAULT_PROC_INIT ((struct vault_proc){ .pid = -1, .pidfd = -1, .control = -1 })

/* Starts the program of exe_fd and waits until it is confined. It ends when its control channel does. Keeps
 * `patience`. */
int vault_start(struct vault_proc *p, int exe_fd, struct err *e) MUST_CHECK;

/* Closes the channel and waits for the process to end; kills it if it does not. */
void vault_end(struct vault_proc *p);

/* Unseals. May ask for a passphrase on the terminal. */
int vault_open(struct vault_proc *p, const struct vault_files *f, unsigned flags, struct err *e) MUST_CHECK;

/* Called for messages that precede the response: VAULT_ITEM, VAULT_HIT. Its first negative result becomes the
 * call's. */
typedef int vault_each(const struct vault_msg *m, void *ctx);

/* Sends any request; *ret (may be NULL) is the response, its texts in `mem`, which is cleared first. A
 * VAULT_ERROR is copied to `e`, and its status is the result. -EPIPE: the vault has ended. */
int vault_call(struct vault_proc *p, struct vault_msg *ask, const int *fds, size_t n_fds, vault_each *each,
	       void *ctx, struct buf *mem, struct vault_msg *ret, struct err *e) MUST_CHECK;

/* `ask` has the requests, *ret the grants: same order, same names, with handles and placeholders. The vault
 * gets a duplicate of the client's channel; the caller closes its own copy. A grant ends with its channel, or
 * by vault_ungrant(). keep_fd: the file that stores credentials which servers issue (keep.h), -1: none; *ret
 * then ends with those that were issued before. */
int vault_grant(struct vault_proc *p, const char *sandbox, const struct vault_grants *ask, int client_fd,
		int keep_fd, struct vault_grants *ret, struct err *e) MUST_CHECK;
/* The same for its ssh-agent, independent of the above: keys that sign, over a channel of their own. *ret_n:
 * the number of usable keys. */
int vault_agent(struct vault_proc *p, const char *sandbox, const struct vault_grants *ask, int agent_fd,
		size_t *ret_n, struct err *e) MUST_CHECK;
int vault_ungrant(struct vault_proc *p, const char *sandbox, struct err *e) MUST_CHECK;

/* Makes a channel for a holder, which asks on behalf of one sandbox and for these secrets only: requests from
 * the other end of `channel`, which must not block, are served like those of vault_call() and
 * vault_grant(). */
int vault_hold(struct vault_proc *p, const char *sandbox, const struct vault_grants *ask, int channel,
	       struct err *e) MUST_CHECK;
/* Loads another file, opened with the key that the vault has; all other channels end. */
int vault_reload(struct vault_proc *p, const struct vault_files *f, struct err *e) MUST_CHECK;

/* Undoes all changes since the vault was opened or saved: it then has what the file has now. If that fails,
 * nothing may be saved any more. */
int vault_revert(struct vault_proc *p, const struct vault_files *f, struct err *e) MUST_CHECK;

/* Writes the vault's current contents beside the old file, and replaces it once the new one was read back. */
int vault_save(struct vault_proc *p, const struct vault_files *f, struct err *e) MUST_CHECK;

#endif
