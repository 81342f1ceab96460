/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-web: speaks HTTP/1.1 with clients and webproto.h with cofferd, nothing else. It makes no file,
 * socket or process of its own: the owner's connections, listening sockets, pipes and memory files are passed
 * to it.
 *
 * Invariants (cited elsewhere as webserve.S1 …)
 * S1  One request at a time on a connection; later ones wait unread. After anything irregular the connection
 *     is closed.
 * S2  Everything is bounded: WEB_CONNS connections, WEB_HEAD_MAX bytes of a head, WEB_BODY_MAX of a body,
 *     WEB_OUT_HIGH bytes queued for a client; requests by token buckets (webrate.c). A client that is slow to
 *     send, or does not read its response, is dropped.
 * S3  A stream of events has no queue of its own, only a position in a shared one, and at most one partly
 *     written event (webfeed.c, webevents.c); a stream that falls behind reads from the log again, through
 *     cofferd.
 * S4  Only the page's own files have a type that a browser would run; all responses carry a CSP, nosniff, and
 *     no-store, except those files, which a browser may cache and revalidates each time (ETag).
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
#define WEB_CHANNEL 3 /* the descriptor it is started with */
#define WEB_CONNS 4096
#define WEB_CONNS_OWNER 256		  /* of these, reserved for the owner's socket */
#define WEB_STREAMS (WEBP_OPEN_MAX - 512) /* cofferd's other places are for requests */
#define WEB_HEAD_MAX (16u << 10)
#define WEB_OUT_HIGH (64u << 10)
#define WEB_HEAD_WITHIN (15 * NSEC_PER_SEC)
#define WEB_BODY_WITHIN (60 * NSEC_PER_SEC)
#define WEB_IDLE (75 * NSEC_PER_SEC)
#define WEB_PAST_MAX \
	(1u << 20) /* bytes read and discarded after the last response, since a reset would destroy it */
#define WEB_STALL (30 * NSEC_PER_SEC) /* without the client reading anything of what is queued for it */
#define WEB_BEAT (15 * NSEC_PER_SEC)
#define WEB_SLOTS 8192
#define WEB_BUCKETS 2048 /* twice the number of credentials */
#define WEB_PEERS 256
#define WEB_RATE 100 /* requests per second for each credential */
#define WEB_BURST 400ull
#define WEB_STREAM_SHARE 8 /* opening a stream costs this fraction of a request: it starts no process */

struct web;

enum webc_state {
	WEBC_HEAD,  /* reads a head */
	WEBC_BODY,  /* reads a body */
	WEBC_WAIT,  /* waits for cofferd */
	WEBC_WRITE, /* sends the response */
	WEBC_EXEC,  /* streams a command's output */
	WEBC_SSE,   /* streams events */
	WEBC_LAST,  /* closes once everything is sent */
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
	uint64_t id; /* of the request sent to cofferd; 0: none */
	struct web_ask ask;
	unsigned status; /* status on success */
	unsigned
		replay; /* status of a stored response, resent once cofferd accepts the credential; 0: none */
	struct buf replayed;
	bool proving; /* cofferd is only asked whether the credential is valid; the request itself follows, */
	enum web_op proven_op; /* and has this op */
	int file;	       /* memory file with the rest of the response; -1: none */
	uint64_t file_left;
	uint64_t past;	/* bytes discarded in WEBC_LAST */
	uint64_t moved; /* ns: when something was sent last, or nothing was queued */

	/* WEBC_EXEC */
	struct watch pipe[2];
	bool has_exit;
	int exit_code;

	/* WEBC_SSE */
	uint64_t next_seq;
	struct web_event *part; /* is sent up to part_off; `out` is empty then */
	size_t part_off;
	bool blocked; /* it has not read all that is available */
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
	struct webc *c; /* NULL: requested by the feed */
};

/* A message that did not fit into the channel. */
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
	unsigned max_conns; /* WEB_CONNS, or as many as there are descriptors for */
	bool is_full;	    /* listeners are not watched until the next tick */
	struct web_waiting *waiting, **waiting_end;
	struct web_stats stats, told;
	uint64_t last_id;
	struct web_slot slots[WEB_SLOTS];
	struct web_bucket buckets[WEB_BUCKETS], peers[WEB_PEERS];
	struct http1_head head; /* of the request being parsed */
	struct web_feed *feed;
	struct web_once *once;
	unsigned n_streams;
	int exit_code;
};

/* webserve.c */
int web_main(void);
/* Sends a request; c NULL: for the feed. Sets q->id. -EBUSY: too many are open. */
int web_send(struct web *w, struct webc *c, struct webp_req *q) MUST_CHECK;
void web_send_stats(struct web *w);
void web_cancel(struct web *w, uint64_t id);

/* webconn.c */
struct webc *webc_add(struct web *w, int fd, const struct web_via *via);
void webc_drop(struct webc *c);
void webc_answer(struct webc *c, const struct webp_answer *a, int fd);
void webc_error(struct webc *c, unsigned status, const char *code, const char *message, const char *hint);
void webc_flush(struct webc *c);
void webc_add_head(struct webc *c, unsigned status, const char *type, uint64_t len, const char *extra);
/* Sends a complete response. */
void webc_reply(struct webc *c, unsigned status, const char *type, const void *data, size_t len,
		const char *extra);

/* webstream.c */
void webc_begin_exec(struct webc *c, int out, int err);
/* The client has read some output: the command may continue. */
void webc_resume(struct webc *c);
void webc_exec_ended(struct webc *c, int code);
void webc_end_stream(struct webc *c);

/* webevents.c */
void webc_begin_events(struct webc *c,
		       uint64_t last); /* number of the log's last event when the stream was opened */
/* Sends the events that are available. May drop the connection. */
void webc_send_events(struct webc *c);
void webc_beat(struct webc *c);
void webc_end_events(struct webc *c);

/* webfeed.c: events of the log, shared by all streams. */
struct web_event {
	unsigned refs;
	uint64_t seq;
	char type[65], sandbox[65];
	size_t len;
	char frame[]; /* as it is sent: a chunk with the event */
};
/* Parses "SEQ\tTYPE\tSANDBOX\tLINE"; NULL if malformed. */
struct web_event *web_event_new(const char *data, size_t len);
struct web_event *web_event_ref(struct web_event *ev);
void web_event_unref(struct web_event *ev);

struct web_feed *web_feed_new(struct web *w);
void web_feed_open(struct web_feed *f, int fd);
void web_feed_free(struct web_feed *f);
enum web_feed_found {
	WEB_FEED_HERE, /* *ret, borrowed: the event, or the first one after it if it is no longer in the log */
	WEB_FEED_LATER, /* has not come yet */
	WEB_FEED_GONE,	/* neither this nor anything before *ret_skip exists any more */
	WEB_FEED_FETCH, /* call web_feed_fetch() */
};
enum web_feed_found web_feed_get(struct web_feed *f, uint64_t seq, struct web_event **ret,
				 uint64_t *ret_skip);
/* The number of the next event; 0: unknown yet. */
uint64_t web_feed_next(const struct web_feed *f);
/* Has a page of the log read with the caller's credential; streams are continued when it arrives. False: not
 * now. */
bool web_feed_fetch(struct web_feed *f, uint64_t seq, const struct webp_req *who);
/* Takes a page of the log; NULL: it could not be read. */
void web_feed_take_page(struct web_feed *f, uint64_t id, const char *data, size_t len);
void web_feed_age(struct web_feed *f, uint64_t now);

/* webonce.c: Idempotency-Key. */
enum web_once_state {
	WEB_ONCE_NEW,
	WEB_ONCE_RUNS,
	WEB_ONCE_DONE,
	WEB_ONCE_LOST, /* was begun, but its client had gone before the response */
	WEB_ONCE_OTHER,
	WEB_ONCE_FULL,
};
struct web_once *web_once_new(void);
void web_once_free(struct web_once *o);
/* Only for a credential that cofferd has accepted (webonce.O2). */
enum web_once_state web_once_begin(struct web_once *o, const struct web_ask *a, struct slice body,
				   uint64_t now, unsigned *ret_status, struct slice *ret_body);
void web_once_end(struct web_once *o, const struct web_ask *a, unsigned status, const char *body, size_t len);
/* The client has gone. A request that changes something continues, and this key does not start it again. */
void web_once_abandon(struct web_once *o, const struct web_ask *a);

/* webrate.c */
bool web_rate_allows(struct web *w, const struct webp_req *q, const struct web_via *via, uint64_t now);
bool web_rate_knows(struct web *w, const struct webp_req *q);
/* Records whether cofferd accepted the credential. */
void web_rate_judged(struct web *w, const struct webp_req *q, bool good, uint64_t now);

/* webfence.c */
extern const struct fence web_fence;

/* webfiles.c, generated from web/ during the build. */
struct web_file {
	const char *path, *type, *etag; /* etag: including its quotes */
	const unsigned char *data;
	size_t len;
};
extern const struct web_file web_files[];
extern const size_t n_web_files;

#endif
