/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up the network events of the log by destination, as input for net learn and net drift. A sandbox
 * chose the names in the log: one that is not a canonical host name is skipped.
 */
#include "cli/net/net_seen.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "codec/net/host.h"
#include "policy/psl.h"

#include <errno.h>

void cli_net_seen_release(struct net_seen *s)
{
	learn_release(&s->learn);
}

static bool is_allowed_event(const struct net_event *ev)
{
	return ev->decision && str_eq(ev->decision, "allow");
}

/* The meaning of an event for learning; false: there is nothing to learn from it. */
static bool learn_from_event(const struct net_event *ev, struct learn_seen *s)
{
	enum net_kind kind = ev->kind;

	if (kind == NETEV_FOLDED && ev->folded) {
		kind = str_eq(ev->folded, "open")    ? NETEV_OPEN
		       : str_eq(ev->folded, "dns")   ? NETEV_DNS
		       : str_eq(ev->folded, "close") ? NETEV_CLOSE
						     : NETEV_OTHER;
	}
	switch (kind) {
	case NETEV_DNS:
		s->kind = LEARN_LOOKUP;
		s->port = 0;
		break;
	case NETEV_OPEN:
		s->kind = LEARN_OPEN;
		break;
	case NETEV_REQUEST:
		s->kind = LEARN_REQUEST;
		break;
	case NETEV_CLOSE:
		s->kind = LEARN_CLOSE;
		return true;
	default:
		return false;
	}
	if (ev->denied)
		s->kind = LEARN_DENIED;
	return ev->denied || is_allowed_event(ev);
}

static int on_seen_event(void *ctx, struct net_event *ev)
{
	struct net_seen *seen = ctx;
	/* In the log, a digest of the query follows the path. */
	autofree char *path = ev->path ? strndup(ev->path, strcspn(ev->path, "?")) : NULL;
	struct learn_seen s = { .name = cli_net_event_host(ev),
				.port = (uint16_t)ev->port,
				.literal = !ev->name || !*ev->name,
				.tunnel = ev->depth && str_eq(ev->depth, "tunnel"),
				.inspected = ev->depth && str_eq(ev->depth, "inspect"),
				.up = ev->up,
				.down = ev->down,
				.t = ev->t,
				.method = ev->method,
				.path = path };
	struct host h;

	if (ev->path && !path)
		return -ENOMEM;
	seen->folded += ev->kind == NETEV_FOLDED ? ev->count : 0;
	/* The sandbox chose this name; one that is no valid host name cannot be a destination. */
	if (!learn_from_event(ev, &s) || host_canon(s.name, strlen(s.name), &h, NULL) < 0)
		return 0;
	return learn_add(&seen->learn, &s, NULL);
}

int cli_net_seen_gather(struct net_seen *s, struct state *st, const struct net_range *range, struct err *e)
{
	int r = cli_net_events(st, range, on_seen_event, s, e);

	return r == -ENOMEM ? err_set(e, r, "out of memory") : r;
}

static void format_minute(uint64_t t, char *out)
{
	clock_format(t, out);
	out[16] = '\0'; /* cut after the minutes */
}

struct learn_opts cli_net_seen_opts(void)
{
	return (struct learn_opts){ .registrable = psl_registrable, .format_time = format_minute };
}
