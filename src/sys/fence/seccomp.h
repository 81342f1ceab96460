/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that a sandbox may make: an allowlist in a table with a reason per group
 * (seccomp_table.c), compiled to one BPF program by a small assembler of our own (seccomp.c), since it is
 * on the way of every start.
 *
 * What is not in the table answers ENOSYS, so that libraries fall back; what is known and refused answers
 * EPERM. A socket family or protocol that is not on the list answers EAFNOSUPPORT or EPROTONOSUPPORT, as a
 * kernel without it would, for that is what programs are written to expect. Another architecture (i386) and
 * x32 numbers answer ENOSYS whatever the number. Arguments are compared as the kernel reads them: 32 bits
 * where it takes an int, so that high bits cannot slip past.
 */
#ifndef SYS_SECCOMP_H
#define SYS_SECCOMP_H

#include "base/err.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seccomp_opts {
	bool nested;	    /* user namespaces, mounts and pivot_root inside are let through (--nested) */
	bool no_setid_mode; /* refuse to set setuid/setgid bits: something of the host is bound read-write */
	uint64_t caps;	    /* capabilities that were granted: adds the calls that are useless without them */
};

/* Nearly twice the length of the longest program, and the reach of a conditional jump. */
#define SECCOMP_MAX_INSNS 256

/* Pure. Writes the program to `insns` and its length to *ret_n. -ENOSPC when `cap` is too small. */
int seccomp_compile(const struct seccomp_opts *o, struct sock_filter *insns, size_t cap, size_t *ret_n,
		    struct err *e) MUST_CHECK;

/*
 * A filter that allows everything but setting a setuid or setgid bit, making a device, and calls of another
 * architecture. For a program that has a filter of its own and writes to the host's files on behalf of a user.
 */
int seccomp_compile_setid(struct sock_filter *insns, size_t cap, size_t *ret_n, struct err *e) MUST_CHECK;

/* Installs it for this process and all it becomes. Needs no_new_privs, and a single thread. */
int seccomp_install(const struct sock_filter *insns, size_t n, struct err *e) MUST_CHECK;

#endif
