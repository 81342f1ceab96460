/* SPDX-License-Identifier: Apache-2.0 */
/* A chunked body, at once and in pieces: the same bytes, the same trailers, the same end. */
#include "codec/http/http1_chunk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_all(struct http1_chunks *c, const char *data, size_t size, size_t step, struct buf *out,
		    size_t *ret_used)
{
	size_t at = 0;
	int r = HTTP1_CHUNK_MORE;

	while (at < size && r >= 0 && r != HTTP1_CHUNK_END) {
		size_t n = size - at < step ? size - at : step, used = 0;
		struct slice d;

		r = http1_chunks_next(c, data + at, n, &used, &d);
		BUG_ON(used > n || (r >= 0 && used == 0));
		BUG_ON((r == HTTP1_CHUNK_DATA) != (d.len > 0) ||
		       (d.len && (d.p < data + at || d.p + d.len > data + at + n)));
		if (r >= 0)
			buf_add(out, d.p, d.len);
		at += used;
	}
	*ret_used = at;
	return r < 0 || r == HTTP1_CHUNK_END ? r : HTTP1_CHUNK_MORE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(http1_chunks_release) struct http1_chunks a = HTTP1_CHUNKS_INIT, b = HTTP1_CHUNKS_INIT;
	autobuf struct buf whole = BUF_INIT, pieces = BUF_INIT;
	size_t used_a, used_b, step = size ? data[size - 1] % 17 + 1 : 1;
	int ra = read_all(&a, (const char *)data, size, SIZE_MAX, &whole, &used_a);
	int rb = read_all(&b, (const char *)data, size, step, &pieces, &used_b);

	BUG_ON(ra != rb || (ra < 0 && (!a.why || !b.why)));
	BUG_ON(whole.len != pieces.len || (whole.len && memcmp(whole.data, pieces.data, whole.len) != 0));
	if (ra != HTTP1_CHUNK_END)
		return 0;
	BUG_ON(used_a != used_b || a.n_trailers != b.n_trailers);
	for (unsigned i = 0; i < a.n_trailers; i++)
		BUG_ON(!http1_is_token(a.trailers[i].name) ||
		       !slice_same(a.trailers[i].value, b.trailers[i].value));
	return 0;
}
