/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one sandbox has asked, who answered, and what is granted: the list that a run's guard keeps (doc/adr/0017). Pure but
 * for two functions that its owner gives: one that writes an event into the audit log, one that is told of changes. Time
 * is an argument everywhere, so that a test can have its own.
 *
 * Words. A *question* is what somebody wants to do, in full. An *ask* is an entry of the list. A *waiter* is whoever holds a
 * live request (or a connection of `coffer apply`) until it is told; many waiters may wait for one ask. A *grant* is an
 * answered ask that allows more than one use.
 *
 * Invariants
 *  A1  Nobody is told "allow" unless a person answered "allow" to an ask whose digest is that of the question, or whose
 *      answer is a grant in force for the question's subject. Every way to it goes through allow_one() in asks.c.
 *  A2  An answer names the id and the digest that were shown. Another digest, an unknown id, an ask that is no longer
 *      pending: nothing changes, and the caller is told which of these it was. The first answer wins.
 *  A3  An answer is in the audit log before it counts, and it counts before it is acknowledged. One that cannot be logged is
 *      none. The same holds for each use of a grant: a use that cannot be logged is a denial. A rule (ASK_WIDEN) is in force before
 *      whoever waits for it is told; one that cannot be put in force was not granted. Its one use is that it was granted: who asks for
 *      it again is told so, and nothing is logged.
 *  A4  `once` allows one use, ever: it is spent when it is handed out, and comes back only if the waiter says that nothing was
 *      sent (asks_unused), until ASKS_PARKED_FOR after the answer at most. Whoever dies with it has used it.
 *  A5  Time that runs out, a full list, a lack of memory, a sandbox that ends, a policy that changes: denials, each with words.
 *  A6  Everything is bounded: ASKS_PENDING_MAX pending, ASKS_WAITERS_MAX waiters, ASKS_GRANTS_MAX that are granted or parked, ASKS_KEPT_MAX
 *      answered ones kept to be looked at, ASK_*_MAX bytes of each text. What does not fit is refused, never cut before it is digested. What others submit
 *      (apply, a tool, the API) has places of its own, ASKS_SUBMITTED_MAX, of which one asker has ASKS_BY_MAX: nobody fills the
 *      list so that the sandbox cannot ask.
 *  A7  Who is denied again and again does not reach the person: after ASKS_TIRED_AFTER denials of one rule within
 *      ASKS_TIRED_WITHIN it is denied without asking for ASKS_TIRED_FOR, and told so. This outlives who keeps the list. Each who
 *      submits (`by`) is counted apart, and so is the sandbox.
 *  A8  What is granted to a session (asks_keep) outlives who keeps the list, by what out->kept() writes down:
 *      a grant once it is logged and before it counts; a use before it is logged, so that who is killed has
 *      lost one and never won one; one that is taken back, or over, before anybody hears of that. One that
 *      cannot be written down was not granted, and not used.
 *
 * States (asks.c has the table; doc/adr/0017 the reasons):
 *
 *	PENDING ──allow, more than once──▶ GRANTED ──used up, time──▶ SPENT | LAPSED
 *	   │ ├────allow once, a waiter───▶ SPENT ◀──the identical question──┐
 *	   │ └────allow once, nobody waits─▶ PARKED ────────────────────────┴──ASKS_PARKED_FOR──▶ LAPSED
 *	   ├──deny──▶ DENIED     ├──time──▶ EXPIRED     └──the sandbox ends, the policy changes──▶ GONE
 */
#ifndef APPROVAL_ASKS_H
#define APPROVAL_ASKS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "crypto/hash.h"
#include "sandbox/state/state.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ASKS_PENDING_MAX 64   /* of the sandbox's own */
#define ASKS_SUBMITTED_MAX 16 /* beside them */
#define ASKS_BY_MAX 8
#define ASKS_OPEN_MAX (ASKS_PENDING_MAX + ASKS_SUBMITTED_MAX)
#define ASKS_WAITERS_MAX 256
#define ASKS_GRANTS_MAX 512
#define ASKS_KEPT_MAX 256
#define ASKS_PARKED_FOR 120		/* s */
#define ASKS_TIMEOUT_DEFAULT 300	/* s, --ask-timeout */
#define ASKS_TIMEOUT_MAX 86400		/* s */
#define ASKS_TIRED_AFTER 5		/* denials */
#define ASKS_TIRED_WITHIN 600		/* s */
#define ASKS_TIRED_FOR 600		/* s */
#define ASKS_GRANT_MAX (366ULL * 86400) /* s, --for */
#define ASKS_USES_MAX 1000000

#define ASK_HOST_MAX 255
#define ASK_METHOD_MAX 32
#define ASK_PATH_MAX 4096   /* path and query: a longer one cannot be shown whole, so it cannot be asked */
#define ASK_WHAT_MAX 1024   /* "mutation mergePullRequest", "push refs/heads/main", a title */
#define ASK_REASON_MAX 1024 /* the asker's own words */
#define ASK_RULE_MAX 256
#define ASK_PREVIEW_MAX 2048 /* of a body */
#define ASK_TYPE_MAX 128     /* Content-Type */
#define ASK_WHY_MAX 256
#define ASK_NAME_MAX 64
#define ASK_BY_MAX 96
#define ASK_ID_MAX (RUN_ID_LEN + 12)

enum ask_kind {
	ASK_CONNECT,  /* a connection: host, port */
	ASK_REQUEST,  /* one HTTP request: method, path, body */
	ASK_GRAPHQL,  /* the same, decided by what the document does; `what` has its operations */
	ASK_GIT,      /* a push or fetch; `what` has the refs */
	ASK_SECRET,   /* first use of a secret: `what` is its name, host and port where it goes */
	ASK_APPLY,    /* `coffer apply`: what is `what`, preview has the list of files */
	ASK_WIDEN,    /* the sandbox wants a rule: `what` is the rule, reason its own words */
	ASK_TOOL,     /* a tool call: `what` is its name, preview its arguments */
	ASK_QUESTION, /* anything that a client of the socket submits */
	ASK_SIGN, /* a key of the ssh-agent is to sign: host and port as the server has proven, `what` is what for */
	ASK_KIND_COUNT
};
const char *ask_kind_name(enum ask_kind k);   /* "connect", "request", … */
int ask_kind_parse(const char *s) MUST_CHECK; /* -EINVAL */

/* What allowing it means, in words that go behind "allow": exactly what the digest and the subject (below) bind. */
struct ask_means {
	const char *once;  /* NULL: it cannot be allowed once */
	const char *again; /* more than once */
	const char *brief; /* the same for half a row */
	bool has_rule;	   /* a policy file can say it: --always */
};
const struct ask_means *ask_kind_means(enum ask_kind k);

enum ask_state {
	ASK_PENDING,
	ASK_PARKED,  /* allowed once; who asked had gone; waits for the identical question */
	ASK_GRANTED, /* allowed for more than one use, and in force */
	ASK_SPENT,   /* allowed, and used as often as was said */
	ASK_DENIED,
	ASK_EXPIRED, /* nobody answered in time: denied */
	ASK_LAPSED,  /* allowed; its time is over */
	ASK_GONE,    /* the sandbox has ended, or the policy has changed, before an answer */
	ASK_STATE_COUNT
};
const char *ask_state_name(enum ask_state s);
int ask_state_parse(const char *s) MUST_CHECK;

/* How far an "allow" goes. All but ASK_ONCE hold for the question's subject (struct ask_question), ASK_ONCE for its digest. */
enum ask_scope {
	ASK_ONCE,
	ASK_SANDBOX, /* as long as the sandbox lives */
	ASK_FOR,     /* `seconds` from the answer on */
	ASK_USES,    /* `uses` times */
	ASK_ALWAYS,  /* here as ASK_SANDBOX; that the policy file is changed too is up to whoever answers */
	ASK_SCOPE_COUNT
};
const char *ask_scope_name(enum ask_scope s); /* "once", "sandbox", "for", "uses", "always" */
int ask_scope_parse(const char *s) MUST_CHECK;

/*
 * What is asked. Texts are as the asker sent them: hostile, not safe for a terminal or a page. Unused ones are "".
 *   digest   over every member but `reason`, `by` and `submitted`: what an answer is bound to
 *   subject  over kind, host, port, method, the path without its query, and `what`: what a grant holds for
 */
struct ask_question {
	enum ask_kind kind;
	uint32_t generation; /* of the policy that asks; 0 where none does */
	uint16_t port;
	bool tls;
	bool has_body;
	bool submitted; /* by somebody outside the sandbox */
	uint64_t body_len;
	unsigned char body[HASH_LEN]; /* SHA-256 */
	const char *host, *method, *path, *what, *type, *rule, *reason;
	const char *by;	     /* who submitted it, where that is known: "ci (api)" */
	const char *preview; /* of the body or of what stands for it */
	size_t preview_len;
	uint64_t preview_bytes; /* of the body, in the preview; 0: none, or not said */
};

/* -E2BIG, -EINVAL: it cannot be asked, and `why` says so. Called by asks_put(). */
int ask_question_check(const struct ask_question *q, char why[ASK_WHY_MAX]) MUST_CHECK;
void ask_question_digest(const struct ask_question *q, unsigned char ret[HASH_LEN]);
void ask_question_subject(const struct ask_question *q, unsigned char ret[HASH_LEN]);

/* Who answers. `name` and `via` are for the log and for people; what counts is that the socket let them in. */
struct ask_who {
	uid_t uid;
	char name[ASK_NAME_MAX]; /* of the person, as far as it is known */
	char via[24];		 /* "terminal", "cli", "api", "page", "chat" */
};

struct ask_answer {
	bool allow;
	enum ask_scope scope; /* for allow */
	uint64_t seconds;     /* ASK_FOR: 1 to ASKS_GRANT_MAX */
	uint64_t uses;	      /* ASK_USES: 1 to ASKS_USES_MAX */
	char reason[ASK_WHY_MAX];
	struct ask_who who;
};

struct ask; /* an entry */

/* What can be read of an entry; pointers are good until the list changes. */
struct ask_view {
	char id[ASK_ID_MAX];
	char run[RUN_ID_LEN + 1];
	uint64_t number; /* in its run: 1, 2, … never used twice, also over restarts of the run */
	uint64_t seq;	 /* its place in the log, of its ask.new; 0: not known */
	enum ask_state state;
	struct ask_question q;
	char digest[HASH_HEX_LEN + 1];
	uint64_t asked,
		expires; /* CLOCK_REALTIME ns; expires: of the question, the parked answer or the grant; 0: never */
	unsigned waiters;    /* that wait now */
	uint64_t times;	     /* how often it was asked: ten retries are one entry with times 10 */
	uint64_t used, uses; /* of a grant; uses 0: without end */
	bool answered;
	struct ask_answer answer;
	uint64_t answered_at; /* CLOCK_REALTIME ns */
	const char *why;      /* for DENIED, EXPIRED, LAPSED, GONE: a sentence */
};

struct asks_out {
	/* One event for the log ("ask.new", "ask.answer", "ask.use", "ask.unused", "ask.expire",
	 * "ask.lapse", "ask.gone", "ask.revoke"): members without braces. Negative: it
	 * was not written. *ret_seq is its number in the log, left as it is where that is not known. */
	int (*event)(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq);
	/* A waiter is told; it is forgotten by then. `id` is of the ask. For allow, asks_unused() may follow. */
	void (*tell)(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why);
	/* Something of it has changed: to be stored, and told to those who follow. May be NULL. */
	void (*changed)(void *ctx, const struct ask *a);
	void *ctx;
	/* A rule that a person has allowed (ASK_WIDEN) stands as granted in the list: it is in force when this returns, and only then
	 * anybody hears of it. Negative, and why: it was not granted. NULL: no rule can be. */
	int (*widened)(void *ctx, struct err *e);
	/* A8: asks_kept_store() is written down when this returns. `less`: something in it is over, and is
	 * never to be found there again, rather nothing at all. NULL: nothing can be kept. */
	int (*kept)(void *ctx, bool less, struct err *e);
};

struct asks;

struct asks_now {
	uint64_t mono; /* CLOCK_BOOTTIME ns: what limits are counted by */
	uint64_t real; /* CLOCK_REALTIME ns: what is shown */
};

struct asks *asks_new(const char run_id[RUN_ID_LEN + 1], uint64_t timeout_s, const struct asks_out *out);
void asks_free(struct asks *l);
const char *asks_run(const struct asks *l);
static inline void asks_freep(struct asks **l)
{
	asks_free(*l);
}

/*
 * Numbers are never used twice: before the list uses one past those that are its own, reserve() is to set aside and remember
 * ASKS_NUMBERS behind *last, which it raises where others have used more. Negative: there is no entry, and so a denial.
 */
#define ASKS_NUMBERS 64 /* reserved at once */
void asks_set_numbers(struct asks *l, int (*reserve)(void *ctx, uint64_t *last), void *ctx);
uint64_t asks_reserved(const struct asks *l); /* the last that is its own; 0: none yet */
uint64_t asks_last(const struct asks *l);     /* the number that was used last */

/*
 * Somebody wants to do this. `waiter` (not 0, not in use) is told by out->tell(), perhaps before this returns. `timeout_s`
 * 0: the list's own. Never fails: what cannot be asked is denied. *ret_id may be NULL; it is "" when there is no entry.
 */
void asks_put(struct asks *l, struct asks_now now, const struct ask_question *q, uint64_t waiter,
	      uint64_t timeout_s, char ret_id[ASK_ID_MAX]);
/* It has gone, or does not want to know any more; it is not told. The ask stays. */
void asks_drop(struct asks *l, struct asks_now now, uint64_t waiter);
/* It was told "allow" and has sent nothing: the use is given back (A4). -ENOENT: it was not, or too long ago. */
int asks_unused(struct asks *l, struct asks_now now, uint64_t waiter) MUST_CHECK;
/* It was told "allow", and what it wanted is on its way. */
void asks_taken(struct asks *l, uint64_t waiter);
/* All waiters from `first` to `last` are gone, and died with what they had (A4). */
void asks_drop_range(struct asks *l, struct asks_now now, uint64_t first, uint64_t last);

/*
 * An answer. 0: it counts, is logged, and *ret_id has the whole id. -ENOENT: no such ask. -ESTALE: `digest` is not that of
 * the ask (the question has changed). -EALREADY: it was answered before; -ETIME: it has expired; -ECANCELED: gone;
 * -EINVAL: scope, seconds or uses are none; -EBUSY: ASKS_GRANTS_MAX are in force; -EIO: it could not be logged. Each with words
 * for a person in *e.
 */
int asks_answer(struct asks *l, struct asks_now now, const char *id, const char *digest,
		const struct ask_answer *a, struct err *e) MUST_CHECK;
/* Takes a grant, or a parked answer, back. Errors as above. */
int asks_revoke(struct asks *l, struct asks_now now, const char *id, const struct ask_who *who,
		struct err *e) MUST_CHECK;

/* Lets time pass; returns when it is to be called next (mono ns), 0: nothing waits for it. */
uint64_t asks_tick(struct asks *l, struct asks_now now);
/* The policy is another one now: what was asked under an older one and waits for nobody is gone. */
void asks_new_policy(struct asks *l, struct asks_now now, uint32_t generation);
/* The sandbox has ended: all that is pending is gone, all that is granted has lapsed. */
void asks_end(struct asks *l, struct asks_now now);
/* The same for another reason: whoever kept the list leaves it. */
void asks_end_why(struct asks *l, struct asks_now now, const char *why);

/* An id, or what is unambiguous in this run: "3f9a2c-4", "3f-4", "4". NULL: none. */
const struct ask *asks_find(const struct asks *l, const char *id);
/* Newest last. NULL begins, and ends. */
const struct ask *asks_next(const struct asks *l, const struct ask *after);
void ask_view(const struct asks *l, const struct ask *a, struct ask_view *ret);
unsigned asks_pending(const struct asks *l);
uint64_t asks_shed(const struct asks *l); /* questions that were denied for lack of room or because of A7 */

/*
 * One ask as a JSON object: id, sandbox, number, seq, state, kind, host, port, tls, method, path, what, rule, reason, by, body (digest),
 * body_len, type, preview, preview_bytes, digest, generation, asked, expires, waiters, times, used, uses, answer {…}, why. `key` as in json.h.
 * This is also what the socket says (askproto.h), what `coffer ask show --json` prints and what stands in the file.
 */
void ask_json(const struct ask_view *v, struct json *j, const char *key);

/*
 * runs/ID/asks: the list as JSON lines, replaced as a whole. Who reads it finds what the guard knew last; asks_load() takes
 * numbers and history from it, so that ids go on; what was pending or granted then is over, for that life has ended. Numbers
 * that are there already stay as they are.
 */
#define ASKS_FILE "asks"
void asks_store(const struct asks *l, struct buf *out);
int asks_load(struct asks *l, struct asks_now now, const char *text, size_t len, struct err *e) MUST_CHECK;

/*
 * A session (granted.h) has many lives, and each its own list. Grants for more than one use, of the kinds in
 * `kinds` (1 << ASK_TOOL, …), are the session's from now on (A8): asks_end() leaves them as they are.
 */
#define ASKS_SESSION_MAX 256 /* grants */
void asks_keep(struct asks *l, unsigned kinds);
/* Those of a session that are in force, as JSON lines with the moment at which they end; nothing where there
 * is none. */
void asks_kept_store(const struct asks *l, struct buf *out);
/* All of them, or none: -EBADMSG. Each is checked against itself: the digest is that of the question, there
 * is an answer that allows so much, and no more time and uses than it says. They stand in place of what
 * asks_load() has read of them. */
int asks_kept_load(struct asks *l, struct asks_now now, const char *text, size_t len,
		   struct err *e) MUST_CHECK;
/* The session has ended: they lapse. */
void asks_kept_end(struct asks *l, struct asks_now now, const char *why);

#endif
