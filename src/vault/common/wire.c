/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Little-endian fields in the caller's memory (wire.h). Reads and writes stay within the given bounds; errors
 * are sticky. Pure.
 */

#include "vault/common/wire.h"

struct slice wire_get_bytes(struct wire_in *in, size_t len)
{
	struct slice s = { (const char *)in->p, len };

	if (in->bad || len > in->left) {
		in->bad = true;
		return SLICE_NONE;
	}
	in->p += len;
	in->left -= len;
	return s;
}

uint64_t wire_get(struct wire_in *in, unsigned bytes)
{
	struct slice s = wire_get_bytes(in, bytes);
	uint64_t v = 0;

	for (size_t i = 0; i < s.len; i++)
		v |= (uint64_t)(uint8_t)s.p[i] << (8 * i);
	return v;
}

void wire_get_text(struct wire_in *in, char *out, size_t size)
{
	size_t len = (size_t)wire_get(in, 1);
	struct slice s = wire_get_bytes(in, len);

	out[0] = '\0';
	if (in->bad || len >= size || (len && memchr(s.p, '\0', len))) {
		in->bad = true;
		return;
	}
	if (len)
		memcpy(out, s.p, len);
	out[len] = '\0';
}

void wire_put_bytes(struct wire_out *out, const void *data, size_t len)
{
	if (out->p && len > out->cap - out->len) {
		out->bad = true;
		return;
	}
	if (out->p && len)
		memcpy(out->p + out->len, data, len);
	out->len += len;
}

void wire_put(struct wire_out *out, uint64_t v, unsigned bytes)
{
	uint8_t b[8];

	for (unsigned i = 0; i < bytes; i++)
		b[i] = (uint8_t)(v >> (8 * i));
	wire_put_bytes(out, b, bytes);
}

void wire_put_text(struct wire_out *out, const char *s)
{
	size_t len = strlen(s);

	if (len > UINT8_MAX) {
		out->bad = true;
		return;
	}
	wire_put(out, len, 1);
	wire_put_bytes(out, s, len);
}
