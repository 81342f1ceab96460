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
 * F6  Of lines that may be in the log already (net_fold_again()), those of F0 have no event again, and the others are counted: after a
 *     restart no line of F0 is in the log twice, and counts are at least what happened.
 * F5  Of the uses of a secret without a token, the first for each secret and host is still an event of its
 *     own, in each interval of F2, for NET_KEYS of them: no flood hides where a secret went.
 */
#ifndef NETD_NET_FOLD_H
#define NETD_NET_FOLD_H

#include "base/buf.h"
#include "netd/log/net_line.h"
#include "netd/wire/netd_report.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NET_BURST_KEPT 16000u
#define NET_RATE_KEPT 500u
#define NET_KEPT_BYTES (3ULL << 30) /* of lines: LEDGER_BYTES, and room */
#define NET_BURST 4000u
#define NET_RATE 5u
#define NET_BURST_DENIED 1000u
#define NET_RATE_DENIED 2u
#define NET_BURST_ALERT 200u
#define NET_RATE_ALERT 1u
#define NET_KEYS 256u
#define NET_FOLDED_NS (10 * 1000000000ULL)

struct net_fold;

struct net_fold_out {
	/* Writes one event, packed as netd_event.h does, into the log: that of the line of `from` which ends at `off`, or with
	 * NET_FROM_COUNT a count. Negative: it was not written (F4). */
	int (*event)(void *ctx, enum net_from from, uint64_t off, const void *packed, size_t len);
	/* Each denial and alert, for the terminal; may be NULL. */
	void (*denied)(void *ctx, const struct net_line *l);
	void *ctx;
};

/* `now` is CLOCK_MONOTONIC ns, here and below. What was counted for the report goes to *report, which outlives this and may
 * have counts already. NULL: out of memory. */
struct net_fold *net_fold_new(uint64_t now, const struct net_fold_out *out,
			      struct netd_report *report) MUST_CHECK;
void net_fold_free(struct net_fold *f);
static inline void net_fold_freep(struct net_fold **f)
{
	net_fold_free(*f);
}

/* Lines of `from` that end at or before `logged` may be in the log already (F6). */
void net_fold_again(struct net_fold *f, enum net_from from, uint64_t logged);

/* A piece of a journal. */
struct net_chunk {
	enum net_from from;
	uint64_t off; /* of the first byte */
	const char *data;
	size_t len;
	bool last; /* nothing follows */
};

/*
 * Takes the complete lines of a chunk, with `last` also the rest after them. NULs between lines are skipped:
 * they are where lines were punched out. *ret_taken is the number of bytes done; without an error the rest is
 * incomplete, or too fast (F0), which `last` ignores. A negative errno is that of event().
 */
int net_fold_feed(struct net_fold *f, const struct net_chunk *c, uint64_t now, size_t *ret_taken) MUST_CHECK;

/* The programs have ended: the rest of their journals is bounded, and from now on nothing is too fast. */
void net_fold_last(struct net_fold *f);

/* Writes the counts if they are due; with `all` in any case. */
int net_fold_tick(struct net_fold *f, uint64_t now, bool all) MUST_CHECK;

/* Are there counts that net_fold_tick() will have to write? */
bool net_fold_has_counts(const struct net_fold *f);

#endif
