/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling a changed policy away from the guard, which may have capabilities and must not parse what people write: in a
 * fork of it that is behind a fence (fence.h) before it opens a file, and that is gone afterwards.
 *
 * Invariants
 *  C1  The child has no capability but DAC_OVERRIDE where the guard of the host's root has it, no descriptor but the two memory files, and no call that makes a socket, a process or
 *      a file, or that executes one. It opens for reading only, with the rights of the person who started the run.
 *  C2  What it hands back is hostile: net_compiled.h. A child that dies, is late, or hands back anything else is a
 *      broken policy (net.G4).
 *  C3  One compiles at a time: a newer change ends an older one. One that was ended is not waited for, because a file
 *      system may hold it; few of those may be left.
 */
#ifndef NETD_NET_COMPILE_H
#define NETD_NET_COMPILE_H

#include "netd/plan/net_plan.h"
#include "sys/fence/fence.h"

#include <sys/types.h>

enum net_compile_job {
	NET_COMPILE_POLICY,	 /* and the credentials of its proxies */
	NET_COMPILE_CREDENTIALS, /* those of the plan's policy alone */
};

/* Its descriptors, beside /dev/null as the standard ones. */
enum { NET_COMPILE_RESULT = 3, NET_COMPILE_PROXIES, NET_COMPILE_FD_END };

extern const struct fence net_compile_fence;

/* In the child: never returns. The descriptors are those of the two memory files, in this order. */
_Noreturn void net_compile_child(const struct net_plan *p, enum net_compile_job job, const int fds[2],
				 pid_t parent);

#endif
