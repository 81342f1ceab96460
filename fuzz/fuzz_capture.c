/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer of a server that issues credentials. A body that can be read is written anew with a placeholder in each
 * credential's place; whoever reads that finds the same members with placeholders in them, and nothing else under their
 * names.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "egress/credential/capture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const specs[] = {
	"POST auth.example.com:443/oauth/token access_token id_token=claims refresh_token=refresh",
	"POST auth.example.com:443/t a a.b d.e.f c=refresh",
	"GET [2001:db8::1]:8443/** token Credentials.SessionToken",
};

static void check_again(const struct issue *s, const struct buf *text, const char *put, size_t n)
{
	struct capture c;
	int r = capture_read(&c, s, (struct slice){ text->data, text->len });

	/* Escapes may make it longer than what is taken. */
	BUG_ON(r < 0 && text->len <= CAPTURE_BODY_MAX);
	BUG_ON(r == 0 && c.n != n);
	for (size_t i = 0; r == 0 && i < c.n; i++)
		BUG_ON(!slice_eq(c.v[i].value, put));
	capture_release(&c);
}

static void one(const struct issue *s, struct slice body)
{
	static const char put[] = "placeholder-0123456789abcdef";
	autobuf struct buf out = BUF_INIT;
	struct capture c;

	if (capture_read(&c, s, body) < 0) {
		BUG_ON(!c.why);
		capture_release(&c);
		return;
	}
	BUG_ON(c.n > CAPTURE_MAX);
	for (size_t i = 0; i < c.n; i++) {
		BUG_ON(!c.v[i].value.len || !issue_find(s, slice_of(c.v[i].member)));
		BUG_ON(capture_put(&c, i, slice_of(put)) < 0);
	}
	BUG_ON(capture_write(&c, &out) < 0);
	check_again(s, &out, put, c.n);
	capture_release(&c);
}

static void text(const uint8_t *data, size_t size)
{
	autobuf struct buf b = BUF_INIT, again = BUF_INIT;
	struct issue s;

	buf_add(&b, data, size);
	if (issue_parse(buf_cstr(&b), &s) < 0)
		return;
	issue_format(&s, &again);
	BUG_ON(!str_eq(buf_cstr(&b), buf_cstr(&again)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool begun;
	struct issue s;

	if (!begun)
		capture_begin();
	begun = true;
	if (size < 1 || size > CAPTURE_BODY_MAX)
		return 0;
	text(data + 1, size - 1);
	BUG_ON(issue_parse(specs[data[0] % ARRAY_SIZE(specs)], &s) < 0);
	one(&s, (struct slice){ (const char *)data + 1, size - 1 });
	return 0;
}
