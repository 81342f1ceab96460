/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling people: an event goes to every target of the operator's notify.yaml (config/notify_file.h, doc/notify.md), each with a queue
 * of its own in memory. Whoever has a loop may have one of these: cofferd, a guard, `coffer notify`.
 *
 *	notify_new(&n, &loop, &conf, state_fd, audit, NULL, &e);
 *	notify_post(n, &(struct notify_event){ .type = "ask.new", .sandbox = id, .title = "…", .answer = "coffer approve 7" });
 *
 * Invariants
 *  N1  Nothing here waits: an attempt is a process of its own, which starts coffer-courier (courier_start.h) or the operator's
 *      command, and is killed when it takes too long. It holds no descriptor of its parent's but those it needs.
 *  N2  Each queue has at most NOTIFY_QUEUE_MAX events; what does not fit is dropped, counted and logged. One attempt at a time, in order;
 *      a failed one is made again after a pause that doubles, NOTIFY_TRIES times in all, then given up. Each end is logged.
 *  N3  Text may have come from a sandbox: it is cut and made harmless before it leaves, and never is part of a command line, a URL or
 *      a header.
 *  N4  An event keeps its id through all attempts, so that whoever gets it twice can tell.
 *  N5  A redirect, and a refusal that another attempt would not change (4xx but for 408, 425 and 429), is final.
 */
#ifndef NOTIFY_NOTIFY_H
#define NOTIFY_NOTIFY_H

#include "audit/audit.h"
#include "config/notify_file.h"
#include "courier/courier_job.h"
#include "ipc/loop.h"

#define NOTIFY_QUEUE_MAX 64
#define NOTIFY_TRIES 8
#define NOTIFY_ID_LEN 24
#define NOTIFY_TITLE_MAX 200 /* bytes; longer is cut */
#define NOTIFY_LINES_MAX 16
#define NOTIFY_LINE_MAX 400
#define NOTIFY_ANSWER_MAX 300

/* Something that people should know. Strings are the caller's; NULL where there is nothing to say. */
struct notify_event {
	const char *type;    /* "ask.new", "test"; [a-z0-9._-] */
	const char *sandbox; /* its id */
	const char *ask;     /* the id of a question */
	const char *title;   /* one line */
	const char *const *lines;
	size_t n_lines;
	const char *answer; /* a URL, or the command that answers it */
	uint64_t time;	    /* CLOCK_REALTIME ns; 0: now */
};

enum notify_outcome { NOTIFY_DONE, NOTIFY_AGAIN, NOTIFY_GIVEN_UP };

struct notify_opts {
	unsigned tries;	      /* 0: NOTIFY_TRIES */
	uint64_t first_pause; /* ns; 0: a second */
	const char *only;     /* the name of one target; NULL: all */
	/* After each attempt; may be NULL. `why` is made harmless. */
	void (*told)(void *ctx, const struct notify_target *t, enum notify_outcome o, unsigned status,
		     const char *why);
	void *ctx;
};

struct notify;

/* Borrows loop, conf, state_fd and audit (which may be NULL). `opts` may be NULL. */
int notify_new(struct notify **ret, struct loop *loop, const struct notify_conf *conf, int state_fd,
	       struct audit *audit, const struct notify_opts *opts, struct err *e) MUST_CHECK;
/* Ends what is under way; what waits is lost, and logged as that. */
void notify_free(struct notify *n);
static inline void notify_freep(struct notify **n)
{
	notify_free(*n);
}

/* To all targets. Negative only when nothing could be queued for want of memory. */
int notify_post(struct notify *n, const struct notify_event *ev) MUST_CHECK;
/* How many are queued or under way. */
size_t notify_waiting(const struct notify *n);

/* Pure; notify_text.c. */
struct notify_made {
	char id[NOTIFY_ID_LEN + 1];
	char *type, *sandbox;
	struct buf json;  /* the event for webhooks and commands */
	struct buf plain; /* the same for people */
};
int notify_make(struct notify_made *ret, const struct notify_event *ev, const char *id,
		uint64_t now) MUST_CHECK;
void notify_made_release(struct notify_made *m);
/* The call that carries it; texts of the job are in *mem. */
int notify_job(const struct notify_target *t, const struct notify_made *m, struct courier_job *ret,
	       struct buf *mem) MUST_CHECK;
enum notify_outcome notify_judge(const struct courier_result *r);
/* ns before attempt number `tries` (from 1) is followed by the next. */
uint64_t notify_pause(unsigned tries, uint64_t first, uint32_t retry_after);

#endif
