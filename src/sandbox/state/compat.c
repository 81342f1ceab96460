/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that a sandbox of another release serves: the table and its lookup (compat.h). A number in the
 * table must never fall (compat.C1).
 */
#include "sandbox/state/compat.h"

#include "base/cleanup.h"
#include "sandbox/state/state.h"

#include <assert.h>
#include <errno.h>

/* For each request the oldest protocol in which it has its present meaning (compat.C1). */
static const struct request {
	const char *name; /* for people */
	int oldest;
} requests[] = {
	[RUN_STOP] = { "ending it", COMPAT_FIRST }, /* compat.C2: served by every protocol */
	[RUN_STAT] = { "asking what it uses", 1 },
	[RUN_PING] = { "checking whether it responds", 1 },
	[RUN_COMMAND] = { "running a command in it", 1 },
	[RUN_FREEZE] = { "pausing it", 1 },
	[RUN_ROLLBACK] = { "rolling it back while it runs", 1 },
	[RUN_ASKS] = { "its pending asks", 1 },
};
static_assert(ARRAY_SIZE(requests) == RUN_REQUEST_COUNT, "a line for each");

int compat_read(int run_fd)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	int r = state_meta_read(run_fd, &m, NULL);

	return r < 0 ? r : m.ended ? COMPAT_PROTOCOL : (int)m.protocol;
}

int compat_check(int protocol, enum run_request q, struct err *e)
{
	const struct request *x = &requests[q];

	if (q == RUN_STOP || (protocol >= x->oldest && protocol <= COMPAT_PROTOCOL))
		return 0;
	if (protocol < 0) {
		err_set(e, -EBADMSG,
			"cannot determine which release of coffer started the sandbox, because its meta.json cannot be read, so %s is refused",
			x->name);
		return err_hint(e, -EBADMSG, "coffer stop REF, then start it again; its changes are kept");
	}
	if (protocol > COMPAT_PROTOCOL) {
		err_set(e, -EPROTONOSUPPORT,
			"the sandbox was started by a newer coffer (protocol %d, this one knows %d), so %s is refused",
			protocol, COMPAT_PROTOCOL, x->name);
		return err_hint(e, -EPROTONOSUPPORT,
				"install that version again, or end the sandbox with coffer stop");
	}
	err_set(e, -EPROTONOSUPPORT,
		"the sandbox was started by an older coffer: restart it (it speaks protocol %d, and %s needs %d)",
		protocol, x->name, x->oldest);
	return err_hint(e, -EPROTONOSUPPORT, "coffer stop REF, then start it again; its changes are kept");
}
