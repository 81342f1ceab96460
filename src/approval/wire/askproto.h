/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol of a run's ask server: runs/ID/asks.sock, a stream socket, mode 0600 (approval/README.md says
 * which process serves it). Approvers and askers connect here: coffer, cofferd, the API. Both sides check the
 * other's uid (SO_PEERCRED): the owner of the state directory, or root.
 *
 * Frames of codec/frame.h; each payload is one JSON object of at most ASKP_MAX bytes; `chan` is 0. A client
 * sends one request and reads until its last response; then it may send the next. An illegal frame gets
 * ASKP_ERROR, and the server closes.
 *
 *	client				server
 *	ASKP_LIST   {"all":bool}	ASKP_ASK …, ASKP_DONE		all: finished asks too
 *	ASKP_FOLLOW {"all":bool}	ASKP_ASK …, ASKP_DONE, then ASKP_ASK for each change, until either side closes
 *	ASKP_SHOW   {"id":ID}		ASKP_ASK, ASKP_DONE
 *	ASKP_ANSWER {"id","digest","allow":bool,"scope","seconds","uses","reason","name","via"}
 *					ASKP_ASK (its new state), ASKP_DONE: in force, and in the log
 *	ASKP_REVOKE {"id","name","via"}	ASKP_ASK, ASKP_DONE
 *	ASKP_SUBMIT {"kind","what","reason","preview","host","port","rule","body","body_len","seconds","by"}
 *					ASKP_ASK at once (pending, or decided already); ASKP_VERDICT when it is decided.
 *					Closing before that withdraws the waiter, not the ask. body: SHA-256 of the
 *					whole content, where the preview is only its beginning. by: name of the
 *					submitter, for people and for the quota (asks.A6).
 *	any				ASKP_ERROR {"code":NAME,"message":TEXT} instead of the above
 *
 * The payload of ASKP_ASK is ask_json() (asks.h), that of ASKP_VERDICT {"id","allow":bool,"why"}. Error
 * codes: "unknown" (no such ask), "stale" (another digest), "answered" (another answer was first; the message
 * says whose and which), "expired", "gone", "invalid", "busy", "failed". Unknown members are refused, so that
 * a misspelt one is not silently ignored.
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

/* A request after parsing and checking: only the members of its type are set. `json` owns the texts. */
struct askp_request {
	enum askp_type type;
	bool all;
	const char *id, *digest;
	struct ask_answer answer; /* the server fills in who.uid */
	struct ask_question q;	  /* SUBMIT */
	uint64_t seconds;	  /* SUBMIT: timeout; 0: the default */
	json_t *json;
};

/* Parses hostile bytes; the fuzzer's entry. -EPROTO with a message if it is no legal request. Release it on
 * success. */
int askp_request_parse(const struct frame *f, struct askp_request *ret, struct err *e) MUST_CHECK;
void askp_request_release(struct askp_request *r);

/* Maps the errno of asks_answer() and its kin to the name of an error code, and back. */
const char *askp_code_name(int error);
int askp_code_parse(const char *name);

/* ---- The client's side. ---- */

struct askc {
	int fd;
	struct conn conn;
};

#define ASKC_INIT ((struct askc){ .fd = -1 })
#define autoaskc CLEANUP(askc_close)

/* Connects to the ask server of a run; run_fd is the run's directory. -ENOENT, -ECONNREFUSED: the run has no
 * ask server now (it has ended, or asks nothing because it has no network); askc_read_file() then has the
 * history. -EPERM: another user's process serves the socket. */
int askc_open(struct askc *c, int run_fd, struct err *e) MUST_CHECK;
void askc_close(struct askc *c);

/*
 * An ask as received: members of ask_json(). The client owns it (json_decref). Its texts are hostile: on a
 * terminal show them with str_add_safe() or codec/term/termsafe.h only, on a page as text only.
 */
typedef int
askc_fn(void *ctx,
	json_t *ask); /* borrows `ask`; a result other than 0 stops the iteration and is returned */

/* Calls fn for each ask of the run. */
int askc_list(struct askc *c, bool all, askc_fn *fn, void *ctx, struct err *e) MUST_CHECK;
/* The same, then calls fn for every change; fn is called once with NULL after the initial list. Returns 0
 * when the server closes. Callers with a loop of their own use askc_follow_begin(), watch c->fd, and call
 * askc_follow_read() when it is readable; that returns 0, the result of fn, or -EPIPE at the end. */
int askc_follow(struct askc *c, bool all, askc_fn *fn, void *ctx, struct err *e) MUST_CHECK;
int askc_follow_begin(struct askc *c, bool all, struct err *e) MUST_CHECK;
int askc_follow_read(struct askc *c, askc_fn *fn, void *ctx, struct err *e) MUST_CHECK;
int askc_show(struct askc *c, const char *id, json_t **ret, struct err *e) MUST_CHECK;
/* who.uid is not sent: the server knows it. Errors are those of asks_answer(). *ret (may be NULL): the ask's
 * new state. */
int askc_answer(struct askc *c, const char *id, const char *digest, const struct ask_answer *a, json_t **ret,
		struct err *e) MUST_CHECK;
int askc_revoke(struct askc *c, const char *id, const struct ask_who *who, json_t **ret,
		struct err *e) MUST_CHECK;
/* Submits a question and returns its ask. askc_wait() then waits for the verdict: 1 allowed, 0 denied (with
 * the reason). */
int askc_submit(struct askc *c, const struct ask_question *q, uint64_t seconds, json_t **ret,
		struct err *e) MUST_CHECK;
int askc_wait(struct askc *c, struct buf *ret_why, struct err *e) MUST_CHECK;

/* Reads runs/ID/asks, for runs without an ask server. Asks that were pending or granted are reported as
 * "gone" or "lapsed", except for grants that a live session still holds (granted.h). */
int askc_read_file(int run_fd, const char *run, askc_fn *fn, void *ctx, struct err *e) MUST_CHECK;

/*
 * Finds the run of an ask's id in the state directory: "3f9a2c-4" by the prefix of the run's id, "4" alone if
 * only one run has a pending ask of that number. *ret_fd is the run's directory. -ENOENT, -ENOTUNIQ with a
 * message.
 */
int askc_resolve(struct state *st, const char *id, char ret_run[RUN_ID_LEN + 1], int *ret_fd,
		 struct err *e) MUST_CHECK;

#endif
