/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A secret among other bytes, encoded as a whole by somebody else's encoder: some form of it must be found in what comes out.
 * The encoders here are libsodium's and plain ones, written apart from those in forms.c. Also: forms_find() against a search
 * for each form by itself.
 */
#include "base/buf.h"
#include "vault/common/forms.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRET_MIN 8 /* shorter ones have forms that are too short to be looked for */

static struct forms forms;

static void naive(const char *text, size_t len, long at, const struct form *which)
{
	long first = -1;
	size_t longest = 0;

	for (size_t i = 0; i < forms.n; i++) {
		const char *p = memmem(text, len, forms.v[i].bytes, forms.v[i].len);

		if (!p || (first >= 0 && p - text > first))
			continue;
		if (p - text == first && forms.v[i].len <= longest)
			continue;
		first = p - text;
		longest = forms.v[i].len;
	}
	BUG_ON(at != first || (at >= 0 && which->len != longest));
}

static void must_find(const char *text, size_t len)
{
	const struct form *which = NULL;
	long at = forms_find(&forms, text, len, &which);

	naive(text, len, at, which);
	BUG_ON(at < 0);
}

static void base64(const uint8_t *p, size_t len, int variant)
{
	size_t cap = sodium_base64_encoded_len(len, variant);
	char *out = malloc(cap);

	BUG_ON(!out || !sodium_bin2base64(out, cap, p, len, variant));
	must_find(out, strlen(out));
	free(out);
}

static void hex(const uint8_t *p, size_t len, bool upper)
{
	autobuf struct buf b = BUF_INIT;

	for (size_t i = 0; i < len; i++)
		buf_addf(&b, upper ? "%02X" : "%02x", p[i]);
	must_find(b.data, b.len);
}

static void percent(const uint8_t *p, size_t len, const char *kept, bool upper, bool plus)
{
	autobuf struct buf b = BUF_INIT;

	for (size_t i = 0; i < len; i++) {
		bool word = (p[i] | 32) >= 'a' && (p[i] | 32) <= 'z' && p[i] < 128;

		if (plus && p[i] == ' ')
			buf_addc(&b, '+');
		else if (kept && (word || (p[i] >= '0' && p[i] <= '9') || (p[i] && strchr(kept, p[i]))))
			buf_addc(&b, (char)p[i]);
		else
			buf_addf(&b, upper ? "%%%02X" : "%%%02x", p[i]);
	}
	must_find(b.data, b.len);
}

static void json(const uint8_t *p, size_t len, bool slash, bool html)
{
	autobuf struct buf b = BUF_INIT;

	for (size_t i = 0; i < len; i++) {
		switch (p[i]) {
		case '"':
			buf_adds(&b, "\\\"");
			break;
		case '\\':
			buf_adds(&b, "\\\\");
			break;
		case '\n':
			buf_adds(&b, "\\n");
			break;
		case '\r':
			buf_adds(&b, "\\r");
			break;
		case '\t':
			buf_adds(&b, "\\t");
			break;
		case '\b':
			buf_adds(&b, "\\b");
			break;
		case '\f':
			buf_adds(&b, "\\f");
			break;
		default:
			if (slash && p[i] == '/')
				buf_adds(&b, "\\/");
			else if (p[i] < 32 || (html && (p[i] == '<' || p[i] == '>' || p[i] == '&')))
				buf_addf(&b, "\\u%04x", p[i]);
			else
				buf_addc(&b, (char)p[i]);
		}
	}
	must_find(b.data, b.len);
}

static void json_u(const uint8_t *p, size_t len, bool upper)
{
	autobuf struct buf b = BUF_INIT;

	for (size_t i = 0; i < len; i++) {
		/* Characters beyond ASCII are several bytes and one escape: left to the unit test. */
		if (p[i] > 127)
			return;
		buf_addf(&b, upper ? "\\u%04X" : "\\u%04x", p[i]);
	}
	must_find(b.data, b.len);
}

static void all(const uint8_t *p, size_t len)
{
	must_find((const char *)p, len);
	base64(p, len, sodium_base64_VARIANT_ORIGINAL);
	base64(p, len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	for (int upper = 0; upper < 2; upper++) {
		hex(p, len, upper);
		percent(p, len, "-._~", upper, false);
		percent(p, len, "-._~!*'()", upper, false);
		percent(p, len, "-._~/", upper, false);
		percent(p, len, "*-._", upper, true);
		percent(p, len, NULL, upper, false);
		json_u(p, len, upper);
	}
	json(p, len, false, false);
	json(p, len, true, false);
	json(p, len, false, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t before, len;
	void *mem;

	if (size < SECRET_MIN + 1 || size > 512)
		return 0;
	before = data[0] % 8u;
	if (1 + before + SECRET_MIN > size)
		return 0;
	len = size - 1 - before;
	len -= (data[0] >> 3) % (len - SECRET_MIN + 1);
	mem = malloc(forms_size(len));
	BUG_ON(!mem || forms_make(&forms, data + 1 + before, len, mem, forms_size(len)) < 0);
	all(data + 1, size - 1);
	free(mem);
	return 0;
}
