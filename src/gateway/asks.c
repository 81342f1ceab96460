/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of questions. Numbers in comments are the invariants of asks.h.
 *
 * A1 in one place: out.tell(…, true, …) is called by allow_one() and by nobody else, and allow_one() is reached from an ask
 * that a person answered only: GRANTED or PARKED, or PENDING on its way to one of them in take_allow().
 */
#include "gateway/asks_int.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

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

static void free_ask(struct asks *l, struct ask *a)
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
		free_ask(l, TAILQ_FIRST(&l->list));
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
			free_ask(l, a);
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

static void id_of(const struct asks *l, const struct ask *a, char out[ASK_ID_MAX])
{
	snprintf(out, ASK_ID_MAX, "%.6s-%llu", l->run, (unsigned long long)a->number);
}

/* ---- Events. ---- */

static void event_head(const struct asks *l, const struct ask *a, struct json *j)
{
	char id[ASK_ID_MAX], hex[HASH_HEX_LEN + 1];

	id_of(l, a, id);
	hash_hex(a->digest, HASH_LEN, hex);
	json_str(j, "ask", id);
	json_str(j, "kind", ask_kind_name(a->q.kind));
	json_str(j, "digest", hex);
}

static int event(struct asks *l, const char *type, const struct buf *b)
{
	return buf_error(b) ? -ENOMEM : l->out.event(l->out.ctx, type, b);
}

static void add_target(const struct ask_question *q, struct json *j)
{
	if (q->host[0])
		json_str(j, "host", q->host);
	if (q->port)
		json_u64(j, "port", q->port);
	if (q->method[0])
		json_str(j, "method", q->method);
	/* Values of a query may be secrets: the digest binds them, the log does without. */
	if (q->path[0])
		json_strn(j, "path", q->path, strcspn(q->path, "?"));
	if (q->what[0])
		json_str(j, "what", q->what);
}

static int log_new(struct asks *l, const struct ask *a)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char hex[HASH_HEX_LEN + 1];

	event_head(l, a, &j);
	add_target(&a->q, &j);
	if (a->q.has_body) {
		hash_hex(a->q.body, HASH_LEN, hex);
		json_str(&j, "body", hex);
		json_u64(&j, "body_len", a->q.body_len);
	}
	if (a->q.rule[0])
		json_str(&j, "rule", a->q.rule);
	if (a->q.reason[0])
		json_str(&j, "reason", a->q.reason);
	return event(l, "ask.new", &b);
}

static void add_who(const struct ask_who *w, struct json *j)
{
	json_u64(j, "uid", w->uid);
	if (w->name[0])
		json_str(j, "who", w->name);
	json_str(j, "via", w->via);
}

static int log_answer(struct asks *l, const struct ask *a, const struct ask_answer *n)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	event_head(l, a, &j);
	add_target(&a->q, &j);
	json_str(&j, "answer", n->allow ? "allow" : "deny");
	if (n->allow)
		json_str(&j, "scope", ask_scope_name(n->scope));
	if (n->allow && n->scope == ASK_FOR)
		json_u64(&j, "seconds", n->seconds);
	if (n->allow && n->scope == ASK_USES)
		json_u64(&j, "uses", n->uses);
	add_who(&n->who, &j);
	if (n->reason[0])
		json_str(&j, "reason", n->reason);
	return event(l, "ask.answer", &b);
}

/* "ask.use", "ask.unused", "ask.expire", "ask.gone", "ask.lapse". */
static int log_short(struct asks *l, const struct ask *a, const char *type, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	event_head(l, a, &j);
	add_target(&a->q, &j);
	if (str_eq(type, "ask.use"))
		json_u64(&j, "use", a->used + 1);
	if (why[0])
		json_str(&j, "why", why);
	return event(l, type, &b);
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

	id_of(l, a, id);
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
	char id[ASK_ID_MAX];

	BUG_ON(!a->answered || !a->answer.allow || (a->state != ASK_GRANTED && a->state != ASK_PARKED));
	id_of(l, a, id);
	if (log_short(l, a, "ask.use", "") < 0) {
		uint64_t who = w->id;

		free_waiter(l, w);
		l->out.tell(l->out.ctx, who, false, id, "the use of the approval could not be written down");
		return;
	}
	a->used++;
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
			(void)!log_short(l, a, "ask.gone", a->why);
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

	if (!w || !w->told)
		return -ENOENT;
	free_waiter(l, w);
	if (!a || !a->used || (a->state != ASK_SPENT && a->state != ASK_GRANTED))
		return -ENOENT;
	/* One that is not written down stays used. */
	if (log_short(l, a, "ask.unused", "who asked had gone; nothing was sent") < 0)
		return -EIO;
	a->used--;
	if (a->state == ASK_SPENT) {
		set_state(l, a, a->answer.scope == ASK_ONCE ? ASK_PARKED : ASK_GRANTED);
		if (a->state == ASK_PARKED)
			set_end(a, now, ASKS_PARKED_FOR);
	}
	changed(l, a);
	return 0;
}

/* ---- A7. ---- */

static void tired_key(const struct ask_question *q, unsigned char ret[HASH_LEN])
{
	autobuf struct buf b = BUF_INIT;

	buf_addf(&b, "%d %s", (int)q->kind, q->rule ? q->rule : "");
	hash_sha256(buf_cstr(&b), b.len, ret);
}

/* The one for this key, else the one that has been quiet longest. */
static struct tired *find_tired(struct asks *l, const struct ask_question *q, bool make)
{
	unsigned char key[HASH_LEN];
	struct tired *oldest = &l->tired[0];

	tired_key(q, key);
	for (size_t i = 0; i < ASKS_TIRED_KEYS; i++) {
		struct tired *t = &l->tired[i];

		if (t->at && memcmp(t->key, key, HASH_LEN) == 0)
			return t;
		if (t->at < oldest->at)
			oldest = t;
	}
	if (!make)
		return NULL;
	*oldest = (struct tired){ 0 };
	memcpy(oldest->key, key, HASH_LEN);
	return oldest;
}

static void count_denial(struct asks *l, struct asks_now now, const struct ask_question *q)
{
	struct tired *t = find_tired(l, q, true);

	memmove(t->denied + 1, t->denied, sizeof(t->denied) - sizeof(t->denied[0]));
	t->denied[0] = t->at = now.mono;
	if (t->denied[ASKS_TIRED_AFTER - 1] &&
	    now.mono - t->denied[ASKS_TIRED_AFTER - 1] <= ASKS_TIRED_WITHIN * NSEC_PER_SEC) {
		t->until = now.mono + ASKS_TIRED_FOR * NSEC_PER_SEC;
		memset(t->denied, 0, sizeof(t->denied));
	}
}

static bool is_tired(struct asks *l, struct asks_now now, const struct ask_question *q, char why[ASK_WHY_MAX])
{
	struct tired *t = find_tired(l, q, false);

	if (!t || now.mono >= t->until)
		return false;
	snprintf(
		why, ASK_WHY_MAX,
		"questions of this kind were denied %d times, so they are denied without asking for %llu s more",
		ASKS_TIRED_AFTER, (unsigned long long)((t->until - now.mono) / NSEC_PER_SEC + 1));
	return true;
}

/* ---- Asking. ---- */

static struct ask *find_same(struct asks *l, enum ask_state s, const unsigned char digest[HASH_LEN])
{
	struct ask *a;

	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->state == s && memcmp(a->digest, digest, HASH_LEN) == 0)
			return a;
	}
	return NULL;
}

static struct ask *find_grant(struct asks *l, const unsigned char subject[HASH_LEN])
{
	struct ask *a;

	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->state == ASK_GRANTED && memcmp(a->subject, subject, HASH_LEN) == 0)
			return a;
	}
	return NULL;
}

static struct ask *new_ask(struct asks *l, struct asks_now now, const struct ask_question *q,
			   const unsigned char digest[HASH_LEN], const unsigned char subject[HASH_LEN],
			   uint64_t timeout_s)
{
	struct ask *a = calloc(1, sizeof(*a));

	if (!a || ask_question_copy(q, &a->q, &a->text) < 0) {
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
	if (log_new(l, a) == 0)
		return a;
	l->n_pending--;
	free_ask(l, a);
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
	a = find_grant(l, subject);
	a = a ? a : find_same(l, ASK_PARKED, digest);
	a = a ? a : find_same(l, ASK_PENDING, digest);
	if (a)
		return a;
	l->shed++;
	if (is_tired(l, now, q, why))
		return NULL;
	if (l->n_pending >= ASKS_PENDING_MAX) {
		snprintf(why, ASK_WHY_MAX, "%d questions of this sandbox wait for an answer already",
			 ASKS_PENDING_MAX);
		return NULL;
	}
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
		id_of(l, a, id);
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

static int check_answer(const struct ask *a, const struct ask_answer *n, struct err *e)
{
	if (!n->allow)
		return 0;
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
		       a->answer.allow ? ask_scope_name(a->answer.scope) : "",
		       a->answer.who.name[0] ? a->answer.who.name : "somebody", (unsigned)a->answer.who.uid,
		       a->answer.who.via, clock_format(a->answered_at, when));
}

static void take_deny(struct asks *l, struct asks_now now, struct ask *a)
{
	const struct ask_answer *n = &a->answer;

	set_state(l, a, ASK_DENIED);
	snprintf(a->why, sizeof(a->why), "a person denied it%s%.200s", n->reason[0] ? ": " : "", n->reason);
	count_denial(l, now, &a->q);
	deny_all(l, a, a->why);
}

static void take_allow(struct asks *l, struct asks_now now, struct ask *a)
{
	const struct ask_answer *n = &a->answer;
	struct waiter *w;

	set_state(l, a, n->scope == ASK_ONCE ? ASK_PARKED : ASK_GRANTED);
	a->uses = n->scope == ASK_ONCE ? 1 : n->scope == ASK_USES ? n->uses : 0;
	set_end(a, now, n->scope == ASK_ONCE ? ASKS_PARKED_FOR : n->scope == ASK_FOR ? n->seconds : 0);
	while (!is_over(a) && (w = first_waiting(l, a)) != NULL)
		allow_one(l, a, w);
	deny_all(l, a, "it was approved once, and an identical request was sent; send it again to ask again");
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
	id_of(l, a, whole);
	hash_hex(a->digest, HASH_LEN, hex);
	if (a->state != ASK_PENDING)
		return too_late(a, whole, e);
	if (strcmp(hex, digest) != 0)
		return err_set(e, -ESTALE, "%s is another question than the one that was shown", whole);
	if (a->q.generation && l->generation && a->q.generation != l->generation)
		return err_set(e, -ESTALE, "the policy has changed since %s was asked; it is asked again",
			       whole);
	r = check_answer(a, n, e);
	if (r < 0)
		return r;
	if (log_answer(l, a, n) < 0)
		return err_set(e, -EIO, "the answer to %s could not be written down, so it does not count",
			       whole);
	a->answer = *n;
	a->answered = true;
	a->answered_at = now.real;
	if (n->allow)
		take_allow(l, now, a);
	else
		take_deny(l, now, a);
	changed(l, a);
	return 0;
}

int asks_revoke(struct asks *l, struct asks_now now, const char *id, const struct ask_who *who, struct err *e)
{
	struct ask *a = (struct ask *)asks_find(l, id);
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (!a)
		return err_set(e, -ENOENT, "there is no question %s", id);
	(void)asks_tick(l, now);
	if (a->state != ASK_GRANTED && a->state != ASK_PARKED)
		return err_set(e, -ECANCELED, "%s grants nothing now: it is %s", id,
			       ask_state_name(a->state));
	event_head(l, a, &j);
	add_who(who, &j);
	if (event(l, "ask.revoke", &b) < 0)
		return err_set(e, -EIO, "it could not be written down, so it stays as it is");
	set_state(l, a, ASK_LAPSED);
	set_end(a, now, 0);
	snprintf(a->why, sizeof(a->why), "%s took it back", who->name[0] ? who->name : "somebody");
	changed(l, a);
	return 0;
}

/* ---- Time, and other ends. ---- */

/* A denial does not depend on whether it can be written down. */
static void end_ask(struct asks *l, struct ask *a, enum ask_state s, const char *type, const char *why)
{
	set_state(l, a, s);
	a->expires = 0;
	snprintf(a->why, sizeof(a->why), "%s", why);
	(void)!log_short(l, a, type, why);
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

void asks_end(struct asks *l, struct asks_now now)
{
	struct ask *a;

	(void)asks_tick(l, now);
	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->state == ASK_PENDING)
			end_ask(l, a, ASK_GONE, "ask.gone", "the sandbox has ended");
		else if (!is_over(a))
			end_ask(l, a, ASK_LAPSED, "ask.lapse", "the sandbox has ended");
	}
}

/* ---- Looking. ---- */

const struct ask *asks_find(const struct asks *l, const char *id)
{
	const char *dash = strchr(id, '-');
	size_t n = dash ? (size_t)(dash - id) : 0;
	uint64_t number;
	struct ask *a;

	if (dash && (n == 0 || n > RUN_ID_LEN || strncmp(id, l->run, n) != 0))
		return NULL;
	if (str_to_u64(dash ? dash + 1 : id, &number) < 0)
		return NULL;
	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->number == number)
			return a;
	}
	return NULL;
}

const struct ask *asks_next(const struct asks *l, const struct ask *after)
{
	return after ? TAILQ_NEXT(after, link) : TAILQ_FIRST(&l->list);
}

void ask_view(const struct asks *l, const struct ask *a, struct ask_view *ret)
{
	*ret = (struct ask_view){ .number = a->number,
				  .state = a->state,
				  .q = a->q,
				  .asked = a->asked,
				  .expires = a->expires ? a->expires_shown : 0,
				  .waiters = a->waiters,
				  .times = a->times,
				  .used = a->used,
				  .uses = a->uses,
				  .answered = a->answered,
				  .answer = a->answer,
				  .answered_at = a->answered_at,
				  .why = a->why };
	id_of(l, a, ret->id);
	memcpy(ret->run, l->run, sizeof(ret->run));
	hash_hex(a->digest, HASH_LEN, ret->digest);
}

unsigned asks_pending(const struct asks *l)
{
	return l->n_pending;
}

uint64_t asks_shed(const struct asks *l)
{
	return l->shed;
}
