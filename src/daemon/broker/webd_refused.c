/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs api.refused: the first refusal of a credential and an act is logged at once; repetitions within FOLD
 * are counted and logged as one line afterwards. A caller that is refused repeatedly cannot flood the log.
 */
#include "daemon/broker/webd_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLD (10 * NSEC_PER_SEC)
#define ENTRIES 256 /* at a time; further ones are counted together */

struct refusal {
	bool used;
	unsigned char key[HASH_LEN];
	enum web_op op;
	enum web_role role;
	char name[72], via[16];
	uint64_t until; /* CLOCK_MONOTONIC ns */
	uint64_t times; /* not logged yet */
};

struct webd_refusals {
	struct webd *d;
	struct timer timer;
	struct refusal e[ENTRIES];
	uint64_t others;
};

static void log_refusal(struct webd *d, const struct refusal *x, uint64_t times)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_str(&j, "act", x ? web_route(x->op)->name : "others");
	if (x) {
		json_str(&j, "who", x->name);
		json_str(&j, "role", web_role_name(x->role));
		json_str(&j, "via", x->via);
	}
	json_u64(&j, "times", times);
	/* A failure is ignored: the request was refused, so nothing happened that must be on record. */
	if (!buf_error(&b))
		(void)!audit_append(d->w.audit, "api.refused", NULL, &b, NULL);
}

/* Logs and removes entries whose time is over, or all. */
static void flush_refusals(struct webd_refusals *t, bool all)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC), next = 0;

	for (size_t i = 0; i < ENTRIES; i++) {
		struct refusal *x = &t->e[i];

		if (!x->used)
			continue;
		if (!all && x->until > now) {
			next = !next || x->until < next ? x->until : next;
			continue;
		}
		if (x->times)
			log_refusal(t->d, x, x->times);
		*x = (struct refusal){ 0 };
	}
	if (t->others)
		log_refusal(t->d, NULL, t->others);
	t->others = 0;
	if (next)
		loop_timer(t->d->w.loop, &t->timer, next);
}

static void on_refusal_timer(struct timer *timer)
{
	flush_refusals(timer->ctx, false);
}

struct webd_refusals *webd_refusals_new(struct webd *d)
{
	struct webd_refusals *t = calloc(1, sizeof(*t));

	if (t) {
		t->d = d;
		t->timer = (struct timer){ .fn = on_refusal_timer, .ctx = t };
	}
	return t;
}

void webd_refusals_free(struct webd_refusals *t)
{
	if (!t)
		return;
	loop_timer_off(t->d->w.loop, &t->timer);
	flush_refusals(t, true);
	loop_timer_off(t->d->w.loop, &t->timer);
	free(t);
}

void webd_note_refusal(struct webd *d, const struct webp_req *q, const struct who *who)
{
	struct webd_refusals *t = d->refusals;
	struct refusal *room = NULL;

	for (size_t i = 0; i < ENTRIES; i++) {
		struct refusal *x = &t->e[i];

		if (!x->used) {
			room = room ? room : x;
		} else if (x->op == q->op && memcmp(x->key, q->key, HASH_LEN) == 0) {
			x->times++;
			return;
		}
	}
	if (!room) {
		t->others++;
		return;
	}
	*room = (struct refusal){
		.used = true, .op = q->op, .role = who->role, .until = clock_nsec(CLOCK_MONOTONIC) + FOLD
	};
	memcpy(room->key, q->key, HASH_LEN);
	snprintf(room->name, sizeof(room->name), "%s", who->name);
	snprintf(room->via, sizeof(room->via), "%s", who->via);
	log_refusal(d, room, 1);
	if (!t->timer.armed)
		loop_timer(d->w.loop, &t->timer, room->until);
}
