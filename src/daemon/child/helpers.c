/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of cofferd's helper processes (helpers.h): restart pauses and log entries. Starts nothing itself.
 */
#include "daemon/child/helpers.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void child_first_line(int fd, char *out, size_t size)
{
	char line[200];
	ssize_t n = fd < 0 ? 0 : pread(fd, line, sizeof(line) - 1, 0);

	line[n > 0 ? n : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	str_safe(line, out, size);
}

void helpers_add(struct helpers *t, struct helper *h, const char *name)
{
	*h = (struct helper){ .next = t->list };
	snprintf(h->name, sizeof(h->name), "%s", name);
	t->list = h;
}

void helpers_remove(struct helpers *t, struct helper *h)
{
	struct helper **p = &t->list;

	while (*p && *p != h)
		p = &(*p)->next;
	if (*p)
		*p = h->next;
}

bool helper_may_start(const struct helper *h, uint64_t now)
{
	return now >= h->not_before;
}

/* A failure to log is ignored: a helper grants nothing. */
static void log_helper(const struct helpers *t, const struct helper *h, const char *event, uint64_t wait)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (!t->audit)
		return;
	json_str(&j, "name", h->name);
	json_str(&j, "event", event);
	json_str(&j, "why", h->why);
	json_u64(&j, "deaths", h->deaths);
	if (wait)
		json_u64(&j, "wait_ms", wait / NSEC_PER_MSEC);
	if (!buf_error(&b))
		(void)!audit_append(t->audit, "gateway.helper", NULL, &b, NULL);
}

void helper_is_up(const struct helpers *t, struct helper *h, uint64_t now)
{
	if (h->is_down)
		log_helper(t, h, "up", 0);
	h->is_down = false;
	h->since = now;
}

uint64_t helper_died(struct helpers *t, struct helper *h, uint64_t now, const char *why)
{
	uint64_t wait = backoff_next(&h->backoff, h->since ? now - h->since : 0);

	if (h->least)
		wait = h->least << (h->backoff.tries <= 6 ? h->backoff.tries - 1 : 6);
	h->deaths++;
	h->since = 0;
	h->not_before = now + wait;
	h->is_down = true;
	snprintf(h->why, sizeof(h->why), "%s", why);
	log_helper(t, h, "died", wait);
	return wait;
}

void helpers_json(const struct helpers *t, uint64_t now, struct json *j, const char *key)
{
	json_arr(j, key);
	for (const struct helper *h = t->list; h; h = h->next) {
		if (!h->deaths)
			continue;
		json_obj(j, NULL);
		json_str(j, "name", h->name);
		json_u64(j, "deaths", h->deaths);
		json_str(j, "why", h->why);
		json_u64(j, "wait_ms", h->not_before > now ? (h->not_before - now) / NSEC_PER_MSEC : 0);
		json_end_obj(j);
	}
	json_end_arr(j);
}
