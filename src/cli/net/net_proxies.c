/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer net proxies: the upstream proxies of running sandboxes, as coffer-dial saw them last. The guard queries
 * coffer-dial every second or two and stores the snapshot in the run's directory; this command only reads
 * it.
 */
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/net/cmd_net.h"
#include "daemon/metrics/metrics.h"
#include "netd/serve/net.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const columns[] = { "SANDBOX", "PROXY SET", "PROXY",	  "STATE",
				       "SCORE",	  "LATENCY",   "SUCCESS", "USED" };

static json_t *read_snapshot(int run_fd)
{
	autobuf struct buf b = BUF_INIT;
	autoclose int fd = openat(run_fd, NET_STATS_DIAL, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char *at;
	ssize_t n;

	if (fd < 0)
		return NULL;
	at = buf_reserve(&b, METRICS_SNAPSHOT_MAX);
	n = at ? read(fd, at, METRICS_SNAPSHOT_MAX) : -1;
	return n > 0 ? json_loadb(at, (size_t)n, 0, NULL) : NULL;
}

static const char *text_or_dash(const json_t *o, const char *key)
{
	const char *s = jsonget_text_or_null(o, key);

	return s ? s : "-";
}

static int add_proxy_row(struct table *t, const char *id, const json_t *p)
{
	char score[16], latency[24], success[16], used[24];
	const char *cells[] = { id,
				text_or_dash(p, "pool"),
				text_or_dash(p, "proxy"),
				text_or_dash(p, "state"),
				score,
				latency,
				success,
				used };
	int r = 0;

	snprintf(score, sizeof(score), "%.2f", json_number_value(json_object_get(p, "score")));
	snprintf(latency, sizeof(latency), "%.0f ms", json_number_value(json_object_get(p, "latency_ms")));
	snprintf(success, sizeof(success), "%.0f%%", 100 * json_number_value(json_object_get(p, "success")));
	snprintf(used, sizeof(used), "%lld", (long long)json_integer_value(json_object_get(p, "used")));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(cells); i++)
		r = table_add(t, cells[i], 48);
	return r;
}

static int add_sandbox_proxies(struct table *t, struct buf *json, const char *id, json_t *snapshot)
{
	json_t *list = json_object_get(snapshot, "proxies"), *p;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, p)
	{
		char *text;

		if (t) {
			r = add_proxy_row(t, id, p);
		} else {
			json_object_set_new(p, "sandbox", json_string(id));
			text = json_dumps(p, JSON_COMPACT | JSON_ENSURE_ASCII);
			if (text)
				buf_addf(json, "%s\n", text);
			r = text ? 0 : -ENOMEM;
			free(text);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int gather_proxies(struct state *st, const char *only, struct table *t, struct buf *json,
			  struct err *e)
{
	autostrv struct strv ids = STRV_INIT;
	int r = state_run_list(st, &ids, e);

	for (size_t i = 0; r == 0 && i < ids.n; i++) {
		bool alive = false;
		autoclose int fd = state_run_open(st, ids.v[i], &alive, NULL);
		json_t *snapshot;

		if (fd < 0 || !alive || (only && !str_eq(only, ids.v[i])))
			continue;
		snapshot = read_snapshot(fd);
		r = snapshot ? add_sandbox_proxies(t, json, ids.v[i], snapshot) : 0;
		json_decref(snapshot);
	}
	return r;
}

int cli_net_proxies(struct state *st, const struct net_args *args)
{
	autotable struct table t = TABLE_INIT(ARRAY_SIZE(columns));
	autobuf struct buf out = BUF_INIT;
	char id[RUN_ID_LEN + 1];
	struct err e = ERR_INIT;
	int r = args->range.ref ? state_resolve(st, args->range.ref, id, &e) : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(columns); i++)
		r = table_add(&t, columns[i], 0);
	if (r == 0)
		r = gather_proxies(st, args->range.ref ? id : NULL, args->json ? NULL : &t, &out, &e);
	if (r < 0)
		return say_error(e.code ? &e : (err_sys(&e, r, "cannot list proxies"), &e));
	if (!args->json && t.cells.n == ARRAY_SIZE(columns)) {
		say_note("no running sandbox uses upstream proxies");
		return 0;
	}
	if (!args->json)
		table_format(&t, &out);
	return say_out(&out) ? EXIT_OURS : 0;
}
