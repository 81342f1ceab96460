/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces: a child in new ones, and the maps of ids between a user namespace and its parent. */
#ifndef SYS_NS_H
#define SYS_NS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* fork() into the namespaces of `flags` (CLONE_NEW*) and, when cgroup_fd >= 0, into that control group (v2).
 * Returns twice, as fork() does; the parent also gets a pidfd. */
pid_t ns_fork(uint64_t flags, int cgroup_fd, int *ret_pidfd) MUST_CHECK;

/* Is this the host's own user namespace? Root there is the host's root. */
bool ns_is_initial_user(void);

/* Writes the map of user or group ids: lines of "INSIDE OUTSIDE COUNT". proc_dir is "/proc/123" or "/proc/self". Without
 * privilege in the parent namespace only the writer's own id can be mapped, and setgroups() must be denied first.
 * Each line must lie within one line of the parent's map. */
int ns_map_ids(const char *proc_dir, bool groups, const char *map, struct err *e) MUST_CHECK;
int ns_deny_setgroups(const char *proc_dir, struct err *e) MUST_CHECK;

/* A new time namespace for the program that this process executes, with monotonic and boot clocks from zero: hides the
 * host's uptime. `proc` is the path of a mounted proc file system. */
int ns_new_time(const char *proc, struct err *e) MUST_CHECK;

#endif
