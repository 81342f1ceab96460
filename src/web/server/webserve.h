/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-web: HTTP/1.1 with whoever comes, messages to cofferd (webproto.h), nothing else. No file, socket, process or
 * program of its own making: connections of the owner, listening sockets, pipes and memory files are handed to it.
 *
 * Invariants
 *  S1  One request at a time on a connection; what follows waits unread. After anything odd the connection ends.
 *  S2  Everything is bounded: WEB_CONNS connections, WEB_HEAD_MAX bytes of a head, WEB_BODY_MAX of a body, WEB_OUT_HIGH bytes that wait for
 *      a client; requests by buckets (webrate.c). Who is slow to ask, or does not take its answer, is dropped.
 *  S3  A stream of events has no queue of its own, only a place in what all share, and at most one event of which it wrote a part (webfeed.c,
 *      webevents.c); who falls out of what is kept reads from the log again, through cofferd.
 *  S4  No answer is of a type that a browser would run, but the page's own files; all carry a CSP, nosniff, and no-store, but
 *      for those files, which a browser may keep and asks about each time (ETag).
 */
#ifndef WEB_WEBSERVE_H
#define WEB_WEBSERVE_H

#include "base/clock.h"
#include "codec/http/http1_chunk.h"
#include "ipc/loop.h"
#include "ipc/wheel.h"
#include "sys/fence/fence.h"
#include "web/server/webreq.h"

#define WEB_RUN_ID_LEN 12
#define WEB_CHANNEL 3 /* the descriptor that it is started with */
#define WEB_CONNS 4096
#define WEB_CONNS_OWNER 256		  /* of which so many are kept for the owner's socket */
#define WEB_STREAMS (WEBP_OPEN_MAX - 512) /* the others of what cofferd takes are for requests */
#define WEB_HEAD_MAX (16u << 10)
#define WEB_OUT_HIGH (64u << 10)
#define WEB_HEAD_WITHIN (15 * NSEC_PER_SEC)
#define WEB_BODY_WITHIN (60 * NSEC_PER_SEC)
#define WEB_IDLE (75 * NSEC_PER_SEC)
#define WEB_PAST_MAX \
	(1u << 20) /* bytes that are read past behind the last answer, so that it is not lost with a reset */
#define WEB_STALL (30 * NSEC_PER_SEC) /* without taking anything of what waits for it */
#define WEB_BEAT (15 * NSEC_PER_SEC)
#define WEB_SLOTS 8192
#define WEB_BUCKETS 2048 /* twice as many as there are credentials */
#define WEB_PEERS 256
#define WEB_RATE 100 /* requests a second for each credential, */
#define WEB_BURST 400ull
#define WEB_STREAM_SHARE 8 /* opening a stream counts as this part of a request: nothing is started for it */

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
	unsigned replay; /* an answer of before, once cofferd has said that he may still ask; 0: none */
	struct buf replayed;
	bool proving; /* cofferd is asked only whether it takes the credential; the request itself comes next, */
	enum web_op proven_op; /* and is this one */
	int file;	       /* what is left of the answer; -1: none */
	uint64_t file_left;
	uint64_t past;	/* WEBC_LAST */
	uint64_t moved; /* ns: when something was written, or there was nothing to write */

	/* WEBC_EXEC */
	struct watch pipe[2];
	bool has_exit;
	int exit_code;

	/* WEBC_SSE */
	uint64_t next_seq;
	struct web_event *part; /* is written up to part_off; `out` is empty then */
	size_t part_off;
	bool blocked; /* has not taken all that there is for it */
	char of[WEB_RUN_ID_LEN + 1];
	char types[129];
};

struct web_bucket {
	unsigned char key[HASH_LEN];
	uint64_t at;
	uint64_t tokens; /* thousandths */
};

struct web_slot {
	uint64_t id;	/* 0: free */
	struct webc *c; /* NULL: asked by the feed */
};

/* A message that the channel had no room for. */
struct web_waiting {
	struct web_waiting *next;
	size_t len;
	char data[];
};

struct web {
	struct loop loop;
	struct wheel wheel;
	struct timer tick;
	struct watch channel;
	struct web_listener *listeners;
	struct webc *conns;
	unsigned n_conns, n_net, n_open;
	unsigned max_conns; /* WEB_CONNS, or what there are descriptors for */
	bool is_full;	    /* listeners are not watched until the next tick */
	struct web_waiting *waiting, **waiting_end;
	struct web_stats stats, told;
	uint64_t last_id;
	struct web_slot slots[WEB_SLOTS];
	struct web_bucket buckets[WEB_BUCKETS], peers[WEB_PEERS];
	struct http1_head head; /* of the request that is just looked at */
	struct web_feed *feed;
	struct web_once *once;
	unsigned n_streams;
	int exit_code;
};

/* webserve.c */
int web_main(void);
/* c NULL: for the feed. Sets q->id. -EBUSY: too much is asked already. */
int web_send(struct web *w, struct webc *c, struct webp_req *q) MUST_CHECK;
void web_tell_stats(struct web *w);
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
void webc_end_stream(struct webc *c);

/* webevents.c */
void webc_begin_events(struct webc *c, uint64_t last); /* the log's last when it was opened */
/* Writes what there is for it. May drop it. */
void webc_pump(struct webc *c);
void webc_beat(struct webc *c);
void webc_end_events(struct webc *c);

/* webfeed.c: events of the log. */
struct web_event {
	unsigned refs;
	uint64_t seq;
	char type[65], sandbox[65];
	size_t len;
	char frame[]; /* as it is written: a chunk with the event */
};
/* "SEQ\tTYPE\tSANDBOX\tLINE"; NULL when it is none. */
struct web_event *web_event_new(const char *data, size_t len);
struct web_event *web_event_ref(struct web_event *ev);
void web_event_unref(struct web_event *ev);

struct web_feed *web_feed_new(struct web *w);
void web_feed_open(struct web_feed *f, int fd);
void web_feed_free(struct web_feed *f);
enum web_feed_found {
	WEB_FEED_HERE, /* *ret, borrowed: the event, or the first behind it where it is no longer in the log */
	WEB_FEED_LATER, /* has not come yet */
	WEB_FEED_GONE,	/* nor has anything before *ret_skip */
	WEB_FEED_FETCH, /* web_feed_fetch() */
};
enum web_feed_found web_feed_get(struct web_feed *f, uint64_t seq, struct web_event **ret,
				 uint64_t *ret_skip);
/* The number that comes next; 0: not known yet. */
uint64_t web_feed_next(const struct web_feed *f);
/* Has it read from the log, in the name of who asked; streams are pumped when it is there. False: not now. */
bool web_feed_fetch(struct web_feed *f, uint64_t seq, const struct webp_req *who);
/* What was asked for; NULL: it could not be read. */
void web_feed_take(struct web_feed *f, uint64_t id, const char *data, size_t len);
void web_feed_age(struct web_feed *f, uint64_t now);

/* webonce.c: Idempotency-Key. */
enum web_once_state {
	WEB_ONCE_NEW,
	WEB_ONCE_RUNS,
	WEB_ONCE_DONE,
	WEB_ONCE_LOST, /* was begun; who asked has gone before the answer */
	WEB_ONCE_OTHER,
	WEB_ONCE_FULL,
};
struct web_once *web_once_new(void);
void web_once_free(struct web_once *o);
/* Only for a credential that cofferd has taken (O2). */
enum web_once_state web_once_begin(struct web_once *o, const struct web_ask *a, struct slice body,
				   uint64_t now, unsigned *ret_status, struct slice *ret_body);
void web_once_end(struct web_once *o, const struct web_ask *a, unsigned status, const char *body, size_t len);
/* Nobody waits for the answer any more. What changes something goes on, and is not begun again by this key. */
void web_once_leave(struct web_once *o, const struct web_ask *a);

/* webrate.c */
bool web_rate_may(struct web *w, const struct webp_req *q, const struct web_via *via, uint64_t now);
bool web_rate_knows(struct web *w, const struct webp_req *q);
/* What cofferd said of the credential. */
void web_rate_judged(struct web *w, const struct webp_req *q, bool good, uint64_t now);

/* webfence.c */
extern const struct fence web_fence;

/* webfiles.c, made from web/ when this is built. */
struct web_file {
	const char *path, *type, *etag; /* etag: with its quotes */
	const unsigned char *data;
	size_t len;
};
extern const struct web_file web_files[];
extern const size_t n_web_files;

#endif
