/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes the payloads of proto.h. Pure, and small enough for coffer-init; error texts are in proto_text.c.
 */
#include "sandbox/init/proto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int proto_exit_code(const struct proto_exit *x)
{
	switch (x->kind) {
	case PROTO_EXITED:
		return (int)(x->value & 0xff);
	case PROTO_SIGNALED:
		return 128 + (int)(x->value & 0x7f);
	default:
		if (x->what == PROTO_WHAT_INTERP)
			return 126;
		if (x->what != PROTO_WHAT_EXEC)
			return 125;
		return x->value == ENOENT || x->value == ENOTDIR ? 127 : 126;
	}
}

void proto_add_start(struct buf *out, uint32_t chan, const struct proto_start *s)
{
	const uint32_t v[] = { s->flags, s->argc, s->envc, s->rows, s->cols };

	frame_add_u32s(out, PROTO_START, chan, v, 5);
}

int proto_get_start(const struct frame *f, struct proto_start *ret)
{
	uint32_t v[5];
	int r = frame_get_u32s(f, v, 5);

	if (r < 0)
		return r;
	if (v[0] & ~(uint32_t)(PROTO_F_TTY | PROTO_F_STDIN | PROTO_F_MAIN | PROTO_F_BUILTIN | PROTO_F_CAP |
			       PROTO_F_PIDS | PROTO_F_DETACH))
		return -EPROTO;
	if (v[1] == 0 || v[3] > UINT16_MAX || v[4] > UINT16_MAX)
		return -EPROTO;
	*ret = (struct proto_start){ v[0], v[1], v[2], v[3], v[4] };
	return 0;
}

void proto_add_exit(struct buf *out, uint32_t chan, const struct proto_exit *x)
{
	const uint32_t v[] = { x->kind, x->value, x->what };

	frame_add_u32s(out, PROTO_EXIT, chan, v, 3);
}

int proto_get_exit(const struct frame *f, struct proto_exit *ret)
{
	static const uint32_t most[PROTO_EXIT_KINDS] = { 255, 127, 4095 };
	uint32_t v[3];
	int r = frame_get_u32s(f, v, 3);

	if (r < 0)
		return r;
	if (v[0] >= PROTO_EXIT_KINDS || v[1] > most[v[0]] || v[2] >= PROTO_WHAT_COUNT)
		return -EPROTO;
	if (v[0] != PROTO_EXITED && v[1] == 0)
		return -EPROTO;
	if (v[2] != PROTO_WHAT_NONE && v[0] == PROTO_EXITED && v[1] == 0 && v[2] != PROTO_WHAT_CUT)
		return -EPROTO;
	if ((v[0] == PROTO_NOT_STARTED) != (v[2] != PROTO_WHAT_NONE && v[2] < PROTO_WHAT_CUT))
		return -EPROTO;
	*ret = (struct proto_exit){ v[0], v[1], v[2] };
	return 0;
}

void proto_add_u32(struct buf *out, uint8_t type, uint32_t chan, uint32_t v)
{
	frame_add_u32s(out, type, chan, &v, 1);
}

int proto_get_u32(const struct frame *f, uint32_t *ret)
{
	return frame_get_u32s(f, ret, 1);
}

void proto_add_resize(struct buf *out, uint32_t chan, unsigned rows, unsigned cols)
{
	proto_add_u32(out, PROTO_RESIZE, chan, (rows & 0xffff) | (cols & 0xffff) << 16);
}

int proto_get_resize(const struct frame *f, unsigned *ret_rows, unsigned *ret_cols)
{
	uint32_t v;
	int r = proto_get_u32(f, &v);

	if (r < 0)
		return r;
	*ret_rows = v & 0xffff;
	*ret_cols = v >> 16;
	return 0;
}

void proto_add_data(struct buf *out, uint8_t type, uint32_t chan, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		uint32_t n = len > FRAME_MAX_PAYLOAD ? FRAME_MAX_PAYLOAD : (uint32_t)len;

		frame_add(out, type, chan, p, n);
		p += n;
		len -= n;
	}
}

/* The string at *p, which must end before `end`; moves *p past it. */
static char *take_body_string(char **p, const char *end)
{
	char *s = *p, *nul = memchr(s, 0, (size_t)(end - s));

	if (!nul)
		return NULL;
	*p = nul + 1;
	return s;
}

int proto_body_split(char *body, size_t len, const struct proto_start *s, struct proto_body *ret)
{
	struct proto_body b = { 0 };
	char *p = body, *end = body + len;
	bool ok;

	if (s->argc > PROTO_STRINGS_MAX || s->envc > PROTO_STRINGS_MAX - s->argc)
		return -E2BIG;
	if (len == 0 || s->argc == 0)
		return -EPROTO;
	b.vec = calloc((size_t)s->argc + s->envc + 3, sizeof(*b.vec));
	if (!b.vec)
		return -ENOMEM;
	b.argv = b.vec + 1;
	b.env = b.argv + s->argc + 1;
	b.cwd = take_body_string(&p, end);
	ok = b.cwd != NULL;
	for (unsigned i = 0; ok && i < s->argc; i++)
		ok = (b.argv[i] = take_body_string(&p, end)) != NULL;
	for (unsigned i = 0; ok && i < s->envc; i++)
		ok = (b.env[i] = take_body_string(&p, end)) != NULL;
	if (!ok || p != end) {
		proto_body_release(&b);
		return -EPROTO;
	}
	*ret = b;
	return 0;
}

void proto_body_release(struct proto_body *b)
{
	free(b->vec);
	*b = (struct proto_body){ 0 };
}
