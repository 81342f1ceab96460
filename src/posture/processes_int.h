/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that collect processes: what the state directory knows (process_claims.c), and what is in the directory of
 * one process (process_detail.c). */
#ifndef POSTURE_PROCESSES_INT_H
#define POSTURE_PROCESSES_INT_H

#include "posture/processes.h"

/* Sets claim, run and engine of the processes that the caller's state directory names. The pids in it were written by launchers
 * or come from locks, so no sandbox chose one. */
int process_claims_take(struct processes *all, struct err *e) MUST_CHECK;

struct socket_map;

/* Namespaces, and who may dump it. -ESRCH: it has ended. */
int process_read_identity(struct process *p) MUST_CHECK;
/* All sockets of the network namespaces that these processes are in. NULL: out of memory. */
struct socket_map *socket_map_new(const struct processes *all);
void socket_map_free(struct socket_map *m);
/* Its descriptors. -ESRCH: it has ended. */
int process_read_descriptors(struct process *p, const struct socket_map *m) MUST_CHECK;

/* The process with this pid; NULL when there is none. */
struct process *process_find(const struct processes *all, pid_t pid);
/* -ESRCH when there is no such process, or another one has its pid by now. */
int process_is_same(const struct process *p) MUST_CHECK;

#endif
