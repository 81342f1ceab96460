/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For any bytes in a journal, the log gets JSON, nothing is taken twice, and memory stays bounded. And the short way to
 * read a line says what the long one says.
 */
#include "base/str.h"
#include "netd/log/net_fold.h"

#include <jansson.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t last;

static int on_event(void *ctx, enum net_from from, uint64_t off, const void *packed, size_t len)
{
	autobuf struct buf o = BUF_INIT, fields = BUF_INIT;
	const char *type;
	enum net_ev ev;
	json_t *parsed;

	(void)ctx;
	/* A packed event can be formatted, and each line ends beyond the one before. */
	if (netd_event_format(packed, len, &ev, &fields) < 0 ||
	    (from == NET_FROM_COUNT ? off != 0 : off <= last))
		abort();
	last = off ? off : last;
	type = net_ev_log_type(ev);
	if (!str_starts(type, "net.") && !str_starts(type, "secret."))
		abort();
	buf_addc(&o, '{');
	buf_add(&o, fields.data, fields.len);
	buf_addc(&o, '}');
	parsed = json_loadb(o.data, o.len, JSON_REJECT_DUPLICATES, NULL);
	/* The names of the log's own members are not for others to give. */
	if (!parsed || json_object_get(parsed, "seq") || json_object_get(parsed, "type") ||
	    json_object_get(parsed, "sandbox") || json_object_get(parsed, "prev"))
		abort();
	json_decref(parsed);
	return 0;
}

/* In two pieces that meet anywhere, as two reads of a growing file do. */
static void fold(const uint8_t *data, size_t size, size_t cut)
{
	const struct net_fold_out out = { .event = on_event };
	static struct netd_report table;
	CLEANUP(net_fold_freep) struct net_fold *f = net_fold_new(1, &out, &table);
	autobuf struct buf report = BUF_INIT;
	struct json j = JSON_INIT(&report);
	size_t first = 0, second = 0;

	table = (struct netd_report){ 0 };
	last = 0;
	if (!f ||
	    net_fold_feed(f, &(struct net_chunk){ NET_FROM_EGRESS, 0, (const char *)data, cut, false }, 1,
			  &first) < 0 ||
	    first > cut || cut - first > NET_LINE_MAX)
		abort();
	if (net_fold_feed(f,
			  &(struct net_chunk){ NET_FROM_EGRESS, first, (const char *)data + first,
					       size - first, true },
			  2, &second) < 0 ||
	    first + second != size || net_fold_tick(f, 3, true) < 0 || net_fold_has_counts(f))
		abort();
	netd_report_format(&table, &j);
}

static void compare(const char *line, size_t len)
{
	autobuf struct buf f1 = BUF_INIT, f2 = BUF_INIT;
	struct net_line l1 = { 0 }, l2 = { 0 };
	int r1 = net_line_parse(line, len, &l1, &f1), r2 = net_line_parse_any(line, len, &l2, &f2);

	if (r1 != r2 || f1.len != f2.len || (f1.len && memcmp(f1.data, f2.data, f1.len) != 0) ||
	    l1.ev != l2.ev || l1.decision != l2.decision || l1.port != l2.port || l1.up != l2.up ||
	    l1.down != l2.down || l1.count != l2.count || !str_eq(l1.name, l2.name) ||
	    !str_eq(l1.what, l2.what) || !str_eq(l1.path, l2.path) || !str_eq(l1.why, l2.why))
		abort();
}

static void compare_lines(const char *data, size_t size)
{
	while (size) {
		const char *nl = memchr(data, '\n', size);
		size_t len = nl ? (size_t)(nl - data) : size;

		compare(data, len);
		data += len + (nl != NULL);
		size -= len + (nl != NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	compare_lines((const char *)data + 1, size - 1);
	fold(data + 1, size - 1, data[0] * (size - 1) / 255);
	return 0;
}
