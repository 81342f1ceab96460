/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter of a program of our own: a list of the calls that it makes, some of them only with certain arguments.
 * Everything else, another architecture's calls included, ends the process at once. Memory may be mapped, but never as
 * code.
 *
 * A list that forbids is the other way round: its calls end the process, and so do another architecture's; every other
 * call is allowed. It is for a process that still executes programs, which inherit it.
 *
 * Arguments are compared as their low 32 bits, which is all that the kernel reads of those that are ints.
 */
#ifndef SYS_SECCOMP_LIST_H
#define SYS_SECCOMP_LIST_H

#include "base/err.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sanitizers make system calls of their own, so under them no filter is installed. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* The condition (argument & mask) == value. Mask 0 ends a list of conditions. */
struct seccomp_cond {
	uint8_t arg;
	uint32_t mask, value;
};

#define SECCOMP_IS(i, v)                        \
	{                                       \
		(i), 0xffffffffu, (uint32_t)(v) \
	}
#define SECCOMP_NO_BITS(i, bits)         \
	{                                \
		(i), (uint32_t)(bits), 0 \
	}
#define SECCOMP_ONLY_BITS(i, bits)        \
	{                                 \
		(i), ~(uint32_t)(bits), 0 \
	}

/* A rule for socket(): this family and type, with protocol 0. */
#define SECCOMP_SOCKET(family, type)                                                                   \
	{                                                                                              \
		SYS_socket,                                                                            \
		{                                                                                      \
			SECCOMP_IS(0, family), { 1, ~(uint32_t)(SOCK_CLOEXEC | SOCK_NONBLOCK), type }, \
				SECCOMP_IS(2, 0)                                                       \
		}                                                                                      \
	}

/* A call that is allowed when all its conditions hold. With several rules for one call, one of them must match. */
struct seccomp_rule {
	uint16_t nr;
	struct seccomp_cond must[3];
};

struct seccomp_list {
	const uint16_t *calls; /* whatever their arguments */
	size_t n_calls;
	const struct seccomp_rule *rules;
	size_t n_rules;
	bool aborts;  /* allows tgkill(), which abort() needs, but only to this process */
	bool forbids; /* the calls and rules are those that end the process */
};

#define SECCOMP_LIST_MAX 1024

/* Pure, but for this process's id. -ENOSPC when `cap` is too small. */
int seccomp_list_compile(const struct seccomp_list *l, struct sock_filter *insns, size_t cap, size_t *ret_n,
			 struct err *e) MUST_CHECK;

/* Compiles the list and installs it by seccomp_install(). */
int seccomp_list_install(const struct seccomp_list *l, struct err *e) MUST_CHECK;

#endif
