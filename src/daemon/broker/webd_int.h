/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the API broker. webd.c: sockets, coffer-web and its messages; webd_run.c: requests;
 * webd_jobs.c: their processes; webd_share.c: sharing identical work; webd_cred.c: credentials;
 * webd_refused.c: logging of refusals.
 */
#ifndef DAEMON_WEBD_INT_H
#define DAEMON_WEBD_INT_H

#include "base/clock.h"
#include "daemon/broker/webd.h"
#include "daemon/db/db.h"

struct cred {
	struct cred *next;
	struct db_cred row;
};

/* Classes of work by duration. */
enum webd_lane {
	WEBD_QUICK,
	WEBD_LOG,	/* searches the log */
	WEBD_WHOLE_LOG, /* reads the whole log */
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
	unsigned char key[HASH_LEN]; /* of the credential */
	struct strv argv;
	pid_t pid; /* 0: waits for a worker, or is a stream */
	int in;	   /* stdin of a command: a memory file; -1: none */
	int out, err;
	bool is_gone;	  /* the client has gone */
	struct job *with; /* the running job whose answer this one shares; NULL: none yet */
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
	struct watch w; /* watched while there is no coffer-web */
	struct webd *d;
};

struct webd {
	struct webd_with w;
	struct watch api;
	struct webd_listener listeners[WEBD_LISTENERS];
	size_t n_listeners;

	/* The coffer-web process. */
	pid_t pid;
	struct watch channel;
	struct helper helper;
	struct timer again;
	unsigned char owner[HASH_LEN]; /* key that identifies the owner's connections of this coffer-web */
	struct outgoing *queue, **queue_end;
	size_t n_queue, n_queue_fds;
	struct timer drown;

	struct job *jobs;
	unsigned n_jobs, n_running;
	struct {
		unsigned open, running; /* jobs only: no streams, no commands */
	} lane[WEBD_LANE_COUNT];
	uint64_t last_id;
	uint64_t rest_until; /* CLOCK_MONOTONIC ns: the whole log is not read before */
	struct timer rest;

	pid_t feed;
	struct timer feed_again;
	unsigned n_streams;

	struct web_stats stats;	 /* of this coffer-web */
	struct web_stats before; /* sum over earlier ones */

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
void webd_send(struct webd *d, const struct webp_answer *a, const int *fds,
	       size_t n); /* closes the descriptors */
void webd_kill(struct webd *d, const char *why);

/* webd_refused.c: logs requests refused for lack of a role, repeated ones as one line. */
struct webd_refusals *webd_refusals_new(struct webd *d);
void webd_refusals_free(struct webd_refusals *t); /* logs what is left */
void webd_note_refusal(struct webd *d, const struct webp_req *q, const struct who *who);

/* webd_run.c */
void webd_request(struct webd *d, const struct webp_req *q);

/* webd_jobs.c */
void webd_refuse(struct webd *d, uint64_t id, unsigned status, const char *code, const char *message,
		 const char *hint);
void webd_reply(struct webd *d, uint64_t id, int fd, unsigned flags);
bool webd_has_room(const struct webd *d, enum web_op op);
/* webd.W3: has this credential a place left? */
bool webd_has_share(const struct webd *d, const struct webp_req *q);
/* The caller fills in its argv; webd_start_more() then starts it in its turn. */
struct job *webd_add_job(struct webd *d, const struct webp_req *q, enum webp_state s);
void webd_free_job(struct webd *d, struct job *x);
void webd_start_more(struct webd *d);
int webd_start_exec(struct webd *d, struct job *x) MUST_CHECK;
void webd_open_stream(struct webd *d, const struct webp_req *q);
void webd_cancel(struct webd *d, uint64_t id);
void webd_end_jobs(struct webd *d);
void webd_end_streams_of(struct webd *d, const unsigned char hash[HASH_LEN]);
void webd_jobs_open(struct webd *d); /* initialises its timer; call once */
bool webd_job_reaped(struct webd *d, pid_t pid, int status);

/* webd_share.c */
/* False if it has to wait for identical work under way, or for the pause after reading the whole log. */
bool webd_may_start_job(struct webd *d, const struct job *x);
/* The job runs: identical waiting jobs share its result. */
void webd_job_started(struct webd *d, struct job *x);
void webd_job_ended(struct webd *d, const struct job *x);
/* One of the jobs that share it; NULL: none. */
struct job *webd_next_sharer(struct webd *d, const struct job *x);

/* webd_cred.c */
int webd_load_creds(struct webd *d, struct err *e) MUST_CHECK;
void webd_release_creds(struct webd *d);
/* webd.W1. False: the credential is unknown or has expired. */
bool webd_find_caller(struct webd *d, enum web_cred kind, const unsigned char key[HASH_LEN], struct who *ret);
/* The caller that a login code of `coffer ui` belongs to; -ENOENT if it is invalid. */
int webd_find_login(struct webd *d, const char *code, struct who *ret, struct err *e) MUST_CHECK;
/* Exchanges the login code for a session and returns the session's secret. */
int webd_login(struct webd *d, const char *code, struct buf *ret_secret, struct who *ret,
	       struct err *e) MUST_CHECK;
/* May it be added? Adding stores it in the database first. */
int webd_check_cred(struct webd *d, const struct db_cred *row, struct err *e) MUST_CHECK;
int webd_add_cred(struct webd *d, const struct db_cred *row, struct err *e) MUST_CHECK;
/* Is there one of this name to remove? -ENOENT. */
int webd_has_cred(struct webd *d, const char *name, struct err *e) MUST_CHECK;
/* Removes by name or id. */
int webd_remove_cred(struct webd *d, const char *name, struct err *e) MUST_CHECK;
void webd_remove_session(struct webd *d, const unsigned char hash[HASH_LEN]);
void webd_creds_json(struct webd *d, struct json *j, const char *key);

#endif
