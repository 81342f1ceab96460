/* SPDX-License-Identifier: Apache-2.0 */
/* The archive of `coffer cp`, as it comes out of a sandbox. */
#include "codec/file/pack.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct pack_rec *r, unsigned depth)
{
	size_t n = strlen(r->name);

	BUG_ON(strchr(r->name, '/') || strcmp(r->name, ".") == 0 || strcmp(r->name, "..") == 0);
	BUG_ON(n > PACK_NAME_MAX || r->mode & ~0777u || depth > PACK_DEPTH_MAX);
	BUG_ON(r->len > PACK_DATA_MAX || (r->type == PACK_LINK && memchr(r->data, 0, r->len)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pack_state s = { 0 };
	struct pack_rec r;
	size_t off = 0;
	long n;

	while ((n = pack_parse(&s, data + off, size - off, &r)) > 0) {
		autobuf struct buf b = BUF_INIT;

		BUG_ON((size_t)n > size - off);
		check(&r, s.depth);
		pack_add(&b, &r);
		BUG_ON(b.len != (size_t)n || memcmp(b.data, data + off, b.len) != 0);
		off += (size_t)n;
	}
	BUG_ON(s.ended && n == 0 && off != size);
	return 0;
}
