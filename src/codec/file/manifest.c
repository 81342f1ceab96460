/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing and reading checkpoint manifests. The reader trusts no byte: each length is checked before use, and the
 * invariants M1 to M4 of manifest.h hold for every record that it returns.
 */
#include "codec/file/manifest.h"

#include "base/vec.h"

#include <errno.h>
#include <string.h>

static const uint8_t magic[8] = { 'c', 'o', 'f', 'c', 'k', 'p', '1', '\n' };

#define HEAD_LEN (8 + 8 + 4 + 4 + MANIFEST_HASH + 2)
#define ENT_LEN 44
#define NSEC_MAX 999999999u

/* --- writing ------------------------------------------------------------------------------------------------ */

static void add_int(struct buf *out, uint64_t v, unsigned bytes)
{
	uint8_t raw[8];

	for (unsigned i = 0; i < bytes; i++)
		raw[i] = (uint8_t)(v >> (8 * i));
	buf_add(out, raw, bytes);
}

static void add_nul_text(struct buf *out, const char *s)
{
	buf_add(out, s, strlen(s) + 1);
}

void manifest_add_head(struct buf *out, const struct manifest_head *h)
{
	buf_add(out, magic, sizeof(magic));
	add_int(out, h->time, 8);
	add_int(out, h->number, 4);
	add_int(out, h->flags, 4);
	buf_add(out, h->parent, MANIFEST_HASH);
	add_int(out, strlen(h->label), 2);
	add_nul_text(out, h->label);
}

void manifest_add_tree(struct buf *out, const char *name)
{
	add_int(out, MANIFEST_TREE, 1);
	add_int(out, strlen(name), 1);
	add_nul_text(out, name);
}

void manifest_add_ent(struct buf *out, const struct manifest_ent *e)
{
	add_int(out, e->type, 2);
	add_int(out, strlen(e->name), 2);
	add_int(out, e->mode, 4);
	add_int(out, e->uid, 4);
	add_int(out, e->gid, 4);
	add_int(out, (uint64_t)e->sec, 8);
	add_int(out, e->nsec, 4);
	add_int(out, e->group, 4);
	add_int(out, e->size, 8);
	add_int(out, e->attrs_len, 4);
	add_nul_text(out, e->name);
	buf_add(out, e->attrs, e->attrs_len);
	if (e->type == MANIFEST_FILE)
		buf_add(out, e->hash, MANIFEST_HASH);
	if (e->type == MANIFEST_LINK)
		add_nul_text(out, e->target);
}

void manifest_add_leave(struct buf *out)
{
	add_int(out, MANIFEST_LEAVE, 1);
}

void manifest_add_end(struct buf *out, uint64_t entries)
{
	add_int(out, MANIFEST_END, 1);
	add_int(out, entries, 8);
}

void manifest_add_attr(struct buf *out, const struct manifest_attr *a)
{
	add_int(out, strlen(a->name), 1);
	add_int(out, a->len, 4);
	add_nul_text(out, a->name);
	buf_add(out, a->value, a->len);
}

/* --- reading ------------------------------------------------------------------------------------------------ */

static uint64_t get_int(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

/* Do the `left` bytes at p begin with a text of exactly `n` bytes and a NUL after it? */
static bool is_nul_text(const uint8_t *p, size_t n, size_t left)
{
	return left > n && p[n] == 0 && !memchr(p, 0, n);
}

static bool is_entry_name(const char *s, size_t n)
{
	return n > 0 && n <= MANIFEST_NAME_MAX && !memchr(s, '/', n) && strcmp(s, ".") != 0 &&
	       strcmp(s, "..") != 0;
}

int manifest_next_attr(const uint8_t *attrs, uint32_t len, uint32_t *off, struct manifest_attr *ret)
{
	const uint8_t *p = attrs + *off;
	uint32_t left = len - *off, name, value;

	if (left == 0)
		return 0;
	if (left < 5)
		return -EBADMSG;
	name = p[0];
	value = (uint32_t)get_int(p + 1, 4);
	if (name == 0 || !is_nul_text(p + 5, name, left - 5))
		return -EBADMSG;
	if (value > left - 5 - name - 1)
		return -EBADMSG;
	*ret = (struct manifest_attr){ (const char *)p + 5, p + 5 + name + 1, value };
	*off += 5 + name + 1 + value;
	return 1;
}

static bool are_attrs(const uint8_t *attrs, uint32_t len)
{
	struct manifest_attr a, before = { 0 };
	uint32_t off = 0;
	int r;

	while ((r = manifest_next_attr(attrs, len, &off, &a)) > 0) {
		if (before.name && strcmp(before.name, a.name) >= 0)
			return false;
		before = a;
	}
	return r == 0;
}

int manifest_peek(const void *data, size_t len, struct manifest_head *ret)
{
	const uint8_t *p = data;
	struct manifest_head h;
	size_t label;

	if (len < HEAD_LEN || memcmp(p, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	h.time = get_int(p + 8, 8);
	h.number = (uint32_t)get_int(p + 16, 4);
	h.flags = (uint32_t)get_int(p + 20, 4);
	memcpy(h.parent, p + 24, MANIFEST_HASH);
	label = (size_t)get_int(p + 24 + MANIFEST_HASH, 2);
	if (h.number == 0 || h.flags & ~(unsigned)MANIFEST_FLAGS || label > MANIFEST_LABEL_MAX ||
	    !is_nul_text(p + HEAD_LEN, label, len - HEAD_LEN))
		return -EBADMSG;
	h.label = (const char *)p + HEAD_LEN;
	*ret = h;
	return 0;
}

int manifest_open(struct manifest_reader *r, const void *data, size_t len)
{
	*r = (struct manifest_reader){ .data = data, .len = len };
	if (manifest_peek(data, len, &r->head) < 0)
		return -EBADMSG;
	r->off = HEAD_LEN + strlen(r->head.label) + 1;
	return 0;
}

void manifest_close(struct manifest_reader *r)
{
	free(r->last);
	free(r->groups);
	*r = (struct manifest_reader){ 0 };
}

static int enter_directory(struct manifest_reader *r)
{
	if (VEC_ROOM(r->last, r->depth, r->cap, VEC_NO_MAX) < 0)
		return -ENOMEM;
	r->last[r->depth++] = SIZE_MAX;
	return 0;
}

static int read_tree(struct manifest_reader *r, struct manifest_ent *e)
{
	const uint8_t *p = r->data + r->off;
	size_t left = r->len - r->off;

	if (r->depth || r->in_tree || left < 2 || ++r->trees > MANIFEST_TREES_MAX ||
	    !is_nul_text(p + 2, p[1], left - 2) || !is_entry_name((const char *)p + 2, p[1]))
		return -EBADMSG;
	e->name = (const char *)p + 2;
	r->off += 2 + (size_t)p[1] + 1;
	r->in_tree = true;
	r->n_groups = 0;
	return 1;
}

/* manifest.M3: group numbers ascend from 1, and all files of a group have the same size and content. */
static int check_group(struct manifest_reader *r, const struct manifest_ent *e)
{
	const struct manifest_seen *seen;

	if (e->group == 0)
		return 0;
	if (e->type != MANIFEST_FILE || e->group > r->n_groups + 1)
		return -EBADMSG;
	if (e->group <= r->n_groups) {
		seen = &r->groups[e->group - 1];
		return seen->size == e->size && memcmp(seen->hash, e->hash, MANIFEST_HASH) == 0 ? 0
												: -EBADMSG;
	}
	if (VEC_ROOM(r->groups, r->n_groups, r->cap_groups, VEC_NO_MAX) < 0)
		return -ENOMEM;
	r->groups[r->n_groups++] = (struct manifest_seen){ e->size, e->hash };
	return 0;
}

/* Reads the field that only some types have: a file's hash, a link's target. Returns the bytes it took, or -EBADMSG. */
static long read_content(const uint8_t *p, size_t left, struct manifest_ent *e)
{
	if (e->type == MANIFEST_FILE) {
		if (left < MANIFEST_HASH || e->size > INT64_MAX)
			return -EBADMSG;
		e->hash = p;
		return MANIFEST_HASH;
	}
	if (e->type == MANIFEST_LINK) {
		if (e->size == 0 || e->size > MANIFEST_TARGET_MAX || !is_nul_text(p, (size_t)e->size, left))
			return -EBADMSG;
		e->target = (const char *)p;
		return (long)e->size + 1;
	}
	return e->size == 0 ? 0 : -EBADMSG;
}

/* manifest.M1: a tree begins with its top directory, which has no name; the names of a directory's entries ascend. */
static int check_entry_order(struct manifest_reader *r, const struct manifest_ent *e, size_t name_at,
			     size_t name)
{
	size_t *last;

	if (r->depth == 0) {
		if (!r->in_tree || name || e->type != MANIFEST_DIR)
			return -EBADMSG;
		return 0;
	}
	last = &r->last[r->depth - 1];
	if (!is_entry_name(e->name, name) ||
	    (*last != SIZE_MAX && strcmp((const char *)r->data + *last, e->name) >= 0))
		return -EBADMSG;
	*last = name_at;
	return 0;
}

static void take_fixed(const uint8_t *p, struct manifest_ent *e)
{
	e->mode = (uint32_t)get_int(p + 4, 4);
	e->uid = (uint32_t)get_int(p + 8, 4);
	e->gid = (uint32_t)get_int(p + 12, 4);
	e->sec = (int64_t)get_int(p + 16, 8);
	e->nsec = (uint32_t)get_int(p + 24, 4);
	e->group = (uint32_t)get_int(p + 28, 4);
	e->size = get_int(p + 32, 8);
	e->attrs_len = (uint32_t)get_int(p + 40, 4);
}

static int read_ent(struct manifest_reader *r, struct manifest_ent *e)
{
	const uint8_t *p = r->data + r->off;
	size_t left = r->len - r->off, name;
	long n;
	int ret;

	if (left < ENT_LEN || p[1])
		return -EBADMSG;
	name = (size_t)get_int(p + 2, 2);
	take_fixed(p, e);
	p += ENT_LEN;
	left -= ENT_LEN;
	if (e->mode & ~07777u || e->nsec > NSEC_MAX || e->attrs_len > MANIFEST_ATTRS_MAX ||
	    !is_nul_text(p, name, left))
		return -EBADMSG;
	e->name = (const char *)p;
	ret = check_entry_order(r, e, r->off + ENT_LEN, name);
	if (ret < 0)
		return ret;
	p += name + 1;
	left -= name + 1;
	if (e->attrs_len > left || !are_attrs(p, e->attrs_len) ||
	    (e->attrs_len && e->type != MANIFEST_DIR && e->type != MANIFEST_FILE))
		return -EBADMSG;
	e->attrs = p;
	p += e->attrs_len;
	left -= e->attrs_len;
	n = read_content(p, left, e);
	if (n < 0)
		return (int)n;
	ret = check_group(r, e);
	if (ret < 0)
		return ret;
	r->off = (size_t)(p - r->data) + (size_t)n;
	r->entries++;
	ret = e->type == MANIFEST_DIR ? enter_directory(r) : 0;
	return ret < 0 ? ret : 1;
}

static int read_leave(struct manifest_reader *r)
{
	if (r->depth == 0)
		return -EBADMSG;
	r->off++;
	if (--r->depth == 0)
		r->in_tree = false;
	return 1;
}

static int read_end(struct manifest_reader *r)
{
	if (r->depth || r->in_tree || r->len - r->off != 9 || get_int(r->data + r->off + 1, 8) != r->entries)
		return -EBADMSG;
	r->off += 9;
	r->ended = true;
	return 1;
}

int manifest_next(struct manifest_reader *r, struct manifest_ent *ret)
{
	if (r->ended)
		return 0;
	if (r->off >= r->len)
		return -EBADMSG;
	*ret = (struct manifest_ent){ .type = r->data[r->off], .name = "" };
	switch (ret->type) {
	case MANIFEST_TREE:
		return read_tree(r, ret);
	case MANIFEST_DIR:
	case MANIFEST_FILE:
	case MANIFEST_LINK:
	case MANIFEST_FIFO:
	case MANIFEST_SOCKET:
	case MANIFEST_WHITEOUT:
		return read_ent(r, ret);
	case MANIFEST_LEAVE:
		return read_leave(r);
	case MANIFEST_END:
		return read_end(r);
	default:
		return -EBADMSG;
	}
}
