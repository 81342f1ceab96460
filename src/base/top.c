/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of top.h, by the algorithm of Misra and Gries: a text that finds no free counter lowers all counters by the
 * same amount, which frees those that reach zero. So frequent texts keep a counter, and memory stays fixed.
 */
#include "base/top.h"

#include <string.h>

void top_add(struct top *t, const char *text, size_t len, uint64_t count)
{
	uint64_t least = count;
	int free_at = -1;

	len = strnlen(text, len < TOP_TEXT_MAX ? len : TOP_TEXT_MAX);
	for (int i = 0; i < TOP_MAX; i++) {
		if (!t->v[i].count) {
			free_at = i;
		} else if (strncmp(t->v[i].text, text, len) == 0 && !t->v[i].text[len]) {
			t->v[i].count += count;
			return;
		} else if (t->v[i].count < least) {
			least = t->v[i].count;
		}
	}
	if (free_at < 0) {
		for (int i = 0; i < TOP_MAX; i++) {
			t->v[i].count -= least;
			free_at = t->v[i].count ? free_at : i;
		}
		count -= least;
	}
	if (free_at < 0 || !count)
		return;
	t->v[free_at].count = count;
	memcpy(t->v[free_at].text, text, len);
	t->v[free_at].text[len] = '\0';
}

static void top_add_text(struct buf *out, const char *s)
{
	for (; *s; s++) {
		bool plain = *s >= ' ' && *s < 0x7f && *s != ',';

		if (plain)
			buf_addc(out, *s);
		else
			buf_addc(out, '?');
	}
}

void top_format(const struct top *t, struct buf *out)
{
	bool done[TOP_MAX] = { false };

	for (int n = 0; n < TOP_MAX; n++) {
		int best = -1;

		for (int i = 0; i < TOP_MAX; i++) {
			if (!done[i] && t->v[i].count && (best < 0 || t->v[i].count > t->v[best].count))
				best = i;
		}
		if (best < 0)
			return;
		done[best] = true;
		if (n)
			buf_adds(out, ", ");
		buf_addu(out, t->v[best].count);
		buf_addc(out, ' ');
		top_add_text(out, t->v[best].text);
	}
}
