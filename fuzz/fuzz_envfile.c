/* SPDX-License-Identifier: Apache-2.0 */
/* A .env file that anybody may have written: values stay within the text and do not overlap, names are names, it ends. And
 * the search for well-known tokens over the same bytes: hits are in order and within them. */
#include "vault/common/envfile.h"
#include "vault/common/shape.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void entries(char *text, size_t size)
{
	struct envfile_entry v;
	struct envfile f;
	struct err e = ERR_INIT;
	const char *last = text;
	unsigned line = 1;
	int r;

	envfile_init(&f, text, size);
	while ((r = envfile_next(&f, &v, &e)) > 0) {
		BUG_ON(v.value < last || v.value + v.len > text + size);
		BUG_ON(!v.name[0] || strlen(v.name) > ENVFILE_NAME_MAX || v.line < line);
		last = v.value + v.len;
		line = v.line + 1;
	}
	BUG_ON(r < 0 && !e.msg[0]);
}

static void shapes(const char *text, size_t size)
{
	struct shape_hit h;
	size_t from = 0;

	while (shape_find(text, size, from, &h)) {
		BUG_ON(h.at < from || h.len == 0 || h.at + h.len > size || !h.shape || !h.shape->what);
		from = h.at + h.len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), out[SHAPE_MAX + 1];
	uint8_t seed[SHAPE_SEED_LEN] = { 1 };
	size_t n;

	if (!text)
		abort();
	memcpy(text, data, size);
	shapes(text, size);
	if (size) {
		n = shape_placeholder(text, size, seed, out);
		BUG_ON(n < SHAPE_MIN || n > SHAPE_MAX || strlen(out) != n);
		BUG_ON(strspn(out, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-") !=
		       n);
	}
	entries(text, size);
	free(text);
	return 0;
}
