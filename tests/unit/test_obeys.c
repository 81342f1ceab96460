/* SPDX-License-Identifier: Apache-2.0 */
/* STATE/obeyed: a policy that is named again counts as new, and outlives the others that come after it. */
#include "run/obeys.h"
#include "statedir.h"

static struct state st;

/* Notes a run that obeys the policies N to N + n. */
static bool note(unsigned from, unsigned n)
{
	CLEANUP(obeys_release) struct obeys o = OBEYS_INIT;
	struct err e = ERR_INIT;

	for (unsigned i = from; i < from + n; i++) {
		if (strv_addf(&o.policies, "/policy/%u", i) < 0)
			return false;
	}
	return obeys_note(&o, &st, &e) == 0;
}

static bool is_known(unsigned i)
{
	CLEANUP(obeys_release) struct obeys o = OBEYS_INIT;
	struct err e = ERR_INIT;
	char name[32];

	snprintf(name, sizeof(name), "/policy/%u", i);
	if (obeys_read_last(&st, &o, &e) < 0)
		return false;
	for (size_t k = 0; k < o.policies.n; k++) {
		if (strcmp(o.policies.v[k], name) == 0)
			return true;
	}
	return false;
}

int main(void)
{
	begin(&st);
	CHECK(note(0, 1) && note(1, 1) && note(1000, 400));
	CHECKF(is_known(0) && is_known(1), "policies that were named are known");
	CHECK(note(0, 1) && note(2000, 400));
	CHECKF(is_known(0), "a policy that was named again stays when others come after it");
	CHECKF(!is_known(1), "a policy that was not named again is forgotten");
	end(&st);
	return tap_done();
}
