/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what was seen to a policy: destinations are added up, and written as a file that allows just those.
 *
 * Pure: times are the caller's. Everything that is added came from a log whose names a sandbox chose, so the number of
 * destinations is capped and what is written is quoted; a name that is not canonical is not written at all.
 *
 * Invariants
 *  L1  Only what was allowed becomes a rule. What was denied, or only looked up, is told in comments.
 *  L2  No rule is wider than what was seen: a name, a port, the depth that was enough. A request that no rule can name is left
 *      out, with a comment: a method that rules do not know, a path with a star in it or longer than a pattern may be.
 *      With `http`, a destination whose connections were looked into and had no request allows none; one whose connections were
 *      not looked into allows any, and says so.
 *  L3  What looks odd is in the file, with the reason above it: a person decides.
 */
#ifndef POLICY_LEARN_H
#define POLICY_LEARN_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEARN_MAX 131072 /* destinations, twice as many as one sandbox has names; more are only counted */
#define LEARN_REQUESTS_MAX 256 /* method and path pairs of one of them */

enum learn_kind {
	LEARN_LOOKUP,  /* a name was asked for, and answered */
	LEARN_OPEN,    /* a connection was allowed */
	LEARN_CLOSE,   /* and has ended: bytes */
	LEARN_REQUEST, /* a request in it was allowed */
	LEARN_DENIED,  /* a lookup, connection or request was denied */
};

/* One thing that was seen. Strings are the caller's. */
struct learn_seen {
	enum learn_kind kind;
	const char *name; /* canonical host, or an address in text */
	uint16_t port;	  /* 0 for a lookup */
	bool literal;	  /* the address was connected to, not a name */
	bool tunnel;	  /* neither TLS nor HTTP: needs depth tunnel */
	bool inspected;	  /* an open: its requests were looked at, and each would be there */
	uint64_t up, down;
	uint64_t t;	    /* CLOCK_REALTIME ns */
	const char *method; /* of a request */
	const char *path;   /* canonical, without query */
};

struct learn_request {
	char *method, *path;
	uint64_t count;
};

struct learn_dest {
	char *name;
	uint16_t port;
	bool literal, tunnel;
	uint64_t lookups, opens, inspected, requests, denied;
	uint64_t up, down;
	uint64_t first, last;
	struct learn_request *reqs; /* sorted by nothing; capped */
	size_t n_reqs;
	bool reqs_cut; /* there were more pairs than are kept */
};

struct learn {
	struct learn_dest *dests;
	size_t n, cap;
	uint32_t *index; /* open addressing over dests, power of two */
	size_t n_index;
	uint64_t others; /* seen of destinations past the cap */
};

#define LEARN_INIT ((struct learn){ 0 })

int learn_add(struct learn *l, const struct learn_seen *s, struct err *e) MUST_CHECK;
void learn_release(struct learn *l);

struct learn_opts {
	bool http;	    /* write methods and paths where requests were seen */
	const char *source; /* for the head comment: "sandbox a1b2…" */
	/* The registrable domain of a name: where it begins in it; NULL: there is none. */
	const char *(*registrable)(const char *name);
	/* Writes the keys of the rule by which it is reached there (`to:`, `ca:`), each a line that begins with six spaces; may be NULL. */
	void (*ways)(void *ctx, const struct learn_dest *d, struct buf *out);
	void *ctx; /* of ways */
	/* How a time is shown; `out` holds 32 bytes. */
	void (*format_time)(uint64_t t, char *out);
};

/* Sorts, and writes the file. */
void learn_write(struct learn *l, const struct learn_opts *o, struct buf *out);

/* Why a destination looks odd, as a list of short texts; 0: it does not. Of a list that learn_write() has sorted. */
#define LEARN_ODD_MAX 7
size_t learn_odd(const struct learn *l, const struct learn_dest *d, const struct learn_opts *o,
		 const char *ret[LEARN_ODD_MAX]);

#endif
