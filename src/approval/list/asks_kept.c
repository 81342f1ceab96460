/* SPDX-License-Identifier: Apache-2.0 */
/* What is granted to a session (A8 of asks.h): as text, and from it into the list of whoever serves next. */
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

/* One whose last use is being taken is not in force any more, whatever its state says still. */
static bool is_in_force(const struct ask *a)
{
	return a->kept && a->state == ASK_GRANTED && (!a->uses || a->used < a->uses);
}

void asks_kept_store(const struct asks *l, struct buf *out)
{
	const struct ask *a;

	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		struct json j = JSON_INIT(out);
		struct ask_view v;

		if (!is_in_force(a))
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

/* No more than was said. */
static bool fits_answer(const struct ask *a, struct asks_now now)
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

static bool is_sound(const struct asks *l, const struct ask *a, const json_t *o, struct asks_now now)
{
	const char *run = jsonget_text_or_null(o, "sandbox"), *state = jsonget_text_or_null(o, "state"),
		   *scope = jsonget_text_or_null(json_object_get(o, "answer"), "scope");
	unsigned char digest[HASH_LEN];
	char why[ASK_WHY_MAX];

	if (!run || !str_eq(run, l->run) || !state || !str_eq(state, ask_state_name(ASK_GRANTED)))
		return false;
	/* A name that is not known would be read as another. */
	if (!a->number || !a->answered || !a->answer.allow || !scope || ask_scope_parse(scope) < 0)
		return false;
	if ((a->q.kind != ASK_TOOL && a->q.kind != ASK_WIDEN) || ask_question_check(&a->q, why) < 0)
		return false;
	ask_question_digest(&a->q, digest);
	return memcmp(digest, a->digest, HASH_LEN) == 0 && fits_answer(a, now);
}

static struct ask *read_one(const struct asks *l, struct asks_now now, const char *line, size_t len)
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
	if (a && !is_sound(l, a, ask, now)) {
		free(a->text);
		free(a);
		a = NULL;
	}
	json_decref(o);
	return a;
}

static struct ask *find_number(const struct ask_list *l, uint64_t number)
{
	struct ask *a;

	for (a = TAILQ_FIRST(l); a; a = TAILQ_NEXT(a, link)) {
		if (a->number == number)
			return a;
	}
	return NULL;
}

/* What is open here is this list's own. */
static bool is_own(const struct ask *a)
{
	return a && (a->state == ASK_PENDING || a->state == ASK_PARKED || a->state == ASK_GRANTED);
}

static int read_all(const struct asks *l, struct asks_now now, const char *text, size_t len,
		    struct ask_list *ret)
{
	const char *end = text + len;
	unsigned n = 0;

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		struct ask *a =
			nl && n < ASKS_SESSION_MAX ? read_one(l, now, text, (size_t)(nl - text)) : NULL;

		if (!a)
			return -EBADMSG;
		/* No two have one number. */
		if (find_number(ret, a->number) || is_own(find_number(&l->list, a->number))) {
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

static void take(struct asks *l, struct ask *a)
{
	struct ask *had = find_number(&l->list, a->number);

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
	int r = read_all(l, now, text, len, &got);
	struct ask *a;

	while ((a = TAILQ_FIRST(&got)) != NULL) {
		TAILQ_REMOVE(&got, a, link);
		if (r == 0) {
			take(l, a);
		} else {
			free(a->text);
			free(a);
		}
	}
	return r < 0 ? err_set(e, r, "what was granted to the session cannot be read, so nothing of it holds")
		     : 0;
}
