/* SPDX-License-Identifier: Apache-2.0 */
/* The action for each system call, with the reason. Data only: seccomp.c turns it into a program. */
#ifndef SYS_SECCOMP_TABLE_H
#define SYS_SECCOMP_TABLE_H

#include "sys/fence/seccomp.h"

#include <stddef.h>
#include <stdint.h>

/* Above every number in the table. */
#define SECCOMP_NR_MAX 512

enum seccomp_act {
	SECCOMP_ACT_NOSYS, /* zero: a call that is in no group gets ENOSYS */
	SECCOMP_ACT_ALLOW,
	SECCOMP_ACT_EPERM,
	/* From here on the arguments decide; seccomp.c has one small function for each. */
	SECCOMP_ACT_NAMESPACES,	 /* no new ones among the flags that are the first argument */
	SECCOMP_ACT_IOCTL,	 /* nothing that types into or rewires a terminal */
	SECCOMP_ACT_SOCKET,	 /* UNIX; INET and INET6 with TCP, UDP and echo; NETLINK_ROUTE */
	SECCOMP_ACT_SETSOCKOPT,	 /* no packet filter tables */
	SECCOMP_ACT_PERSONALITY, /* only flags that change a program's view of itself */
	SECCOMP_ACT_MKNOD,	 /* no device: mknod(path, mode, dev) */
	SECCOMP_ACT_MKNODAT,	 /* no device: mknodat(dirfd, path, mode, dev) */
	SECCOMP_ACT_MODE1,	 /* no setuid or setgid bit in the second argument */
	SECCOMP_ACT_MODE2,	 /* … in the third */
	SECCOMP_ACT_OPEN,	 /* … in the mode that open(path, flags, mode) creates with */
	SECCOMP_ACT_OPENAT,	 /* … openat(dirfd, path, flags, mode) */
	SECCOMP_ACT_COUNT
};

/* Conditions under which a group's other action applies. */
#define SECCOMP_WHEN_NESTED (1u << 0)
#define SECCOMP_WHEN_NO_SETID (1u << 1)

struct seccomp_group {
	const char *name;
	const char *why;
	const uint16_t *nrs;
	uint16_t n;
	uint8_t act;   /* enum seccomp_act */
	uint8_t then;  /* applies instead of `act` where one of the conditions below holds */
	unsigned when; /* SECCOMP_WHEN_… */
	uint64_t caps; /* any of these is granted */
};

/* The whole table. No number is in two groups. */
const struct seccomp_group *seccomp_groups(size_t *ret_n);

/* The action for this group under these options. */
enum seccomp_act seccomp_group_act(const struct seccomp_group *g, const struct seccomp_opts *o);

#endif
