/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a text word by word; a word that is a host loses its beginning instead of its end. */
#include "policy/shorten.h"

#include "codec/net/host.h"
#include "policy/psl.h"

#include <ctype.h>
#include <string.h>

static bool is_of_host(char c)
{
	return isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_';
}

static size_t word_len(const char *s)
{
	size_t n = 0;

	if (s[0] == '.') /* of a wildcard */
		return 0;
	while (is_of_host(s[n]))
		n++;
	return n;
}

/* Where the part begins that says whose host it is; NULL: it is none. */
static const char *owner_of(const char *word, size_t len)
{
	struct host h;
	const char *own;

	if (!memchr(word, '.', len) || host_canon(word, len, &h, NULL) < 0 || h.kind == HOST_ADDR ||
	    h.len > len)
		return NULL;
	own = psl_registrable(h.text);
	return own ? word + (own - h.text) : word;
}

/* As much of the end of a host as there is room for, from the beginning of a label. False: not even whose it is. */
static bool add_end(const char *word, size_t len, size_t room, const char *mark, struct buf *out)
{
	const char *own = owner_of(word, len), *at = word + len;

	for (const char *p = own; p > word; p--) {
		if (p[-1] == '.' && (size_t)(word + len - p) + strlen(mark) <= room)
			at = p;
	}
	if (at == word + len)
		return false;
	buf_addf(out, "%s%.*s", mark, (int)(word + len - at), at);
	return true;
}

static size_t char_len(const char *s)
{
	size_t n = 1;

	while (((unsigned char)s[n] & 0xc0) == 0x80)
		n++;
	return n;
}

void shorten_text(const char *text, size_t max, const char *mark, struct buf *out)
{
	size_t start = out->len, end = strlen(mark), all = strlen(text);
	bool host = false;

	if (all <= max) {
		buf_add(out, text, all);
		return;
	}
	if (max < end)
		return;
	while (*text && !buf_error(out)) {
		size_t used = out->len - start, room = max > used + end ? max - used - end : 0;
		size_t n = word_len(text), len = n ? n : char_len(text);

		if (len <= room) {
			buf_add(out, text, len);
			text += len;
			continue;
		}
		host = n && owner_of(text, n);
		if (!host)
			buf_add(out, text, n && n > room ? room : 0);
		else if (!add_end(text, n, text[n] ? room : room + end, mark, out))
			break;
		else if (!text[n])
			return;
		break;
	}
	buf_adds(out, mark);
}
