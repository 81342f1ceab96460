/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of questions. Numbers in comments are the invariants of asks.h.
 *
 * A1 in one place: out.tell(…, true, …) is called by allow_one() and by nobody else, and allow_one() is reached from an ask
 * that a person answered only: GRANTED or PARKED, or PENDING on its way to one of them in take_allow().
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

static bool is_over(const struct ask *a)
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

static void changed(struct asks *l, const struct ask *a)
{
	if (l->out.changed)
		l->out.changed(l->out.ctx, a);
}

/* A6: of those that are over, the newest are kept. */
static void forget_oldest(struct asks *l, const struct ask *but)
{
	struct ask *a, *next;

	for (a = TAILQ_FIRST(&l->list); a && l->n_over > ASKS_KEPT_MAX; a = next) {
		next = TAILQ_NEXT(a, link);
		if (is_over(a) && a != but) {
			l->n_over--;
			ask_free(l, a);
		}
	}
}

static void set_state(struct asks *l, struct ask *a, enum ask_state s)
{
	bool was_over = is_over(a);

	l->n_pending -= a->state == ASK_PENDING;
	a->state = s;
	l->n_pending += s == ASK_PENDING;
	l->n_over = l->n_over + is_over(a) - was_over;
}

static void set_end(struct ask *a, struct asks_now now, uint64_t seconds)
{
	a->expires = seconds ? now.mono + seconds * NSEC_PER_SEC : 0;
	a->expires_shown = seconds ? now.real + seconds * NSEC_PER_SEC : 0;
}

/* A8 */
static int keep(struct asks *l, bool less, struct err *e)
{
	return l->out.kept ? l->out.kept(l->out.ctx, less, e)
			   : err_set(e, -EINVAL, "nothing is kept for a session here");
}

/* ---- Waiters. ---- */

static void free_waiter(struct asks *l, struct waiter *w)
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

static void deny_all(struct asks *l, const struct ask *a, const char *why)
{
	char id[ASK_ID_MAX];
	struct waiter *w;

	ask_id(l, a, id);
	while ((w = first_waiting(l, a)) != NULL) {
		uint64_t who = w->id;

		free_waiter(l, w);
		l->out.tell(l->out.ctx, who, false, id, why);
	}
}

/*
 * The one way to "allow" (A1). `a` was answered so by a person, and is in force; the use is written down (A3) and counted
 * (A4) before the waiter hears of it.
 */
static void allow_one(struct asks *l, struct ask *a, struct waiter *w)
{
	struct err e = ERR_INIT;
	char id[ASK_ID_MAX];

	BUG_ON(!a->answered || !a->answer.allow || (a->state != ASK_GRANTED && a->state != ASK_PARKED));
	ask_id(l, a, id);
	/* A rule is in force, and is used by what it lets through: who asks for it again changes nothing, and writes nothing. */
	if (a->q.kind == ASK_WIDEN && a->used) {
		w->told = true;
		a->waiters--;
		l->out.tell(l->out.ctx, w->id, true, id, "");
		return;
	}
	a->used++;
	if ((a->kept && keep(l, false, &e) < 0) || ask_log(l, a, "ask.use", "") < 0) {
		uint64_t who = w->id;

		a->used--;
		free_waiter(l, w);
		l->out.tell(l->out.ctx, who, false, id, "the use of the approval could not be written down");
		return;
	}
	w->told = true;
	a->waiters--;
	if (a->uses && a->used >= a->uses) {
		set_state(l, a, ASK_SPENT);
		set_end(a, (struct asks_now){ 0 }, 0);
	}
	changed(l, a);
	l->out.tell(l->out.ctx, w->id, true, id, "");
}

void asks_drop(struct asks *l, struct asks_now now, uint64_t waiter)
{
	struct waiter *w = find_waiter(l, waiter);
	struct ask *a = w ? w->a : NULL;

	(void)now;
	if (!w)
		return;
	free_waiter(l, w);
	if (a && a->state == ASK_PENDING) {
		/* Nobody can want it as it was any more. */
		if (!a->waiters && a->q.generation && l->generation && a->q.generation != l->generation) {
			snprintf(a->why, sizeof(a->why), "the policy has changed; it is asked again");
			set_state(l, a, ASK_GONE);
			(void)!ask_log(l, a, "ask.gone", a->why);
		}
		changed(l, a);
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
		free_waiter(l, w);
}

int asks_unused(struct asks *l, struct asks_now now, uint64_t waiter)
{
	struct waiter *w = find_waiter(l, waiter);
	struct ask *a = w ? w->a : NULL;
	struct err e = ERR_INIT;

	if (!w || !w->told)
		return -ENOENT;
	free_waiter(l, w);
	if (!a || !a->used || (a->state != ASK_SPENT && a->state != ASK_GRANTED))
		return -ENOENT;
	/* One that is not written down stays used. */
	if (ask_log(l, a, "ask.unused", "who asked had gone; nothing was sent") < 0)
		return -EIO;
	a->used--;
	if (a->state == ASK_SPENT) {
		set_state(l, a, a->answer.scope == ASK_ONCE ? ASK_PARKED : ASK_GRANTED);
		/* The end is that of the answer: what is handed out and given back again and again does not live longer. */
		if (a->state == ASK_PARKED) {
			a->expires = a->parked_until;
			a->expires_shown = a->parked_shown;
		}
	}
	/* One that is not given back in writing is lost with whoever keeps the list. */
	if (a->kept)
		(void)!keep(l, false, &e);
	changed(l, a);
	/* What comes back behind its end has none. */
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

static struct ask *new_ask(struct asks *l, struct asks_now now, const struct ask_question *q,
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
	set_end(a, now, timeout_s ? timeout_s : l->timeout_s);
	TAILQ_INSERT_TAIL(&l->list, a, link);
	if (ask_log_new(l, a) == 0)
		return a;
	l->n_pending--;
	ask_free(l, a);
	return NULL;
}

/* An entry for it: one that is there, or a new one. NULL and why not. */
static struct ask *entry_for(struct asks *l, struct asks_now now, const struct ask_question *q,
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
	a = new_ask(l, now, q, digest, subject, timeout_s);
	if (!a)
		snprintf(why, ASK_WHY_MAX, "the question could not be written down");
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
	a = entry_for(l, now, q, timeout_s, why);
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
		changed(l, a);
	else
		allow_one(l, a, w);
	forget_oldest(l, a);
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
				"take back some that are not needed any more: coffer ask ls, coffer deny ID");
	}
	if ((int)n->scope < 0 || n->scope >= ASK_SCOPE_COUNT)
		return err_set(e, -EINVAL, "how long to allow it is not said");
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

static const char *name_of(const struct ask_who *w)
{
	return w->name[0] ? w->name : w->uid == 0 ? "root" : "somebody";
}

/* Why it cannot be answered any more. */
static int too_late(const struct ask *a, const char *id, struct err *e)
{
	char when[CLOCK_TEXT_LEN];

	if (a->state == ASK_EXPIRED)
		return err_set(e, -ETIME, "%s has expired: nobody answered in time, and it was denied", id);
	if (a->state == ASK_GONE)
		return err_set(e, -ECANCELED, "%s is gone: %s", id, a->why);
	return err_set(e, -EALREADY, "%s was answered already: %s%s%s by %s (uid %u, %s) at %s", id,
		       a->answer.allow ? "allow" : "deny", a->answer.allow ? ", " : "",
		       a->answer.allow ? ask_scope_name(a->answer.scope) : "", name_of(&a->answer.who),
		       (unsigned)a->answer.who.uid, a->answer.who.via, clock_format(a->answered_at, when));
}

static void take_deny(struct asks *l, struct asks_now now, struct ask *a)
{
	const struct ask_answer *n = &a->answer;

	set_state(l, a, ASK_DENIED);
	snprintf(a->why, sizeof(a->why), "a person denied it%s%.200s", n->reason[0] ? ": " : "", n->reason);
	asks_count_denial(l, now, &a->q);
	deny_all(l, a, a->why);
}

static void end_ask(struct asks *l, struct ask *a, enum ask_state s, const char *type, const char *why);

/* A3, for rules: before anybody is told. */
static int put_in_force(struct asks *l, struct ask *a, struct err *e)
{
	struct err own = ERR_INIT;
	char why[ASK_WHY_MAX];
	int r = l->out.widened ? l->out.widened(l->out.ctx, &own)
			       : err_set(&own, -EINVAL, "there is no policy to put it in");

	/* Meanwhile its time may have come. */
	if (r >= 0 && a->state == ASK_GRANTED)
		return 0;
	snprintf(why, sizeof(why), "the rule was not put in force: %.200s",
		 r < 0 ? own.msg : "its time was over");
	if (a->state == ASK_GRANTED)
		end_ask(l, a, ASK_LAPSED, "ask.lapse", why);
	return err_set(e, -EINVAL, "%s", why);
}

/* A8 */
static int give_to_session(struct asks *l, struct ask *a, struct err *e)
{
	struct err own = ERR_INIT;
	char why[ASK_WHY_MAX];
	int r;

	if (a->answer.scope == ASK_ONCE || !(l->keeps & 1u << a->q.kind))
		return 0;
	a->kept = true;
	r = keep(l, false, &own);
	if (r >= 0)
		return 0;
	a->kept = false;
	snprintf(why, sizeof(why), "it was not granted: %.200s", own.msg);
	end_ask(l, a, ASK_LAPSED, "ask.lapse", why);
	return err_set(e, -EIO, "%s", why);
}

static int take_allow(struct asks *l, struct asks_now now, struct ask *a, struct err *e)
{
	const struct ask_answer *n = &a->answer;
	struct waiter *w;
	int r;

	set_state(l, a, n->scope == ASK_ONCE ? ASK_PARKED : ASK_GRANTED);
	a->uses = n->scope == ASK_ONCE ? 1 : n->scope == ASK_USES ? n->uses : 0;
	set_end(a, now, n->scope == ASK_ONCE ? ASKS_PARKED_FOR : n->scope == ASK_FOR ? n->seconds : 0);
	a->parked_until = a->expires;
	a->parked_shown = a->expires_shown;
	if (a->q.kind == ASK_WIDEN && put_in_force(l, a, e) < 0)
		return -EINVAL;
	r = give_to_session(l, a, e);
	if (r < 0)
		return r;
	while (!is_over(a) && (w = first_waiting(l, a)) != NULL)
		allow_one(l, a, w);
	deny_all(l, a, "it was approved once, and an identical request was sent; send it again to ask again");
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
		return too_late(a, whole, e);
	if (strcmp(hex, digest) != 0)
		return err_set(e, -ESTALE, "%s is another question than the one that was shown", whole);
	if (a->q.generation && l->generation && a->q.generation != l->generation)
		return err_set(e, -ESTALE, "the policy has changed since %s was asked; it is asked again",
			       whole);
	r = check_answer(l, a, n, e);
	if (r < 0)
		return r;
	if (ask_log_answer(l, a, n) < 0)
		return err_set(e, -EIO, "the answer to %s could not be written down, so it does not count",
			       whole);
	a->answer = *n;
	a->answered = true;
	a->answered_at = now.real;
	if (n->allow)
		r = take_allow(l, now, a, e);
	else
		take_deny(l, now, a);
	changed(l, a);
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
		return err_set(e, -EIO, "it could not be written down, so it stays as it is");
	set_state(l, a, ASK_LAPSED);
	set_end(a, now, 0);
	snprintf(a->why, sizeof(a->why), "%s took it back", name_of(who));
	r = a->kept ? keep(l, true, e) : 0;
	changed(l, a);
	return r;
}

/* ---- Time, and other ends. ---- */

/* A denial does not depend on whether it can be written down. */
static void end_ask(struct asks *l, struct ask *a, enum ask_state s, const char *type, const char *why)
{
	struct err e = ERR_INIT;

	set_state(l, a, s);
	a->expires = 0;
	snprintf(a->why, sizeof(a->why), "%s", why);
	(void)!ask_log(l, a, type, why);
	if (a->kept)
		(void)!keep(l, true, &e);
	deny_all(l, a, a->why);
	changed(l, a);
}

static void expire(struct asks *l, struct ask *a)
{
	if (a->state == ASK_PENDING)
		end_ask(l, a, ASK_EXPIRED, "ask.expire", "nobody answered in time");
	else
		end_ask(l, a, ASK_LAPSED, "ask.lapse",
			a->state == ASK_PARKED ? "who asked had gone, and did not come again in time"
					       : "its time is over");
}

uint64_t asks_tick(struct asks *l, struct asks_now now)
{
	uint64_t next = 0;
	struct ask *a;

	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (is_over(a) || !a->expires)
			continue;
		if (now.mono >= a->expires)
			expire(l, a);
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
		/* Those who wait are taken away by who holds them, and ask again. */
		if (a->state == ASK_PENDING && !a->waiters)
			end_ask(l, a, ASK_GONE, "ask.gone", "the policy has changed; it is asked again");
		else if (a->state == ASK_PARKED)
			end_ask(l, a, ASK_LAPSED, "ask.lapse", "the policy has changed");
	}
}

void asks_end_why(struct asks *l, struct asks_now now, const char *why)
{
	struct ask *a;

	(void)asks_tick(l, now);
	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->state == ASK_PENDING)
			end_ask(l, a, ASK_GONE, "ask.gone", why);
		else if (!is_over(a) && !a->kept)
			end_ask(l, a, ASK_LAPSED, "ask.lapse", why);
	}
}

void asks_kept_end(struct asks *l, struct asks_now now, const char *why)
{
	struct ask *a;

	(void)asks_tick(l, now);
	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->kept && a->state == ASK_GRANTED)
			end_ask(l, a, ASK_LAPSED, "ask.lapse", why);
	}
}

void asks_end(struct asks *l, struct asks_now now)
{
	asks_end_why(l, now, "the sandbox has ended");
}
