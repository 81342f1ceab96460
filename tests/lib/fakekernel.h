/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control group and the workspace's layer as the launcher asks about them, played by functions that come before the
 * real ones when a program is linked, so that their answers can be chosen.
 */
#ifndef TESTS_FAKEKERNEL_H
#define TESTS_FAKEKERNEL_H

#include "sys/cgroup/cgroup.h"
#include "workspace/view/view.h"

static struct cgroup_stat fake_stat;
static uint64_t fake_usage;
static int fake_freezes;
static int fake_freeze_result;	    /* of cgroup_freeze() */
static uint64_t fake_usage_thereby; /* once a freeze has failed */

void cgroup_read_stat(const struct cgroup *cg, struct cgroup_stat *ret)
{
	(void)cg;
	*ret = fake_stat;
}

int cgroup_freeze(struct cgroup *cg, bool on, struct err *e)
{
	(void)cg;
	(void)e;
	fake_freezes += on;
	if (fake_freeze_result < 0)
		fake_usage = fake_usage_thereby;
	return fake_freeze_result;
}

int cgroup_kill(struct cgroup *cg, struct err *e)
{
	(void)cg;
	(void)e;
	return 0;
}

int workspace_usage(int fd, uint64_t cap_bytes, uint64_t cap_inodes, uint64_t *bytes, uint64_t *inodes,
		    struct err *e)
{
	(void)fd;
	(void)cap_bytes;
	(void)cap_inodes;
	(void)e;
	*bytes = fake_usage;
	*inodes = 1;
	return 0;
}

#endif
