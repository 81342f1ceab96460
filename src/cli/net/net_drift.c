/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer net drift: compares the destinations in the log with a baseline policy and lists those that it does
 * not allow. The exit code is 1 if there are any.
 */
#include "base/json.h"
#include "base/str.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/net/cmd_net.h"
#include "cli/net/net_seen.h"
#include "config/policy_file.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define EXIT_DRIFT 1

struct drift {
	struct table t;
	struct buf json;
	size_t n;
};

/* NULL: the baseline allows the destination; else the reason why not. */
static const char *judge_against_baseline(const struct policy *p, const struct learn_dest *d,
					  struct policy_verdict *v)
{
	struct policy_target t = { .port = d->port };
	struct host h;

	if (host_canon(d->name, strlen(d->name), &h, NULL) < 0)
		return "not a name";
	t.name = &h;
	if (d->port)
		policy_connect(p, &t, v);
	else
		policy_name(p, &h, v);
	/* A policy in observe mode allows everything: there, a destination that no rule names is new. */
	return policy_allows(v) && !v->would_deny ? NULL : v->why;
}

static int add_drift_row(struct drift *dr, const struct learn_dest *d, const char *why)
{
	char port[8], count[24], up[16];
	int r;

	snprintf(port, sizeof(port), "%u", d->port);
	snprintf(count, sizeof(count), "%llu",
		 (unsigned long long)(d->opens ? d->opens : d->denied + d->lookups));
	r = table_add(&dr->t, d->name, 60);
	r = r < 0 ? r : table_add(&dr->t, d->port ? port : "dns", 0);
	r = r < 0 ? r : table_add(&dr->t, d->denied ? "denied" : "let through", 0);
	r = r < 0 ? r : table_add(&dr->t, count, 0);
	r = r < 0 ? r : table_add(&dr->t, str_from_size(d->up, up), 0);
	return r < 0 ? r : table_add(&dr->t, why, 80);
}

static void add_drift_json(struct drift *dr, const struct learn_dest *d, const char *why)
{
	struct json j = JSON_INIT(&dr->json);

	json_obj(&j, NULL);
	json_str(&j, "name", d->name);
	json_u64(&j, "port", d->port);
	json_u64(&j, "connections", d->opens);
	json_u64(&j, "denied", d->denied);
	json_u64(&j, "up", d->up);
	json_u64(&j, "down", d->down);
	json_str(&j, "why", why);
	json_end_obj(&j);
	buf_addc(&dr->json, '\n');
}

/* A lookup gets a line only if no connection followed it. */
static bool is_lookup_with_connection(const struct learn *l, size_t i)
{
	for (size_t k = 0; l->dests[i].port == 0 && k < l->n; k++) {
		if (l->dests[k].port && str_eq(l->dests[k].name, l->dests[i].name))
			return true;
	}
	return false;
}

static int compare_with_baseline(struct drift *dr, const struct policy *p, const struct learn *l, bool json)
{
	static const char *const heads[] = { "NAME", "PORT", "WAS", "TIMES", "UP", "WHY IT IS NEW" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(heads); i++)
		r = table_add(&dr->t, heads[i], 0);
	for (size_t i = 0; r == 0 && i < l->n; i++) {
		struct policy_verdict v = { 0 };
		const char *why =
			is_lookup_with_connection(l, i) ? NULL : judge_against_baseline(p, &l->dests[i], &v);

		if (!why)
			continue;
		dr->n++;
		if (json)
			add_drift_json(dr, &l->dests[i], why);
		else
			r = add_drift_row(dr, &l->dests[i], why);
	}
	return r;
}

int cli_net_drift(struct state *st, const struct net_args *args)
{
	CLEANUP(cli_net_seen_release) struct net_seen seen = NET_SEEN_INIT;
	CLEANUP(config_policy_release) struct config_policy cp = { 0 };
	struct config_policy_args a = {
		.files = &args->baseline, .n_files = 1, .mode = -1, .for_checking = true
	};
	struct drift dr = { .t = TABLE_INIT(6) };
	struct err e = ERR_INIT;
	int r, code;

	if (!args->baseline) {
		err_set(&e, -EINVAL,
			"net drift needs --baseline FILE: the policy that describes what is normal");
		err_hint(&e, -EINVAL, "'coffer net learn' writes one");
		return say_error(&e);
	}
	r = config_policy_load(&a, &cp, &e);
	if (r == 0)
		r = cli_net_seen_gather(&seen, st, &args->range, &e);
	if (r < 0)
		return say_error(&e);
	r = compare_with_baseline(&dr, cp.policy, &seen.learn, args->json);
	if (r == 0 && dr.n && !args->json)
		table_format(&dr.t, &dr.json);
	if (r < 0 || buf_error(&dr.json))
		code = say_error((err_set(&e, -ENOMEM, "out of memory"), &e));
	else if (say_out(&dr.json))
		code = EXIT_OURS;
	else
		code = dr.n ? EXIT_DRIFT : 0;
	if (code == 0)
		say_note("no drift: %zu destinations, all of them in %s", seen.learn.n, args->baseline);
	table_release(&dr.t);
	buf_release(&dr.json);
	return code;
}
