/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request and its response, whatever version of HTTP either side speaks: the exchange.
 *
 *	front (h1_server.c, h2_server.c) ── up ──▶ exchange ── up ──▶ back (h1_client.c, h2_client.c)
 *	                                 ◀─ down ──          ◀─ down ──
 *
 * The front is the side of the client, the back that of the server. An exchange goes through these stages, in
 * order; any of them may refuse it with a response of our own (http_response.c), and most may wait:
 *
 *	read		the front fills in `req` with http_head.c, then calls exch_begin()
 *	judge		http_decide.c:exch_decide(); where a rule must see the body, http_hold.c and exch_decide_body() judge again
 *	approve		http_ask.c:exch_ask(), where the verdict says ask: gathers the body, asks a person; then exch_apply_verdict() again
 *	limits		http_decide.c:exch_apply_verdict() also judges second paths and checks the client's own credentials (foreign_cred.h)
 *	credentials	http_secret.c:secret_check() finds placeholders and plans their secrets, http_capture.c:capture_check() issuers
 *	approve secret	http_ask.c:exch_ask_secret(), called by http_decide.c:exch_send(), where a rule asks before a secret is used
 *	journal		http_decide.c:log_first_or_wait(): the ledger, the `request` line, and its commit
 *	connect		upstream.c:upstream_get() finds or dials a connection and hands the exchange to its back
 *	render		http_secret.c:secret_fetch(), called by the backs: the vault, the rendered head, the `secret` line and its commit
 *	send		the back sends head and body, granted by http_grant_up()
 *	receive		exch_head(), exch_put_down(), exch_end_down(): the response, without secrets (http_secret_down.c) and with
 *			placeholders for issued credentials (http_capture.c), goes to the front
 *
 * Invariants
 *  X1  The server gets what was judged: everything sent is built from `req`, and nothing that comes later
 *      (trailers, a second head) can change it. Trailers of requests are not forwarded at all.
 *  X2  A back gets nothing of a request before its `request` line is written (egress.E1).
 *  X3  Request bodies are gathered only for rules that must see them, or to insert a secret, and then at most
 *      EXCH_HOLD_MAX bytes of one; responses only where credentials are issued in them (http_capture.h). All
 *      of them count, as received and as sent, until they are written or given up: beyond EXCH_HELD_MAX none
 *      is gathered any more.
 *  X4  An exchange is freed when both its front and its back have released it, and not before the run queue
 *      is empty.
 */
#ifndef EGRESS_HTTP_EXCH_H
#define EGRESS_HTTP_EXCH_H

#include "codec/http/urlpath.h"
#include "egress/core/egress.h"
#include "egress/message/http_msg.h"
#include "ipc/runq.h"

#define EXCH_HELD_MAX (64u << 20) /* of all exchanges at once */

struct exch;
struct inspect;
struct inspect_conn;
struct upstream;
struct asking;
struct http_hold;
struct exch_secret;
struct exch_capture;
struct exch_watch;

#define EXCH_WHAT_MAX 768 /* http_ask.c appends the headers */

/*
 * The exchange calls these when it has something for the front. None of them may call back into the exchange.
 */
struct exch_front {
	void (*head)(struct exch *e);		/* resp: an interim (1xx) or the final head */
	void (*wake)(struct exch *e);		/* bytes or the end in `down` */
	void (*took)(struct exch *e, size_t n); /* `n` bytes of `up` were consumed: there is room */
	void (*fail)(struct exch *e);		/* the response cannot be completed */
};

struct exch_back {
	void (*begin)(struct exch *e);		/* its secrets are rendered: send the head */
	void (*wake)(struct exch *e);		/* bytes or the end in `up` */
	void (*took)(struct exch *e, size_t n); /* `n` bytes of `down` were consumed */
	void (*drop)(struct exch *e);		/* the response is no longer wanted */
};

enum exch_state {
	EXCH_NEW,
	EXCH_HOLD,    /* gathers the body, for a rule that must see it or for an ask */
	EXCH_ASK,     /* a person is asked (http_ask.h); the body is complete */
	EXCH_JOURNAL, /* allowed; its line is being written, or waits for room in the log (ledger.h) */
	EXCH_WAIT,    /* for a connection to the server */
	EXCH_RENDER,  /* has a back, nothing was sent: waits for the vault (http_secret.h) */
	EXCH_LIVE,    /* has a back, which sends it */
	EXCH_LOCAL,   /* the response is our own */
};

struct exch {
	struct inspect *in;
	struct inspect_conn *conn; /* of the client; NULL once the front has released it */
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
	bool head_sent; /* the front has the final head */
	bool head_came; /* from the server; differs from head_sent only for held responses (http_capture.h) */
	bool whole;	/* the response is complete */
	struct http_pipe up, down;
	struct http_fields *trailers; /* of the response; NULL: none */
	uint64_t up_sent;	      /* bytes of the body that a back has consumed */

	struct policy_verdict verdict;
	enum policy_action judged; /* verdict.action as the policy gave it */
	struct limit *limit;	   /* of verdict.rule */
	struct http_hold *hold;
	struct exch_secret *secret;   /* NULL: the request has no placeholder */
	struct exch_capture *capture; /* NULL: the response may be passed on as it comes */
	struct exch_watch *watch;     /* NULL: its body is not searched, or none came */
	struct task fetch_task;	      /* of http_secret.c */
	size_t held;		      /* bytes counted in in->held: exch_count() */
	bool counted;		      /* the bytes in `up` were held, and are not all written yet */
	struct buf act;		      /* http_act.h */
	struct asking *asking;	      /* in EXCH_ASK */
	uint64_t ticket;	      /* allowed by a person, and nothing was sent yet; else 0 */
	bool approved;		      /* a person allowed it */
	bool gathers;		      /* in EXCH_HOLD: gathers for an ask */
	char ask_id[28];	      /* of the answered ask, for the journal */
	char secret_ask_id[28];	      /* of the answered ask about its secret */
	bool asks_secret;	      /* the ask is about the use of its secret */
	bool secret_ok;		      /* a person allowed that */
	uint64_t secret_ticket;	      /* like ticket, for the secret */
	bool ask_used;		      /* an approval was used up: no retry */
	bool ask_cut;		      /* it does more than fits into an ask */
	bool ask_unbound;	      /* its body merges without naming the commit */
	char ask_what[EXCH_WHAT_MAX]; /* what its body does, for people */
	char dropped[64];	      /* a header that was left out, for the journal */
	struct defer defer;
	struct ledger_wait turn; /* in EXCH_JOURNAL */
	bool is_first;		 /* its lines belong to a new key */
	unsigned tries, interim;
	bool need_h2; /* the server speaks only HTTP/2 */
	bool over;    /* a limit ended it: e->over_why */
	bool failed;  /* it timed out, and its front was told */
	const char *over_why;
	unsigned over_status;	/* 0: 403 */
	bool paused;		/* waits for bandwidth */
	bool fresh;		/* use a new connection only */
	bool old_plan;		/* its secrets were planned under an older policy: no retry */
	bool continued;		/* we sent 100 Continue ourselves */
	bool logged;		/* its request line is written */
	uint64_t folded;	/* earlier equal refusals without a line */
	uint64_t began, active; /* eg->now */

	struct task task; /* frees it */
	struct exch *next,
		**link; /* in the list of exchanges that wait for a connection, or of the connection's */
	uint64_t alike; /* number that exchanges for the same connections share (upstream.c); 0: unknown */
	struct exch *all_next, **all_link;
};

struct exch *exch_new(struct inspect *in, struct inspect_conn *conn, const struct exch_front *front);

/* Called by the front. */
void exch_begin(struct exch *e);
int exch_put(struct exch *e, const void *data,
	     size_t len) MUST_CHECK; /* adds to the body; -ENOMEM, -EDQUOT */
void exch_put_end(struct exch *e);
bool exch_wants_body(const struct exch *e);
long http_grant_down(struct exch *e, size_t want)
	MUST_CHECK; /* how many bytes of the response may be sent now; 0: wake() comes later */
void exch_took_down(struct exch *e, size_t n); /* after http_pipe_take(&e->down) */
void exch_front_gone(struct exch *e);

/* Called by the back. */
long http_grant_up(struct exch *e, size_t want)
	MUST_CHECK; /* how many bytes may be sent now; 0: wake() comes later; -EDQUOT */
bool exch_head(struct exch *e) MUST_CHECK; /* false: it is not passed on, and the back must give up */
int exch_put_down(struct exch *e, const void *data, size_t len) MUST_CHECK;
void exch_end_down(struct exch *e);
void exch_took_up(struct exch *e, size_t n);
void exch_drop_trailers(struct exch *e);
void exch_back_gone(struct exch *e); /* the back has the whole response, or was told to drop it */
/* The server failed. `again`: the server cannot have acted on any of the request. */
void exch_back_failed(struct exch *e, bool again, const char *why);

/* Decisions (http_decide.c) and responses of our own (http_response.c). */
/* The method as rules and people see it. */
const char *exch_method(const struct exch *e);
void exch_log(struct exch *e, const char *decision, const char *rule, const char *why);
void exch_free_spares(struct inspect *in);
void exch_decide(struct exch *e);
void exch_decide_body(struct exch *e); /* more of the body, or its end, has arrived */
void exch_hold_free(struct exch *e);
void exch_count(struct exch *e); /* X3: call it after each change of the number of held bytes */
void exch_new_policy(struct exch *e);
void exch_cut(struct exch *e,
	      const char *why);		  /* ends it; why it must be sent again; NULL: e->verdict denies it */
void exch_apply_verdict(struct exch *e);  /* by e->verdict: denies, asks, or sends */
void exch_let_continue(struct exch *e);	  /* sends 100 Continue where the client waits for it */
void exch_send(struct exch *e);		  /* it is allowed: journal, then a connection */
bool exch_key_path(const struct exch *e); /* is its path a part of its key (ledger.h)? */
void exch_refuse(struct exch *e, unsigned status, const char *why); /* for another reason than a rule */
void exch_log_refusal(struct exch *e, const char *why); /* the same, where no response can be sent */
void exch_deny(struct exch *e);				/* by e->verdict */
void exch_deny_foreign(struct exch *e,
		       const char *what); /* by `credentials: only`; what was found (foreign_cred.h) */
void exch_respond_failed(struct exch *e, const char *why); /* 502 */

#endif
