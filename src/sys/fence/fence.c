/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fence of fence.h in one function, fence_up(), whose order is the security argument. An error of any step is
 * returned, and the program must end then (fence.F1).
 */
#include "sys/fence/fence.h"

#include "base/cleanup.h"
#include "sys/fence/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>

#if SANITIZED
/* The leak checker reads /proc when the process ends, which the fence forbids. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static int lower_fence_limit(const struct fence *f, __rlimit_resource_t what, uint64_t most, struct err *e)
{
	struct rlimit to;

	if (SANITIZED && (what == RLIMIT_AS || what == RLIMIT_DATA))
		return 0;
	if (getrlimit(what, &to) < 0)
		return err_sys(e, -errno, "cannot limit %s", f->who);
	to.rlim_max = to.rlim_max < most ? to.rlim_max : most;
	to.rlim_cur = to.rlim_max;
	return setrlimit(what, &to) < 0 ? err_sys(e, -errno, "cannot limit %s", f->who) : 0;
}

int fence_limits(const struct fence *f, struct err *e)
{
	int r = lower_fence_limit(f, RLIMIT_CORE, 0, e);

	for (size_t i = 0; r == 0 && i < f->n_limits; i++)
		r = lower_fence_limit(f, f->limits[i].what, f->limits[i].most, e);
	return r;
}

static int drop_fence_caps(const struct fence *f, struct err *e)
{
	uint64_t have = 0;
	int r = caps_effective(&have, e);

	if (r < 0 || !have)
		return r;
	/* Without SETPCAP the bounding set stays as it is: with no_new_privs no exec gains from it. */
	return have & (1ULL << CAP_SETPCAP) ? caps_drop_all_but(have & f->caps, e)
					    : caps_give_up(have & f->caps, e);
}

static int apply_landlock(const struct fence *f, struct err *e)
{
	int abi = landlock_apply(f->paths, f->n_paths, e);

	if (abi == 0 && f->no_landlock)
		return err_set(e, -ENOTSUP, "%s cannot be confined: %s", f->who, f->no_landlock);
	return abi < 0 ? abi : 0;
}

int fence_up(const struct fence *f, struct err *e)
{
	int r = fence_limits(f, e);

	if (r < 0)
		return r;
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, -errno, "cannot confine %s", f->who);
	r = drop_fence_caps(f, e);
	if (r == 0)
		r = apply_landlock(f, e);
	return r < 0 ? r : seccomp_list_install(&f->calls, e);
}
