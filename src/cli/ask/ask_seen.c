/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers the last printed state of each question that `coffer ask ls --follow` watches, and tells what
 * has changed since. See ask_seen.h for what is forgotten when the table is full. No change may be told
 * twice.
 */
#include "cli/ask/ask_seen.h"

#include "base/cleanup.h"
#include "base/jsonget.h"
#include "cli/common/ask_show.h"

#include <stdlib.h>
#include <string.h>

void cli_ask_seen_release(struct ask_seen *s)
{
	free(s->v);
	*s = ASK_SEEN_INIT;
}

static struct ask_seen_one *find_seen(const struct ask_seen *s, uint64_t n)
{
	for (size_t i = s->n; i-- > 0;) {
		if (s->v[i].number == n)
			return &s->v[i];
	}
	return NULL;
}

static bool is_seen_open(const struct ask_seen_one *o)
{
	return o->state == ASK_PENDING || o->state == ASK_PARKED || o->state == ASK_GRANTED;
}

/* Drops the oldest question that is over; if all are open, the oldest one. */
static void forget_oldest_seen(struct ask_seen *s)
{
	size_t i = 0;

	while (i < s->n && is_seen_open(&s->v[i]))
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
		forget_oldest_seen(s);
	return &s->v[s->n++];
}

void cli_ask_seen_note(struct ask_seen *s, const json_t *ask, struct ask_news *ret)
{
	const struct ask_seen_one now = { .number = jsonget_u64(ask, "number"),
					  .state = ask_state_parse(jsonget_text(ask, "state")),
					  .answered = json_is_object(json_object_get(ask, "answer")),
					  .times = jsonget_u64(ask, "times"),
					  .waiters = jsonget_u64(ask, "waiters"),
					  .used = jsonget_u64(ask, "used") };
	struct ask_seen_one *o = find_seen(s, now.number);

	ret->state = !o || o->state != now.state;
	ret->answered = o && now.answered && !o->answered;
	ret->any = ret->state || ret->answered || o->times != now.times || o->waiters != now.waiters ||
		   o->used != now.used;
	o = o ? o : add_seen(s);
	if (o)
		*o = now;
}
