/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the `coffer cp` archive. The parser checks order, names and sizes before it returns a record (pack.K1 to
 * pack.K3); it allocates nothing.
 */
#include "codec/file/pack.h"

#include <errno.h>
#include <string.h>

static uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_u32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

/* pack.K1: one path component, neither "." nor "..". */
static bool is_pack_name(const uint8_t *s, size_t n)
{
	if (n == 0 || n > PACK_NAME_MAX || memchr(s, 0, n) || memchr(s, '/', n))
		return false;
	return !(s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')));
}

static bool opens_entry(unsigned type)
{
	return type == PACK_DIR || type == PACK_FILE || type == PACK_LINK;
}

/* May a record of this type come in this state? */
static bool may_come(const struct pack_state *s, unsigned type)
{
	if (s->ended)
		return false;
	if (s->in_file)
		return type == PACK_DATA || type == PACK_CLOSE;
	if (opens_entry(type))
		return s->depth > 0 || !s->begun;
	if (type == PACK_LEAVE)
		return s->depth > 0;
	return type == PACK_END && s->begun && s->depth == 0;
}

static void pack_step(struct pack_state *s, unsigned type)
{
	s->begun = true;
	if (type == PACK_DIR)
		s->depth++;
	else if (type == PACK_LEAVE)
		s->depth--;
	else if (type == PACK_FILE)
		s->in_file = true;
	else if (type == PACK_CLOSE)
		s->in_file = false;
	else if (type == PACK_END)
		s->ended = true;
}

/* Checks the argument against its type's limits; *ret_extra gets the number of bytes that follow the name. */
static bool argument_ok(unsigned type, uint32_t arg, size_t *ret_extra)
{
	*ret_extra = 0;
	switch (type) {
	case PACK_DIR:
	case PACK_FILE:
		return (arg & ~0777u) == 0; /* pack.K3: permission bits only */
	case PACK_DATA:
		*ret_extra = arg;
		return arg > 0 && arg <= PACK_DATA_MAX;
	case PACK_LINK:
		*ret_extra = arg;
		return arg > 0 && arg <= PACK_LINK_MAX;
	case PACK_CLOSE:
		return arg <= 1;
	default:
		return arg == 0;
	}
}

static bool head_ok(const struct pack_state *s, unsigned type, const uint8_t *head, size_t name_len,
		    size_t *ret_extra)
{
	if (!may_come(s, type) || head[1] || !argument_ok(type, get_u32(head + 4), ret_extra))
		return false;
	if (name_len > PACK_NAME_MAX || (type == PACK_DIR && s->depth >= PACK_DEPTH_MAX))
		return false;
	/* pack.K1: entries below the outermost one have a name, other records have none */
	return (name_len > 0) == (opens_entry(type) && s->depth > 0);
}

long pack_parse(struct pack_state *s, const void *data, size_t len, struct pack_rec *ret)
{
	const uint8_t *p = data;
	size_t name_len, extra;
	unsigned type;
	uint32_t arg;

	if (len == 0)
		return 0;
	if (s->ended)
		return -EPROTO;
	if (len < PACK_HEAD)
		return 0;
	type = p[0];
	name_len = (size_t)p[2] | (size_t)p[3] << 8;
	if (!head_ok(s, type, p, name_len, &extra))
		return -EPROTO;
	if (len < PACK_HEAD + name_len + extra)
		return 0;
	if (name_len && !is_pack_name(p + PACK_HEAD, name_len))
		return -EPROTO;
	if (type == PACK_LINK && memchr(p + PACK_HEAD + name_len, 0, extra))
		return -EPROTO;
	arg = get_u32(p + 4);
	memset(ret, 0, sizeof(*ret));
	ret->type = type;
	memcpy(ret->name, p + PACK_HEAD, name_len);
	ret->mtime = (int64_t)((uint64_t)get_u32(p + 8) | (uint64_t)get_u32(p + 12) << 32);
	ret->mode = type == PACK_DIR || type == PACK_FILE ? arg : 0;
	ret->cut = type == PACK_CLOSE && arg == 1;
	ret->data = extra ? p + PACK_HEAD + name_len : NULL;
	ret->len = (uint32_t)extra;
	pack_step(s, type);
	return (long)(PACK_HEAD + name_len + extra);
}

static void put_head(uint8_t head[PACK_HEAD], enum pack_type type, size_t name_len, uint32_t arg,
		     int64_t mtime)
{
	memset(head, 0, PACK_HEAD);
	head[0] = (uint8_t)type;
	head[2] = (uint8_t)name_len;
	put_u32(head + 4, arg);
	put_u32(head + 8, (uint32_t)(uint64_t)mtime);
	put_u32(head + 12, (uint32_t)((uint64_t)mtime >> 32));
}

void pack_put_data_head(uint8_t head[PACK_HEAD], uint32_t len)
{
	put_head(head, PACK_DATA, 0, len, 0);
}

void pack_add(struct buf *out, const struct pack_rec *r)
{
	size_t name_len = strlen(r->name);
	uint8_t head[PACK_HEAD];
	bool is_bytes = r->type == PACK_DATA || r->type == PACK_LINK;
	bool is_mode = r->type == PACK_DIR || r->type == PACK_FILE;
	uint32_t arg = is_bytes ? r->len : is_mode ? r->mode & 0777 : r->type == PACK_CLOSE && r->cut;

	put_head(head, r->type, name_len, arg, r->mtime);
	buf_add(out, head, sizeof(head));
	buf_add(out, r->name, name_len);
	if (is_bytes)
		buf_add(out, r->data, r->len);
}
