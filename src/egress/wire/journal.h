/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of one process: JSON objects, one per line, appended to a file that the process can neither
 * read, truncate nor seek in.
 *
 * Lines are gathered and written by journal_commit() in one write(), so that many simultaneous connections
 * cost one system call. A connection or request may pass only after the commit of its line has succeeded.
 *
 * Invariants
 *  J1  A line has at most JOURNAL_LINE_MAX bytes: text from outside is cut (journal_str()), and a line that
 *      is still too long is replaced by one that says so.
 *  J2  A failed write loses no lines: the next commit retries. Until one succeeds journal_commit() fails, and
 *      everything is denied. Beyond JOURNAL_HELD_MAX lines are dropped and counted.
 *  J3  A half-written line is completed first; nothing is ever written into the middle of one.
 *  J4  A lost line may belong to any waiting request: once a commit has failed, so does each that follows,
 *      until journal_settled() confirms that every waiting request has been denied.
 *
 * Every line begins with t (CLOCK_REALTIME, ns) and ev. The other members are the ones listed here; a member
 * without a value is left out. `first` is 1 on the line of something that passed for the first time, and on
 * the lines that belong to it (ledger.h): the guard never folds such a line. `count` is the number of further
 * events of the same kind that the line represents (egress_fold.h). A line that reports only a number has the name
 * "*"; its `again` is the number of events that equal one with a line, and `top` lists the most frequent ones
 * (base/top.h).
 *
 *	dns	 name qtype decision(allow|deny|error) said rule why addr count first
 *		 (said: the policy's decision, where the result differs from it: policy_journal_note(). A new name gets its line, allow and
 *		 first, before it is looked up; a second line with first and error or deny reports the result of that lookup)
 *	open	 c name addr port depth decision said ask rule why generation seen count first
 *		 (c: number of the connection; ask: id of the ask that a person answered; seen: the name in its first
 *		 bytes where it differs)
 *	close	 c name addr port up down ms how first
 *	request	 c r method path host port decision said ask rule why secret count act first
 *		 (ask: one id, or two with a comma between; secret: names of the secrets whose placeholders it has: each has a line
 *		 when it is sent; act: what it was judged by besides method and path, in the terms of policy/replay/replay.h)
 *	secret	 c r secret host port method path digest first	(digest: of the placeholder)
 *	issued	 c r secret host port method path digest first
 *	response c r status up down ms first
 *	dial	 name port addr proxy status why ms first
 *	refused	 proto port addr count
 *	alert	 kind text name count
 *	policy	 generation digest why		(why: it could not be loaded, and everything is denied)
 *	garbled	 why
 *
 *	struct json *l = journal_begin(j, "dns");
 *	journal_str(l, "name", name, 255);
 *	journal_end(j);
 */
#ifndef EGRESS_JOURNAL_H
#define EGRESS_JOURNAL_H

#include "base/buf.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define JOURNAL_LINE_MAX \
	4096 /* the longest host, path, rule, reason and secrets together, with their escapes */
#define JOURNAL_HELD_MAX (256u << 10)

struct journal {
	int fd;		    /* borrowed */
	struct buf pending; /* whole lines, and the one under construction */
	struct json line;
	size_t start; /* of the line under construction */
	uint64_t writes;
	uint64_t dropped;      /* J2 */
	int error;	       /* of the last commit */
	int failed;	       /* J4: the first error since journal_settled() */
	uint64_t (*now)(void); /* CLOCK_REALTIME in ns; tests replace it */
};

void journal_init(struct journal *j, int fd);
void journal_release(struct journal *j);

/* Begins a line with its time and event; the caller adds members and ends it. */
struct json *journal_begin(struct journal *j, const char *ev);
size_t journal_end(struct journal *j); /* returns the line's length in bytes */

/* Text from outside, cut to `max` bytes; NULL and "" write nothing. */
void journal_str(struct json *l, const char *key, const char *s, size_t max);

/* Writes the gathered lines. 0, or a negative errno: then nothing may pass (J4). */
int journal_commit(struct journal *j) MUST_CHECK;
/* Every request that waited for a commit has got its result. */
void journal_settled(struct journal *j);

/* Is any line unwritten, or did one fail? */
static inline bool journal_is_dirty(const struct journal *j)
{
	return j->pending.len > 0 || j->failed || buf_error(&j->pending);
}

#endif
