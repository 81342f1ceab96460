/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of image layers, over bytes in pieces of every size: what it says must not depend on how they came. */
#include "codec/file/tar.h"

#include "crypto/hash.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct tar_entry *e)
{
	size_t n = strlen(e->path), l = strlen(e->link);

	BUG_ON(n == 0 || n > TAR_PATH_MAX || l > TAR_PATH_MAX || e->type >= TAR_TYPE_COUNT);
	BUG_ON((e->mode & ~07777u) || (e->type != TAR_FILE && e->size));
	BUG_ON((l != 0) != (e->type == TAR_HARDLINK || e->type == TAR_SYMLINK));
}

/* One event, into the digest of all that was said. */
static void take(const struct tar *t, int event, const struct tar_piece *p, struct hash_stream *h,
		 uint64_t *due)
{
	if (event == TAR_ENTRY) {
		BUG_ON(*due);
		check(&p->entry);
		*due = p->entry.size;
		hash_stream_add(h, p->entry.path, strlen(p->entry.path) + 1);
		hash_stream_add(h, p->entry.link, strlen(p->entry.link) + 1);
		hash_stream_add(h, &p->entry.size, sizeof(p->entry.size));
	} else if (event == TAR_DATA) {
		BUG_ON(p->len > *due || p->len == 0);
		*due -= p->len;
		BUG_ON(*due != tar_left(t));
		hash_stream_add(h, p->data, p->len);
	}
}

static int read_all(const uint8_t *data, size_t size, size_t step, unsigned char ret[HASH_LEN])
{
	struct tar t = TAR_INIT;
	struct hash_stream h;
	size_t at = 0;
	uint64_t due = 0;
	int r = 0;

	hash_stream_init(&h);
	while (at < size && r >= 0) {
		size_t len = size - at < step ? size - at : step, used = 0;
		struct tar_piece p;

		r = tar_next(&t, data + at, len, &used, &p);
		BUG_ON(r >= 0 && (used > len || used == 0));
		take(&t, r, &p, &h, &due);
		at += used;
	}
	if (r >= 0)
		r = tar_finish(&t);
	BUG_ON(r < 0 && !t.why);
	tar_release(&t);
	hash_stream_end(&h, ret);
	return r;
}

/* Nothing gets past a wrong checksum, and none stays right by chance: whatever may be a header gets its own. */
static void mend(uint8_t *data, size_t size)
{
	for (size_t at = 0; at + TAR_BLOCK <= size; at += TAR_BLOCK) {
		unsigned sum = 8 * ' ';

		if (!data[at])
			continue;
		for (size_t i = 0; i < TAR_BLOCK; i++)
			sum += i >= 148 && i < 156 ? 0 : data[at + i];
		for (int i = 5; i >= 0; i--, sum >>= 3)
			data[at + 148 + (size_t)i] = (uint8_t)('0' + (sum & 7));
		data[at + 154] = '\0';
		data[at + 155] = ' ';
	}
}

static void try(const uint8_t *data, size_t size)
{
	unsigned char a[HASH_LEN], b[HASH_LEN];
	size_t step = size ? (size_t)data[0] % 97 + 1 : 1;
	int whole = read_all(data, size, SIZE_MAX, a), pieces = read_all(data, size, step, b);

	BUG_ON(whole != pieces);
	BUG_ON(whole == 0 && memcmp(a, b, sizeof(a)) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *mended = malloc(size ? size : 1);

	if (!mended)
		return 0;
	try(data, size);
	memcpy(mended, data, size);
	mend(mended, size);
	try(mended, size);
	free(mended);
	return 0;
}
