/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for the terminal of `coffer run`. A denial is said once, at once; repetitions are counted and said together, after a while or
 * at the end. The sandbox chooses what is denied, so lines are limited in number; the log does not depend on them. Pure: the guard
 * words them.
 */
#ifndef NETD_NETD_SAY_H
#define NETD_NETD_SAY_H

#include "base/bucket.h"
#include "netd/log/net_line.h"
#include "netd/wire/netd_proto.h"

#define NETD_SAY_TOGETHER (10 * 1000000000ULL)
#define NETD_SAY_BURST 32u
#define NETD_SAY_RATE 1u

/* A reported denial: repetitions are counted and reported together. */
struct netd_say_row {
	struct netd_said s;
	uint64_t more;
};

struct netd_say {
	/* Hands one line on; a failure is the callback's own affair. */
	void (*send)(void *ctx, const struct netd_said *s);
	void *ctx;
	struct netd_say_row rows[NETD_SAID_KEYS];
	size_t n;
	uint64_t unsaid; /* denials without a row */
	uint64_t due;	 /* when repetitions are said; 0: there are none */
	struct bucket lines;
};

void netd_say_begin(struct netd_say *s, uint64_t now);
void netd_say_line(struct netd_say *s, const struct net_line *l, uint64_t now);

/* Says the repetitions if they are due; with `all` in any case. */
void netd_say_tick(struct netd_say *s, uint64_t now, bool all);

#endif
