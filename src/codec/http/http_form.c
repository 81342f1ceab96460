/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two readings of a form: generous, to find out whether a parameter may be there (servers differ), and
 * strict, to take its value. Pure.
 */
#include "codec/http/http_form.h"

#include "base/hex.h"

#include <stdint.h>

int http_form_decode(struct slice s, struct buf *out)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] == '%') {
			int byte = s.len - i > 2 ? hex_byte(s.p + i + 1) : -1;

			if (byte < 0)
				return -EBADMSG;
			buf_add(out, &(uint8_t){ (uint8_t)byte }, 1);
			i += 2;
		} else {
			buf_addc(out, (char)(s.p[i] == '+' ? ' ' : s.p[i]));
		}
	}
	return buf_error(out);
}

bool http_form_next(struct slice *form, struct slice *name, struct slice *value)
{
	size_t n = 0;
	const char *eq;

	if (form->len == 0)
		return false;
	while (n < form->len && form->p[n] != '&' && form->p[n] != ';')
		n++;
	eq = memchr(form->p, '=', n);
	*name = (struct slice){ form->p, eq ? (size_t)(eq - form->p) : n };
	*value = eq ? (struct slice){ eq + 1, n - name->len - 1 } : SLICE_NONE;
	n += n < form->len;
	form->p += n;
	form->len -= n;
	return true;
}

/*
 * May a server read the character `got` of a parameter's name as `want`? Some servers ignore case, and PHP turns
 * dots and spaces in a name into "_".
 */
static bool name_char_may_mean(char got, char want)
{
	if (got >= 'A' && got <= 'Z')
		got |= 32;
	if (want >= 'A' && want <= 'Z')
		want |= 32;
	return got == want || (want == '_' && (got == '.' || got == ' '));
}

static bool is_named_generously(const struct buf *got, const char *name)
{
	size_t i = 0, n = strlen(name);

	/* PHP drops spaces before a name. What is left may still begin with a character that it turns into "_". */
	while (i < got->len && got->data[i] == ' ')
		i++;
	for (size_t k = 0; k < n; k++, i++) {
		if (i >= got->len || !name_char_may_mean(got->data[i], name[k]))
			return false;
	}
	return i == got->len || got->data[i] == '[' || got->data[i] == ' ' || got->data[i] == '.' ||
	       got->data[i] == 0;
}

bool http_form_has(struct slice form, const char *name)
{
	return http_form_has_but(form, name, NULL, NULL);
}

bool http_form_has_but(struct slice form, const char *name, bool (*fine)(const void *ctx, struct slice value),
		       const void *ctx)
{
	struct slice k, v;

	while (http_form_next(&form, &k, &v)) {
		autobuf struct buf plain = BUF_INIT;

		/* A name that cannot be decoded counts as a match. */
		if ((http_form_decode(k, &plain) < 0 || is_named_generously(&plain, name)) &&
		    !(fine && fine(ctx, v)))
			return true;
	}
	return false;
}

bool http_form_has_other(struct slice form, const char *const *names, size_t n)
{
	struct slice k, v;

	while (http_form_next(&form, &k, &v)) {
		size_t i = 0;

		while (i < n && !slice_eq(k, names[i]))
			i++;
		if (i == n && k.len)
			return true;
	}
	return false;
}

int http_form_get(struct slice form, const char *name, struct buf *out)
{
	struct slice k, v;
	int found = 0;

	/* Some servers treat ";" as "&"; a client that means a semicolon writes %3B. */
	if (form.len && memchr(form.p, ';', form.len))
		return -EBADMSG;
	while (http_form_next(&form, &k, &v)) {
		autobuf struct buf plain = BUF_INIT;
		int r = http_form_decode(k, &plain);

		if (r < 0)
			return r;
		if (!is_named_generously(&plain, name))
			continue;
		if (found++ || !slice_eq(k, name))
			return -EBADMSG;
		r = http_form_decode(v, out);
		if (r < 0)
			return r;
	}
	return found;
}
