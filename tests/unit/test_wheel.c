/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/wheel.h"
#include "tap.h"

#include <stddef.h>

#define SEC WHEEL_TICK

struct item {
	struct wheel_entry e;
	struct wheel *w;
	struct item *disarms;
	uint64_t again; /* arms itself again for this time */
	int told;
};

static void on_due(struct wheel_entry *t)
{
	struct item *i = (struct item *)((char *)t - offsetof(struct item, e));
	uint64_t again = i->again;

	i->told++;
	i->again = 0;
	if (i->disarms)
		wheel_disarm(i->w, &i->disarms->e);
	if (again)
		wheel_arm(i->w, t, again);
}

int main(void)
{
	struct wheel w;
	struct item a = { .e.fn = on_due, .w = &w }, b = a, c = a, far = a;

	wheel_init(&w, 1000 * SEC);
	wheel_arm(&w, &a.e, 1002 * SEC + 5);
	wheel_arm(&w, &b.e, 1002 * SEC + 9);
	wheel_arm(&w, &far.e, (1002 + WHEEL_SLOTS) * SEC);
	wheel_advance(&w, 1002 * SEC + 6);
	CHECKF(a.told == 0, "a timer does not fire early");
	wheel_advance(&w, 1003 * SEC);
	CHECKF(a.told == 1 && b.told == 1, "a timer that is due within a tick fires at its end");
	CHECKF(far.told == 0 && w.n == 1, "a timer in the same slot of a later turn does not fire");
	a.again = 1004 * SEC;
	wheel_arm(&w, &a.e, 1003 * SEC);
	wheel_advance(&w, 1004 * SEC);
	CHECK(a.told == 2);
	wheel_advance(&w, 1005 * SEC);
	CHECKF(a.told == 3 && w.n == 1, "a callback may arm its timer again");
	b.disarms = &c;
	c.disarms = &b;
	wheel_arm(&w, &b.e, 1006 * SEC);
	wheel_arm(&w, &c.e, 1006 * SEC);
	wheel_advance(&w, 1007 * SEC);
	CHECKF(b.told + c.told == 2, "a callback may disarm a timer that is due in the same tick");
	wheel_arm(&w, &a.e, 1010 * SEC);
	wheel_arm(&w, &a.e, 1020 * SEC);
	CHECKF(w.n == 2, "a second arming moves a timer");
	wheel_advance(&w, 1015 * SEC);
	CHECK(a.told == 3);
	wheel_advance(&w, 100000 * SEC);
	CHECKF(a.told == 4 && far.told == 1 && w.n == 0, "all due timers fire after a long sleep");
	wheel_arm(&w, &a.e, 5);
	wheel_advance(&w, 100001 * SEC);
	CHECKF(a.told == 5, "a timer that is due in the past fires in the next tick");
	return tap_done();
}
