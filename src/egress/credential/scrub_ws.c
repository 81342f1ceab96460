/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds the payload of all data frames through one search; heads and control frames wait until the payload
 * before them is finished. A frame that cannot be searched must not pass (scrub_ws.W3).
 */
#include "egress/credential/scrub_ws.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A head, or a whole control frame, that follows this much payload. */
struct ws_piece {
	uint64_t after;
	uint32_t len;
};

struct scrub_ws {
	const struct scrub_set *set;
	struct scrub flow;	 /* the payload of all data frames */
	uint64_t came, went;	 /* bytes of that: received, passed on */
	struct buf late, pieces; /* waiting pieces: their bytes, and a struct ws_piece for each */
	size_t late_at, piece_at;
	unsigned char head[SCRUB_WS_HEAD_MAX];
	size_t n_head;
	uint64_t left;	/* payload bytes left in a data frame */
	bool in_data;	/* the head of a data frame was read, but not all of its payload */
	size_t control; /* payload bytes that a control frame still lacks */
	struct buf frame;
};

struct scrub_ws *scrub_ws_new(const struct scrub_set *set)
{
	struct scrub_ws *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->set = set;
	w->flow.set = set;
	w->late.wipe = w->frame.wipe = true;
	return w;
}

void scrub_ws_free(struct scrub_ws *w)
{
	if (!w)
		return;
	scrub_release(&w->flow);
	buf_release(&w->late);
	buf_release(&w->pieces);
	buf_release(&w->frame);
	free(w);
}

size_t scrub_ws_held(const struct scrub_ws *w)
{
	return scrub_held(&w->flow) + w->late.len - w->late_at + w->n_head + w->frame.len;
}

/* ---- Pieces in their places. ---- */

static bool ws_has_late(const struct scrub_ws *w)
{
	return w->piece_at < w->pieces.len;
}

/* Passes on finished payload, with the pieces that belong between. */
static int ws_pass_on(struct scrub_ws *w, struct slice payload, struct buf *to)
{
	struct ws_piece p = { 0 };

	for (;;) {
		uint64_t n = payload.len;

		if (ws_has_late(w)) {
			memcpy(&p, w->pieces.data + w->piece_at, sizeof(p));
			n = p.after - w->went < n ? p.after - w->went : n;
		}
		buf_add(to, payload.p, n);
		payload.p += n;
		payload.len -= n;
		w->went += n;
		if (!ws_has_late(w) || w->went < p.after)
			break;
		buf_add(to, w->late.data + w->late_at, p.len);
		w->late_at += p.len;
		w->piece_at += sizeof(p);
	}
	/* Also when pieces always wait: passed-on bytes must not take room for long (scrub_ws.W4). */
	if (!ws_has_late(w) || w->late_at + w->piece_at > SCRUB_WS_LATE_MAX) {
		buf_consume(&w->late, w->late_at);
		buf_consume(&w->pieces, w->piece_at);
		w->late_at = w->piece_at = 0;
	}
	return buf_error(to);
}

static int ws_put_payload(struct scrub_ws *w, const void *data, size_t len, bool last, struct buf *to)
{
	CLEANUP(buf_release) struct buf out = { .wipe = true };
	size_t before = to->len;
	int r;

	w->came += len;
	if (ws_has_late(w)) {
		r = scrub_feed(&w->flow, data, len, last, &out);
		return r < 0 ? r : ws_pass_on(w, (struct slice){ out.data, out.len }, to);
	}
	r = scrub_feed(&w->flow, data, len, last, to);
	if (r == 0)
		w->went += to->len - before;
	return r;
}

/* Queues a piece after the payload received so far. */
static int ws_put_piece(struct scrub_ws *w, const void *data, size_t len, struct buf *to,
			const char **ret_why)
{
	const struct ws_piece p = { .after = w->came, .len = (uint32_t)len };

	if (w->late.len - w->late_at + (w->pieces.len - w->piece_at) + len > SCRUB_WS_LATE_MAX) {
		*ret_why =
			"the websocket's server split a message into too many pieces to search them for the secret";
		return -EMSGSIZE;
	}
	buf_add(&w->late, data, len);
	buf_add(&w->pieces, &p, sizeof(p));
	if (buf_error(&w->late) || buf_error(&w->pieces))
		return -ENOMEM;
	return ws_pass_on(w, SLICE_NONE, to);
}

/* ---- Frames. ---- */

#define BAD(why) ((*ret_why = (why)), -EBADMSG)

/* scrub_ws.W3. The length of a frame; 0 when more bytes of the head are needed. */
static int ws_read_length(const struct scrub_ws *w, uint64_t *ret, const char **ret_why)
{
	const unsigned char *h = w->head;
	unsigned short_len = h[1] & 0x7f;
	size_t n = short_len == 127 ? 8 : short_len == 126 ? 2 : 0;
	uint64_t len = n ? 0 : short_len;

	if (w->n_head < 2 + n)
		return 0;
	for (size_t i = 0; i < n; i++)
		len = len << 8 | h[2 + i];
	if ((n == 2 && len < 126) || (n == 8 && (len <= UINT16_MAX || len >> 63)))
		return BAD("the websocket's server sent an invalid frame length");
	*ret = len;
	return 1;
}

static int ws_check_head(const unsigned char *h, const char **ret_why)
{
	unsigned op = h[0] & 0x0f;

	if (h[0] & 0x70)
		return BAD(
			"the websocket's server compressed or extended a frame although it was told not to, so "
			"it could not be searched for the secret");
	if (h[1] & 0x80)
		return BAD(
			"the websocket's server masked a frame, so it could not be searched for the secret");
	if ((op > 2 && op < 8) || op > 10)
		return BAD("the websocket's server sent a frame of an unknown kind");
	if (op >= 8 && (!(h[0] & 0x80) || (h[1] & 0x7f) > SCRUB_WS_CONTROL_MAX))
		return BAD("the websocket's server sent a control frame that is too long, or in pieces");
	return 0;
}

static int ws_end_control(struct scrub_ws *w, struct buf *to, const char **ret_why)
{
	long r = scrub_whole(w->set, w->frame.data + 2, w->frame.len - 2);
	int ret = r < 0 ? (int)r : ws_put_piece(w, w->frame.data, w->frame.len, to, ret_why);

	buf_clear(&w->frame);
	return ret;
}

/* Handles one more byte of a head. */
static int ws_take_head_byte(struct scrub_ws *w, unsigned char c, struct buf *to, const char **ret_why)
{
	uint64_t len = 0;
	int r;

	w->head[w->n_head++] = c;
	if (w->n_head < 2)
		return 0;
	r = w->n_head == 2 ? ws_check_head(w->head, ret_why) : 0;
	if (r == 0)
		r = ws_read_length(w, &len, ret_why);
	if (r <= 0)
		return r;
	if (w->head[0] & 0x08) {
		buf_add(&w->frame, w->head, 2);
		w->n_head = 0;
		w->control = (size_t)len;
		r = buf_error(&w->frame);
		return r < 0 || len ? r : ws_end_control(w, to, ret_why);
	}
	w->in_data = len > 0;
	w->left = len;
	r = ws_put_piece(w, w->head, w->n_head, to, ret_why);
	w->n_head = 0;
	return r;
}

static int ws_take_control(struct scrub_ws *w, const void *data, size_t len, struct buf *to,
			   const char **ret_why)
{
	buf_add(&w->frame, data, len);
	w->control -= len;
	if (buf_error(&w->frame))
		return -ENOMEM;
	return w->control ? 0 : ws_end_control(w, to, ret_why);
}

int scrub_ws_feed(struct scrub_ws *w, const void *data, size_t len, struct buf *to, const char **ret_why)
{
	const unsigned char *p = data;
	int r = 0;

	*ret_why = "out of memory";
	for (size_t n; r == 0 && len; p += n, len -= n) {
		if (w->control) {
			n = w->control < len ? w->control : len;
			r = ws_take_control(w, p, n, to, ret_why);
		} else if (w->in_data) {
			n = w->left < len ? (size_t)w->left : len;
			w->left -= n;
			w->in_data = w->left > 0;
			r = ws_put_payload(w, p, n, false, to);
		} else {
			n = 1;
			r = ws_take_head_byte(w, *p, to, ret_why);
		}
	}
	return r;
}

int scrub_ws_end(struct scrub_ws *w, struct buf *to)
{
	return ws_put_payload(w, NULL, 0, true, to);
}
