/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of webd.h share. webd.c: sockets, coffer-web, its messages; webd_run.c: requests and the work for them;
 * webd_cred.c: who is who. */
#ifndef GATEWAY_WEBD_INT_H
#define GATEWAY_WEBD_INT_H

#include "base/clock.h"
#include "gateway/db.h"
#include "gateway/webd.h"

struct cred {
	struct cred *next;
	struct db_cred row;
};

struct job {
	struct job *next;
	uint64_t id;
	enum webp_state state;
	enum web_op op;
	enum web_cred kind;
	unsigned char key[HASH_LEN]; /* by which it came */
	struct strv argv;
	pid_t pid; /* 0: waits for its turn, or is a stream */
	int out, err;
	bool is_gone; /* nobody waits for it any more */
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
	size_t n_queue;

	struct job *jobs;
	unsigned n_jobs, n_running;
	uint64_t last_id;

	pid_t feed;
	unsigned n_streams;

	struct db *db;
	bool has_creds;
	struct cred *creds;
	size_t n_creds;
};

struct who {
	enum web_role role;
	const char *name, *via;
};

/* webd.c */
void webd_say(struct webd *d, const struct webp_answer *a, const int *fds, size_t n); /* closes them */
void webd_kill(struct webd *d, const char *why);

/* webd_run.c */
void webd_request(struct webd *d, const struct webp_req *q);
void webd_cancel(struct webd *d, uint64_t id);
void webd_end_jobs(struct webd *d);
void webd_end_streams_of(struct webd *d, const unsigned char hash[HASH_LEN]);
bool webd_job_reaped(struct webd *d, pid_t pid, int status);

/* webd_cred.c */
int webd_load_creds(struct webd *d, struct err *e) MUST_CHECK;
void webd_release_creds(struct webd *d);
/* W1. False: it is worth nothing. */
bool webd_who(struct webd *d, enum web_cred kind, const unsigned char key[HASH_LEN], struct who *ret);
/* The code of `coffer ui` becomes a session; -ENOENT when it is none. */
int webd_login(struct webd *d, const char *code, struct buf *ret_cookie, struct who *ret,
	       struct err *e) MUST_CHECK;
int webd_add_cred(struct webd *d, const struct db_cred *row, struct err *e) MUST_CHECK;
/* By name, id, or hash. */
int webd_remove_cred(struct webd *d, const char *name, struct err *e) MUST_CHECK;
void webd_remove_hash(struct webd *d, const unsigned char hash[HASH_LEN]);
void webd_creds_json(struct webd *d, struct json *j, const char *key);

#endif
