/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds the journals of one sandbox's network into the audit log, within a budget, so that its traffic cannot
 * push other events out of that log. Pure: bytes and the time go in, events come out through a callback.
 *
 * Invariants (cited elsewhere as net_fold.F0 …)
 * F0  A line with `first` (egress/account/ledger.h), one about a policy or a proxy, and one that is a sum are
 *     always events of their own ("net.EV"). They are taken at NET_BURST_KEPT and NET_RATE_KEPT, more than
 *     the ledger lets through; a compromised program that writes faster has them left in its journal, which
 *     is bounded. Beyond NET_KEPT_BYTES of those with `first`, or of the others, F1 applies to these. Each of
 *     the two programs has its own rate and its own bytes.
 * F1  Any other line is a repetition or a denial, and an event of its own while its bucket has a token: a
 *     burst of NET_BURST lines, then NET_RATE a second. Denials have a bucket of their own (NET_BURST_DENIED,
 *     NET_RATE_DENIED), and so have alerts (NET_BURST_ALERT, NET_RATE_ALERT) and uses of secrets (NET_BURST,
 *     NET_RATE), so that none can hide another.
 * F2  Lines without a token are counted by event, name, port, decision, secret and method or kind, and except
 *     for GET, HEAD and denials by path: NET_KEYS rows for each bucket, the rest as one row with its most
 *     frequent entries (base/top.h). The counts are written as "net.folded" every NET_FOLDED_NS, and when a
 *     person is asked. Nothing is dropped without being counted.
 * F3  A malformed line (net_line.h), or one that this program may not write, is counted and reported as
 *     "net.garbled" at the same interval: coffer-egress cannot report connections of coffer-dial.
 * F4  An event that cannot be written stops the folding: no byte after it is taken.
 * F5  Of the uses of a secret without a token, the first for each secret and host is still an event of its
 *     own, in each interval of F2, for NET_KEYS of them: no flood hides where a secret went.
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
	/* Writes one event into the log. Negative: it was not written (F4). */
	int (*event)(void *ctx, const char *type, const struct buf *fields);
	/* Each denial and alert, for the terminal; may be NULL. */
	void (*denied)(void *ctx, const struct net_line *l);
	void *ctx;
};

/* `now` is CLOCK_MONOTONIC ns, here and below. NULL: out of memory. */
struct net_fold *net_fold_new(uint64_t now, const struct net_fold_out *out) MUST_CHECK;
void net_fold_free(struct net_fold *f);
static inline void net_fold_freep(struct net_fold **f)
{
	net_fold_free(*f);
}

/*
 * Takes the complete lines of `data`, with `last` also the rest after them. NULs between lines are skipped:
 * they are where lines were punched out. *ret_taken is the number of bytes done; without an error the rest is
 * incomplete, or too fast (F0), which `last` ignores. A negative errno is that of event().
 */
int net_fold_feed(struct net_fold *f, enum net_from from, const char *data, size_t len, bool last,
		  uint64_t now, size_t *ret_taken) MUST_CHECK;

/* The programs have ended: the rest of their journals is bounded, and from now on nothing is too fast. */
void net_fold_last(struct net_fold *f);

/* Writes the counts if they are due; with `all` in any case. */
int net_fold_tick(struct net_fold *f, uint64_t now, bool all) MUST_CHECK;

/* Are there counts that net_fold_tick() will have to write? */
bool net_fold_has_counts(const struct net_fold *f);

/* Members of the report's "network" object: counts, and rows by name. */
void net_fold_report(const struct net_fold *f, struct json *j);

#endif
