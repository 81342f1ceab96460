/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses requests and formats the response of metrics.h: the text format of Prometheus, version 0.0.4. Pure.
 */
#include "base/jsonget.h"
#include "base/str.h"
#include "codec/http/http1.h"
#include "daemon/metrics/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LABEL_MAX 256

enum metrics_ask metrics_parse(const char *data, size_t len, unsigned *ret_status)
{
	static struct http1_head h;
	long n;
	bool get, head;

	http1_head_reset(&h);
	n = http1_parse_request(&h, data, len > METRICS_ASK_MAX ? METRICS_ASK_MAX : len);
	*ret_status = h.fail_status ? h.fail_status : 400;
	if (n < 0)
		return METRICS_REFUSE;
	if (n == 0) {
		*ret_status = 431;
		return len >= METRICS_ASK_MAX ? METRICS_REFUSE : METRICS_MORE;
	}
	get = slice_eq(h.method, "GET");
	head = slice_eq(h.method, "HEAD");
	/* A request with a body is not a scrape. */
	*ret_status = h.body != HTTP1_BODY_NONE ? 400 : !get && !head ? 405 : 404;
	if (*ret_status != 404 || !slice_eq(h.path, "/metrics"))
		return METRICS_REFUSE;
	return head ? METRICS_HEAD : METRICS_TEXT;
}

json_t *metrics_snapshot(const char *data, size_t len)
{
	json_t *o = len <= METRICS_SNAPSHOT_MAX ? json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL) : NULL;

	if (json_is_object(o))
		return o;
	json_decref(o);
	return NULL;
}

/* metrics.M3: no byte can end the label or its line. */
static void add_label(struct buf *out, const char *name, const char *value)
{
	size_t n = 0;

	buf_addf(out, "%s=\"", name);
	for (const char *p = value; *p && n < LABEL_MAX; p++, n++) {
		if (*p == '\\' || *p == '"')
			buf_addc(out, '\\');
		/*
		 * Control and non-ASCII bytes are replaced: labels need none, and a terminal might act on
		 * them.
		 */
		if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
			buf_addc(out, '?');
		else
			buf_addc(out, *p);
	}
	buf_addc(out, '"');
}

static void add_sandbox_labels(struct buf *out, const struct metrics_sandbox *s)
{
	add_label(out, "sandbox", s->id);
	buf_addc(out, ',');
	add_label(out, "name", s->name ? s->name : "");
}

static void add_metric_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_single_metric(struct buf *out, const char *name, const char *type, const char *help,
			      uint64_t v)
{
	add_metric_head(out, name, type, help);
	buf_addf(out, "%s %" PRIu64 "\n", name, v);
}

/* One number of a snapshot. Rows of one metric are adjacent, and the first has the help text. */
static const struct metric_row {
	const char *name, *label, *object, *key, *type, *help;
	bool of_asks; /* from the snapshot of its asks */
} metric_rows[] = {
#define COUNTER "counter"
#define GAUGE "gauge"
	{ "coffer_egress_connections_open", NULL, "connections", "open", GAUGE,
	  "Connections that are open." },
	{ "coffer_egress_connections_total", "result=\"allowed\"", "connections", "allowed", COUNTER,
	  "Connections that a sandbox opened, by result." },
	{ "coffer_egress_connections_total", "result=\"denied\"", "connections", "denied", COUNTER, NULL },
	{ "coffer_egress_connections_total", "result=\"mismatched\"", "connections", "mismatched", COUNTER,
	  NULL },
	{ "coffer_egress_connections_total", "result=\"limited\"", "connections", "limited", COUNTER, NULL },
	{ "coffer_egress_connections_total", "result=\"failed\"", "connections", "failed", COUNTER, NULL },
	{ "coffer_egress_connections_total", "result=\"shed\"", "connections", "shed", COUNTER, NULL },
	{ "coffer_egress_bytes_total", "direction=\"up\"", "bytes", "up", COUNTER, "Bytes carried." },
	{ "coffer_egress_bytes_total", "direction=\"down\"", "bytes", "down", COUNTER, NULL },
	{ "coffer_egress_lookups_total", "result=\"allowed\"", "dns", "allowed", COUNTER,
	  "Names that were looked up, by result." },
	{ "coffer_egress_lookups_total", "result=\"denied\"", "dns", "denied", COUNTER, NULL },
	{ "coffer_egress_lookups_total", "result=\"failed\"", "dns", "failed", COUNTER, NULL },
	{ "coffer_egress_lookups_total", "result=\"malformed\"", "dns", "malformed", COUNTER, NULL },
	{ "coffer_egress_lookups_total", "result=\"dropped\"", "dns", "dropped", COUNTER, NULL },
	{ "coffer_egress_names", NULL, "dns", "names", GAUGE, "Names that have an address inside." },
	{ "coffer_egress_requests_total", "result=\"all\"", "inspect", "requests", COUNTER,
	  "HTTP requests that were inspected." },
	{ "coffer_egress_requests_total", "result=\"denied\"", "inspect", "requests_denied", COUNTER, NULL },
	{ "coffer_egress_requests_total", "result=\"failed\"", "inspect", "requests_failed", COUNTER, NULL },
	{ "coffer_egress_requests_open", NULL, "inspect", "requests_now", GAUGE,
	  "HTTP requests that have not ended." },
	{ "coffer_egress_requests_asking", NULL, NULL, "asking", GAUGE,
	  "Requests and connections that wait for a person's answer." },
	{ "coffer_egress_held_bytes", NULL, "inspect", "held_bytes", GAUGE,
	  "Bytes of bodies that are held back until a rule or a person has decided." },
	{ "coffer_egress_upstream_open", NULL, "inspect", "upstream_now", GAUGE,
	  "Connections to servers for inspected requests, in use or idle." },
	{ "coffer_egress_certificates_total", NULL, "inspect", "certificates", COUNTER,
	  "Certificates made for inspected servers." },
	{ "coffer_egress_refused_packets_total", NULL, NULL, "refused", COUNTER,
	  "UDP, ICMP and other packets that were refused." },
	{ "coffer_egress_journal_dropped_total", NULL, NULL, "journal_dropped", COUNTER,
	  "Lines that did not fit into the journal; the acts they were about were refused." },
	{ "coffer_egress_policy_generation", NULL, NULL, "generation", GAUGE,
	  "Generation of the policy: 1 plus the number of its changes." },
	{ "coffer_egress_budget_bytes_up", "of=\"max\"", "budget", "bytes_up_max", GAUGE,
	  "Upload budget of the sandbox, where the policy has one, and what is used of it." },
	{ "coffer_egress_budget_bytes_up", "of=\"used\"", "budget", "bytes_up", GAUGE, NULL },
	{ "coffer_egress_budget_connections", "of=\"max\"", "budget", "connections_max", GAUGE,
	  "Connections at once, where the policy limits them, and how many there are." },
	{ "coffer_egress_budget_connections", "of=\"used\"", "budget", "connections", GAUGE, NULL },
	{ "coffer_egress_budget_requests", "of=\"max\"", "budget", "requests_max", GAUGE,
	  "Requests a minute, where the policy limits them, and those of the last one." },
	{ "coffer_egress_budget_requests", "of=\"used\"", "budget", "requests", GAUGE, NULL },
	{ "coffer_asks_pending", NULL, NULL, "pending", GAUGE, "Questions that wait for a person.", true },
	{ "coffer_asks_total", NULL, NULL, "asked", COUNTER, "Questions that were asked.", true },
	{ "coffer_asks_answered_total", "verdict=\"allow\"", NULL, "allowed", COUNTER,
	  "Questions that a person answered.", true },
	{ "coffer_asks_answered_total", "verdict=\"deny\"", NULL, "denied", COUNTER, NULL, true },
	{ "coffer_asks_expired_total", NULL, NULL, "expired", COUNTER,
	  "Questions that nobody answered in time: denied.", true },
	{ "coffer_asks_gone_total", NULL, NULL, "gone", COUNTER,
	  "Questions whose policy changed, or whose sandbox ended, before an answer.", true },
	{ "coffer_asks_used_total", NULL, NULL, "used", COUNTER, "Uses of approvals.", true },
	{ "coffer_asks_shed_total", NULL, NULL, "shed", COUNTER,
	  "Questions that were denied unasked: too many at once, or too many denials before.", true },
};

/* Reads a number of a snapshot; false if there is none. */
static bool snapshot_number(const json_t *o, const char *object, const char *key, double *ret)
{
	const json_t *v;

	if (o && object)
		o = json_object_get(o, object);
	v = o ? json_object_get(o, key) : NULL;
	if (!json_is_number(v))
		return false;
	*ret = json_number_value(v);
	return true;
}

static void add_sample_value(struct buf *out, double v)
{
	if (v >= 0 && v < 9e15 && v == (double)(uint64_t)v)
		buf_addf(out, " %" PRIu64 "\n", (uint64_t)v);
	else
		buf_addf(out, " %.9g\n", v);
}

static void add_metric_row(const struct metrics_all *a, const struct metric_row *r, struct buf *out)
{
	for (size_t i = 0; i < a->n; i++) {
		double v;

		if (!snapshot_number(r->of_asks ? a->sandboxes[i].asks : a->sandboxes[i].egress, r->object,
				     r->key, &v))
			continue;
		buf_addf(out, "%s{", r->name);
		add_sandbox_labels(out, &a->sandboxes[i]);
		buf_addf(out, "%s%s}", r->label ? "," : "", r->label ? r->label : "");
		add_sample_value(out, v);
	}
}

static void add_sandbox_metrics(const struct metrics_all *a, struct buf *out)
{
	add_single_metric(out, "coffer_sandboxes", GAUGE, "Sandboxes that run.", a->n);
	add_metric_head(out, "coffer_sandbox_start_time_seconds", GAUGE, "Start time, Unix time.");
	for (size_t i = 0; i < a->n; i++) {
		const struct metrics_sandbox *s = &a->sandboxes[i];

		buf_adds(out, "coffer_sandbox_start_time_seconds{");
		add_sandbox_labels(out, s);
		buf_addc(out, ',');
		add_label(out, "engine", s->engine ? s->engine : "");
		buf_addf(out, "} %" PRIu64 "\n", (uint64_t)(s->started / NSEC_PER_SEC));
	}
	add_metric_head(out, "coffer_egress_up", GAUGE,
			"1 once the sandbox's network has started (with its first packet).");
	for (size_t i = 0; i < a->n; i++) {
		buf_adds(out, "coffer_egress_up{");
		add_sandbox_labels(out, &a->sandboxes[i]);
		buf_addf(out, "} %d\n", a->sandboxes[i].egress != NULL);
	}
}

static void add_proxy_metrics(const struct metrics_all *a, const char *name, const char *type,
			      const char *key, const char *help, struct buf *out)
{
	const json_t *p;
	size_t k;

	add_metric_head(out, name, type, help);
	for (size_t i = 0; i < a->n; i++) {
		json_array_foreach(json_object_get(a->sandboxes[i].dial, "proxies"), k, p)
		{
			double v;

			if (!snapshot_number(p, NULL, key, &v))
				continue;
			buf_addf(out, "%s{", name);
			add_sandbox_labels(out, &a->sandboxes[i]);
			buf_addc(out, ',');
			add_label(out, "pool", jsonget_text(p, "pool"));
			buf_addc(out, ',');
			add_label(out, "proxy", jsonget_text(p, "proxy"));
			buf_addc(out, ',');
			add_label(out, "state", jsonget_text(p, "state"));
			buf_addc(out, '}');
			add_sample_value(out, v);
		}
	}
}

static void add_api_metrics(const struct metrics_web *w, struct buf *out)
{
	static const unsigned statuses[WEB_STATUS_COUNT] = WEB_STATUSES;

	add_metric_head(out, "coffer_api_requests_total", COUNTER,
			"Requests to the API that got a response, by status.");
	for (unsigned i = 0; i <= WEB_STATUS_COUNT; i++) {
		char status[16] = "other";

		if (i < WEB_STATUS_COUNT)
			snprintf(status, sizeof(status), "%u", statuses[i]);
		if (w->stats.responses[i])
			buf_addf(out, "coffer_api_requests_total{status=\"%s\"} %" PRIu64 "\n", status,
				 w->stats.responses[i]);
	}
	add_single_metric(out, "coffer_api_streams", GAUGE, "Streams of events that are open.",
			  w->stats.streams);
	add_single_metric(out, "coffer_api_connections", GAUGE, "Connections to the API.",
			  w->stats.connections);
	add_single_metric(out, "coffer_api_dropped_total", COUNTER,
			  "Connections that were too slow, and were ended.", w->stats.dropped);
	add_single_metric(out, "coffer_web_restarts_total", COUNTER,
			  "Number of times that coffer-web died and was restarted.", w->deaths);
}

void metrics_text(const struct metrics_all *a, struct buf *out)
{
	add_sandbox_metrics(a, out);
	for (size_t i = 0; i < ARRAY_SIZE(metric_rows); i++) {
		if (metric_rows[i].help)
			add_metric_head(out, metric_rows[i].name, metric_rows[i].type, metric_rows[i].help);
		add_metric_row(a, &metric_rows[i], out);
	}
	add_proxy_metrics(a, "coffer_proxy_score", GAUGE, "score", "Score of an upstream proxy, 0 to 1.",
			  out);
	add_proxy_metrics(a, "coffer_proxy_used_total", COUNTER, "used",
			  "Connections through an upstream proxy.", out);
	add_single_metric(out, "coffer_pool_ready", GAUGE, "Sandboxes of the warm pool that are ready.",
			  a->pool.ready);
	add_single_metric(out, "coffer_pool_starting", GAUGE,
			  "Sandboxes of the warm pool that are being made.", a->pool.starting);
	add_single_metric(out, "coffer_pool_templates", GAUGE, "Templates of the warm pool.",
			  a->pool.templates);
	add_single_metric(out, "coffer_pool_memory_bytes", GAUGE, "Approximate memory of the warm pool.",
			  a->pool.held);
	add_api_metrics(&a->web, out);
	if (a->has_audit)
		add_single_metric(out, "coffer_audit_events_total", COUNTER, "Events in the audit log.",
				  a->audit_seq);
}
