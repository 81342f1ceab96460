/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of one process: JSON objects, one a line, appended to a file that it can neither read, cut nor seek in.
 *
 * Lines are gathered and written by journal_commit() in one write(), so that many connections that come at once cost
 * one call. What a line records may be let through only when the commit behind it has succeeded.
 *
 * Invariants
 *  J1  A line is at most JOURNAL_LINE_MAX bytes: text from outside is cut (journal_str()), and a line that is still too
 *      long is replaced by one that says so.
 *  J2  When a write fails, what was gathered is not thrown away: the next commit tries again. Until one succeeds
 *      journal_commit() fails, and everything is denied. Past JOURNAL_HELD_MAX lines are dropped and counted.
 *  J4  Lines that were lost are those of anything that waits: once a commit has failed, so does each that follows, until
 *      journal_settled() says that whoever waited has been denied.
 *  J3  A half-written line is finished first; nothing is ever written into the middle of one.
 *
 * Every line begins with t (CLOCK_REALTIME, ns) and ev; the other members are these and no others, each left out when it
 * has nothing to say. `first` is 1 on the line of something that was let through for the first time, and on those that belong
 * to it (ledger.h): the guard never folds one. `count` stands on a line that speaks for so many more of its kind (fold.h); where
 * nothing but the number is told the name is "*", `again` says how many of them were like one that has a line, and `top`
 * which were the most frequent (base/top.h).
 *
 *	dns	 name qtype decision(allow|deny|error) said rule why addr count first
 *		 (said: what the policy said, where that is not what became of it: policy_journal_note(). A new name has its line, allow and
 *		 first, before it is looked up; one that is an error or denied and says first too tells what became of that lookup)
 *	open	 c name addr port depth decision said ask rule why generation seen count first
 *		 (c: number of the connection; ask: the question that a person was asked; seen: the name in its first
 *		 bytes where that is another one)
 *	close	 c name addr port up down ms how first
 *	request	 c r method path host port decision said ask rule why secret count act first
 *		 (ask: one, or two with a comma between; secret: names of those whose placeholder it has, a line of each follows
 *		 when they are sent; act: what it was judged by beside method and path, in the words of policy/replay/replay.h)
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
	4096 /* the longest host, path, rule, reason and secrets together, with what escaping adds */
#define JOURNAL_HELD_MAX (256u << 10)

struct journal {
	int fd;		    /* borrowed */
	struct buf pending; /* whole lines, and the one that is being built */
	struct json line;
	size_t start; /* of the line that is being built */
	uint64_t writes;
	uint64_t dropped;      /* J2 */
	int error;	       /* of the last commit */
	int failed;	       /* J4: the first error since journal_settled() */
	uint64_t (*now)(void); /* CLOCK_REALTIME in ns; tests have their own */
};

void journal_init(struct journal *j, int fd);
void journal_release(struct journal *j);

/* Begins a line with its time and event; the caller adds members and ends it. */
struct json *journal_begin(struct journal *j, const char *ev);
size_t journal_end(struct journal *j); /* how many bytes the line has */

/* Text from outside, cut to `max` bytes; NULL and "" write nothing. */
void journal_str(struct json *l, const char *key, const char *s, size_t max);

/* Writes what was gathered. 0, or the negative errno for which nothing may be let through (J4). */
int journal_commit(struct journal *j) MUST_CHECK;
/* All that waited for commits has had its answer. */
void journal_settled(struct journal *j);

/* Is there a line that was not written, or one that could not be? */
static inline bool journal_is_dirty(const struct journal *j)
{
	return j->pending.len > 0 || j->failed || buf_error(&j->pending);
}

#endif
