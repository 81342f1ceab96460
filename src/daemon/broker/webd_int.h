/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of webd.h share. webd.c: sockets, coffer-web, its messages; webd_run.c: requests; webd_jobs.c: the work for them;
 * webd_share.c: once for many; webd_cred.c: who is who. */
#ifndef DAEMON_WEBD_INT_H
#define DAEMON_WEBD_INT_H

#include "base/clock.h"
#include "daemon/broker/webd.h"
#include "daemon/db/db.h"

struct cred {
	struct cred *next;
	struct db_cred row;
};

/* By how long it takes. */
enum webd_lane {
	WEBD_QUICK,
	WEBD_LOG,	/* searches the log */
	WEBD_WHOLE_LOG, /* reads all of it */
	WEBD_SLOW,	/* waits for a sandbox */
	WEBD_LANE_COUNT
};

struct job {
	struct job *next;
	uint64_t id;
	enum webp_state state;
	enum web_op op;
	enum web_cred kind;
	enum webd_lane lane;
	enum web_role role;
	unsigned char key[HASH_LEN]; /* by which it came */
	struct strv argv;
	pid_t pid; /* 0: waits for its turn, or is a stream */
	int in;	   /* of a command: a memory file; -1: it has none */
	int out, err;
	bool is_gone;	  /* who asked does not wait for it any more */
	struct job *with; /* the one that runs, whose answer is for this one too; NULL: none yet */
	uint64_t began;	  /* CLOCK_MONOTONIC ns */
};

struct outgoing {
	struct outgoing *next;
	struct webp_answer a;
	int fds[2];
	size_t n;
};

struct webd_listener {
	int fd;
	uint16_t port;
	char text[72];
	char hosts[256];
	bool is_public;
	struct watch w; /* while there is no coffer-web */
	struct webd *d;
};

struct webd {
	struct webd_with w;
	struct watch api;
	struct webd_listener listeners[WEBD_LISTENERS];
	size_t n_listeners;

	/* coffer-web */
	pid_t pid;
	struct watch channel;
	struct helper helper;
	struct timer again;
	unsigned char owner[HASH_LEN]; /* the key of this coffer-web's owner connections */
	struct outgoing *queue, **queue_end;
	size_t n_queue, n_queue_fds;
	struct timer drown;

	struct job *jobs;
	unsigned n_jobs, n_running;
	struct {
		unsigned open, running; /* those that are work: no streams, no commands */
	} lane[WEBD_LANE_COUNT];
	uint64_t last_id;
	uint64_t rest_until; /* CLOCK_MONOTONIC ns: the whole log is not read before */
	struct timer rest;

	pid_t feed;
	struct timer feed_again;
	unsigned n_streams;

	struct web_stats stats;	 /* of this coffer-web */
	struct web_stats before; /* of those before it, added up */

	struct db *db;
	bool has_creds;
	struct cred *creds;
	size_t n_creds;
	struct timer expiry;

	struct webd_refusals *refusals;
};

struct who {
	enum web_role role;
	const char *name, *via;
};

/* webd.c */
void webd_say(struct webd *d, const struct webp_answer *a, const int *fds, size_t n); /* closes them */
void webd_kill(struct webd *d, const char *why);

/* webd_refused.c: what was refused for lack of a role is in the log, many at once as one line. */
struct webd_refusals *webd_refusals_new(struct webd *d);
void webd_refusals_free(struct webd_refusals *t); /* writes what is left */
void webd_note_refusal(struct webd *d, const struct webp_req *q, const struct who *who);

/* webd_run.c */
void webd_request(struct webd *d, const struct webp_req *q);

/* webd_jobs.c */
void webd_refuse(struct webd *d, uint64_t id, unsigned status, const char *code, const char *message,
		 const char *hint);
void webd_reply(struct webd *d, uint64_t id, int fd, unsigned flags);
bool webd_has_room(const struct webd *d, enum web_op op);
/* W3, for who asks. */
bool webd_has_share(const struct webd *d, const struct webp_req *q);
/* Its argv is the caller's to fill in; webd_start_more() then starts it when it is its turn. */
struct job *webd_add_job(struct webd *d, const struct webp_req *q, enum webp_state s);
void webd_free_job(struct webd *d, struct job *x);
void webd_start_more(struct webd *d);
int webd_start_exec(struct webd *d, struct job *x) MUST_CHECK;
void webd_open_stream(struct webd *d, const struct webp_req *q);
void webd_cancel(struct webd *d, uint64_t id);
void webd_end_jobs(struct webd *d);
void webd_end_streams_of(struct webd *d, const unsigned char hash[HASH_LEN]);
void webd_jobs_open(struct webd *d); /* its timer; once */
bool webd_job_reaped(struct webd *d, pid_t pid, int status);

/* webd_share.c */
/* Has it to wait for the same work, or for the log's rest? */
bool webd_may_begin(struct webd *d, const struct job *x);
/* It runs: whoever waits for the same shares it from here on. */
void webd_has_begun(struct webd *d, struct job *x);
void webd_has_ended(struct webd *d, const struct job *x);
/* One of those who share it; NULL: none. */
struct job *webd_sharer(struct webd *d, const struct job *x);

/* webd_cred.c */
int webd_load_creds(struct webd *d, struct err *e) MUST_CHECK;
void webd_release_creds(struct webd *d);
/* W1. False: it is worth nothing. */
bool webd_who(struct webd *d, enum web_cred kind, const unsigned char key[HASH_LEN], struct who *ret);
/* Who comes with a code of `coffer ui`; -ENOENT when it is none. */
int webd_login_who(struct webd *d, const char *code, struct who *ret, struct err *e) MUST_CHECK;
/* The code becomes a session: the secret that stands for it. */
int webd_login(struct webd *d, const char *code, struct buf *ret_secret, struct who *ret,
	       struct err *e) MUST_CHECK;
/* May it be added? Then it is written down, and added. */
int webd_check_cred(struct webd *d, const struct db_cred *row, struct err *e) MUST_CHECK;
int webd_add_cred(struct webd *d, const struct db_cred *row, struct err *e) MUST_CHECK;
/* Is there one to remove? -ENOENT. */
int webd_has_cred(struct webd *d, const char *name, struct err *e) MUST_CHECK;
/* By name, id, or hash. */
int webd_remove_cred(struct webd *d, const char *name, struct err *e) MUST_CHECK;
void webd_remove_hash(struct webd *d, const unsigned char hash[HASH_LEN]);
void webd_creds_json(struct webd *d, struct json *j, const char *key);

#endif
