/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortens a text that people base a decision on. The end of a host name says who owns it, so it is never cut there: a host that
 * does not fit loses its beginning, but keeps at least its registrable domain; if that does not fit either, the host is left
 * out. "api.github.com.releases.evil.test" must not become "api.github.com...". Pure.
 */
#ifndef POLICY_SHORTEN_H
#define POLICY_SHORTEN_H

#include "base/buf.h"

/* At most `max` bytes of the text, with `mark` ("...") where something is left out; unchanged if it fits.
 * Cuts between UTF-8 characters; empty if there is no room for the mark. */
void shorten_text(const char *text, size_t max, const char *mark, struct buf *out);

#endif
