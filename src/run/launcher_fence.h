/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's two lists of system calls: what it never does, and what is left once the sandbox is let go. confine.h says
 * when each comes into force; doc/adr/0036 has the reasons. Data only: nothing here installs a list.
 */
#ifndef RUN_LAUNCHER_FENCE_H
#define RUN_LAUNCHER_FENCE_H

#include "sys/fence/seccomp_list.h"

/* Phase 1 forbids these calls, to the launcher and to the mke2fs that it may execute before phase 2. */
extern const struct seccomp_list launcher_never;

/* What one launcher needs and others do not. */
struct launcher_needs {
	int userns; /* the sandbox's user namespace, which a child enters to wipe a layer; -1: no child does */
	bool asks;  /* it asks on a terminal, so it connects to the run's ask server */
};

#define LAUNCHER_RULES_MAX 52

/* `list` has the rules of the same struct, so it stays where it was filled in. */
struct launcher_calls {
	struct seccomp_list list;
	struct seccomp_rule rules[LAUNCHER_RULES_MAX];
};

/* Phase 2 allows these calls alone. */
void launcher_calls(struct launcher_calls *ret, const struct launcher_needs *needs);

#endif
