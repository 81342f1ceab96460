/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grants of a session (asks.A8): writing them as text, and loading them into the list of the next ask
 * server. Input that is not exactly consistent is rejected as a whole.
 */
#include "approval/list/asks_int.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/jsonget.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void asks_keep(struct asks *l, unsigned kinds)
{
	l->keeps = kinds;
}

/* While its last use is being written (allow_waiter), a grant is no longer in force although its state is
 * still GRANTED. */
static bool is_grant_in_force(const struct ask *a)
{
	return a->kept && a->state == ASK_GRANTED && (!a->uses || a->used < a->uses);
}

void asks_kept_store(const struct asks *l, struct buf *out)
{
	const struct ask *a;

	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		struct json j = JSON_INIT(out);
		struct ask_view v;

		if (!is_grant_in_force(a))
			continue;
		ask_view(l, a, &v);
		json_obj(&j, NULL);
		json_u64(&j, "until", a->expires);
		ask_json(&v, &j, "ask");
		json_end_obj(&j);
		buf_addc(out, '\n');
	}
}

/* ---- Reading it again. ---- */

/* Are the remaining time and uses within the person's answer? */
static bool is_within_answer(const struct ask *a, struct asks_now now)
{
	const struct ask_answer *n = &a->answer;
	uint64_t end = now.mono + n->seconds * NSEC_PER_SEC;

	switch (n->scope) {
	case ASK_SANDBOX:
	case ASK_ALWAYS:
		return !a->expires && !a->uses;
	case ASK_FOR:
		return n->seconds >= 1 && n->seconds <= ASKS_GRANT_MAX && a->expires && a->expires <= end &&
		       !a->uses;
	case ASK_USES:
		return n->uses >= 1 && n->uses <= ASKS_USES_MAX && a->uses == n->uses && a->used < a->uses &&
		       !a->expires;
	default:
		return false;
	}
}

static bool is_consistent_grant(const struct asks *l, const struct ask *a, const json_t *o,
				struct asks_now now)
{
	const char *run = jsonget_text_or_null(o, "sandbox"), *state = jsonget_text_or_null(o, "state"),
		   *scope = jsonget_text_or_null(json_object_get(o, "answer"), "scope");
	unsigned char digest[HASH_LEN];
	char why[ASK_WHY_MAX];

	if (!run || !str_eq(run, l->run) || !state || !str_eq(state, ask_state_name(ASK_GRANTED)))
		return false;
	/* ask_read() reads an unknown scope as another, so it is checked here. */
	if (!a->number || !a->answered || !a->answer.allow || !scope || ask_scope_parse(scope) < 0)
		return false;
	if ((a->q.kind != ASK_TOOL && a->q.kind != ASK_WIDEN) || ask_question_check(&a->q, why) < 0)
		return false;
	ask_question_digest(&a->q, digest);
	return memcmp(digest, a->digest, HASH_LEN) == 0 && is_within_answer(a, now);
}

static struct ask *read_grant_line(const struct asks *l, struct asks_now now, const char *line, size_t len)
{
	json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL), *ask = json_object_get(o, "ask"),
	       *until = json_object_get(o, "until");
	struct ask *a = json_is_integer(until) && json_integer_value(until) >= 0 ? ask_read(ask) : NULL;

	if (a) {
		a->expires = (uint64_t)json_integer_value(until);
		a->state = ASK_GRANTED;
		a->kept = true;
		ask_question_subject(&a->q, a->subject);
	}
	if (a && !is_consistent_grant(l, a, ask, now)) {
		free(a->text);
		free(a);
		a = NULL;
	}
	json_decref(o);
	return a;
}

static struct ask *find_ask_number(const struct ask_list *l, uint64_t number)
{
	struct ask *a;

	for (a = TAILQ_FIRST(l); a; a = TAILQ_NEXT(a, link)) {
		if (a->number == number)
			return a;
	}
	return NULL;
}

/* An open ask belongs to this list and may not be replaced. */
static bool is_open_ask(const struct ask *a)
{
	return a && (a->state == ASK_PENDING || a->state == ASK_PARKED || a->state == ASK_GRANTED);
}

static int read_grants(const struct asks *l, struct asks_now now, const char *text, size_t len,
		       struct ask_list *ret)
{
	const char *end = text + len;
	unsigned n = 0;

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		struct ask *a = nl && n < ASKS_SESSION_MAX
					? read_grant_line(l, now, text, (size_t)(nl - text))
					: NULL;

		if (!a)
			return -EBADMSG;
		/* Two grants with one number mean a damaged file. */
		if (find_ask_number(ret, a->number) || is_open_ask(find_ask_number(&l->list, a->number))) {
			free(a->text);
			free(a);
			return -EBADMSG;
		}
		TAILQ_INSERT_TAIL(ret, a, link);
		text = nl + 1;
		n++;
	}
	return 0;
}

static void insert_grant(struct asks *l, struct ask *a)
{
	struct ask *had = find_ask_number(&l->list, a->number);

	if (had) {
		TAILQ_INSERT_BEFORE(had, a, link);
		l->n_over--;
		ask_free(l, had);
	} else {
		TAILQ_INSERT_TAIL(&l->list, a, link);
	}
	l->last = a->number > l->last ? a->number : l->last;
}

int asks_kept_load(struct asks *l, struct asks_now now, const char *text, size_t len, struct err *e)
{
	struct ask_list got = TAILQ_HEAD_INITIALIZER(got);
	int r = read_grants(l, now, text, len, &got);
	struct ask *a;

	while ((a = TAILQ_FIRST(&got)) != NULL) {
		TAILQ_REMOVE(&got, a, link);
		if (r == 0) {
			insert_grant(l, a);
		} else {
			free(a->text);
			free(a);
		}
	}
	return r < 0 ? err_set(e, r, "the session's grants cannot be read, so none of them holds") : 0;
}
