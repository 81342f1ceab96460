/* SPDX-License-Identifier: Apache-2.0 */
/* "PATTERN\nTEXT", against a slow and simple matcher; and "PATTERN\nPATTERN" for what covers what. */
#include "policy/pathpat.h"

#include "base/buf.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX 48

/* reach[i]: the first i bytes of text can be matched by the pattern so far. */
static bool slow_match(const char *p, struct slice t)
{
	bool reach[TEXT_MAX + 1] = { true };

	while (*p) {
		bool next[TEXT_MAX + 1] = { false };
		bool star = *p == '*', two = star && p[1] == '*';

		for (size_t i = 0; i <= t.len; i++) {
			if (!reach[i])
				continue;
			if (!star) {
				if (i < t.len && t.p[i] == *p)
					next[i + 1] = true;
				continue;
			}
			for (size_t k = i; k <= t.len; k++) {
				next[k] = true;
				if (k < t.len && !two && t.p[k] == '/')
					break;
			}
		}
		memcpy(reach, next, sizeof(reach));
		p += two ? 2 : 1;
	}
	return reach[t.len];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *nl = size ? memchr(text, '\n', size) : NULL;
	char pattern[PATHPAT_MAX + 1], other[PATHPAT_MAX + 1];
	autobuf struct buf sample = BUF_INIT;
	struct slice t;
	bool hit;

	if (!nl || memchr(text, '\0', size))
		return 0;
	t = (struct slice){ nl + 1, size - (size_t)(nl - text) - 1 };
	if (pathpat_check_stars(text, (size_t)(nl - text), NULL) < 0 || t.len > TEXT_MAX)
		return 0;
	memcpy(pattern, text, (size_t)(nl - text));
	pattern[nl - text] = '\0';
	hit = pathpat_match(pattern, t, 0);
	BUG_ON(hit != slow_match(pattern, t));
	BUG_ON(hit && !pathpat_match(pattern, t, PATHPAT_LOOSE));
	pathpat_sample(pattern, "x", &sample);
	BUG_ON(!pathpat_match(pattern, (struct slice){ sample.data, sample.len }, 0));
	BUG_ON(!pathpat_covers(pattern, pattern));
	if (pathpat_check_stars(t.p, t.len, NULL) < 0)
		return 0;
	memcpy(other, t.p, t.len);
	other[t.len] = '\0';
	buf_clear(&sample);
	pathpat_sample(other, "q", &sample);
	BUG_ON(pathpat_covers(pattern, other) &&
	       !pathpat_match(pattern, (struct slice){ sample.data, sample.len }, PATHPAT_LOOSE));
	return 0;
}
