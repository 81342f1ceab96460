/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of a run's questions: runs/ID/asks.sock, a stream, 0600, served by the run's guard (by `coffer apply` itself
 * when the run has ended). Whoever may answer connects here: coffer, cofferd, the API. Both sides check the other's uid
 * (SO_PEERCRED): the owner of the state directory, or root.
 *
 * Frames of codec/frame.h; payloads are one JSON object each, at most ASKP_MAX bytes; `chan` is 0. A client sends one request
 * and reads until its last answer; then it may send the next. A frame that is not legal gets ASKP_ERROR and the end.
 *
 *	client				server
 *	ASKP_LIST   {"all":bool}	ASKP_ASK …, ASKP_DONE		all: also those that are over
 *	ASKP_FOLLOW {"all":bool}	ASKP_ASK …, ASKP_DONE, then ASKP_ASK whenever one has changed, until either closes
 *	ASKP_SHOW   {"id":ID}		ASKP_ASK, ASKP_DONE
 *	ASKP_ANSWER {"id","digest","allow":bool,"scope","seconds","uses","reason","name","via"}
 *					ASKP_ASK (as it is now), ASKP_DONE: in force, and in the log
 *	ASKP_REVOKE {"id","name","via"}	ASKP_ASK, ASKP_DONE
 *	ASKP_SUBMIT {"kind","what","reason","preview","host","port","rule","body","body_len","seconds","by"}
 *					ASKP_ASK at once (pending, or as it was decided); when it is decided ASKP_VERDICT.
 *					Closing before that takes the waiter away, not the ask. body: the SHA-256 of
 *					what is meant in full, where the preview is only its beginning. by: who asks, for people and for the quota (asks.h, A6).
 *	any				ASKP_ERROR {"code":NAME,"message":TEXT} instead of the above
 *
 * ASKP_ASK's payload is ask_json() (asks.h). ASKP_VERDICT's is {"id","allow":bool,"why"}. Codes of errors: "unknown" (no such
 * ask), "stale" (another digest), "answered" (somebody was first; the message says who and what), "expired", "gone",
 * "invalid", "busy", "failed". Members that are not known are refused, so that a slip is not taken for less than was meant.
 */
#ifndef APPROVAL_ASKPROTO_H
#define APPROVAL_ASKPROTO_H

#include "approval/list/asks.h"
#include "ipc/conn.h"

#include <jansson.h>

#define ASKP_SOCK "asks.sock"
#define ASKP_MAX (48u << 10)
#define ASKP_CLIENTS 32 /* connected at once */

enum askp_type {
	ASKP_LIST = 1,
	ASKP_FOLLOW,
	ASKP_SHOW,
	ASKP_ANSWER,
	ASKP_REVOKE,
	ASKP_SUBMIT,
	ASKP_ASK = 65,
	ASKP_DONE,
	ASKP_ERROR,
	ASKP_VERDICT,
};

/* A request as it came, checked: only the members of its type are set. Texts live in `json`. */
struct askp_request {
	enum askp_type type;
	bool all;
	const char *id, *digest;
	struct ask_answer answer; /* who.uid is the caller's to fill in */
	struct ask_question q;	  /* SUBMIT */
	uint64_t seconds;	  /* SUBMIT: how long to wait; 0: as usual */
	json_t *json;
};

/* Hostile bytes: the fuzzer's entry. -EPROTO and words for what is none. Release it on success. */
int askp_request_parse(const struct frame *f, struct askp_request *ret, struct err *e) MUST_CHECK;
void askp_request_release(struct askp_request *r);

/* errno of asks_answer() and its kin ↔ the code's name. */
const char *askp_code_name(int error);
int askp_code_parse(const char *name);

/* ---- The client's side. ---- */

struct askc {
	int fd;
	struct conn conn;
};

#define ASKC_INIT ((struct askc){ .fd = -1 })
#define autoaskc CLEANUP(askc_close)

/* run_fd: the run's directory. -ENOENT, -ECONNREFUSED: nobody serves there (the run has ended, or has no network and asks
 * nothing); then askc_read_file() says what was. -EPERM: who serves there is somebody else. */
int askc_open(struct askc *c, int run_fd, struct err *e) MUST_CHECK;
void askc_close(struct askc *c);

/*
 * An ask as it was told: members of ask_json(). The client owns it (json_decref). Texts in it are hostile: show them on a
 * terminal by str_add_safe() or codec/term/termsafe.h only, on a page as text only.
 */
typedef int askc_fn(void *ctx, json_t *ask); /* does not take it; not 0: stop, and return that */

/* Each ask of the run. */
int askc_list(struct askc *c, bool all, askc_fn *fn, void *ctx, struct err *e) MUST_CHECK;
/* The same, then every change; `fn` is called with NULL once when the list was told. Returns when the server closes (0). For
 * who has a loop of its own: askc_follow_begin(), then watch c->fd and call askc_follow_read() when it is readable; it
 * returns 0, what fn returned, or -EPIPE at the end. */
int askc_follow(struct askc *c, bool all, askc_fn *fn, void *ctx, struct err *e) MUST_CHECK;
int askc_follow_begin(struct askc *c, bool all, struct err *e) MUST_CHECK;
int askc_follow_read(struct askc *c, askc_fn *fn, void *ctx, struct err *e) MUST_CHECK;
int askc_show(struct askc *c, const char *id, json_t **ret, struct err *e) MUST_CHECK;
/* who.uid is not sent: the server knows it. Errors are those of asks_answer(). *ret (may be NULL) is the ask as it is now. */
int askc_answer(struct askc *c, const char *id, const char *digest, const struct ask_answer *a, json_t **ret,
		struct err *e) MUST_CHECK;
int askc_revoke(struct askc *c, const char *id, const struct ask_who *who, json_t **ret,
		struct err *e) MUST_CHECK;
/* Asks, and gives back the ask; then waits for the verdict: 1 allowed, 0 denied (and why). */
int askc_submit(struct askc *c, const struct ask_question *q, uint64_t seconds, json_t **ret,
		struct err *e) MUST_CHECK;
int askc_wait(struct askc *c, struct buf *ret_why, struct err *e) MUST_CHECK;

/* What stands in runs/ID/asks: for runs that nobody serves. What was pending or granted there is over:
 * "gone", "lapsed"; but for what a session was granted, and still has (granted.h). */
int askc_read_file(int run_fd, const char *run, askc_fn *fn, void *ctx, struct err *e) MUST_CHECK;

/*
 * Which run an ask's id belongs to, among all of the state directory: "3f9a2c-4" by the prefix of the run's id, "4" alone
 * where one run only has such a pending ask. *ret_fd is the run's directory. -ENOENT, -ENOTUNIQ with words.
 */
int askc_resolve(struct state *st, const char *id, char ret_run[RUN_ID_LEN + 1], int *ret_fd,
		 struct err *e) MUST_CHECK;

#endif
