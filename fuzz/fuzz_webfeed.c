/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the feed as all streams write it: one chunk, one event, whatever stood in the log. */
#include "base/cleanup.h"
#include "web/server/webserve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct web_event *ev = web_event_new((const char *)data, size);
	const char *body, *p, *end;
	size_t len, lines = 0;

	if (!ev)
		return 0;
	len = strtoul(ev->frame, NULL, 16);
	body = memchr(ev->frame, '\n', ev->len);
	if (!body || !ev->seq || (size_t)(++body - ev->frame) + len + 2 != ev->len ||
	    memcmp(body + len, "\r\n", 2) != 0 || memcmp(body + len - 2, "\n\n", 2) != 0)
		abort();
	/* id, event, data and the empty line that ends it: none more. */
	for (p = body, end = body + len; p < end; p++)
		lines += *p == '\n';
	if (lines != 4 || memchr(body, '\r', len) || memcmp(body, "id: ", 4) != 0)
		abort();
	web_event_unref(ev);
	return 0;
}
