/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search of Wu and Manber: a window as long as the shortest string advances as far as its last two bytes
 * allow, over most data nearly its length; where they could end a prefix, the few strings of that slot are
 * compared. Pure. No length may change (scrub.R1).
 */
#include "base/vec.h"
#include "egress/credential/scrub_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (64u << 20)
#define PATTERNS_MAX 4096

static bool set_has_string(const struct scrub_set *s, struct slice find)
{
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->v[i].len == find.len && memcmp(scrub_text(s, s->v[i].find), find.p, find.len) == 0)
			return true;
	}
	return false;
}

int scrub_set_add(struct scrub_set *s, struct slice find, const char *put)
{
	struct scrub_pattern *p;

	if (find.len < SCRUB_MIN || set_has_string(s, find))
		return 0;
	if (s->n >= PATTERNS_MAX || find.len > TEXT_MAX / 4 || s->text.len + 2 * find.len > TEXT_MAX)
		return -E2BIG;
	if (VEC_ROOM(s->v, s->n, s->cap, PATTERNS_MAX) < 0)
		return -ENOMEM;
	s->text.wipe = true;
	p = &s->v[s->n];
	*p = (struct scrub_pattern){
		.find = (uint32_t)s->text.len, .put = SCRUB_NO_PUT, .len = (uint32_t)find.len, .tag = s->tag
	};
	buf_add(&s->text, find.p, find.len);
	if (put) {
		p->put = (uint32_t)s->text.len;
		buf_add(&s->text, put, find.len);
	}
	if (buf_error(&s->text))
		return -ENOMEM;
	s->n++;
	return 0;
}

void scrub_set_ready(struct scrub_set *s)
{
	s->min = s->max = 0;
	for (uint32_t i = 0; i < s->n; i++) {
		s->min = s->min && s->min < s->v[i].len ? s->min : s->v[i].len;
		s->max = s->max > s->v[i].len ? s->max : s->v[i].len;
	}
	memset(s->first, 0, sizeof(s->first));
	memset(s->begins, 0, sizeof(s->begins));
	memset(s->shift, s->min > 256 ? 255 : (int)s->min - 1, sizeof(s->shift));
	for (uint32_t i = 0; i < s->n; i++) {
		const unsigned char *f = scrub_text(s, s->v[i].find);
		unsigned last = scrub_place(f[s->min - 2], f[s->min - 1]);

		s->begins[f[0] / 64] |= 1ull << (f[0] % 64);
		for (uint32_t k = 0; k + 1 < s->min; k++) {
			uint8_t *at = &s->shift[scrub_place(f[k], f[k + 1])];

			if (s->min - 2 - k < *at)
				*at = (uint8_t)(s->min - 2 - k);
		}
		s->v[i].next = s->first[last];
		s->first[last] = (uint16_t)(i + 1);
	}
	scrub_loose_ready(s);
}

void scrub_set_release(struct scrub_set *s)
{
	buf_release(&s->text);
	free(s->v);
	scrub_loose_release(s);
	explicit_bzero(s, sizeof(*s));
}

/* The longest string that occurs at p, where enough bytes follow for all of them. */
static const struct scrub_pattern *longest_at(const struct scrub_set *s, const unsigned char *p, unsigned h)
{
	const struct scrub_pattern *best = NULL;

	for (uint32_t i = s->first[h]; i; i = s->v[i - 1].next) {
		const struct scrub_pattern *v = &s->v[i - 1];

		if ((!best || v->len > best->len) && memcmp(p, scrub_text(s, v->find), v->len) == 0)
			best = v;
	}
	return best;
}

/* The same near the end. *ret_open: with more bytes there might be one, or a longer one. */
static const struct scrub_pattern *longest_at_end(const struct scrub_set *s, const unsigned char *p,
						  size_t left, bool *ret_open)
{
	const struct scrub_pattern *best = NULL;

	*ret_open = false;
	if (!(s->begins[*p / 64] & (1ull << (*p % 64))))
		return NULL;
	for (uint32_t i = 0; i < s->n; i++) {
		const struct scrub_pattern *v = &s->v[i];
		size_t n = v->len < left ? v->len : left;

		if (memcmp(p, scrub_text(s, v->find), n) != 0)
			continue;
		if (v->len > left)
			*ret_open = true;
		else if (!best || v->len > best->len)
			best = v;
	}
	return best;
}

/* scrub.R3: overwrites an occurrence, or notes its tag. */
static void scrub_strike(struct scrub_pass *s, const struct scrub_hit *h)
{
	const struct scrub_pattern *v = h->exact;
	size_t end = h->at + h->len;
	uint8_t tag = v ? v->tag : h->loose->tag;

	s->found++;
	if (tag == SCRUB_INNER)
		s->inner |= end > s->cover;
	else
		s->tags |= 1ull << tag;
	if (!s->to) {
		s->cover = tag != SCRUB_INNER && end > s->cover ? end : s->cover;
		return;
	}
	if (!v) {
		scrub_loose_strike(s, h);
		return;
	}
	if (h->at < s->cover) {
		if (end > s->cover)
			memset(s->to + s->cover, SCRUB_FILLER, end - s->cover);
	} else if (v->put == SCRUB_NO_PUT) {
		memset(s->to + h->at, SCRUB_FILLER, v->len);
	} else {
		memcpy(s->to + h->at, scrub_text(s->set, v->put), v->len);
	}
	s->cover = end > s->cover ? end : s->cover;
}

static void scrub_next_exact(const struct scrub_pass *s, size_t at, size_t end, struct scrub_hit *ret)
{
	const struct scrub_set *set = s->set;
	const struct scrub_pattern *v;
	size_t m = set->min;
	bool open = false;

	*ret = (struct scrub_hit){ .at = end };
	while (at < end && s->len - at >= set->max) {
		unsigned h = scrub_place(s->in[at + m - 2], s->in[at + m - 1]);

		if (set->shift[h]) {
			at += set->shift[h];
			continue;
		}
		v = longest_at(set, s->in + at, h);
		if (v) {
			*ret = (struct scrub_hit){ .at = at, .len = v->len, .exact = v };
			return;
		}
		at++;
	}
	for (; at < end; at++) {
		v = longest_at_end(set, s->in + at, s->len - at, &open);
		open = open && !s->last;
		if (v || open) {
			*ret = (struct scrub_hit){
				.at = at, .len = v ? v->len : 0, .open = open, .exact = v
			};
			return;
		}
	}
}

/*
 * Handles all occurrences that begin before `end`. Returns where one may begin whose end is not there yet;
 * else `end`.
 */
static size_t scrub_run(struct scrub_pass *s, size_t end)
{
	struct scrub_hit exact, loose = { .at = end };

	scrub_next_exact(s, 0, end, &exact);
	if (s->set->n_loose)
		scrub_loose_next(s, 0, end, &loose);
	while (exact.at < end || loose.at < end) {
		struct scrub_hit h = exact.at < loose.at || (exact.at == loose.at && exact.len >= loose.len)
					     ? exact
					     : loose;

		h.open |= exact.at == loose.at && (exact.open || loose.open);
		if (h.len && (!h.open || !s->to))
			scrub_strike(s, &h);
		if (h.open)
			return h.at;
		if (exact.at == h.at)
			scrub_next_exact(s, h.at + 1, end, &exact);
		if (loose.at == h.at)
			scrub_loose_next(s, h.at + 1, end, &loose);
	}
	return end;
}

/* Holds the last `len` bytes back, as received and as modified, except for their beginning (scrub.R4). */
static int scrub_hold_back(struct scrub *s, const void *in, size_t len, struct buf *to, size_t cover)
{
	size_t lead = scrub_lead(s->set) < len ? scrub_lead(s->set) : len;
	const char *p = in;

	while (s->set->n_loose && lead < len && (p[lead] == '\n' || p[lead] == '\r'))
		lead++;

	s->in.wipe = s->out.wipe = true;
	buf_clear(&s->in);
	buf_clear(&s->out);
	s->cover = cover;
	s->gone = lead;
	if (len == 0)
		return 0;
	buf_add(&s->in, in, len);
	buf_add(&s->out, to->data + to->len - len, len);
	to->len -= len - lead;
	explicit_bzero(to->data + to->len, len - lead);
	return buf_error(&s->in) || buf_error(&s->out) ? -ENOMEM : 0;
}

/* Handles occurrences that begin in held bytes. 1 when one still does not end. */
static int scrub_run_held(struct scrub *s, const char *data, size_t len, bool last, struct buf *to,
			  size_t base, size_t *ret_cover)
{
	size_t held = s->in.len, more = len < s->set->reach - 1 ? len : s->set->reach - 1, at;
	struct scrub_pass p = { .set = s->set, .cover = s->cover, .last = last && more == len };
	CLEANUP(buf_release) struct buf joint = { .wipe = true };
	int r;

	buf_add(&joint, s->in.data, held);
	buf_add(&joint, data, more);
	if (buf_error(&joint))
		return -ENOMEM;
	p.in = (const unsigned char *)joint.data;
	p.len = joint.len;
	p.to = to->data + base;
	at = scrub_run(&p, held);
	s->found += p.found;
	if (at < held) {
		r = scrub_hold_back(s, joint.data + at, joint.len - at, to, p.cover > at ? p.cover - at : 0);
		return r < 0 ? r : 1;
	}
	*ret_cover = p.cover > held ? p.cover - held : 0;
	return 0;
}

static int scrub_feed_raw(struct scrub *s, const void *data, size_t len, bool last, struct buf *to)
{
	size_t base = to->len, held = s->in.len, cover = 0, at = 0;
	struct scrub_pass p = { .set = s->set, .in = data, .len = len, .last = last };
	int r;

	/* In one piece: growing in between would leave a copy of unsearched bytes. */
	if (!buf_reserve(to, s->out.len + len + 1))
		return -ENOMEM;
	buf_add(to, s->out.data, s->out.len);
	buf_add(to, data, len);
	if (buf_error(to))
		return -ENOMEM;
	if (s->set->n == 0)
		return 0;
	if (held) {
		r = scrub_run_held(s, data, len, last, to, base, &cover);
		if (r)
			return r < 0 ? r : 0;
	}
	if (len) {
		p.to = to->data + base + held;
		p.cover = cover;
		at = scrub_run(&p, len);
		s->found += p.found;
	}
	return scrub_hold_back(s, len ? (const char *)data + at : NULL, len - at, to,
			       p.cover > at ? p.cover - at : 0);
}

int scrub_feed(struct scrub *s, const void *data, size_t len, bool last, struct buf *to)
{
	size_t base = to->len, gone = s->gone;
	int r = scrub_feed_raw(s, data, len, last, to);

	/* On failure no unsearched byte stays in the output. */
	if (r < 0 && to->len > base) {
		explicit_bzero(to->data + base, to->len - base);
		to->len = base;
	}
	/* The lead that was passed on before is not repeated. */
	if (r == 0 && gone) {
		memmove(to->data + base, to->data + base + gone, to->len - base - gone);
		to->len -= gone;
	}
	return r;
}

/* Keeps the bytes that have to be searched again. */
static int scrub_keep(struct scrub *s, const char *p, size_t len)
{
	CLEANUP(buf_release) struct buf old = s->in;

	s->in = (struct buf){ .wipe = true };
	buf_add(&s->in, p, len);
	return buf_error(&s->in);
}

int scrub_seek(struct scrub *s, const void *data, size_t len, bool last, uint64_t *tags)
{
	size_t held = s->in.len, more, at = 0;
	struct scrub_pass p = { .set = s->set, .in = data, .len = len, .last = last };

	if (s->set->n == 0)
		return 0;
	if (held) {
		more = len < s->set->reach - 1 ? len : s->set->reach - 1;
		buf_add(&s->in, data, more);
		if (buf_error(&s->in))
			return -ENOMEM;
		p.in = (const unsigned char *)s->in.data;
		p.len = s->in.len;
		p.last = last && more == len;
		p.cover = s->cover;
		at = scrub_run(&p, held);
		*tags |= p.tags;
		s->inner |= p.inner;
		s->cover = p.cover > at ? p.cover - at : 0;
		if (at < held)
			return scrub_keep(s, s->in.data + at, s->in.len - at);
		p = (struct scrub_pass){
			.set = s->set, .in = data, .len = len, .last = last, .cover = s->cover
		};
	}
	at = len ? scrub_run(&p, len) : 0;
	*tags |= p.tags;
	s->inner |= p.inner;
	s->cover = p.cover > at ? p.cover - at : 0;
	return scrub_keep(s, len ? (const char *)data + at : NULL, len - at);
}

void scrub_release(struct scrub *s)
{
	buf_release(&s->in);
	buf_release(&s->out);
	*s = (struct scrub){ 0 };
}

long scrub_whole(const struct scrub_set *set, char *data, size_t len)
{
	CLEANUP(buf_release) struct buf in = { .wipe = true };
	struct scrub_pass p = { .set = set, .len = len, .last = true, .to = data };

	if (set->n == 0 || len < set->min)
		return 0;
	buf_add(&in, data, len);
	if (buf_error(&in))
		return -ENOMEM;
	p.in = (const unsigned char *)in.data;
	(void)scrub_run(&p, len);
	return (long)p.found;
}
