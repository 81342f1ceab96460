/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and the payloads in them, parsed from any bytes; what parses must encode to the same bytes again. */
#include "codec/frame.h"
#include "sandbox/init/proto.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void payloads(const struct frame *f)
{
	struct proto_start s;
	struct proto_exit x;
	unsigned rows, cols;
	uint32_t v;
	autobuf struct buf b = BUF_INIT;

	if (proto_get_start(f, &s) == 0) {
		struct proto_body body;
		char *copy = malloc(f->len + 1);

		proto_add_start(&b, f->chan, &s);
		BUG_ON(memcmp(b.data + FRAME_HEAD, f->data, f->len) != 0);
		/* The same bytes as a body: most do not fit, and none may be read past. */
		if (!copy)
			abort();
		memcpy(copy, f->data, f->len);
		s.argc %= 8;
		s.envc %= 8;
		if (proto_body_split(copy, f->len, &s, &body) == 0)
			proto_body_release(&body);
		free(copy);
	}
	if (proto_get_exit(f, &x) == 0)
		BUG_ON(proto_exit_code(&x) < 0 || proto_exit_code(&x) > 255);
	if (proto_get_resize(f, &rows, &cols) == 0 || proto_get_u32(f, &v) == 0)
		BUG_ON(f->len != 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t off = 0;
	struct frame f;
	long n;

	while ((n = frame_parse(data + off, size - off, &f)) > 0) {
		autobuf struct buf b = BUF_INIT;

		BUG_ON(f.len > FRAME_MAX_PAYLOAD || (size_t)n != FRAME_HEAD + f.len ||
		       (size_t)n > size - off);
		frame_add(&b, f.type, f.chan, f.data, f.len);
		BUG_ON(b.len != (size_t)n || memcmp(b.data, data + off, b.len) != 0);
		payloads(&f);
		off += (size_t)n;
	}
	return 0;
}
