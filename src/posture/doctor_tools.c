/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the programs that coffer uses: coffer-init, newuidmap and newgidmap, runsc. A runsc is judged by
 * a sandbox that it starts, never by its version.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "posture/checks.h"
#include "posture/probe.h"
#include "posture/scratch.h"
#include "sandbox/engine/helper.h"
#include "sandbox/engine/runsc.h"
#include "sandbox/spec/ids.h"

#include <stdio.h>
#include <stdlib.h>

void check_helper(struct finding *f)
{
	struct err e = ERR_INIT;
	autoclose int fd = helper_open("coffer-init", &e);

	if (fd < 0)
		finding_set(f, DOCTOR_FAIL, "%s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "coffer-init found");
}

/* Maps the whole range into the user namespace of a waiting child, with the same code as a sandbox. */
static int probe_subids(void *arg, struct err *e)
{
	struct ids ids = IDS_INIT;
	autoclose int pidfd = -1;
	int pid, r;

	(void)arg;
	r = ids_plan(&ids, NULL, "", 0, 0, true, e);
	if (r < 0)
		return r;
	pid = probe_hold_userns(&pidfd, e);
	r = pid < 0 ? pid : ids_write_maps(&ids, pid, e);
	if (pid > 0)
		probe_end_userns(pidfd);
	ids_release(&ids);
	return r;
}

void check_subids(struct finding *f)
{
	struct err e = ERR_INIT;

	if (check_is_root()) {
		finding_set(f, DOCTOR_OK, "root needs none: each sandbox gets a range of its own");
		return;
	}
	if (probe_run(0, probe_subids, NULL, &e) < 0)
		finding_set(f, DOCTOR_WARN, "%s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "65536 ids were mapped");
}

/*
 * Starts a real sandbox with runsc, with the code and the time limits of a run, instead of trusting its
 * version.
 */
void check_runsc(struct finding *f)
{
	CLEANUP(scratch_remove) struct scratch s = SCRATCH_INIT;
	CLEANUP(runsc_release) struct runsc r = RUNSC_INIT;
	struct state st = STATE_INIT;
	const char *engine = getenv("COFFER_ENGINE"); // NOLINT(concurrency-mt-unsafe): one thread
	const char *named = NULL;
	struct err e = ERR_INIT;
	int ret = runsc_from_env(&named, &e);
	/* If an engine or a runsc was named, a run uses no other: then a failure matters. */
	bool needed = engine && !str_eq(engine, "auto") ? !str_eq(engine, "ns") : named != NULL;

	if (ret == 0)
		ret = runsc_open(named, &r, &e);
	if (ret == 0 && check_no_place(f, &s))
		return;
	if (ret == 0) {
		/* The verdict of the probe is only shown; it is removed with the scratch directory. */
		st.path = s.path;
		st.fd = s.fd;
		ret = runsc_check(&r, &st, &e);
	}
	if (ret < 0)
		finding_set(f, needed ? DOCTOR_FAIL : DOCTOR_WARN, "%s%s", e.msg,
			    !needed ? ""
			    : named ? " (COFFER_RUNSC names it)"
				    : " (COFFER_ENGINE asks for it)");
	else
		finding_set(f, DOCTOR_OK, "%s, version %.60s: started a sandbox, platform systrap", r.path,
			    r.version);
}
