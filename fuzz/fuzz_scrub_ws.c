/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream of a hostile websocket's server, cut anywhere. Frames come out as they came in but for their payload, which is what
 * scrub.h makes of it as one stream; and of one that nobody may send nothing comes out beyond what was before it.
 */
#include "egress/credential/scrub_ws.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIND "ghp_Zq7x"
#define TEXT_MAX 8192

/* The length of a head that is whole and good, with that of its payload; 0: it is not. */
static size_t head_of(const uint8_t *p, size_t len, uint64_t *ret_n)
{
	size_t more = 0;
	unsigned op = len ? p[0] & 15 : 0;
	uint64_t n = 0;

	if (len < 2 || p[0] & 0x70 || p[1] & 0x80 || (op > 2 && op < 8) || op > 10)
		return 0;
	if ((p[1] & 127) >= 126)
		more = (p[1] & 127) == 127 ? 8 : 2;
	if (len < 2 + more || (op >= 8 && (more || !(p[0] & 0x80))))
		return 0;
	for (size_t i = 0; i < more; i++)
		n = n << 8 | p[2 + i];
	if ((more == 2 && n < 126) || (more == 8 && (n < 65536 || n >> 63)))
		return 0;
	*ret_n = more ? n : p[1] & 127;
	/* Of a control frame all is there or nothing. */
	return op >= 8 && *ret_n > len - 2 ? 0 : 2 + more;
}

/* Where the payload of data frames is: false at the first byte that is no part of a whole, good head. */
static size_t mark(const uint8_t *p, size_t len, bool *is_data)
{
	size_t at = 0, head;
	uint64_t n;

	while ((head = head_of(p + at, len - at, &n)) > 0) {
		bool data = (p[at] & 15) < 8;

		at += head;
		for (; n && at < len; n--, at++)
			is_data[at] = data;
	}
	return at;
}

/* The payload of the good frames, scrubbed as one stream. */
static void scrub_payload(const struct scrub_set *set, const uint8_t *data, size_t good, const bool *is_data,
			  struct buf *want)
{
	struct scrub flow = { .set = set };

	for (size_t i = 0; i < good; i++) {
		if (is_data[i])
			BUG_ON(scrub_feed(&flow, data + i, 1, false, want) < 0);
	}
	BUG_ON(scrub_feed(&flow, NULL, 0, true, want) < 0);
	scrub_release(&flow);
}

static void compare(const struct buf *out, const uint8_t *data, const bool *is_data, const struct buf *want)
{
	autobuf struct buf payload = BUF_INIT;
	size_t k = 0;

	for (size_t i = 0; i < out->len; i++) {
		char w1 = (char)data[i];

		if (is_data[i])
			w1 = want->data[k++];
		/* The first bytes of an occurrence may have gone before it was one, which depends on the cut (R2). */
		BUG_ON(out->data[i] != w1 && out->data[i] != '*' &&
		       (w1 != '*' || out->data[i] != (char)data[i]));
		if (is_data[i])
			buf_addc(&payload, out->data[i]);
	}
	BUG_ON(payload.len && memmem(payload.data, payload.len, FIND, strlen(FIND)));
}

/* In pieces of `cut` bytes, or all at once. 0, or -EBADMSG where a frame is one that nobody may send. */
static int feed_all(struct scrub_ws *w, const uint8_t *data, size_t len, size_t cut, struct buf *out)
{
	const char *why = NULL;
	int r = 0;

	for (size_t at = 0, n; at < len && r == 0; at += n) {
		n = cut && cut < len - at ? cut : len - at;
		r = scrub_ws_feed(w, data + at, n, out, &why);
	}
	BUG_ON(r < 0 && r != -EBADMSG);
	BUG_ON(r == 0 && scrub_ws_end(w, out) < 0);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct scrub_set set;
	static bool is_data[TEXT_MAX];
	autobuf struct buf out = BUF_INIT, want = BUF_INIT;
	size_t cut = size ? data[0] : 0, len = size ? size - 1 : 0, good;
	struct scrub_ws *w;
	int r;

	data += size > 0;
	len = len < TEXT_MAX ? len : TEXT_MAX;
	memset(is_data, 0, sizeof(is_data));
	good = mark(data, len, is_data);
	BUG_ON(scrub_set_add_loose(&set, slice_of(FIND), NULL, SCRUB_ESCAPED) < 0);
	scrub_set_ready(&set);
	w = scrub_ws_new(&set);
	BUG_ON(!w);
	r = feed_all(w, data, len, cut, &out);
	BUG_ON(out.len > good || (r == 0 && out.len != good));
	scrub_payload(&set, data, good, is_data, &want);
	compare(&out, data, is_data, &want);
	scrub_ws_free(w);
	scrub_set_release(&set);
	return 0;
}
