/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text that has no room, for people who decide by it. Whose a host is stands at its end, so a host is never cut there: where it does not
 * fit it loses its beginning, and keeps at least its registrable domain; where that does not fit either, nothing of it is shown.
 * "api.github.com.releases.evil.test" must not read "api.github.com...". Pure.
 */
#ifndef POLICY_SHORTEN_H
#define POLICY_SHORTEN_H

#include "base/buf.h"

/* At most `max` bytes of the text, with `mark` ("...") where something is left out; whole where it fits. Cut between characters of UTF-8;
 * nothing where there is no room for the mark. */
void shorten_text(const char *text, size_t max, const char *mark, struct buf *out);

#endif
