/* SPDX-License-Identifier: Apache-2.0 */
/* SSH's wire format over the readers and writers of wire.h (sshwire.h). Pure. */

#include "vault/ssh/sshwire.h"

uint8_t ssh_get_byte(struct wire_in *in)
{
	return (uint8_t)wire_get(in, 1);
}

uint32_t ssh_get_u32(struct wire_in *in)
{
	return __builtin_bswap32((uint32_t)wire_get(in, 4));
}

struct slice ssh_get(struct wire_in *in)
{
	return wire_get_bytes(in, ssh_get_u32(in));
}

struct slice ssh_get_mpint(struct wire_in *in)
{
	struct slice s = ssh_get(in);

	if (s.len && (uint8_t)s.p[0] & 0x80)
		in->bad = true;
	while (s.len && s.p[0] == 0) {
		s.p++;
		s.len--;
	}
	return s;
}

bool ssh_is_done(const struct wire_in *in)
{
	return !in->bad && in->left == 0;
}

void ssh_put_byte(struct wire_out *out, uint8_t v)
{
	wire_put(out, v, 1);
}

void ssh_put_u32(struct wire_out *out, uint32_t v)
{
	wire_put(out, __builtin_bswap32(v), 4);
}

void ssh_put(struct wire_out *out, struct slice s)
{
	ssh_put_u32(out, (uint32_t)s.len);
	wire_put_bytes(out, s.p, s.len);
}

void ssh_put_text(struct wire_out *out, const char *s)
{
	ssh_put(out, slice_of(s));
}

void ssh_put_mpint(struct wire_out *out, struct slice m)
{
	bool high;

	while (m.len && m.p[0] == 0) {
		m.p++;
		m.len--;
	}
	high = m.len && (uint8_t)m.p[0] & 0x80;
	ssh_put_u32(out, (uint32_t)m.len + high);
	if (high)
		ssh_put_byte(out, 0);
	wire_put_bytes(out, m.p, m.len);
}
