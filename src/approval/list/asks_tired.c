/* SPDX-License-Identifier: Apache-2.0 */
/* Denials without asking (asks.A7): an agent cannot wear a person out by asking again and again. */
#include "approval/list/asks_int.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static void tired_key(const struct ask_question *q, unsigned char ret[HASH_LEN])
{
	autobuf struct buf b = BUF_INIT;

	buf_addf(&b, "%d %s", (int)q->kind, q->rule ? q->rule : "");
	/* Submitters are counted apart: a submitter that is denied repeatedly cannot get the sandbox's own
	 * questions denied. */
	if (q->by && q->by[0])
		buf_addf(&b, "\nby %s", q->by);
	hash_sha256(buf_cstr(&b), b.len, ret);
}

/* The record of this key. With `make`, a new one that replaces the one unused for longest. */
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

void asks_count_denial(struct asks *l, struct asks_now now, const struct ask_question *q)
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

bool asks_are_tired(struct asks *l, struct asks_now now, const struct ask_question *q, char why[ASK_WHY_MAX])
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
