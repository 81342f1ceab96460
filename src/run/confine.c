/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confining the launcher, in the two phases of confine.h, which says what it keeps. There is no way back, and no byte from
 * inside may be read before it.
 */
#include "run/confine.h"

#include "run/launcher_fence.h"
#include "sys/fence/caps.h"
#include "sys/fence/landlock.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>

#define CAP_BIT(c) (1ULL << (c))

int confine_beforehand(struct err *e)
{
	/* A process without capabilities may install a list only with it. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, -errno, "cannot confine the launcher");
	return seccomp_list_install(&launcher_never, e);
}

/* Last of all: the list has none of the calls that the other steps make. */
static int leave_listed_calls(const struct run *r, bool asks, struct err *e)
{
	const struct launcher_needs needs = { .userns = r->userns, .asks = asks };
	struct launcher_calls c;

	launcher_calls(&c, &needs);
	return seccomp_list_install(&c.list, e);
}

int confine_launcher(const struct run *r, bool asks, struct err *e)
{
	struct landlock_rule rules[5 + CGROUP_CTL_COUNT] = {
		{ r->st->path, LANDLOCK_WRITE },
		{ "/dev/null", LANDLOCK_WRITE },
	};
	/* With these the host's root kills the sandbox, and counts and removes files of other owners in the layers. */
	const uint64_t keep = CAP_BIT(CAP_KILL) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER);
	uint64_t have = 0;
	char layers[32];
	size_t n = 2;
	int abi = landlock_abi(), ret;

	if (r->spec->ws_path)
		rules[n++] = (struct landlock_rule){ r->spec->ws_path, LANDLOCK_READ_EXEC };
	if (r->spec->layers_fd >= 0) {
		/* A disk image is mounted nowhere, so no path leads to it but this. */
		snprintf(layers, sizeof(layers), "/proc/self/fd/%d", r->spec->layers_fd);
		rules[n++] = (struct landlock_rule){ layers, LANDLOCK_WRITE };
	}
	/* Without a control group to freeze, a checkpoint stops the sandbox process by process, and finds them in /proc. The
	 * files there that need the right to trace stay closed: Landlock denies tracing a process outside its domain. */
	if (r->cg.dirfd[CGROUP_FREEZER] < 0 && (r->spec->detach || r->spec->name || r->spec->series))
		rules[n++] = (struct landlock_rule){ "/proc", LANDLOCK_READ_EXEC };
	for (int c = 0; c < CGROUP_CTL_COUNT; c++) {
		if (r->cgroup_host.usable[c])
			rules[n++] = (struct landlock_rule){ r->cgroup_host.parent[c], LANDLOCK_WRITE };
	}
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return err_sys(e, -errno, "cannot confine the launcher");
	/* An ordinary user has no capability, and no_new_privs keeps it so. */
	ret = caps_effective(&have, e);
	if (ret == 0 && have)
		ret = caps_drop_all_but(have & keep, e);
	if (ret < 0)
		return ret;
	/* ABI 6 can forbid signals to processes outside the domain. The sandbox is outside it, and must be killed: so at most
	 * ABI 5 is used. */
	ret = landlock_apply_abi(abi < 5 ? abi : 5, rules, n, e);
	return ret < 0 ? ret : leave_listed_calls(r, asks, e);
}
