/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on a byte stream: a 12-byte head (u32 length of payload, u8 type, u8 0, u16 0, u32 channel, all
 * little-endian), then the payload. Pure: no I/O, no allocation beyond the buffers that it is given.
 * Bytes come from outside: a head with a length over FRAME_MAX_PAYLOAD or with reserved bits set is -EPROTO.
 */
#ifndef CODEC_FRAME_H
#define CODEC_FRAME_H

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEAD 12
#define FRAME_MAX_PAYLOAD (64u << 10)

struct frame {
	uint8_t type;
	uint32_t chan;
	const uint8_t *data; /* into the buffer that was parsed; valid until that changes */
	uint32_t len;
};

/* Parses the frame at the start of `data`. Returns the bytes it took, 0 when more are needed, or -EPROTO. */
long frame_parse(const void *data, size_t len, struct frame *ret) MUST_CHECK;

void frame_add(struct buf *out, uint8_t type, uint32_t chan, const void *data, uint32_t len);

/* Only the head, for a payload of `len` bytes that the caller adds after it. */
void frame_put_head(uint8_t out[FRAME_HEAD], uint8_t type, uint32_t chan, uint32_t len);

/* Payloads of n little-endian u32. frame_get_u32s: -EPROTO unless the payload is exactly n of them. */
void frame_add_u32s(struct buf *out, uint8_t type, uint32_t chan, const uint32_t *v, size_t n);
int frame_get_u32s(const struct frame *f, uint32_t *ret, size_t n) MUST_CHECK;

/* Little-endian integers at any address. */
uint32_t frame_u32(const uint8_t *p);
void frame_put_u32(uint8_t *p, uint32_t v);

#endif
