/* SPDX-License-Identifier: Apache-2.0 */
/* Frames on a byte stream: parsing one at the start of a buffer, and writing them. Lengths are capped before they are used. */
#include "codec/frame.h"

#include <errno.h>

uint32_t frame_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

void frame_put_u32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
	p[2] = (uint8_t)(v >> 16);
	p[3] = (uint8_t)(v >> 24);
}

long frame_parse(const void *data, size_t len, struct frame *ret)
{
	const uint8_t *p = data;
	uint32_t payload;

	/* Check the length as soon as it is there, so that no caller waits for the rest of a frame that is refused. */
	if (len < 4)
		return 0;
	payload = frame_u32(p);
	if (payload > FRAME_MAX_PAYLOAD)
		return -EPROTO;
	if (len < FRAME_HEAD)
		return 0;
	if (p[5] || p[6] || p[7])
		return -EPROTO;
	if (len - FRAME_HEAD < payload)
		return 0;
	*ret = (struct frame){
		.type = p[4], .chan = frame_u32(p + 8), .data = p + FRAME_HEAD, .len = payload
	};
	return (long)(FRAME_HEAD + payload);
}

void frame_put_head(uint8_t out[FRAME_HEAD], uint8_t type, uint32_t chan, uint32_t len)
{
	frame_put_u32(out, len);
	frame_put_u32(out + 4, type);
	frame_put_u32(out + 8, chan);
}

void frame_add(struct buf *out, uint8_t type, uint32_t chan, const void *data, uint32_t len)
{
	uint8_t head[FRAME_HEAD];

	BUG_ON(len > FRAME_MAX_PAYLOAD);
	/* Reserve room for head and payload first: a buffer that cannot grow must not end with half a frame. */
	if (!buf_reserve(out, FRAME_HEAD + len))
		return;
	frame_put_head(head, type, chan, len);
	buf_add(out, head, sizeof(head));
	buf_add(out, data, len);
}

void frame_add_u32s(struct buf *out, uint8_t type, uint32_t chan, const uint32_t *v, size_t n)
{
	uint8_t data[8 * 4];

	BUG_ON(n > 8);
	for (size_t i = 0; i < n; i++)
		frame_put_u32(data + 4 * i, v[i]);
	frame_add(out, type, chan, data, (uint32_t)(4 * n));
}

int frame_get_u32s(const struct frame *f, uint32_t *ret, size_t n)
{
	if (f->len != 4 * n)
		return -EPROTO;
	for (size_t i = 0; i < n; i++)
		ret[i] = frame_u32(f->data + 4 * i);
	return 0;
}
