/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that coffer uses: its own helper, newuidmap, runsc. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "posture/checks.h"
#include "posture/probe.h"
#include "sandbox/helper.h"
#include "sandbox/ids.h"
#include "sys/ns.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void check_helper(struct finding *f)
{
	struct err e = ERR_INIT;
	autoclose int fd = helper_open("coffer-init", &e);

	if (fd < 0)
		finding_set(f, DOCTOR_FAIL, "%s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "coffer-init found");
}

/* Maps the whole range into a namespace that a waiting child holds, by the same code that a sandbox uses. */
static int use_subids(void *arg, struct err *e)
{
	struct ids ids = IDS_INIT;
	autoclose int pidfd = -1;
	pid_t pid;
	int r;

	(void)arg;
	r = ids_plan(&ids, NULL, "", 0, 0, true, e);
	if (r < 0)
		return r;
	pid = ns_fork(CLONE_NEWUSER, -1, &pidfd);
	if (pid == 0) {
		alarm(PROBE_MSEC / 1000);
		for (;;)
			pause();
	}
	r = pid < 0 ? err_sys(e, pid, "cannot make a user namespace") : ids_write_maps(&ids, pid, e);
	if (pid > 0) {
		syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
		waitpid(pid, NULL, 0);
	}
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
	if (probe_run(0, use_subids, NULL, &e) < 0)
		finding_set(f, DOCTOR_WARN, "%s", e.msg);
	else
		finding_set(f, DOCTOR_OK, "65536 ids were mapped");
}

/* The first run of eight digits: the date that runsc has in its version. */
static long release_date(const char *s)
{
	for (; *s; s++) {
		size_t n = strspn(s, "0123456789");

		if (n == 8)
			return strtol(s, NULL, 10);
		if (n > 1)
			s += n - 1;
	}
	return 0;
}

#define SYSTRAP_SINCE 20230501L /* before, the platform that needs no KVM was the slow ptrace one */

void check_runsc(struct finding *f)
{
	autofree char *path = probe_find_program("runsc");
	const char *argv[] = { path, "--version", NULL };
	autobuf struct buf out = BUF_INIT, first = BUF_INIT;
	struct err e = ERR_INIT;
	long date;
	int r;

	if (!path) {
		finding_set(f, DOCTOR_WARN, "runsc is not installed");
		return;
	}
	r = probe_program(argv, &out, &e);
	if (r != 0) {
		finding_set(f, DOCTOR_WARN, "%s does not answer: %s", path,
			    r < 0 ? e.msg : "it exits with an error");
		return;
	}
	str_add_safe(&first, buf_cstr(&out), strcspn(buf_cstr(&out), "\n"), false);
	date = release_date(buf_cstr(&first));
	if (date && date < SYSTRAP_SINCE)
		finding_set(f, DOCTOR_WARN, "%.80s: too old for the systrap platform", buf_cstr(&first));
	else
		finding_set(f, DOCTOR_OK, "%.80s, platform systrap", buf_cstr(&first));
}
