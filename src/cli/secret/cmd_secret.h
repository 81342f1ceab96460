/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `coffer secret` share: its arguments, and a vault that is open for the length of one command. */
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
	struct vault_key_want key, old_key; /* old_key: of rekey, the one in force */
	const char *file, *command, *as, *user, *expires_text, *every_text;
	uint64_t expires; /* seconds; 0: never, or not said */
	uint64_t every;
	bool weak, replace, address, asks, due, json, passphrase;
	struct strv hosts;
	struct strv known;	 /* --known-host */
	struct strv known_files; /* --known-hosts */
	int argc;
	char **argv; /* behind the act */
};

/* Exit codes of `coffer secret`, beside the usual ones. */
enum secret_exit {
	SECRET_EXIT_FOUND = 1, /* check: something is wrong */
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
	unsigned unsaved;   /* events in the log whose change is not in the file */
	struct strv failed; /* of rotate --due, "NAME: why"; stays when the session is closed */
};

#define SECRET_SESSION_INIT \
	((struct secret_session){ .st = STATE_INIT, .files = VAULT_FILES_INIT, .proc = VAULT_PROC_INIT })

/* Opens state, log and vault. flags: VAULT_FILES_*. */
int secret_session_open(struct secret_session *s, const struct vault_key_want *key, unsigned flags,
			struct err *e) MUST_CHECK;
/* The same with state and log that are open. */
int secret_session_unlock(struct secret_session *s, const struct vault_key_want *key, unsigned flags,
			  struct err *e) MUST_CHECK;
void secret_session_close(struct secret_session *s);
/* While something is done that may take long: others may change the vault, and what they have changed counts after it.
 * Nothing may be unsaved. */
void secret_session_unlock_files(struct secret_session *s);
int secret_session_relock_files(struct secret_session *s, struct err *e) MUST_CHECK;
/* One at a time, for a command that makes a new key may end an older one's. Before anything is asked of the vault. */
int secret_session_rotates(struct secret_session *s, struct err *e) MUST_CHECK;

/* One event about one secret (name may be NULL), then the new file. Nothing is saved that is not in the log. */
int secret_log(struct secret_session *s, const char *type, const char *name, const char *what,
	       struct err *e) MUST_CHECK;
int secret_save(struct secret_session *s, struct err *e) MUST_CHECK;
/* When the next is due, for cofferd (vault/client/schedule.h); secret_save() does it. */
int secret_write_schedule(struct secret_session *s, struct err *e) MUST_CHECK;
/* What could not be done, cut and made harmless; nothing was changed by it. */
int secret_log_failure(struct secret_session *s, const char *type, const char *name, const struct err *why,
		       struct err *e) MUST_CHECK;
/* As it was when it was last saved; the log hears of it. What is never saved is said in the log when the session is closed. */
int secret_revert(struct secret_session *s, struct err *e) MUST_CHECK;

/* What the vault says about one secret; the texts are owned. */
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

int secret_items_get(struct secret_session *s, struct secret_items *ret, struct err *e) MUST_CHECK;
void secret_items_release(struct secret_items *l);
/* Everything about it but its value, as members of an object that is open. */
/* Whether a profile knows where this secret is sent: then it needs no binding. One that cannot be read knows nothing. */
bool secret_find_profile(const char *name, char ret[64]);
int secret_list_profiles(const char *name, struct strv *ret) MUST_CHECK; /* all of them */
void secret_item_json(struct json *j, const struct secret_item *i, uint64_t now);
bool secret_item_has_expired(const struct secret_item *i, uint64_t now);
bool secret_item_expires_soon(const struct secret_item *i, uint64_t now);
bool secret_item_is_due(const struct secret_item *i, uint64_t now);

/* "16-31 bytes": as much about its length as is said. */
const char *secret_length_class(uint64_t len);

/* What a command prints, all of it, as a pipe that ends; an error when it fails, or takes more than a minute. */
int secret_run_command(const char *command, int *ret, struct err *e) MUST_CHECK;

/* A command that is remembered: the files in it are those that coffer obeys (run/obeys.h). */
int secret_note_command(struct secret_session *s, const char *command, struct err *e) MUST_CHECK;

/* A new value from wherever the arguments say, into the vault; not saved yet. */
int secret_take_value(struct secret_session *s, const struct secret_args *a, const char *name, unsigned flags,
		      const char *from_schedule, struct err *e) MUST_CHECK;

/* The vault that cofferd keeps. */
int secret_unlock(const struct secret_args *a, enum vault_fault *ret_fault, struct err *e) MUST_CHECK;
int secret_lock(const struct secret_args *a, enum vault_fault *ret_fault, struct err *e) MUST_CHECK;
int secret_forget(const struct secret_args *a, enum vault_fault *ret_fault, struct err *e) MUST_CHECK;
/* In a line, for `ls`: homes for which anything is kept. */
void secret_say_issued(const struct state *st);

/* One binding for each --host of the arguments, looked at before anything is asked or typed; not saved yet. */
int secret_check_bindings(const struct secret_args *a, struct err *e) MUST_CHECK;
int secret_bind_all(struct secret_session *s, const struct secret_args *a, const char *name,
		    struct err *e) MUST_CHECK;

int secret_set(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
/* Tells people (doc/notify.md) what could not be rotated; there is nobody at a terminal. */
void secret_tell_failed(const struct strv *failed);
int secret_rotate(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int secret_change(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int secret_rm(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int secret_bind(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int secret_unbind(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
/* Whether the place that the value is to come from is there. */
int secret_check_origin(const struct secret_args *a, struct err *e) MUST_CHECK;
/* Says how a key file becomes a credential of systemd's, where that can be. */
void secret_say_credential(const struct secret_session *s);
int secret_init(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int secret_rekey(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int secret_ls(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
/* 1 when something was found. */
int secret_check(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;
int secret_import(struct secret_session *s, const struct secret_args *a, struct err *e) MUST_CHECK;

#endif
