/* SPDX-License-Identifier: Apache-2.0 */
/* What scrub.c and scrub_loose.c share: one pass over bytes that stand together. */
#ifndef EGRESS_SCRUB_INT_H
#define EGRESS_SCRUB_INT_H

#include "egress/credential/scrub.h"

#define SCRUB_FILLER '*'
#define SCRUB_NO_PUT UINT32_MAX

struct scrub_pass {
	const struct scrub_set *set;
	const unsigned char *in;
	size_t len;
	bool last;    /* nothing comes behind them */
	char *to;     /* a copy of them, which is what is written to; NULL: nothing is */
	size_t cover; /* written over up to here */
	uint64_t found, tags;
	bool inner;
};

/* An occurrence, or where one may be of which the end is not there. */
struct scrub_hit {
	size_t at, len; /* len 0: only that */
	bool open;	/* with more bytes there might be one, or a longer one */
	const struct scrub_pattern *exact;
	const struct scrub_loose *loose;
};

static inline unsigned scrub_place(unsigned char a, unsigned char b)
{
	return (((unsigned)a << 4) ^ ((unsigned)b * 5)) & (SCRUB_HASH - 1);
}

static inline const unsigned char *scrub_text(const struct scrub_set *s, uint32_t at)
{
	return (const unsigned char *)s->text.data + at;
}

/* scrub_loose.c */
void scrub_loose_ready(struct scrub_set *s);
void scrub_loose_release(struct scrub_set *s);
/* The first that begins from `from` on and before `end` and is not as its string is; ret->at is `end` when there is none. */
void scrub_loose_next(const struct scrub_pass *s, size_t from, size_t end, struct scrub_hit *ret);
void scrub_loose_strike(struct scrub_pass *s, const struct scrub_hit *h);

#endif
