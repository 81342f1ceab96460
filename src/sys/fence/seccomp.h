/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that a sandbox may make: an allowlist in a table with a reason per group (seccomp_table.c),
 * compiled to one BPF program by a small assembler of our own (seccomp.c), which is fast because every start waits
 * for it.
 *
 * A call that is not in the table fails with ENOSYS, so that libraries fall back; one that is in the table and
 * refused fails with EPERM. A socket family or protocol that is not on the list fails with EAFNOSUPPORT or
 * EPROTONOSUPPORT, as on a kernel without it, because programs handle that. Calls of another architecture (i386) and
 * of x32 fail with ENOSYS. Arguments are compared as the kernel reads them, 32 bits for an int, so that set high bits
 * do not defeat a comparison.
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
	uint64_t caps;	    /* capabilities that were granted: allows the calls that need them */
};

/* The reach of a conditional jump, which has 8 bits. Nearly twice the length of the longest program. */
#define SECCOMP_MAX_INSNS 256

/* Pure. Writes the program to `insns` and its length to *ret_n. -ENOSPC when `cap` is too small. */
int seccomp_compile(const struct seccomp_opts *o, struct sock_filter *insns, size_t cap, size_t *ret_n,
		    struct err *e) MUST_CHECK;

/*
 * A filter that allows everything but setting a setuid or setgid bit, making a device, and calls of another
 * architecture. For a program that has a filter of its own and writes to the host's files on behalf of a user.
 */
int seccomp_compile_setid(struct sock_filter *insns, size_t cap, size_t *ret_n, struct err *e) MUST_CHECK;

/*
 * Installs the filter for this process, its children and the programs that they execute. Needs no_new_privs, and a
 * single thread.
 */
int seccomp_install(const struct sock_filter *insns, size_t n, struct err *e) MUST_CHECK;

#endif
