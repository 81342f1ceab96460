/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that all files of `coffer secret` use: the parsed arguments, and the session, which keeps the vault
 * open for one command.
 */
#ifndef CLI_CMD_SECRET_H
#define CLI_CMD_SECRET_H

#include "audit/audit.h"
#include "base/json.h"
#include "base/str.h"
#include "sandbox/state/state.h"
#include "vault/client/client.h"

enum secret_act {
	SECRET_SET,
	SECRET_LS,
	SECRET_RM,
	SECRET_ROTATE,
	SECRET_CHANGE,
	SECRET_BIND,
	SECRET_UNBIND,
	SECRET_CHECK,
	SECRET_IMPORT,
	SECRET_INIT,
	SECRET_REKEY,
	SECRET_UNLOCK,
	SECRET_LOCK,
	SECRET_FORGET,
	SECRET_ACT_COUNT
};

struct secret_args {
	enum secret_act act;
	struct vault_key_want key, old_key; /* old_key: for rekey, the key in force */
	const char *file, *command, *as, *user, *expires_text, *every_text;
	uint64_t expires; /* seconds since the epoch; 0: never, or not given */
	uint64_t every;
	bool weak, replace, address, asks, due, json, passphrase;
	struct strv hosts;
	struct strv known;	 /* --known-host */
	struct strv known_files; /* --known-hosts */
	int argc;
	char **argv; /* the words after the act */
};

/* Exit codes of `coffer secret`, in addition to the usual ones. */
enum secret_exit {
	SECRET_EXIT_FOUND = 1, /* check: something was found; import: nothing was taken */
	SECRET_EXIT_KEY = 10,
	SECRET_EXIT_PASSPHRASE = 11,
	SECRET_EXIT_TAMPERED = 12,
	SECRET_EXIT_TRUNCATED = 13,
	SECRET_EXIT_FORMAT = 14,
	SECRET_EXIT_NO_SUCH = 15,
	SECRET_EXIT_EXISTS = 16,
	SECRET_EXIT_VALUE = 17,
	SECRET_EXIT_SPACE = 18,
};

struct secret_session {
	struct state st;
	struct audit *audit;
	struct vault_files files;
	struct vault_proc proc;
	unsigned unsaved;   /* events in the log whose change is not yet saved in the vault file */
	struct strv failed; /* rotate --due: "NAME: why"; survives cli_secret_session_close() */
};

#define SECRET_SESSION_INIT \
	((struct secret_session){ .st = STATE_INIT, .files = VAULT_FILES_INIT, .proc = VAULT_PROC_INIT })

/* Opens the state directory, the audit log and the vault. flags: VAULT_FILES_*. */
int cli_secret_session_open(struct secret_session *s, const struct vault_key_want *key, unsigned flags,
			    struct err *e) MUST_CHECK;
/* The same, with the state directory and the log already open. */
int cli_secret_session_unlock(struct secret_session *s, const struct vault_key_want *key, unsigned flags,
			      struct err *e) MUST_CHECK;
void cli_secret_session_close(struct secret_session *s);
/*
 * Releases the vault's lock during a long operation, so that other commands may change the vault. Relocking
 * loads what they have changed. Nothing may be unsaved.
 */
void cli_secret_session_unlock_files(struct secret_session *s);
int cli_secret_session_relock_files(struct secret_session *s, struct err *e) MUST_CHECK;
/*
 * Takes the rotation lock: one rotation at a time, because a command that creates a new key may revoke an
 * older one. To be called before any request to the vault.
 */
int cli_secret_session_rotates(struct secret_session *s, struct err *e) MUST_CHECK;

/*
 * cli_secret_log() logs one event about one secret (name may be NULL); cli_secret_save() then writes the vault
 * file. Nothing is saved that is not in the log.
 */
int cli_secret_log(struct secret_session *s, const char *type, const char *name, const char *what,
		   struct err *e) MUST_CHECK;
int cli_secret_save(struct secret_session *s, struct err *e) MUST_CHECK;
/*
 * Writes when the next rotation is due, for cofferd (vault/client/schedule.h). cli_secret_save() calls it too.
 */
int cli_secret_write_schedule(struct secret_session *s, struct err *e) MUST_CHECK;
/* Logs a failure that changed nothing; the message is shortened and made safe to print. */
int cli_secret_log_failure(struct secret_session *s, const char *type, const char *name,
			   const struct err *why, struct err *e) MUST_CHECK;
/*
 * Returns the vault to its last saved state, and logs that. Changes that are still unsaved when the session
 * closes are logged as such.
 */
int cli_secret_revert(struct secret_session *s, struct err *e) MUST_CHECK;

/* The vault's record of one secret, without the value. The item owns its texts. */
struct secret_item {
	char name[VAULT_NAME_MAX + 1];
	uint64_t len, created, changed, expires, every, flags;
	char *command;
	size_t n_bindings;
	struct binding bindings[GRANTS_BINDINGS_MAX];
};

struct secret_items {
	struct secret_item *v;
	size_t n;
};

int cli_secret_items_get(struct secret_session *s, struct secret_items *ret, struct err *e) MUST_CHECK;
void cli_secret_items_release(struct secret_items *l);
/*
 * Does a profile name the host for this secret? Then it needs no binding. A profile that cannot be read
 * counts as naming none.
 */
bool cli_secret_find_profile(const char *name, char ret[64]);
int cli_secret_list_profiles(const char *name, struct strv *ret) MUST_CHECK; /* every such profile */
/* Everything about the secret except its value, as members of the open object. */
void cli_secret_item_json(struct json *j, const struct secret_item *i, uint64_t now);
bool cli_secret_item_has_expired(const struct secret_item *i, uint64_t now);
bool cli_secret_item_expires_soon(const struct secret_item *i, uint64_t now);
bool cli_secret_item_is_due(const struct secret_item *i, uint64_t now);

/* "16-31 bytes": the length is only ever shown as a class. */
const char *cli_secret_length_class(uint64_t len);

/*
 * Runs a command and returns its whole output as a pipe that ends. An error if the command fails or takes
 * more than a minute.
 */
int cli_secret_run_command(const char *command, int *ret, struct err *e) MUST_CHECK;

/* Notes the files that a remembered command names among those that coffer obeys (run/obeys.h). */
int cli_secret_note_command(struct secret_session *s, const char *command, struct err *e) MUST_CHECK;

/* Reads a new value from the source that the arguments name into the vault; not saved yet. */
int cli_secret_take_value(struct secret_session *s, const struct secret_args *a, const char *name,
			  unsigned flags, const char *from_schedule, struct err *e) MUST_CHECK;

/*
 * These work without a session: unlock and lock act on the vault that cofferd keeps open, forget on the
 * files beside the vault.
 */
int cli_secret_unlock(const struct secret_args *a, enum vault_fault *ret_fault, struct err *e) MUST_CHECK;
int cli_secret_lock(const struct secret_args *a, enum vault_fault *ret_fault, struct err *e) MUST_CHECK;
int cli_secret_forget(const struct secret_args *a, enum vault_fault *ret_fault, struct err *e) MUST_CHECK;
/* For `ls`: prints a line with the homes that have issued credentials. */
void cli_secret_say_issued(const struct state *st);

/* One binding for each --host. All are checked before a person is prompted; not saved yet. */
int cli_secret_check_bindings(const struct secret_args *a, struct err *e) MUST_CHECK;
int cli_secret_bind_all(struct secret_session *s, const struct secret_args *a, const char *name,
			struct err *e) MUST_CHECK;

int cli_secret_set(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
/* Notifies people (doc/notify.md) of failed rotations: a scheduled rotation has no terminal. */
void cli_secret_tell_failed(const struct strv *failed);
int cli_secret_rotate(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int cli_secret_change(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int cli_secret_rm(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int cli_secret_bind(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int cli_secret_unbind(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
/* Checks that the source of the value exists and can be read. */
int cli_secret_check_origin(const struct secret_args *a, struct err *e) MUST_CHECK;
/* Prints how to turn a key file into a systemd credential, where systemd-creds is installed. */
void cli_secret_say_credential(const struct secret_session *s);
int cli_secret_init(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int cli_secret_rekey(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int cli_secret_ls(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
/* Returns 1 when something was found. */
int cli_secret_check(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int cli_secret_import(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;

#endif
