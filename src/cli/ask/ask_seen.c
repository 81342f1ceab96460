/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask/ask_seen.h"

#include "base/cleanup.h"
#include "cli/common/ask_show.h"

#include <stdlib.h>
#include <string.h>

void ask_seen_release(struct ask_seen *s)
{
	free(s->v);
	*s = ASK_SEEN_INIT;
}

static uint64_t question_number(const json_t *ask, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(ask, key));
}

static struct ask_seen_one *find_seen(const struct ask_seen *s, uint64_t n)
{
	for (size_t i = s->n; i-- > 0;) {
		if (s->v[i].number == n)
			return &s->v[i];
	}
	return NULL;
}

static bool is_open_seen(const struct ask_seen_one *o)
{
	return o->state == ASK_PENDING || o->state == ASK_PARKED || o->state == ASK_GRANTED;
}

/* The oldest that is over; where none is, the oldest. */
static void forget_one(struct ask_seen *s)
{
	size_t i = 0;

	while (i < s->n && is_open_seen(&s->v[i]))
		i++;
	i = i < s->n ? i : 0;
	memmove(s->v + i, s->v + i + 1, (--s->n - i) * sizeof(s->v[0]));
}

static struct ask_seen_one *add_seen(struct ask_seen *s)
{
	if (!s->v)
		s->v = calloc(ASK_SEEN_MAX, sizeof(s->v[0]));
	if (!s->v)
		return NULL;
	if (s->n == ASK_SEEN_MAX)
		forget_one(s);
	return &s->v[s->n++];
}

void ask_seen_note(struct ask_seen *s, const json_t *ask, struct ask_news *ret)
{
	const struct ask_seen_one now = { .number = question_number(ask, "number"),
					  .state = ask_state_parse(ask_text(ask, "state")),
					  .answered = json_is_object(json_object_get(ask, "answer")),
					  .times = question_number(ask, "times"),
					  .waiters = question_number(ask, "waiters"),
					  .used = question_number(ask, "used") };
	struct ask_seen_one *o = find_seen(s, now.number);

	ret->state = !o || o->state != now.state;
	ret->answered = o && now.answered && !o->answered;
	ret->any = ret->state || ret->answered || o->times != now.times || o->waiters != now.waiters ||
		   o->used != now.used;
	o = o ? o : add_seen(s);
	if (o)
		*o = now;
}
