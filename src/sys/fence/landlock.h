/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock, the second fence: even if a mount were wrong, only these trees are accessible. Used where the kernel has
 * it. A process under Landlock cannot mount, so --nested does without it.
 *
 * It also closes a bypass: a descriptor that came from outside (a redirected stdin) can be used as it is,
 * but not opened again with more rights through /proc/self/fd. Pipes, sockets and memory files are not
 * affected.
 */
#ifndef SYS_LANDLOCK_H
#define SYS_LANDLOCK_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum landlock_access {
	LANDLOCK_READ_EXEC, /* read, list, execute */
	LANDLOCK_WRITE,	    /* also write, make, move and remove; but make no device, and no ioctl on one */
	LANDLOCK_DEVICES,   /* for /dev: read, list, write and ioctl what is there, so that terminals work */
	LANDLOCK_LAYER,	    /* as LANDLOCK_WRITE, and device 0:0, which marks a deletion in a layer */
	LANDLOCK_ACCESS_COUNT
};

struct landlock_rule {
	const char *path; /* as the process sees it now; a symlink is followed. A tree, or one file */
	enum landlock_access access;
};

/* With the first ABI every rename and link between two directories fails, which breaks ordinary programs: a
 * kernel that has no more is treated as one without Landlock. */
#define LANDLOCK_MIN_ABI 2

/* The ABI of this kernel, 0 when there is none. */
int landlock_abi(void);

/* Restricts this process and all it becomes; needs no_new_privs. Also keeps signals and abstract sockets
 * among the processes that descend from this one where the ABI has it, so call it once, in a common
 * ancestor of all processes that must see each other. A path that does not exist is skipped. Returns the ABI used, 0
 * when the kernel has none or less than LANDLOCK_MIN_ABI: then nothing is restricted. */
int landlock_apply(const struct landlock_rule *rules, size_t n, struct err *e) MUST_CHECK;

/* As landlock_apply(), with at most this ABI. */
int landlock_apply_abi(int abi, const struct landlock_rule *rules, size_t n, struct err *e) MUST_CHECK;

/* Pure: the rights that a ruleset of this ABI takes away, and those that a rule in it gives back. */
uint64_t landlock_handled(int abi);
uint64_t landlock_rights(int abi, enum landlock_access access);

#endif
