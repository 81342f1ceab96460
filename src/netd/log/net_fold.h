/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folding the journals of one sandbox's network into the audit log, with a budget, so that its traffic cannot push other
 * events out of that log. Pure: bytes and the time come in, events go out by a function.
 *
 * Invariants
 *  F0  A line that says `first` (egress/account/ledger.h), one about a policy or a proxy and one that stands for many are always events of
 *      their own ("net.EV"). They are taken at NET_BURST_KEPT and NET_RATE_KEPT, more than the ledger lets through; a program that
 *      was taken over and writes faster has them left in its journal, which is bounded. Past NET_KEPT_BYTES of those that say
 *      `first`, or of the others, F1 holds for these. Each of the two programs has its own pace and its own bytes.
 *  F1  Any other line is a repetition or a denial, and an event of its own while its bucket has a token: a burst of NET_BURST
 *      lines, then NET_RATE a second. Denials have a bucket of their own (NET_BURST_DENIED, NET_RATE_DENIED), and so have alerts
 *      (NET_BURST_ALERT, NET_RATE_ALERT) and uses of secrets (NET_BURST, NET_RATE), so that none can hide another.
 *  F2  What has no token is counted by event, name, port, decision, secret and method or kind, and but for GET, HEAD and denials by
 *      path, NET_KEYS of these for each bucket, the rest of each as one with the most frequent of them (base/top.h); the counts are
 *      written every NET_FOLDED_NS, and when a person is asked, as "net.folded". Nothing is dropped without being counted.
 *  F3  What is no line (net_line.h), or one that this program has no business to write, is counted and told as
 *      "net.garbled", at the same interval: what coffer-dial connected to, coffer-egress cannot say.
 *  F4  An event that could not be written stops the folding: no byte behind it is taken.
 *  F5  Of the uses of a secret that have no token, the first for each secret and host is an event of its own all the same, at
 *      each interval of F2, for NET_KEYS of them: no flood hides where a secret went.
 */
#ifndef NETD_NET_FOLD_H
#define NETD_NET_FOLD_H

#include "base/buf.h"
#include "base/json.h"
#include "netd/log/net_line.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NET_BURST_KEPT 16000u
#define NET_RATE_KEPT 500u
#define NET_KEPT_BYTES (3ULL << 30) /* LEDGER_BYTES, and what the log adds to each line */
#define NET_BURST 4000u
#define NET_RATE 5u
#define NET_BURST_DENIED 1000u
#define NET_RATE_DENIED 2u
#define NET_BURST_ALERT 200u
#define NET_RATE_ALERT 1u
#define NET_KEYS 256u
#define NET_FOLDED_NS (10 * 1000000000ULL)
#define NET_NAMES 512u /* for the report; the rest is one row */

enum net_from { NET_FROM_EGRESS, NET_FROM_DIAL, NET_FROM_COUNT };

struct net_fold;

struct net_fold_out {
	/* One event for the log. Negative: it was not written (F4). */
	int (*event)(void *ctx, const char *type, const struct buf *fields);
	/* Each denial and alert, for the terminal; may be NULL. */
	void (*denied)(void *ctx, const struct net_line *l);
	void *ctx;
};

/* `now` is CLOCK_MONOTONIC ns, here and below. NULL: no memory. */
struct net_fold *net_fold_new(uint64_t now, const struct net_fold_out *out) MUST_CHECK;
void net_fold_free(struct net_fold *f);
static inline void net_fold_freep(struct net_fold **f)
{
	net_fold_free(*f);
}

/*
 * Takes the whole lines out of `data`, with `last` also what stands behind them. NULs between lines are skipped: they
 * are where lines were punched out. *ret_taken says how many bytes are done with; what is left, while there is no error, has no end
 * yet, or comes too fast (F0), which with `last` nothing does. A negative errno is that of event().
 */
int net_fold_feed(struct net_fold *f, enum net_from from, const char *data, size_t len, bool last,
		  uint64_t now, size_t *ret_taken) MUST_CHECK;

/* The programs have ended: what is still in their journals is bounded, and from now on nothing comes too fast. */
void net_fold_last(struct net_fold *f);

/* Writes what was counted when it is due, with `all` in any case. */
int net_fold_tick(struct net_fold *f, uint64_t now, bool all) MUST_CHECK;

/* Is there something that net_fold_tick() will have to write? */
bool net_fold_waits(const struct net_fold *f);

/* Members of the report's "network" object: counts, and rows by name. */
void net_fold_report(const struct net_fold *f, struct json *j);

#endif
