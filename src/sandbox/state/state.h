/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory: mode 0700, owned by its user, never visible inside a sandbox:
 *
 *   audit/            the log (room audit)
 *   runs/ID/          one run: upper/ work/ (workspace layers), from/ (the layer beneath a call's), meta.json,
 *                     ctl.sock, output.log, output.times, start (how to start it again), over (not to be), checkpoints/
 *   names/NAME        symlink to a run's ID
 *   homes/NAME/       named homes
 *   objects/          content of checkpoints (room workspace, objects.h)
 *   runs/gone-ID/     the rest of a run that is being removed
 *   limits-told       default limits that are not enforced, as last reported to the user
 *   last              the id of the last run, whether or not its directory still exists
 *   format            the number of the state directory's format (doc/adr/0034)
 *
 * A run is alive while a process holds an exclusive flock on its directory; children inherit the lock with the
 * fd. A run directory that is not locked and has no "end" in its meta.json was left by a crash: state_run_stale()
 * lists those, and a process that cleans one up first takes it with state_run_claim().
 */
#ifndef SANDBOX_STATE_H
#define SANDBOX_STATE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define RUN_ID_LEN 12 /* lower-case hex */

/*
 * The format of the state directory as a whole. Format 1 is that of the release before the mark: it has no file `format`.
 * A change after which an older release would misread the state, or lose data in it, raises the number (doc/adr/0034
 * lists what else such a change needs).
 */
#define STATE_FORMAT 2

struct state {
	char *path; /* absolute */
	int fd;	    /* O_PATH-like directory fd */
	int runs_fd;
	bool marked; /* the mark names STATE_FORMAT */
};

#define STATE_INIT ((struct state){ .fd = -1, .runs_fd = -1 })

/* $COFFER_STATE (an absolute path), else /var/lib/cofferdam for the host's root, else $XDG_STATE_HOME/cofferdam or
 * ~/.local/state/cofferdam. Creates it 0700; refuses one that another user owns or can write. Every program that uses the
 * state calls this: -EPROTONOSUPPORT for a state of a newer format, -EBADMSG for a mark that cannot be read. A state of an
 * older format gets the present mark; where that cannot be written (a full or read-only disk), the state still opens, so
 * that it can be listed and space can be freed. */
int state_open(struct state *st, struct err *e) MUST_CHECK;
/* Makes sure that the mark is written; called before anything new is made in the state. */
int state_mark(struct state *st, struct err *e) MUST_CHECK;
/* The path that state_open() would use, without creating it; the caller frees it. NULL with an error when there is none. */
char *state_place(struct err *e) MUST_CHECK;
void state_release(struct state *st);

/* True for uid 0 in the first user namespace: the host's real root. */
bool state_is_host_root(void);

/* A fresh id, for callers that pass it on before the run is made. */
int state_new_id(char ret_id[RUN_ID_LEN + 1], struct err *e) MUST_CHECK;

/* Makes runs/ID, locked, and remembers it as the last run; returns its directory fd (which holds the lock).
 * An empty id is first filled with a fresh one. */
int state_run_create(struct state *st, char id[RUN_ID_LEN + 1], struct err *e) MUST_CHECK;

/*
 * The same for a sandbox of the warm pool, which is made ahead of its command: marked as not begun, and not the last run.
 * In a run that still has the mark no command ever ran, so its cleanup reports no end. state_run_begin() removes the mark
 * and makes it the last run.
 */
int state_run_create_ahead(struct state *st, const char *id, struct err *e) MUST_CHECK;
int state_run_begin(struct state *st, int run_fd, const char *id, struct err *e) MUST_CHECK;
bool state_run_has_begun(int run_fd);

/*
 * A mark in the directory of a run that the user has ended for good: it is not started again, whatever its restart policy
 * is. It is made before the run is ended, and checked by the process that would restart it, once that holds the run.
 */
int state_run_set_over(int run_fd, struct err *e) MUST_CHECK;
bool state_run_is_over(int run_fd);
/* For a caller that holds the run and starts it again on request. */
int state_run_clear_over(int run_fd, struct err *e) MUST_CHECK;

/* Takes a run that no process holds: its directory fd, with the lock. -EBUSY when alive, -ENOENT when gone. */
int state_run_claim(struct state *st, const char *id, struct err *e) MUST_CHECK;

/*
 * The first step of removing a run that the caller holds: one rename makes it invisible, so that an interrupted removal
 * never leaves half a run. Its directory is then called ret_name (in runs/), for the caller to remove. state_run_buried()
 * lists those whose remover died.
 */
#define RUN_BURIED_LEN (RUN_ID_LEN + 6)
int state_run_bury(struct state *st, const char *id, char ret_name[RUN_BURIED_LEN], struct err *e) MUST_CHECK;
int state_run_buried(struct state *st, struct strv *ret, struct err *e) MUST_CHECK;

/* Ids of runs that no process holds and that were never finished, without those that are still being made. */
int state_run_stale(struct state *st, struct strv *ret, struct err *e) MUST_CHECK;

/* The id of the last run, even if its directory is gone. -ENOENT when there never was one. */
int state_last_id(struct state *st, char ret_id[RUN_ID_LEN + 1]) MUST_CHECK;

/* Opens the directory of a run; *ret_alive tells whether a process holds it. Returns the fd. */
int state_run_open(struct state *st, const char *id, bool *ret_alive, struct err *e) MUST_CHECK;

/* Returns once no process holds the run: it has ended, and its cleanup is done. */
int state_run_wait(int run_fd) MUST_CHECK;

/* A whole ID, a name, a unique prefix of an ID (at least 2 digits), or @last; in that order. -ENOENT with a list of
 * the runs when none matches (for @last: when that run left no directory), -ENOTUNIQ when a prefix matches several. */
int state_resolve(struct state *st, const char *ref, char ret_id[RUN_ID_LEN + 1], struct err *e) MUST_CHECK;

/* All run ids, newest first. */
int state_run_list(struct state *st, struct strv *ret, struct err *e) MUST_CHECK;

/* -EEXIST when a run has that name now: checked early, before a run is made for nothing. */
int state_name_check(struct state *st, const char *name, struct err *e) MUST_CHECK;

/* Binds a name to a run; -EEXIST when another run has it. A name whose run is gone is taken over. */
int state_name_set(struct state *st, const char *name, const char *id, struct err *e) MUST_CHECK;
/* Frees the name when it is bound to that run. */
void state_name_clear(struct state *st, const char *name, const char *id);

/* Directory fd of a named home, made when missing. */
int state_home_open(struct state *st, const char *name, struct err *e) MUST_CHECK;

/* The content of a run's meta.json. Strings are owned; release with state_meta_release(). */
struct run_meta {
	char id[RUN_ID_LEN + 1];
	char *name; /* NULL when it has none */
	char *engine;
	char *command;	 /* one line for people */
	char *workspace; /* host directory, NULL when ephemeral */
	char *ws_mode;	 /* "overlay", "ro", "rw", "ephemeral" */
	char *root;  /* "host", "image", or the directory's path; NULL (written by an older version): host */
	char *image; /* its name, NULL when there is none */
	char *image_digest;
	uint64_t started; /* CLOCK_REALTIME ns */
	uint64_t ended;	  /* 0 while it runs or when it was never finished */
	int exit_code;	  /* valid when ended */
	char *cause; /* "exit", "signal", "oom", "pids", "timeout", "output", "disk", "stopped", … ; NULL */
	int64_t launcher; /* pid of the launcher */
	int64_t guard;	  /* pid of the process that cleans up after it */
	bool detached;
	uint64_t changes;    /* files changed in the workspace, valid when ended */
	char *home;	     /* the named home, NULL when it has none */
	char *profile;	     /* agent profile that it was started with, NULL when there was none */
	char *net;	     /* "none", "observe", "enforce"; NULL (written by an older version): none */
	char *policy_digest; /* of the policy in force at its start; NULL: no network */
	char *ports;	     /* published ports (-p): "127.0.0.1:8080->80, …"; NULL: none */
	bool acts;	     /* the policy's rules for tools and apply are stored beside it */
	bool map_ids;  /* an ordinary user's run over a range of ids: its files may belong to any of them */
	bool each;     /* a checkpoint after every command */
	uint64_t keep; /* number of checkpoints to keep; 0: all */
	uint64_t disk; /* limit of the layer's bytes; 0: none, or written by an older version */
	char *over;    /* a call over another run's layer: id of that run; NULL: none */
	uint64_t over_time; /* when that layer was copied */
	char *restart;	    /* when it is started again: "always", "on-failure:3"; NULL: never */
	uint64_t restarts;  /* number of restarts so far */
	uint64_t since;	    /* its last start, where that is not the first; else 0 */
	unsigned protocol;  /* of its launcher and guard (compat.h) */
};
/* -ENOENT when there is none, -EBADMSG when it is damaged. */
int state_meta_read(int run_fd, struct run_meta *ret, struct err *e) MUST_CHECK;
/* Replaces meta.json by a rename: a reader sees the old one or the new one. A long command is cut. */
int state_meta_write(int run_fd, const struct run_meta *m, struct err *e) MUST_CHECK;
void state_meta_release(struct run_meta *m);

#endif
