/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifies people: an event goes to every target of the operator's notify.yaml (config/notify_file.h,
 * doc/notify.md), each with a queue of its own in memory. Any process with an event loop can use it: cofferd,
 * `coffer notify-asks`, `coffer notify`.
 *
 *	notify_new(&n, &loop, &conf, state_fd, audit, NULL, &e);
 *	notify_post(n, &(struct notify_event){ .type = "ask.new", .sandbox = id, .title = "…", .answer = "coffer approve 7" });
 *
 * Invariants (cited elsewhere as notify.N1 …)
 * N1  Nothing here blocks: an attempt is a process of its own, which starts coffer-courier (courier_start.h)
 *     or the operator's command, and is killed when it takes too long. It holds no descriptors of its parent
 *     but those it needs.
 * N2  A queue has at most NOTIFY_QUEUE_MAX events; more are dropped, counted and logged. There is one attempt
 *     at a time, in order; a failed one is retried after a pause that doubles, NOTIFY_TRIES times in all.
 *     Each outcome is logged.
 * N3  Text may come from a sandbox: it is shortened and made harmless before it is sent, and is never part of
 *     a command line, a URL or a header.
 * N4  An event keeps its id through all attempts, so that a receiver can recognise duplicates.
 * N5  A redirect, and a refusal that a retry would not change (4xx except 408, 425 and 429), is final.
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
#define NOTIFY_TITLE_MAX 200 /* bytes; longer titles are shortened */
#define NOTIFY_LINES_MAX 16
#define NOTIFY_LINE_MAX 400
#define NOTIFY_ANSWER_MAX 300

/* An event to notify people of. The caller owns the strings; NULL: not applicable. */
struct notify_event {
	const char *type;    /* "ask.new", "test"; [a-z0-9._-] */
	const char *sandbox; /* its id */
	const char *ask;     /* the id of a question */
	const char *title;   /* one line */
	const char *const *lines;
	size_t n_lines;
	const char *answer; /* a URL, or the command to answer it with */
	uint64_t time;	    /* CLOCK_REALTIME ns; 0: now */
};

enum notify_outcome { NOTIFY_DONE, NOTIFY_AGAIN, NOTIFY_GIVEN_UP };

struct notify_opts {
	unsigned tries;	      /* 0: NOTIFY_TRIES */
	uint64_t first_pause; /* ns; 0: a second */
	const char *only;     /* the name of one target; NULL: all */
	/* Called after each attempt; may be NULL. `why` is made harmless. */
	void (*told)(void *ctx, const struct notify_target *t, enum notify_outcome o, unsigned status,
		     const char *why);
	void *ctx;
};

struct notify;

/* Borrows loop, conf, state_fd and audit (which may be NULL). `opts` may be NULL. */
int notify_new(struct notify **ret, struct loop *loop, const struct notify_conf *conf, int state_fd,
	       struct audit *audit, const struct notify_opts *opts, struct err *e) MUST_CHECK;
/* Kills attempts under way; queued events are lost, and logged as such. */
void notify_free(struct notify *n);
static inline void notify_freep(struct notify **n)
{
	notify_free(*n);
}

/* Queues an event for all targets. Negative only if it could not be queued for lack of memory. */
int notify_post(struct notify *n, const struct notify_event *ev) MUST_CHECK;
/* Number of events queued or under way. */
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
/* Makes the courier's job for an event; *mem owns the texts of the job. */
int notify_job(const struct notify_target *t, const struct notify_made *m, struct courier_job *ret,
	       struct buf *mem) MUST_CHECK;
enum notify_outcome notify_judge(const struct courier_result *r);
/* Pause in ns after attempt number `tries` (from 1). */
uint64_t notify_pause(unsigned tries, uint64_t first, uint32_t retry_after);

#endif
