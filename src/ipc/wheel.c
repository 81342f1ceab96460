/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timer wheel (wheel.h): one list of deadlines for each tick modulo WHEEL_SLOTS. Pure: the caller passes
 * the time.
 */

#include "ipc/wheel.h"

#include <stddef.h>
#include <string.h>

void wheel_init(struct wheel *w, uint64_t now_ns)
{
	memset(w, 0, sizeof(*w));
	w->tick = now_ns / WHEEL_TICK;
}

void wheel_disarm(struct wheel *w, struct wheel_entry *t)
{
	if (!t->link)
		return;
	*t->link = t->next;
	if (t->next)
		t->next->link = t->link;
	t->link = NULL;
	t->next = NULL;
	w->n--;
}

/* Puts an entry at the head of a list. */
static void wheel_insert(struct wheel_entry **list, struct wheel_entry *t)
{
	t->next = *list;
	t->link = list;
	if (t->next)
		t->next->link = &t->next;
	*list = t;
}

void wheel_arm(struct wheel *w, struct wheel_entry *t, uint64_t at_ns)
{
	uint64_t at = at_ns / WHEEL_TICK + 1;

	wheel_disarm(w, t);
	t->at = at > w->tick ? at : w->tick + 1;
	wheel_insert(&w->slots[t->at % WHEEL_SLOTS], t);
	w->n++;
}

/* Handles one tick: an entry of its slot is due now, or in a later turn of the wheel. */
static void fire_slot(struct wheel *w)
{
	struct wheel_entry *due = NULL, *t, *next;

	for (t = w->slots[w->tick % WHEEL_SLOTS]; t; t = next) {
		next = t->next;
		if (t->at > w->tick)
			continue;
		*t->link = t->next;
		if (t->next)
			t->next->link = t->link;
		wheel_insert(&due, t);
	}
	/* A callback may disarm entries that are still in `due`, so its head is read again each time. */
	while ((t = due) != NULL) {
		wheel_disarm(w, t);
		t->fn(t);
	}
}

void wheel_advance(struct wheel *w, uint64_t now_ns)
{
	uint64_t now = now_ns / WHEEL_TICK;

	/* After a long sleep one turn of the wheel finds everything: an entry that was due earlier is in one
	 * of its slots, too. */
	if (now > w->tick + WHEEL_SLOTS)
		w->tick = now - WHEEL_SLOTS;
	while (w->tick < now) {
		w->tick++;
		fire_slot(w);
	}
}
