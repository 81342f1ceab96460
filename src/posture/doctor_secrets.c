/* SPDX-License-Identifier: Apache-2.0 */
/* Check of the vault's secrets for those that have expired or will soon. It must not open the vault. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "posture/checks.h"
#include "sandbox/state/state.h"
#include "vault/client/schedule.h"

#include <fcntl.h>
#include <stdlib.h>

/* Reads the file of dates beside the vault; the vault itself stays closed. */
void check_secrets(struct finding *f)
{
	CLEANUP(schedule_release) struct schedule s = SCHEDULE_INIT;
	autofree char *place = state_place(NULL);
	autoclose int fd = place ? open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	uint64_t now = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
	const struct schedule_entry *first = NULL;
	char when[CLOCK_TEXT_LEN];
	size_t n = 0;

	if (fd >= 0 && schedule_read(fd, &s) < 0) {
		finding_set(f, DOCTOR_WARN, "vault/" SCHEDULE_FILE " in %s cannot be read", place);
		return;
	}
	for (size_t i = 0; i < s.n; i++) {
		const struct schedule_entry *x = &s.v[i];

		if (!x->expires || (x->expires > now && !schedule_is_soon(x->expires, now)))
			continue;
		n++;
		first = first && first->expires <= x->expires ? first : x;
	}
	if (!first)
		finding_set(f, DOCTOR_OK, "none has expired, none expires within two weeks");
	else
		finding_set(f, DOCTOR_WARN, "'%s' %s on %.10s%s", first->name,
			    first->expires <= now ? "has expired" : "expires",
			    clock_format(first->expires * NSEC_PER_SEC, when),
			    n > 1 ? ", and others after it: coffer secret ls" : "");
}
