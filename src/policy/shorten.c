/* SPDX-License-Identifier: Apache-2.0 */
/* Shortens a text word by word; a word that is a host loses its beginning instead of its end (shorten.h).
 * Pure. */
#include "policy/shorten.h"

#include "codec/net/host.h"
#include "policy/psl.h"

#include <ctype.h>
#include <string.h>

static bool is_host_char(char c)
{
	return isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_';
}

static size_t host_word_len(const char *s)
{
	size_t n = 0;

	if (s[0] == '.') /* of a wildcard */
		return 0;
	while (is_host_char(s[n]))
		n++;
	return n;
}

/* Where the registrable domain begins in a host name; NULL: the word is not a host name. */
static const char *registrable_part(const char *word, size_t len)
{
	struct host h;
	const char *own;

	if (!memchr(word, '.', len) || host_canon(word, len, &h, NULL) < 0 || h.kind == HOST_ADDR ||
	    h.len > len)
		return NULL;
	own = psl_registrable(h.text);
	return own ? word + (own - h.text) : word;
}

/* Adds as much of the end of a host as fits, from the start of a label. False: not even the registrable
 * domain fits. */
static bool add_host_end(const char *word, size_t len, size_t room, const char *mark, struct buf *out)
{
	const char *own = registrable_part(word, len), *at = word + len;

	for (const char *p = own; p > word; p--) {
		if (p[-1] == '.' && (size_t)(word + len - p) + strlen(mark) <= room)
			at = p;
	}
	if (at == word + len)
		return false;
	buf_addf(out, "%s%.*s", mark, (int)(word + len - at), at);
	return true;
}

static size_t utf8_char_len(const char *s)
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
		size_t n = host_word_len(text), len = n ? n : utf8_char_len(text);

		if (len <= room) {
			buf_add(out, text, len);
			text += len;
			continue;
		}
		host = n && registrable_part(text, n);
		if (!host)
			buf_add(out, text, n && n > room ? room : 0);
		else if (!add_host_end(text, n, text[n] ? room : room + end, mark, out))
			break;
		else if (!text[n])
			return;
		break;
	}
	buf_adds(out, mark);
}
