/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machine of the asks in a list: waiters, answers, uses, ends. It only changes the list and calls
 * the owner's functions (struct asks_out). Labels in comments are the invariants of asks.h.
 *
 * asks.A1 in one place: out.tell(…, true, …) is called by allow_waiter() only, and allow_waiter() is reached
 * only with an ask that a person has answered: GRANTED or PARKED, or PENDING on its way to one of them in
 * answer_allow().
 */
#include "approval/list/asks_int.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct asks *asks_new(const char run_id[RUN_ID_LEN + 1], uint64_t timeout_s, const struct asks_out *out)
{
	struct asks *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	memcpy(l->run, run_id, RUN_ID_LEN);
	l->timeout_s = timeout_s ? timeout_s : ASKS_TIMEOUT_DEFAULT;
	l->out = *out;
	TAILQ_INIT(&l->list);
	TAILQ_INIT(&l->waiters);
	return l;
}

static bool ask_is_over(const struct ask *a)
{
	return a->state != ASK_PENDING && a->state != ASK_PARKED && a->state != ASK_GRANTED;
}

void ask_free(struct asks *l, struct ask *a)
{
	struct waiter *w;

	for (w = TAILQ_FIRST(&l->waiters); w; w = TAILQ_NEXT(w, link)) {
		if (w->a == a)
			w->a = NULL;
	}
	TAILQ_REMOVE(&l->list, a, link);
	free(a->text);
	free(a);
}

void asks_free(struct asks *l)
{
	struct waiter *w;

	if (!l)
		return;
	while ((w = TAILQ_FIRST(&l->waiters)) != NULL) {
		TAILQ_REMOVE(&l->waiters, w, link);
		free(w);
	}
	while (!TAILQ_EMPTY(&l->list))
		ask_free(l, TAILQ_FIRST(&l->list));
	free(l);
}

static void notify_changed(struct asks *l, const struct ask *a)
{
	if (l->out.changed)
		l->out.changed(l->out.ctx, a);
}

/* asks.A6: only the newest finished asks are kept. */
static void drop_oldest_finished(struct asks *l, const struct ask *but)
{
	struct ask *a, *next;

	for (a = TAILQ_FIRST(&l->list); a && l->n_over > ASKS_KEPT_MAX; a = next) {
		next = TAILQ_NEXT(a, link);
		if (ask_is_over(a) && a != but) {
			l->n_over--;
			ask_free(l, a);
		}
	}
}

static void ask_set_state(struct asks *l, struct ask *a, enum ask_state s)
{
	bool was_over = ask_is_over(a);

	l->n_pending -= a->state == ASK_PENDING;
	a->state = s;
	l->n_pending += s == ASK_PENDING;
	l->n_over = l->n_over + ask_is_over(a) - was_over;
}

static void set_expiry(struct ask *a, struct asks_now now, uint64_t seconds)
{
	a->expires = seconds ? now.mono + seconds * NSEC_PER_SEC : 0;
	a->expires_shown = seconds ? now.real + seconds * NSEC_PER_SEC : 0;
}

/* Has the owner write the session's grants to disk (asks.A8). */
static int write_kept(struct asks *l, bool less, struct err *e)
{
	return l->out.kept ? l->out.kept(l->out.ctx, less, e)
			   : err_set(e, -EINVAL, "grants cannot be kept for a session here");
}

/* ---- Waiters. ---- */

static void remove_waiter(struct asks *l, struct waiter *w)
{
	if (w->a && !w->told)
		w->a->waiters--;
	TAILQ_REMOVE(&l->waiters, w, link);
	l->n_waiters--;
	free(w);
}

static struct waiter *find_waiter(struct asks *l, uint64_t id)
{
	struct waiter *w;

	for (w = TAILQ_FIRST(&l->waiters); w; w = TAILQ_NEXT(w, link)) {
		if (w->id == id)
			return w;
	}
	return NULL;
}

static struct waiter *first_waiting(struct asks *l, const struct ask *a)
{
	struct waiter *w;

	for (w = TAILQ_FIRST(&l->waiters); w; w = TAILQ_NEXT(w, link)) {
		if (w->a == a && !w->told)
			return w;
	}
	return NULL;
}

static struct waiter *add_waiter(struct asks *l, struct ask *a, uint64_t id)
{
	struct waiter *w = l->n_waiters < ASKS_WAITERS_MAX ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return NULL;
	w->id = id;
	w->a = a;
	TAILQ_INSERT_TAIL(&l->waiters, w, link);
	l->n_waiters++;
	a->waiters++;
	return w;
}

static void deny_waiters(struct asks *l, const struct ask *a, const char *why)
{
	char id[ASK_ID_MAX];
	struct waiter *w;

	ask_id(l, a, id);
	while ((w = first_waiting(l, a)) != NULL) {
		uint64_t who = w->id;

		remove_waiter(l, w);
		l->out.tell(l->out.ctx, who, false, id, why);
	}
}

/*
 * The only path to "allow" (asks.A1). A person has allowed `a`, and it is in force. The use is logged
 * (asks.A3) and counted (asks.A4) before the waiter is told.
 */
static void allow_waiter(struct asks *l, struct ask *a, struct waiter *w)
{
	struct err e = ERR_INIT;
	char id[ASK_ID_MAX];

	BUG_ON(!a->answered || !a->answer.allow || (a->state != ASK_GRANTED && a->state != ASK_PARKED));
	ask_id(l, a, id);
	/* The rule is in force already; asking for it again changes nothing and is not logged (asks.A3). */
	if (a->q.kind == ASK_WIDEN && a->used) {
		w->told = true;
		a->waiters--;
		l->out.tell(l->out.ctx, w->id, true, id, "");
		return;
	}
	a->used++;
	if ((a->kept && write_kept(l, false, &e) < 0) || ask_log(l, a, "ask.use", "") < 0) {
		uint64_t who = w->id;

		a->used--;
		remove_waiter(l, w);
		l->out.tell(l->out.ctx, who, false, id, "the use of the approval could not be saved");
		return;
	}
	w->told = true;
	a->waiters--;
	if (a->uses && a->used >= a->uses) {
		ask_set_state(l, a, ASK_SPENT);
		set_expiry(a, (struct asks_now){ 0 }, 0);
	}
	notify_changed(l, a);
	l->out.tell(l->out.ctx, w->id, true, id, "");
}

void asks_drop(struct asks *l, struct asks_now now, uint64_t waiter)
{
	struct waiter *w = find_waiter(l, waiter);
	struct ask *a = w ? w->a : NULL;

	(void)now;
	if (!w)
		return;
	remove_waiter(l, w);
	if (a && a->state == ASK_PENDING) {
		/* The policy has changed and no waiter is left, so nobody can use an answer to this any more. */
		if (!a->waiters && a->q.generation && l->generation && a->q.generation != l->generation) {
			snprintf(a->why, sizeof(a->why), "the policy has changed; it is asked again");
			ask_set_state(l, a, ASK_GONE);
			(void)!ask_log(l, a, "ask.gone", a->why);
		}
		notify_changed(l, a);
	}
}

void asks_drop_range(struct asks *l, struct asks_now now, uint64_t first, uint64_t last)
{
	struct waiter *w, *next;

	for (w = TAILQ_FIRST(&l->waiters); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->id >= first && w->id <= last)
			asks_drop(l, now, w->id);
	}
}

void asks_taken(struct asks *l, uint64_t waiter)
{
	struct waiter *w = find_waiter(l, waiter);

	if (w && w->told)
		remove_waiter(l, w);
}

int asks_unused(struct asks *l, struct asks_now now, uint64_t waiter)
{
	struct waiter *w = find_waiter(l, waiter);
	struct ask *a = w ? w->a : NULL;
	struct err e = ERR_INIT;

	if (!w || !w->told)
		return -ENOENT;
	remove_waiter(l, w);
	if (!a || !a->used || (a->state != ASK_SPENT && a->state != ASK_GRANTED))
		return -ENOENT;
	/* If the log cannot record that the use was given back, it stays used. */
	if (ask_log(l, a, "ask.unused", "the asker had gone; nothing was sent") < 0)
		return -EIO;
	a->used--;
	if (a->state == ASK_SPENT) {
		ask_set_state(l, a, a->answer.scope == ASK_ONCE ? ASK_PARKED : ASK_GRANTED);
		/* The end is that of the original answer, so an approval that is handed out and given back
		 * repeatedly does not live longer. */
		if (a->state == ASK_PARKED) {
			a->expires = a->parked_until;
			a->expires_shown = a->parked_shown;
		}
	}
	/* If this fails, the use is lost when the list gets a new owner (asks.A8). */
	if (a->kept)
		(void)!write_kept(l, false, &e);
	notify_changed(l, a);
	/* An approval that comes back after its end is over at once. */
	(void)asks_tick(l, now);
	return 0;
}

/* ---- Asking. ---- */

static int reserve_number(struct asks *l)
{
	uint64_t last = l->last;
	int r;

	if (!l->reserve || l->last < l->reserved)
		return 0;
	r = l->reserve(l->reserve_ctx, &last);
	if (r < 0)
		return r;
	l->last = last;
	l->reserved = last + ASKS_NUMBERS;
	return 0;
}

static struct ask *make_ask(struct asks *l, struct asks_now now, const struct ask_question *q,
			    const unsigned char digest[HASH_LEN], const unsigned char subject[HASH_LEN],
			    uint64_t timeout_s)
{
	struct ask *a = calloc(1, sizeof(*a));

	if (!a || reserve_number(l) < 0 || ask_question_copy(q, &a->q, &a->text) < 0) {
		free(a);
		return NULL;
	}
	a->number = ++l->last;
	a->state = ASK_PENDING;
	l->n_pending++;
	memcpy(a->digest, digest, HASH_LEN);
	memcpy(a->subject, subject, HASH_LEN);
	a->asked = now.real;
	set_expiry(a, now, timeout_s ? timeout_s : l->timeout_s);
	TAILQ_INSERT_TAIL(&l->list, a, link);
	if (ask_log_new(l, a) == 0)
		return a;
	l->n_pending--;
	ask_free(l, a);
	return NULL;
}

/* Returns the ask for this question, an existing one or a new one; NULL, with the reason, if it cannot be
 * asked. */
static struct ask *find_or_make_ask(struct asks *l, struct asks_now now, const struct ask_question *q,
				    uint64_t timeout_s, char why[ASK_WHY_MAX])
{
	unsigned char digest[HASH_LEN], subject[HASH_LEN];
	struct ask *a;

	if (ask_question_check(q, why) < 0)
		return NULL;
	ask_question_digest(q, digest);
	ask_question_subject(q, subject);
	a = ask_find_grant(l, subject);
	a = a ? a : ask_find_same(l, ASK_PARKED, digest);
	a = a ? a : ask_find_same(l, ASK_PENDING, digest);
	if (a)
		return a;
	l->shed++;
	if (asks_are_tired(l, now, q, why))
		return NULL;
	if (!asks_have_room(l, q, why))
		return NULL;
	a = make_ask(l, now, q, digest, subject, timeout_s);
	if (!a)
		snprintf(why, ASK_WHY_MAX, "the question could not be saved");
	else
		l->shed--;
	return a;
}

void asks_put(struct asks *l, struct asks_now now, const struct ask_question *q, uint64_t waiter,
	      uint64_t timeout_s, char ret_id[ASK_ID_MAX])
{
	char why[ASK_WHY_MAX] = "", id[ASK_ID_MAX] = "";
	struct waiter *w = NULL;
	struct ask *a;

	(void)asks_tick(l, now);
	a = find_or_make_ask(l, now, q, timeout_s, why);
	if (a) {
		ask_id(l, a, id);
		a->times++;
		w = add_waiter(l, a, waiter);
		if (!w)
			snprintf(why, sizeof(why), "too many requests of this sandbox wait for an answer");
	}
	if (ret_id)
		memcpy(ret_id, id, sizeof(id));
	if (!w)
		l->out.tell(l->out.ctx, waiter, false, id, why);
	else if (a->state == ASK_PENDING)
		notify_changed(l, a);
	else
		allow_waiter(l, a, w);
	drop_oldest_finished(l, a);
}

/* ---- Answers. ---- */

static int check_answer(const struct asks *l, const struct ask *a, const struct ask_answer *n, struct err *e)
{
	if (!n->allow)
		return 0;
	if (!asks_may_grant(l, a, n)) {
		err_set(e, -EBUSY,
			"%d approvals of this sandbox are in force already, and there may be no more",
			ASKS_GRANTS_MAX);
		return err_hint(e, -EBUSY,
				"revoke some that are not needed any more: coffer ask ls, coffer deny ID");
	}
	if ((int)n->scope < 0 || n->scope >= ASK_SCOPE_COUNT)
		return err_set(e, -EINVAL, "the answer does not say how long to allow it");
	if (n->scope == ASK_FOR && (n->seconds < 1 || n->seconds > ASKS_GRANT_MAX))
		return err_set(e, -EINVAL, "a time is 1 s to %llu days", ASKS_GRANT_MAX / 86400);
	if (n->scope == ASK_USES && (n->uses < 1 || n->uses > ASKS_USES_MAX))
		return err_set(e, -EINVAL, "a number of uses is 1 to %d", ASKS_USES_MAX);
	if (a->q.kind == ASK_WIDEN && (n->scope == ASK_ONCE || n->scope == ASK_USES)) {
		err_set(e, -EINVAL, "a rule holds for a time, not for a number of uses");
		return err_hint(
			e, -EINVAL,
			"allow it as long as the sandbox lives (--sandbox), --for a time, or --always");
	}
	return 0;
}

static const char *approver_name(const struct ask_who *w)
{
	return w->name[0] ? w->name : w->uid == 0 ? "root" : "somebody";
}

/* Explains why an ask that is not pending cannot be answered. */
static int refuse_late_answer(const struct ask *a, const char *id, struct err *e)
{
	char when[CLOCK_TEXT_LEN];

	if (a->state == ASK_EXPIRED)
		return err_set(e, -ETIME, "%s has expired: nobody answered in time, and it was denied", id);
	if (a->state == ASK_GONE)
		return err_set(e, -ECANCELED, "%s is gone: %s", id, a->why);
	return err_set(e, -EALREADY, "%s was answered already: %s%s%s by %s (uid %u, %s) at %s", id,
		       a->answer.allow ? "allow" : "deny", a->answer.allow ? ", " : "",
		       a->answer.allow ? ask_scope_name(a->answer.scope) : "", approver_name(&a->answer.who),
		       (unsigned)a->answer.who.uid, a->answer.who.via, clock_format(a->answered_at, when));
}

static void answer_deny(struct asks *l, struct asks_now now, struct ask *a)
{
	const struct ask_answer *n = &a->answer;

	ask_set_state(l, a, ASK_DENIED);
	snprintf(a->why, sizeof(a->why), "a person denied it%s%.200s", n->reason[0] ? ": " : "", n->reason);
	asks_count_denial(l, now, &a->q);
	deny_waiters(l, a, a->why);
}

static void end_ask_with(struct asks *l, struct ask *a, enum ask_state s, const char *type, const char *why);

/* Has the owner put the granted rule in force, before any waiter is told (asks.A3). */
static int put_rule_in_force(struct asks *l, struct ask *a, struct err *e)
{
	struct err own = ERR_INIT;
	char why[ASK_WHY_MAX];
	int r = l->out.widened ? l->out.widened(l->out.ctx, &own)
			       : err_set(&own, -EINVAL, "there is no policy to put it in");

	/* The ask may have expired while the owner was compiling the policy. */
	if (r >= 0 && a->state == ASK_GRANTED)
		return 0;
	snprintf(why, sizeof(why), "the rule was not put in force: %.200s",
		 r < 0 ? own.msg : "its time was over");
	if (a->state == ASK_GRANTED)
		end_ask_with(l, a, ASK_LAPSED, "ask.lapse", why);
	return err_set(e, -EINVAL, "%s", why);
}

/* Makes a grant the session's, on disk, before it takes effect (asks.A8). */
static int give_to_session(struct asks *l, struct ask *a, struct err *e)
{
	struct err own = ERR_INIT;
	char why[ASK_WHY_MAX];
	int r;

	if (a->answer.scope == ASK_ONCE || !(l->keeps & 1u << a->q.kind))
		return 0;
	a->kept = true;
	r = write_kept(l, false, &own);
	if (r >= 0)
		return 0;
	a->kept = false;
	snprintf(why, sizeof(why), "it was not granted: %.200s", own.msg);
	end_ask_with(l, a, ASK_LAPSED, "ask.lapse", why);
	return err_set(e, -EIO, "%s", why);
}

static int answer_allow(struct asks *l, struct asks_now now, struct ask *a, struct err *e)
{
	const struct ask_answer *n = &a->answer;
	struct waiter *w;
	int r;

	ask_set_state(l, a, n->scope == ASK_ONCE ? ASK_PARKED : ASK_GRANTED);
	a->uses = n->scope == ASK_ONCE ? 1 : n->scope == ASK_USES ? n->uses : 0;
	set_expiry(a, now, n->scope == ASK_ONCE ? ASKS_PARKED_FOR : n->scope == ASK_FOR ? n->seconds : 0);
	a->parked_until = a->expires;
	a->parked_shown = a->expires_shown;
	if (a->q.kind == ASK_WIDEN && put_rule_in_force(l, a, e) < 0)
		return -EINVAL;
	r = give_to_session(l, a, e);
	if (r < 0)
		return r;
	while (!ask_is_over(a) && (w = first_waiting(l, a)) != NULL)
		allow_waiter(l, a, w);
	deny_waiters(l, a,
		     "it was approved once, and an identical request was sent; send it again to ask again");
	return 0;
}

int asks_answer(struct asks *l, struct asks_now now, const char *id, const char *digest,
		const struct ask_answer *n, struct err *e)
{
	struct ask *a = (struct ask *)asks_find(l, id);
	char hex[HASH_HEX_LEN + 1], whole[ASK_ID_MAX];
	int r;

	if (!a)
		return err_set(e, -ENOENT, "there is no question %s", id);
	(void)asks_tick(l, now);
	ask_id(l, a, whole);
	hash_hex(a->digest, HASH_LEN, hex);
	if (a->state != ASK_PENDING)
		return refuse_late_answer(a, whole, e);
	if (strcmp(hex, digest) != 0)
		return err_set(e, -ESTALE, "%s is another question than the one that was shown", whole);
	if (a->q.generation && l->generation && a->q.generation != l->generation)
		return err_set(e, -ESTALE, "the policy has changed since %s was asked; it is asked again",
			       whole);
	r = check_answer(l, a, n, e);
	if (r < 0)
		return r;
	if (ask_log_answer(l, a, n) < 0)
		return err_set(e, -EIO, "the answer to %s could not be saved, so it has no effect", whole);
	a->answer = *n;
	a->answered = true;
	a->answered_at = now.real;
	if (n->allow)
		r = answer_allow(l, now, a, e);
	else
		answer_deny(l, now, a);
	notify_changed(l, a);
	return r;
}

int asks_revoke(struct asks *l, struct asks_now now, const char *id, const struct ask_who *who, struct err *e)
{
	struct ask *a = (struct ask *)asks_find(l, id);
	int r;

	if (!a)
		return err_set(e, -ENOENT, "there is no question %s", id);
	(void)asks_tick(l, now);
	if (a->state != ASK_GRANTED && a->state != ASK_PARKED)
		return err_set(e, -ECANCELED, "%s grants nothing now: it is %s", id,
			       ask_state_name(a->state));
	if (ask_log_revoke(l, a, who) < 0)
		return err_set(e, -EIO, "the revocation could not be saved, so the grant stays in force");
	ask_set_state(l, a, ASK_LAPSED);
	set_expiry(a, now, 0);
	snprintf(a->why, sizeof(a->why), "%s revoked it", approver_name(who));
	r = a->kept ? write_kept(l, true, e) : 0;
	notify_changed(l, a);
	return r;
}

/* ---- Time, and other ends. ---- */

/* The waiters are denied whether or not the end can be logged. */
static void end_ask_with(struct asks *l, struct ask *a, enum ask_state s, const char *type, const char *why)
{
	struct err e = ERR_INIT;

	ask_set_state(l, a, s);
	a->expires = 0;
	snprintf(a->why, sizeof(a->why), "%s", why);
	(void)!ask_log(l, a, type, why);
	if (a->kept)
		(void)!write_kept(l, true, &e);
	deny_waiters(l, a, a->why);
	notify_changed(l, a);
}

static void expire_ask(struct asks *l, struct ask *a)
{
	if (a->state == ASK_PENDING)
		end_ask_with(l, a, ASK_EXPIRED, "ask.expire", "nobody answered in time");
	else
		end_ask_with(l, a, ASK_LAPSED, "ask.lapse",
			     a->state == ASK_PARKED ? "the asker had gone and did not ask again in time"
						    : "its time is over");
}

uint64_t asks_tick(struct asks *l, struct asks_now now)
{
	uint64_t next = 0;
	struct ask *a;

	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (ask_is_over(a) || !a->expires)
			continue;
		if (now.mono >= a->expires)
			expire_ask(l, a);
		else if (!next || a->expires < next)
			next = a->expires;
	}
	return next;
}

void asks_new_policy(struct asks *l, struct asks_now now, uint32_t generation)
{
	struct ask *a;

	(void)asks_tick(l, now);
	l->generation = generation;
	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (!a->q.generation || a->q.generation == generation)
			continue;
		/* The process that holds the waiters withdraws them and asks again under the new policy. */
		if (a->state == ASK_PENDING && !a->waiters)
			end_ask_with(l, a, ASK_GONE, "ask.gone", "the policy has changed; it is asked again");
		else if (a->state == ASK_PARKED)
			end_ask_with(l, a, ASK_LAPSED, "ask.lapse", "the policy has changed");
	}
}

void asks_end_why(struct asks *l, struct asks_now now, const char *why)
{
	struct ask *a;

	(void)asks_tick(l, now);
	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->state == ASK_PENDING)
			end_ask_with(l, a, ASK_GONE, "ask.gone", why);
		else if (!ask_is_over(a) && !a->kept)
			end_ask_with(l, a, ASK_LAPSED, "ask.lapse", why);
	}
}

void asks_kept_end(struct asks *l, struct asks_now now, const char *why)
{
	struct ask *a;

	(void)asks_tick(l, now);
	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->kept && a->state == ASK_GRANTED)
			end_ask_with(l, a, ASK_LAPSED, "ask.lapse", why);
	}
}

void asks_end(struct asks *l, struct asks_now now)
{
	asks_end_why(l, now, "the sandbox has ended");
}
