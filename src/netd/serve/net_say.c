/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words the lines for the terminal of `coffer run`. Which denials have a line is decided by coffer-netd (read/netd_say.h), which is
 * hostile: the taker of its messages limits them, and their content is made harmless here. The log must not depend on them.
 */
#include "netd/serve/net_int.h"
#include "policy/shorten.h"

#include <stdarg.h>
#include <string.h>

void net_say(struct net_guard *g, enum net_level level, const char *fmt, ...)
{
	char raw[NET_MSG_TEXT], safe[NET_MSG_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	/* A launcher that is gone cannot show it: the log has it. */
	(void)!net_launcher_send(g, NET_SAY, level, str_safe(raw, safe, sizeof(safe)), -1);
}

/* `about`: a number from 1 on, the same for the same subject. */
static void send_counted_line(struct net_guard *g, uint32_t about, bool again, uint64_t count,
			      const char *line)
{
	struct net_msg m = {
		.type = NET_SAY, .level = NET_LEVEL_NOTE, .about = about, .again = again, .count = count
	};

	str_safe(line, m.text, sizeof(m.text));
	(void)!net_launcher_send_msg(g, &m, -1);
}

/* "POST evil.example/x", "evil.example:443", "evil.example" for a name that was only looked up. */
static void describe_denied(const struct netd_said *s, char *out, size_t size)
{
	if (s->method[0])
		snprintf(out, size, "%s %s%s", s->method, s->name, s->path);
	else if (s->port)
		snprintf(out, size, "%s:%u", s->name, s->port);
	else
		snprintf(out, size, "%s", s->name);
}

void net_say_denied(struct net_guard *g, const struct netd_said *s)
{
	static const char *const words[NETD_SAID_KINDS] = {
		[NETD_SAID_DENIED] = "denied", [NETD_SAID_FAILED] = "failed", [NETD_SAID_ALERT] = "alert"
	};
	char subject[sizeof(s->method) + sizeof(s->name) + sizeof(s->path) + 16], line[NET_MSG_TEXT];
	autobuf struct buf shown = BUF_INIT, why = BUF_INIT;

	if (s->kind == NETD_SAID_REST) {
		send_counted_line(g, NET_SAY_REST, true, s->count, "");
		return;
	}
	describe_denied(s, subject, sizeof(subject));
	shorten_text(subject, 200, "...", &shown);
	shorten_text(s->why[0] ? s->why : "no rule allows it", 200, "...", &why);
	snprintf(line, sizeof(line), "%s  %s  %s", words[s->kind], buf_cstr(&shown), buf_cstr(&why));
	send_counted_line(g, s->about, s->again, s->count, line);
}
