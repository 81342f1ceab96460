/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request and its answer, whatever version of HTTP either side speaks.
 *
 *	front (h1_server.c, h2_server.c) ── up ──▶ exchange ── up ──▶ back (h1_client.c, h2_client.c)
 *	                                 ◀─ down ──          ◀─ down ──
 *
 * A front fills in `req` and calls exch_begin(). From then on the exchange decides (http_decide.c), waits for the
 * journal, finds a connection to the server (upstream.c), or answers by itself.
 *
 * Invariants
 *  X1  What is sent to the server is built from `req`, which is what was decided; nothing that comes later (trailers, a
 *      second head) can change it. Trailers of requests are not forwarded at all.
 *  X2  Nothing of a request is given to a back before its `request` line is written (egress.h, E1).
 *  X3  Bodies are never gathered but for rules that must see them, or to put a secret in, and then at most EXCH_HOLD_MAX
 *      bytes of one; answers only where credentials are issued in them (http_capture.h). All of them count, as they came and
 *      as they are sent, until they were written or given up: past EXCH_HELD_MAX none is gathered any more.
 *  X4  An exchange is freed when both its front and its back have let go of it, and not before the run queue is empty.
 */
#ifndef EGRESS_HTTP_EXCH_H
#define EGRESS_HTTP_EXCH_H

#include "codec/http/urlpath.h"
#include "egress/core/egress.h"
#include "egress/message/http_msg.h"
#include "ipc/runq.h"

#define EXCH_HELD_MAX (64u << 20) /* of all that are held at once */

struct exch;
struct inspect;
struct inspect_conn;
struct upstream;
struct asking;
struct http_hold;
struct exch_secret;
struct exch_capture;
struct exch_watch;

#define EXCH_WHAT_MAX 768 /* headers come behind it: http_ask.c */

/* What a front does when the exchange has something for it. None of them may call back into the exchange. */
struct exch_front {
	void (*head)(struct exch *e);		/* resp: an interim (1xx) or the final head */
	void (*wake)(struct exch *e);		/* bytes or the end in `down` */
	void (*took)(struct exch *e, size_t n); /* so many bytes of `up` were taken: there is room */
	void (*fail)(struct exch *e);		/* the answer cannot be finished */
};

struct exch_back {
	void (*begin)(struct exch *e);		/* its secrets are there: send the head */
	void (*wake)(struct exch *e);		/* bytes or the end in `up` */
	void (*took)(struct exch *e, size_t n); /* so many bytes of `down` were taken */
	void (*drop)(struct exch *e);		/* nobody wants the answer any more */
};

enum exch_state {
	EXCH_NEW,
	EXCH_HOLD,    /* the body is gathered, for a rule that must see it */
	EXCH_ASK,     /* a person is asked (http_ask.h); the body is whole */
	EXCH_JOURNAL, /* decided; its line is being written, or waits for room in the log (ledger.h) */
	EXCH_WAIT,    /* for a connection to the server */
	EXCH_RENDER,  /* a back has it, nothing was sent: the vault is asked (http_secret.h) */
	EXCH_LIVE,    /* a back has it */
	EXCH_LOCAL,   /* the answer is ours */
};

struct exch {
	struct inspect *in;
	struct inspect_conn *conn; /* of the client; NULL once the front has let go */
	uint64_t id;		   /* `r` in the journal */
	uint64_t conn_id;	   /* `c` */
	enum exch_state state;
	const struct exch_front *front;
	const struct exch_back *back;
	void *front_ctx; /* h2: the stream */
	int32_t front_stream, back_stream;
	struct upstream *up_conn;

	struct http_req req;
	struct http_resp resp;
	bool head_sent; /* the final head was given to the front */
	bool head_came; /* from the server; the same, but for answers that are held (http_capture.h) */
	bool whole;	/* the answer came to its end */
	struct http_pipe up, down;
	struct http_fields *trailers; /* of the answer; NULL: none */
	uint64_t up_sent;	      /* bytes of the body that a back has taken */

	struct policy_verdict verdict;
	enum policy_action judged; /* verdict.action as the policy gave it */
	struct limit *limit;	   /* of verdict.rule */
	struct http_hold *hold;
	struct exch_secret *secret;   /* NULL: the request has no placeholder */
	struct exch_capture *capture; /* NULL: the answer may be handed on as it comes */
	struct exch_watch *watch;     /* NULL: its body is not looked at, or none came */
	struct task ask_task;	      /* http_secret.c's */
	size_t held;		      /* bytes that count in in->held: exch_count() */
	bool counted;		      /* what is in `up` was held, and is not all written yet */
	struct buf act;		      /* http_act.h */
	struct asking *asking;	      /* in EXCH_ASK */
	uint64_t ticket;	      /* allowed by a person, and nothing was sent yet; 0: not so */
	bool approved;		      /* it was */
	bool gathers;		      /* in EXCH_HOLD: to be asked about */
	char ask_id[28];	      /* of the question that was answered, for the journal */
	char secret_ask_id[28];	      /* of the one about its secret */
	bool asks_secret;	      /* what is asked is whether its secret may be used */
	bool secret_ok;		      /* a person said so */
	uint64_t secret_ticket;	      /* as ticket, of that */
	bool ask_used;		      /* either was: it is not sent again */
	bool ask_cut;		      /* it does more than there is room to say */
	bool ask_unbound;	      /* it merges, by its body, and does not name the commit */
	char ask_what[EXCH_WHAT_MAX]; /* what its body does, in words */
	char dropped[64];	      /* a header that was left out, for the journal */
	struct defer defer;
	struct ledger_wait turn; /* in EXCH_JOURNAL */
	bool is_first;		 /* its lines are those of a new key */
	unsigned tries, interim;
	bool need_h2; /* the server speaks nothing else */
	bool over;    /* a limit ended it: e->over_why */
	bool failed;  /* it was too slow, and its front was told */
	const char *over_why;
	unsigned over_status;	/* 0: 403 */
	bool paused;		/* waits for bandwidth */
	bool fresh;		/* do not use a connection that was used before */
	bool old_plan;		/* its secrets were planned by an older policy: no second try */
	bool continued;		/* we said 100 Continue ourselves */
	bool logged;		/* its request line is written */
	uint64_t folded;	/* refusals before this one that had no line */
	uint64_t began, active; /* eg->now */

	struct task task;	   /* its burial */
	struct exch *next, **link; /* of those that wait for a connection, or of the connection's */
	uint64_t alike;		   /* which connections would do, as a number (upstream.c); 0: not known */
	struct exch *all_next, **all_link;
};

struct exch *exch_new(struct inspect *in, struct inspect_conn *conn, const struct exch_front *front);

/* The front's. */
void exch_begin(struct exch *e);
int exch_put(struct exch *e, const void *data, size_t len) MUST_CHECK; /* of the body; -ENOMEM, -EDQUOT */
void exch_put_end(struct exch *e);
bool exch_wants_body(const struct exch *e);
long http_grant_down(struct exch *e,
		     size_t want) MUST_CHECK;  /* so many of the answer may go now; 0: woken later */
void exch_took_down(struct exch *e, size_t n); /* after http_pipe_take(&e->down) */
void exch_front_gone(struct exch *e);

/* The back's. */
long http_grant_up(struct exch *e, size_t want) MUST_CHECK; /* so many may go now; 0: woken later; -EDQUOT */
bool exch_head(struct exch *e) MUST_CHECK; /* false: it is not let through, and the back is to give up */
int exch_put_down(struct exch *e, const void *data, size_t len) MUST_CHECK;
void exch_end_down(struct exch *e);
void exch_took_up(struct exch *e, size_t n);
void exch_drop_trailers(struct exch *e);
void exch_back_gone(struct exch *e); /* it has all of the answer, or is told to drop it */
/* The server failed. `again`: nothing of the request can have been acted on. */
void exch_back_failed(struct exch *e, bool again, const char *why);

/* Decisions (http_decide.c) and answers of our own (http_answer.c). */
/* The method as rules and people name it. */
const char *exch_method(const struct exch *e);
void exch_log(struct exch *e, const char *decision, const char *rule, const char *why);
void exch_free_spares(struct inspect *in);
void exch_decide(struct exch *e);
void exch_decide_body(struct exch *e); /* more of the body, or its end, is there */
void exch_hold_free(struct exch *e);
void exch_count(struct exch *e); /* X3: after whatever changes how much of a held body there is */
void exch_new_policy(struct exch *e);
void exch_cut(struct exch *e, const char *why); /* why it has to be asked again; NULL: e->verdict denies it */
void exch_judge(struct exch *e);		/* by e->verdict: denies, asks, or sends */
void exch_let_continue(struct exch *e);		/* says 100 Continue where the client waits for it */
void exch_send(struct exch *e);			/* it may go: journal, then a connection */
bool exch_key_path(const struct exch *e);	/* is its path a part of its key (ledger.h)? */
void exch_refuse(struct exch *e, unsigned status, const char *why); /* not by a rule */
void exch_log_refusal(struct exch *e, const char *why);	  /* the same, where it cannot be answered */
void exch_deny(struct exch *e);				  /* by e->verdict */
void exch_deny_theirs(struct exch *e, const char *what);  /* `credentials: only`; what was found (theirs.h) */
void exch_answer_failed(struct exch *e, const char *why); /* 502 */

#endif
