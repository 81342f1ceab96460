/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer net metrics: counters in Prometheus' text format, computed from the audit log, so that they
 * outlive every process. No counter of a process is read.
 */
#include "base/str.h"
#include "cli/core/say.h"
#include "cli/net/cmd_net.h"

#include <errno.h>

enum counter {
	DNS_ALLOWED,
	DNS_DENIED,
	CONN_ALLOWED,
	CONN_DENIED,
	REQ_ALLOWED,
	REQ_DENIED,
	BYTES_UP,
	BYTES_DOWN,
	REFUSED,
	ALERTS,
	RESTARTS,
	COUNTER_COUNT
};

static const struct {
	const char *name, *labels, *help;
} counters[COUNTER_COUNT] = {
	[DNS_ALLOWED] = { "coffer_net_lookups_total", "{decision=\"allow\"}",
			  "Names that sandboxes looked up." },
	[DNS_DENIED] = { "coffer_net_lookups_total", "{decision=\"deny\"}", NULL },
	[CONN_ALLOWED] = { "coffer_net_connections_total", "{decision=\"allow\"}",
			   "Connections that sandboxes opened." },
	[CONN_DENIED] = { "coffer_net_connections_total", "{decision=\"deny\"}", NULL },
	[REQ_ALLOWED] = { "coffer_net_requests_total", "{decision=\"allow\"}", "Inspected HTTP requests." },
	[REQ_DENIED] = { "coffer_net_requests_total", "{decision=\"deny\"}", NULL },
	[BYTES_UP] = { "coffer_net_bytes_total", "{direction=\"up\"}",
		       "Bytes of connections that have ended." },
	[BYTES_DOWN] = { "coffer_net_bytes_total", "{direction=\"down\"}", NULL },
	[REFUSED] = { "coffer_net_refused_packets_total", "",
		      "UDP, ICMP and other packets that were refused." },
	[ALERTS] = { "coffer_net_alerts_total", "", "Alerts: events that a person should look at." },
	[RESTARTS] = { "coffer_net_restarts_total", "", "Restarts of the network of a sandbox." },
};

static int on_counted_event(void *ctx, struct net_event *ev)
{
	uint64_t *c = ctx, n = cli_net_event_times(ev);
	enum net_kind kind = ev->kind;

	if (kind == NETEV_FOLDED && ev->folded)
		kind = str_eq(ev->folded, "dns")       ? NETEV_DNS
		       : str_eq(ev->folded, "open")    ? NETEV_OPEN
		       : str_eq(ev->folded, "request") ? NETEV_REQUEST
						       : NETEV_OTHER;
	switch (kind) {
	case NETEV_DNS:
		if (cli_net_event_is_outcome(ev))
			break;
		c[ev->denied ? DNS_DENIED : DNS_ALLOWED] += n;
		break;
	case NETEV_OPEN:
		c[ev->denied ? CONN_DENIED : CONN_ALLOWED] += n;
		break;
	case NETEV_REQUEST:
		c[ev->denied ? REQ_DENIED : REQ_ALLOWED] += n;
		break;
	case NETEV_CLOSE:
		c[BYTES_UP] += ev->up;
		c[BYTES_DOWN] += ev->down;
		break;
	case NETEV_REFUSED:
		c[REFUSED] += ev->count;
		break;
	case NETEV_ALERT:
		c[ALERTS]++;
		break;
	case NETEV_UP:
		c[RESTARTS]++;
		break;
	default:
		break;
	}
	return 0;
}

int cli_net_metrics(struct state *st, const struct net_args *args)
{
	autobuf struct buf out = BUF_INIT;
	uint64_t c[COUNTER_COUNT] = { 0 };
	struct err e = ERR_INIT;

	if (cli_net_events(st, &args->range, on_counted_event, c, &e) < 0)
		return say_error(&e);
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		if (counters[i].help)
			buf_addf(&out, "# HELP %s %s\n# TYPE %s counter\n", counters[i].name,
				 counters[i].help, counters[i].name);
		buf_addf(&out, "%s%s %llu\n", counters[i].name, counters[i].labels, (unsigned long long)c[i]);
	}
	return say_out(&out) ? EXIT_OURS : 0;
}
