/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock, the second fence: even if a mount were wrong, only these trees are open. Used where the kernel has it.
 * A process under Landlock cannot mount, so it is left out for --nested.
 */
#ifndef SYS_LANDLOCK_H
#define SYS_LANDLOCK_H

#include "base/err.h"

#include <stddef.h>

enum landlock_access {
	LANDLOCK_READ_EXEC, /* read, list, execute */
	LANDLOCK_WRITE,	    /* everything below it, but no device ioctls beyond what the kernel allows for terminals */
};

struct landlock_rule {
	const char *path; /* as the process sees it now */
	enum landlock_access access;
};

/* The ABI of this kernel, 0 when there is none. */
int landlock_abi(void);

/* Restricts this process and all it becomes; needs no_new_privs. Also scopes signals and abstract sockets where
 * the ABI has it. A path that does not exist is skipped. Returns the ABI used, 0 when the kernel has none. */
int landlock_apply(const struct landlock_rule *rules, size_t n, struct err *e) MUST_CHECK;

#endif
