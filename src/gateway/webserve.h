/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-web: HTTP/1.1 with whoever comes, messages to cofferd (webproto.h), nothing else. No file, socket, process or
 * program of its own making: connections of the owner, listening sockets, pipes and memory files are handed to it.
 *
 * Invariants
 *  S1  One request at a time on a connection; what follows waits unread. After anything odd the connection ends.
 *  S2  Everything is bounded: WEB_CONNS connections, WEB_HEAD_MAX bytes of a head, WEB_BODY_MAX of a body, WEB_OUT_HIGH bytes that wait for
 *      a client; requests for each credential by a bucket. Who is slow to ask, or does not take its answer, is dropped.
 *  S3  A stream of events has no queue of its own, only a place in one ring that all share (webfeed.c); who falls out of
 *      the ring is read to from the log again, by cofferd.
 *  S4  No answer is of a type that a browser would run, but the page's own files; all carry a CSP, nosniff, no-store.
 */
#ifndef GATEWAY_WEBSERVE_H
#define GATEWAY_WEBSERVE_H

#include "base/clock.h"
#include "codec/http1_chunk.h"
#include "gateway/webreq.h"
#include "ipc/loop.h"
#include "ipc/wheel.h"

#define WEB_RUN_ID_LEN 12
#define WEB_CHANNEL 3 /* the descriptor that it is started with */
#define WEB_CONNS 4096
#define WEB_HEAD_MAX (16u << 10)
#define WEB_OUT_HIGH (64u << 10)
#define WEB_HEAD_WITHIN (15 * NSEC_PER_SEC)
#define WEB_BODY_WITHIN (60 * NSEC_PER_SEC)
#define WEB_IDLE (75 * NSEC_PER_SEC)
#define WEB_STALL (30 * NSEC_PER_SEC) /* without taking anything of what waits for it */
#define WEB_BEAT (15 * NSEC_PER_SEC)
#define WEB_SLOTS 8192
#define WEB_BUCKETS 256
#define WEB_RATE 100 /* requests a second for each credential, */
#define WEB_BURST 400ull

struct web;

enum webc_state {
	WEBC_HEAD,  /* reads a head */
	WEBC_BODY,  /* reads a body */
	WEBC_WAIT,  /* cofferd is asked */
	WEBC_WRITE, /* its answer goes out */
	WEBC_EXEC,  /* a command's output */
	WEBC_SSE,   /* events */
	WEBC_LAST,  /* ends once all is written */
	WEBC_STATE_COUNT
};

struct web_listener {
	struct web_listener *next;
	struct web *web;
	struct watch w;
	uint16_t port;
	char names[WEB_MESSAGE_LEN];
};

struct webc {
	struct webc *next, **link;
	struct web *web;
	struct watch w;
	struct wheel_entry late;
	enum webc_state state;
	struct web_via via;
	struct buf in, body, out;
	size_t out_off;
	size_t head_len; /* of the request in `in` */
	bool chunked_in, keep, is_head;
	uint64_t body_left;
	struct http1_chunks chunks;
	uint64_t id; /* of the request at cofferd; 0: none */
	struct web_ask ask;
	unsigned status; /* when it goes well */
	int file;	 /* what is left of the answer; -1: none */
	uint64_t file_left;
	uint64_t moved; /* ns: when something was written, or there was nothing to write */

	/* WEBC_EXEC */
	struct watch pipe[2];
	bool has_exit;
	int exit_code;

	/* WEBC_SSE */
	uint64_t next_seq; /* 0: begins with whatever comes next */
	uint64_t fetch;	   /* what is read from the log for it, as a request of its own; 0: nothing */
	char of[WEB_RUN_ID_LEN + 1];
	char types[129];
	struct webc *next_sse;
};

struct web_bucket {
	unsigned char key[HASH_LEN];
	uint64_t at;
	uint64_t tokens; /* thousandths */
};

struct web_slot {
	uint64_t id;
	struct webc *c;
	bool backlog; /* asked by a stream for itself */
};

struct web {
	struct loop loop;
	struct wheel wheel;
	struct timer tick;
	struct watch channel;
	struct web_listener *listeners;
	struct webc *conns;
	unsigned n_conns, n_open;
	uint64_t last_id;
	struct web_slot slots[WEB_SLOTS];
	struct web_bucket buckets[WEB_BUCKETS];
	struct http1_head head; /* of the request that is just looked at */
	struct web_feed *feed;
	struct web_once *once;
	unsigned n_streams;
	int exit_code;
};

/* webserve.c */
int web_main(void);
int web_send(struct web *w, struct webc *c, struct webp_req *q, bool backlog) MUST_CHECK;
void web_cancel(struct web *w, uint64_t id);

/* webconn.c */
struct webc *webc_add(struct web *w, int fd, const struct web_via *via);
void webc_drop(struct webc *c);
void webc_answer(struct webc *c, const struct webp_answer *a, int fd);
void webc_error(struct webc *c, unsigned status, const char *code, const char *message, const char *hint);
void webc_flush(struct webc *c);
void webc_add_head(struct webc *c, unsigned status, const char *type, uint64_t len, const char *extra);
/* The whole answer at once. */
void webc_reply(struct webc *c, unsigned status, const char *type, const void *data, size_t len,
		const char *extra);

/* webstream.c */
void webc_begin_exec(struct webc *c, int out, int err);
/* The client has taken some: the command may go on. */
void webc_more(struct webc *c);
void webc_exec_ended(struct webc *c, int code);
void webc_begin_events(struct webc *c);
void webc_pump(struct webc *c);
void webc_end_stream(struct webc *c);
void webc_backlog(struct webc *c, const char *data, size_t len);
void webc_beat(struct webc *c);

/* webfeed.c: the last events of the log. */
struct web_event {
	uint64_t seq;
	const char *type, *sandbox, *line; /* with NUL */
	size_t line_len;
};
struct web_feed *web_feed_new(struct web *w);
void web_feed_open(struct web_feed *f, int fd);
void web_feed_free(struct web_feed *f);
/* 0: found; 1: not yet come; -1: no longer, or never here. */
int web_feed_get(const struct web_feed *f, uint64_t seq, struct web_event *ret);
/* The number that comes next; 0: not known yet. */
uint64_t web_feed_next(const struct web_feed *f);
/* "SEQ\tTYPE\tSANDBOX\tLINE\n" */
bool web_event_parse(const char *data, size_t len, struct web_event *ret, struct buf *texts);

/* webonce.c: Idempotency-Key. */
enum web_once_state { WEB_ONCE_NEW, WEB_ONCE_RUNS, WEB_ONCE_DONE, WEB_ONCE_OTHER, WEB_ONCE_FULL };
struct web_once *web_once_new(void);
void web_once_free(struct web_once *o);
enum web_once_state web_once_begin(struct web_once *o, const struct web_ask *a, const char *body, size_t len,
				   uint64_t now, unsigned *ret_status, struct slice *ret_body);
void web_once_end(struct web_once *o, const struct web_ask *a, unsigned status, const char *body, size_t len);
void web_once_forget(struct web_once *o, const struct web_ask *a);

/* webfence.c */
int web_fence(struct err *e) MUST_CHECK;

/* webfiles.c, made from web/ when this is built. */
struct web_file {
	const char *path, *type;
	const unsigned char *data;
	size_t len;
};
extern const struct web_file web_files[];
extern const size_t n_web_files;

#endif
