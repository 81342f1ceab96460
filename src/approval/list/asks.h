/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of approvals of one run: what was asked, who answered, what is granted (doc/adr/0017). The ask
 * server of the run owns it (approval/README.md says which process that is). The list does no I/O of its own:
 * its owner passes functions that write an event into the audit log and that deliver answers and changes
 * (struct asks_out). Time is an argument everywhere, so that a test can use its own clock.
 *
 * Terms. A *question* is a complete description of what an asker wants to do. An *ask* is an entry of the
 * list. A *waiter* is one blocked asker: a request that coffer-egress holds, or a connection to the socket;
 * several waiters may wait for one ask. A *grant* is an answered ask that allows more than one use.
 *
 * Invariants (cited elsewhere as asks.A1 …)
 * A1  No waiter is told "allow" unless a person answered "allow" to an ask with the digest of its question,
 *     or a grant is in force for the subject of its question. The only path to "allow" is allow_waiter() in
 *     asks.c.
 * A2  An answer names the id and the digest that were shown to the person. With another digest, an unknown
 *     id, or an ask that is no longer pending, nothing changes and the caller learns which of these it was.
 *     The first answer wins.
 * A3  An answer is in the audit log before it takes effect, and takes effect before it is acknowledged. An
 *     answer that cannot be logged does not count. The same holds for each use of a grant: a use that cannot
 *     be logged is a denial. A rule (ASK_WIDEN) is in force before its waiters are told; a rule that cannot
 *     be put in force was not granted. A rule has one use, being granted: an asker that wants it again is
 *     told "allow", and nothing is logged.
 * A4  `once` allows one use, ever. It is spent when it is handed out and comes back only if the waiter
 *     reports that nothing was sent (asks_unused), and at most until ASKS_PARKED_FOR after the answer. A
 *     waiter that dies has used it.
 * A5  A timeout, a full list, a lack of memory, the end of the sandbox and a change of the policy are
 *     denials, each with its reason in words.
 * A6  Everything is bounded: ASKS_PENDING_MAX pending asks, ASKS_WAITERS_MAX waiters, ASKS_GRANTS_MAX granted
 *     or parked asks, ASKS_KEPT_MAX finished asks kept as history, ASK_*_MAX bytes of each text. A question
 *     that does not fit is refused; it is never cut before it is digested. Questions submitted from outside
 *     the sandbox (apply, a tool, the API) have places of their own, ASKS_SUBMITTED_MAX, of which one asker
 *     gets ASKS_BY_MAX: no submitter can fill the list so that the sandbox cannot ask.
 * A7  An asker that is denied repeatedly does not reach the person: after ASKS_TIRED_AFTER denials of one
 *     rule within ASKS_TIRED_WITHIN, its questions are denied without asking for ASKS_TIRED_FOR, with that
 *     reason. The count survives a change of the list's owner. Each submitter (`by`) is counted apart from
 *     the others and from the sandbox.
 * A8  A grant to a session (asks_keep) survives a change of the list's owner through the file that
 *     out->kept() writes. A grant is written after it is logged and before it takes effect; a use is written
 *     before it is logged, so that a killed owner may lose a use but never gain one; a revoked or finished
 *     grant is written before anybody is told. A grant that cannot be written was not granted, and a use that
 *     cannot be written did not happen.
 *
 * States (asks.c has the transitions; doc/adr/0017 the reasons):
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

#define ASKS_PENDING_MAX 64   /* asked by the sandbox itself */
#define ASKS_SUBMITTED_MAX 16 /* submitted from outside the sandbox */
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
	ASK_APPLY,    /* `coffer apply`: `what` is the target, preview the list of files */
	ASK_WIDEN,    /* the sandbox requests a rule: `what` is the rule, reason the sandbox's own words */
	ASK_TOOL,     /* a tool call: `what` is its name, preview its arguments */
	ASK_QUESTION, /* anything that a client of the socket submits */
	ASK_SIGN, /* an ssh-agent key is to sign: host and port as proven by the server, `what` is the purpose */
	ASK_KIND_COUNT
};
const char *ask_kind_name(enum ask_kind k);   /* "connect", "request", … */
int ask_kind_parse(const char *s) MUST_CHECK; /* -EINVAL */

/* The meaning of an approval, as text that continues the word "allow". It states exactly what the digest and
 * the subject (below) bind. */
struct ask_means {
	const char *once;  /* NULL: this kind cannot be allowed once */
	const char *again; /* allowed for more than one use */
	const char *brief; /* `again`, short enough for half a row */
	bool has_rule;	   /* a policy file can express it: --always */
};
const struct ask_means *ask_kind_means(enum ask_kind k);

enum ask_state {
	ASK_PENDING,
	ASK_PARKED,  /* allowed once after the asker had gone; waits for the identical question */
	ASK_GRANTED, /* allowed for more than one use, and in force */
	ASK_SPENT,   /* allowed, and all its uses are used up */
	ASK_DENIED,
	ASK_EXPIRED, /* nobody answered in time: denied */
	ASK_LAPSED,  /* was allowed; its time is over */
	ASK_GONE,    /* the sandbox has ended, or the policy has changed, before an answer */
	ASK_STATE_COUNT
};
const char *ask_state_name(enum ask_state s);
int ask_state_parse(const char *s) MUST_CHECK;

/* The extent of an "allow". ASK_ONCE holds for the question's digest; all others hold for its subject (struct
 * ask_question). */
enum ask_scope {
	ASK_ONCE,
	ASK_SANDBOX, /* as long as the sandbox lives */
	ASK_FOR,     /* for `seconds` from the answer on */
	ASK_USES,    /* `uses` times */
	ASK_ALWAYS,  /* treated as ASK_SANDBOX here; the approver's process changes the policy file itself */
	ASK_SCOPE_COUNT
};
const char *ask_scope_name(enum ask_scope s); /* "once", "sandbox", "for", "uses", "always" */
int ask_scope_parse(const char *s) MUST_CHECK;

/*
 * A question. Its texts are as the asker sent them: hostile, not safe for a terminal or a page. Unused ones
 * are "".
 *   digest   over every member but `reason` and `submitted`: an answer is bound to it
 *   subject  over kind, host, port, tls, method, the path without its query, `what` and `by`: a grant is bound
 *            to it
 */
struct ask_question {
	enum ask_kind kind;
	uint32_t generation; /* of the policy whose rule asks; 0: none */
	uint16_t port;
	bool tls;
	bool has_body;
	bool submitted; /* came from outside the sandbox */
	uint64_t body_len;
	unsigned char body[HASH_LEN]; /* SHA-256 */
	const char *host, *method, *path, *what, *type, *rule, *reason;
	const char *by;	     /* name of the submitter, where it is known: "ci (api)" */
	const char *preview; /* start of the body, or the text shown in its place */
	size_t preview_len;
	uint64_t preview_bytes; /* bytes of the body that the preview covers; 0: none, or unknown */
};

/* -E2BIG, -EINVAL: the question cannot be asked; `why` has the reason. asks_put() calls this itself. */
int ask_question_check(const struct ask_question *q, char why[ASK_WHY_MAX]) MUST_CHECK;
void ask_question_digest(const struct ask_question *q, unsigned char ret[HASH_LEN]);
void ask_question_subject(const struct ask_question *q, unsigned char ret[HASH_LEN]);

/* The approver. `name` and `via` are for the log and for people; authority comes from the socket that let the
 * approver in. */
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

struct ask; /* an entry of the list */

/* A readable copy of an entry. Its pointers are valid until the list changes. */
struct ask_view {
	char id[ASK_ID_MAX];
	char run[RUN_ID_LEN + 1];
	uint64_t number; /* within its run: 1, 2, … never reused, not even when the run is restarted */
	uint64_t seq;	 /* number of its ask.new in the log; 0: unknown */
	enum ask_state state;
	struct ask_question q;
	char digest[HASH_HEX_LEN + 1];
	uint64_t asked,
		expires; /* CLOCK_REALTIME ns; expires: end of the question, parked answer or grant; 0: never */
	unsigned waiters;    /* number of waiters now */
	uint64_t times;	     /* how often it was asked: ten retries are one entry with times 10 */
	uint64_t used, uses; /* of a grant; uses 0: unlimited */
	bool answered;
	struct ask_answer answer;
	uint64_t answered_at; /* CLOCK_REALTIME ns */
	const char *why;      /* for DENIED, EXPIRED, LAPSED, GONE: a sentence */
};

struct asks_out {
	/* Writes one event into the log ("ask.new", "ask.answer", "ask.use", "ask.unused", "ask.expire",
	 * "ask.lapse", "ask.gone", "ask.revoke"); `fields` are JSON members without braces. Negative: the
	 * event was not written. Sets *ret_seq to its number in the log, if that is known. */
	int (*event)(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq);
	/* Delivers an answer to a waiter, which the list has forgotten by then. `id` is the id of the ask.
	 * After "allow", asks_unused() may follow. */
	void (*tell)(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why);
	/* An entry has changed: store it and notify the clients that follow the list. May be NULL. */
	void (*changed)(void *ctx, const struct ask *a);
	void *ctx;
	/* Puts the rules in force that the list has as granted (ASK_WIDEN). Waiters are told only after this
	 * returned 0. Negative, with the reason: the rule was not granted. NULL: this owner cannot widen a
	 * policy. */
	int (*widened)(void *ctx, struct err *e);
	/* Writes asks_kept_store() to disk before it returns (A8). `less`: a grant in the file has ended and
	 * must never be found there again; if the file cannot be replaced, it has to be removed. NULL: this
	 * owner keeps no session grants. */
	int (*kept)(void *ctx, bool less, struct err *e);
};

struct asks;

struct asks_now {
	uint64_t mono; /* CLOCK_BOOTTIME ns: deadlines are counted by it */
	uint64_t real; /* CLOCK_REALTIME ns: for display */
};

struct asks *asks_new(const char run_id[RUN_ID_LEN + 1], uint64_t timeout_s, const struct asks_out *out);
void asks_free(struct asks *l);
const char *asks_run(const struct asks *l);
static inline void asks_freep(struct asks **l)
{
	asks_free(*l);
}

/*
 * Numbers are never used twice. Before the list uses a number beyond its reservation it calls reserve(),
 * which has to record on disk that the ASKS_NUMBERS numbers after *last are taken; it raises *last where
 * others have used more. Negative: no entry is made, which denies the question.
 */
#define ASKS_NUMBERS 64 /* reserved at once */
void asks_set_numbers(struct asks *l, int (*reserve)(void *ctx, uint64_t *last), void *ctx);
uint64_t asks_reserved(const struct asks *l);	 /* the last number of the reservation; 0: none yet */
uint64_t asks_last_number(const struct asks *l); /* the number that was used last */

/*
 * Asks a question for `waiter` (not 0, not in use), which is told through out->tell(), perhaps before this
 * returns. `timeout_s` 0: the list's default. Never fails: a question that cannot be asked is denied. *ret_id
 * may be NULL; it is "" when there is no entry.
 */
void asks_put(struct asks *l, struct asks_now now, const struct ask_question *q, uint64_t waiter,
	      uint64_t timeout_s, char ret_id[ASK_ID_MAX]);
/* The waiter has gone or no longer wants an answer; it is not told. The ask stays. */
void asks_drop(struct asks *l, struct asks_now now, uint64_t waiter);
/* The waiter was told "allow" and has sent nothing: its use is given back (A4). -ENOENT: it was not told
 * "allow", or too long ago. */
int asks_unused(struct asks *l, struct asks_now now, uint64_t waiter) MUST_CHECK;
/* The waiter was told "allow" and its request has been sent. */
void asks_taken(struct asks *l, uint64_t waiter);
/* All waiters from `first` to `last` have died; uses that they were handed count as used (A4). */
void asks_drop_range(struct asks *l, struct asks_now now, uint64_t first, uint64_t last);

/*
 * Takes a person's answer. 0: it took effect and is logged. -ENOENT: no such ask. -ESTALE: `digest` is not
 * that of the ask (the question has changed). -EALREADY: answered before; -ETIME: expired; -ECANCELED: gone;
 * -EINVAL: scope, seconds or uses are invalid; -EBUSY: ASKS_GRANTS_MAX grants are in force; -EIO: it could
 * not be logged. Each has a message in *e.
 */
int asks_answer(struct asks *l, struct asks_now now, const char *id, const char *digest,
		const struct ask_answer *a, struct err *e) MUST_CHECK;
/* Revokes a grant or a parked answer. Errors as above. */
int asks_revoke(struct asks *l, struct asks_now now, const char *id, const struct ask_who *who,
		struct err *e) MUST_CHECK;

/* Ends asks whose time is over. Returns the time of the next call (mono ns); 0: no ask has a deadline. */
uint64_t asks_tick(struct asks *l, struct asks_now now);
/* A new policy is in force: asks under an older one that have no waiter become GONE. */
void asks_new_policy(struct asks *l, struct asks_now now, uint32_t generation);
/* The sandbox has ended: pending asks become GONE, grants lapse. */
void asks_end(struct asks *l, struct asks_now now);
/* The same with another reason: the owner gives up the list. */
void asks_end_why(struct asks *l, struct asks_now now, const char *why);

/* Finds an ask by its id or an unambiguous part of it in this run: "3f9a2c-4", "3f-4", "4". NULL: none. */
const struct ask *asks_find(const struct asks *l, const char *id);
/* Iterates, newest last: NULL as argument starts, NULL as result ends. */
const struct ask *asks_next(const struct asks *l, const struct ask *after);
void ask_view(const struct asks *l, const struct ask *a, struct ask_view *ret);
unsigned asks_pending(const struct asks *l);
uint64_t asks_shed_count(const struct asks *l); /* questions denied for lack of room or by A7 */

/*
 * One ask as a JSON object: id, sandbox, number, seq, state, kind, host, port, tls, method, path, what, rule,
 * reason, by, body (digest), body_len, type, preview, preview_bytes, digest, generation, asked, expires,
 * waiters, times, used, uses, answer {…}, why. `key` as in json.h. The socket (askproto.h), `coffer ask show
 * --json` and the file below use this form.
 */
void ask_json(const struct ask_view *v, struct json *j, const char *key);

/*
 * runs/ID/asks: the list as JSON lines, replaced as a whole. It shows the last state that the ask server
 * knew. asks_load() takes numbers and history from it, so that ids continue; asks that were pending or
 * granted then have ended with the former owner. Entries whose number is in the list already stay as they
 * are.
 */
#define ASKS_FILE "asks"
void asks_store(const struct asks *l, struct buf *out);
int asks_load(struct asks *l, struct asks_now now, const char *text, size_t len, struct err *e) MUST_CHECK;

/*
 * A session (granted.h) runs its sandbox many times, each time with a new list. Grants for more than one use
 * of the kinds in `kinds` (1 << ASK_TOOL, …) belong to the session from now on (A8): asks_end() leaves them
 * alone.
 */
#define ASKS_SESSION_MAX 256 /* grants */
void asks_keep(struct asks *l, unsigned kinds);
/* The session's grants in force, as JSON lines with their end; empty if there are none. */
void asks_kept_store(const struct asks *l, struct buf *out);
/* Loads all of them or none: -EBADMSG. Each is checked for consistency: the digest is that of the question,
 * the answer allows this, and the remaining time and uses are within the answer. They replace what
 * asks_load() read of them. */
int asks_kept_load(struct asks *l, struct asks_now now, const char *text, size_t len,
		   struct err *e) MUST_CHECK;
/* The session has ended: its grants lapse. */
void asks_kept_end(struct asks *l, struct asks_now now, const char *why);

#endif
