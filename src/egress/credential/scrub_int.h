/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by scrub.c and scrub_loose.c: one pass over contiguous bytes. */
#ifndef EGRESS_SCRUB_INT_H
#define EGRESS_SCRUB_INT_H

#include "egress/credential/scrub.h"

#define SCRUB_FILLER '*'
#define SCRUB_NO_PUT UINT32_MAX

struct scrub_pass {
	const struct scrub_set *set;
	const unsigned char *in;
	size_t len;
	bool last;    /* no bytes follow */
	char *to;     /* a copy of `in` that is modified; NULL: search only */
	size_t cover; /* overwritten up to here */
	uint64_t found, tags;
	bool inner;
};

/* An occurrence, or a place where one may begin whose end is not there yet. */
struct scrub_hit {
	size_t at, len; /* len 0: only a possible beginning */
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
/*
 * Finds the first occurrence that differs from its plain string and begins in [from, end); ret->at is `end`
 * when there is none.
 */
void scrub_loose_next(const struct scrub_pass *s, size_t from, size_t end, struct scrub_hit *ret);
void scrub_loose_strike(struct scrub_pass *s, const struct scrub_hit *h);

#endif
