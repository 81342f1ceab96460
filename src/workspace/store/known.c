/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of hashes and attributes by inode (tree_store.h), as a sorted table with a checksum. It is private to one run and
 * this machine: numbers are in the host's byte order, and a table of another manifest is refused.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "workspace/store/tree_store.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static const char magic[8] = { 'c', 'o', 'f', 'k', 'n', 'o', 'w', '1' };

struct head {
	char magic[8];
	unsigned char manifest[HASH_LEN];
	unsigned char check[HASH_LEN]; /* over all that follows */
	uint64_t n;		       /* entries; the rest is text */
};

static_assert(sizeof(struct known_ent) == 88, "no padding, so that what is written is defined");

void known_release(struct known *k)
{
	buf_release(&k->ents);
	buf_release(&k->text);
}

static const struct known_ent *known_ents(const struct known *k)
{
	return (const struct known_ent *)(const void *)k->ents.data;
}

static size_t count_known(const struct known *k)
{
	return k->ents.len / sizeof(struct known_ent);
}

static int compare_inodes(const void *a, const void *b)
{
	const struct known_ent *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

void known_sort(struct known *k)
{
	if (k->ents.len)
		qsort(k->ents.data, count_known(k), sizeof(struct known_ent), compare_inodes);
}

static int64_t known_nsec(struct timespec t)
{
	return (int64_t)t.tv_sec * (int64_t)NSEC_PER_SEC + t.tv_nsec;
}

const struct known_ent *known_find_inode(const struct known *k, const struct stat *st)
{
	const struct known_ent want = { .dev = st->st_dev, .ino = st->st_ino }, *e;

	if (!k->ents.len)
		return NULL;
	e = bsearch(&want, known_ents(k), count_known(k), sizeof(want), compare_inodes);
	return e && e->size == (uint64_t)st->st_size && e->mtime == known_nsec(st->st_mtim) ? e : NULL;
}

const struct known_ent *known_find(const struct known *k, const struct stat *st)
{
	const struct known_ent *e = known_find_inode(k, st);

	return e && e->ctime == known_nsec(st->st_ctim) ? e : NULL;
}

int known_add(struct known *k, const struct stat *st, const unsigned char hash[HASH_LEN], const void *attrs,
	      uint32_t attrs_len)
{
	struct known_ent e = {
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime = known_nsec(st->st_mtim),
		.ctime = known_nsec(st->st_ctim),
		.attrs = k->text.len,
		.attrs_len = attrs_len,
	};

	memcpy(e.hash, hash, HASH_LEN);
	buf_add(&k->ents, &e, sizeof(e));
	buf_add(&k->text, attrs, attrs_len);
	return buf_error(&k->ents) ? buf_error(&k->ents) : buf_error(&k->text);
}

static void compute_known_check(const struct known *k, struct head *h)
{
	struct hash_blake s;

	hash_blake_begin(&s);
	hash_blake_add(&s, &h->n, sizeof(h->n));
	hash_blake_add(&s, buf_cstr(&k->ents), k->ents.len);
	hash_blake_add(&s, buf_cstr(&k->text), k->text.len);
	hash_blake_end(&s, h->check);
}

void known_format(const struct known *k, const unsigned char manifest[HASH_LEN], struct buf *out)
{
	struct head h = { .n = count_known(k) };

	memcpy(h.magic, magic, sizeof(magic));
	memcpy(h.manifest, manifest, HASH_LEN);
	compute_known_check(k, &h);
	buf_add(out, &h, sizeof(h));
	buf_add(out, buf_cstr(&k->ents), k->ents.len);
	buf_add(out, buf_cstr(&k->text), k->text.len);
}

int known_parse(struct known *k, const void *data, size_t len, const unsigned char manifest[HASH_LEN])
{
	struct head h, again;
	size_t bytes;

	if (len < sizeof(h))
		return -EBADMSG;
	memcpy(&h, data, sizeof(h));
	if (memcmp(h.magic, magic, sizeof(magic)) != 0 || h.n > (len - sizeof(h)) / sizeof(struct known_ent))
		return -EBADMSG;
	if (memcmp(h.manifest, manifest, HASH_LEN) != 0)
		return -ESTALE;
	bytes = (size_t)h.n * sizeof(struct known_ent);
	buf_add(&k->ents, (const char *)data + sizeof(h), bytes);
	buf_add(&k->text, (const char *)data + sizeof(h) + bytes, len - sizeof(h) - bytes);
	if (buf_error(&k->ents) || buf_error(&k->text))
		return -ENOMEM;
	again = h;
	compute_known_check(k, &again);
	if (memcmp(again.check, h.check, HASH_LEN) != 0)
		return -EBADMSG;
	for (size_t i = 0; i < count_known(k); i++) {
		const struct known_ent *e = &known_ents(k)[i];

		if (e->attrs > k->text.len || e->attrs_len > k->text.len - e->attrs)
			return -EBADMSG;
	}
	return 0;
}
