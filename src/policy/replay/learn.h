/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a recorded run to a policy: sums up destinations and writes a file that allows exactly those.
 *
 * Pure: times come from the caller. All input comes from a log whose names a sandbox chose, so the number of
 * destinations is capped and all output is quoted; a name that is not canonical is not written at all.
 *
 * Invariants
 *  L1  Only allowed traffic becomes a rule. Denied destinations, and names that were only looked up, appear in comments.
 *  L2  No rule is wider than the traffic: a name, a port, the depth that sufficed. A request that no rule can name is left
 *      out, with a comment: an unknown method, a path with a star in it or longer than a pattern may be.
 *      With `http`, a destination whose connections were inspected and had no request allows none; one whose connections were
 *      not inspected allows any, and a comment says so.
 *  L3  Suspicious destinations are included, with the reason above them: a person decides.
 */
#ifndef POLICY_LEARN_H
#define POLICY_LEARN_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Destinations: twice as many as one sandbox has names. Further ones are only counted. */
#define LEARN_MAX 131072
#define LEARN_REQUESTS_MAX 256 /* method and path pairs of one destination */

enum learn_kind {
	LEARN_LOOKUP,  /* a name was looked up, and answered */
	LEARN_OPEN,    /* a connection was allowed */
	LEARN_CLOSE,   /* the connection ended; has bytes */
	LEARN_REQUEST, /* a request in it was allowed */
	LEARN_DENIED,  /* a lookup, connection or request was denied */
};

/* One observation. Strings belong to the caller. */
struct learn_seen {
	enum learn_kind kind;
	const char *name; /* canonical host, or an address in text */
	uint16_t port;	  /* 0 for a lookup */
	bool literal;	  /* the program connected to an address instead of a name */
	bool tunnel;	  /* neither TLS nor HTTP: needs depth tunnel */
	bool inspected;	  /* of an open: its requests were inspected, and each is in the log */
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
	struct learn_request *reqs; /* unsorted; capped */
	size_t n_reqs;
	bool reqs_cut; /* there were more pairs than are stored */
};

struct learn {
	struct learn_dest *dests;
	size_t n, cap;
	uint32_t *index; /* open addressing over dests, power of two */
	size_t n_index;
	uint64_t others; /* observations of destinations beyond the cap */
};

#define LEARN_INIT ((struct learn){ 0 })

int learn_add(struct learn *l, const struct learn_seen *s, struct err *e) MUST_CHECK;
void learn_release(struct learn *l);

struct learn_opts {
	bool http;	    /* write methods and paths if requests were seen */
	const char *source; /* for the heading: "sandbox a1b2…" */
	/* Returns where the registrable domain begins in a name; NULL: there is none. */
	const char *(*registrable)(const char *name);
	/* Writes the keys of the rule that led there (`to:`, `ca:`), each as a line indented by six spaces;
	 * may be NULL. */
	void (*ways)(void *ctx, const struct learn_dest *d, struct buf *out);
	void *ctx; /* passed to ways */
	/* Formats a time; `out` has 32 bytes. */
	void (*format_time)(uint64_t t, char *out);
};

/* Sorts, and writes the file. */
void learn_write(struct learn *l, const struct learn_opts *o, struct buf *out);

/* Why a destination is suspicious, as a list of short texts; 0: it is not. Only after learn_write() has
 * sorted the list. */
#define LEARN_ODD_MAX 7
size_t learn_odd(const struct learn *l, const struct learn_dest *d, const struct learn_opts *o,
		 const char *ret[LEARN_ODD_MAX]);

#endif
