/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the API: lists sandboxes, or shows one, with resource usage and the number of pending asks. It must not
 * change a sandbox.
 */
#include "approval/wire/askproto.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/api/web_work.h"
#include "cli/common/run_json.h"
#include "cli/core/ref.h"
#include "run/supervise/usage.h"

#include <errno.h>
#include <stdio.h>

static void add_run_time(struct json *j, const char *key, uint64_t t)
{
	char text[CLOCK_TEXT_LEN];

	json_str(j, key, t ? clock_format(t, text) : NULL);
}

static void add_usage_json(struct json *j, int run_fd, bool alive, struct procs *procs)
{
	struct usage u;
	struct err e = ERR_INIT;

	if (!alive || usage_read(run_fd, procs, &u, &e) < 0) {
		json_none(j, "usage");
		return;
	}
	json_obj(j, "usage");
	cli_run_json_add_usage(j, &u);
	json_end_obj(j);
}

static int count_pending_ask(void *ctx, json_t *ask)
{
	const char *state = jsonget_text_or_null(ask, "state");

	*(uint64_t *)ctx += state && str_eq(state, "pending");
	return 0;
}

static uint64_t count_pending_asks(int run_fd, bool alive)
{
	autoaskc struct askc c = ASKC_INIT;
	struct err e = ERR_INIT;
	uint64_t n = 0;

	if (alive && askc_open(&c, run_fd, &e) == 0)
		(void)!askc_list(&c, false, count_pending_ask, &n, &e);
	return n;
}

static void add_meta_json(struct json *j, const struct run_meta *m, bool alive)
{
	bool over = !alive && m->ended;

	json_str(j, "id", m->id);
	json_str(j, "name", m->name);
	json_str(j, "engine", m->engine);
	json_str(j, "status", cli_run_status(m, alive));
	add_run_time(j, "started", m->started);
	add_run_time(j, "ended", over ? m->ended : 0);
	if (over) {
		json_i64(j, "exit", m->exit_code);
		json_u64(j, "changes", m->changes);
	} else {
		json_none(j, "exit");
		json_none(j, "changes");
	}
	json_str(j, "cause", over ? m->cause : NULL);
	cli_run_json_add_how(j, m);
}

/* Adds one sandbox. 1: added. 0: skipped: not running (without `all`), just removed, or not started yet (warm pool). */
static int add_sandbox_json(struct web_args *a, struct json *j, const char *id, bool all, struct procs *procs,
			    struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	bool alive = false;
	autoclose int fd = state_run_open(&a->st, id, &alive, e);
	int r;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if ((!alive && !all) || !state_run_has_begun(fd))
		return 0;
	r = state_meta_read(fd, &m, e);
	if (r == -ENOENT)
		snprintf(m.id, sizeof(m.id), "%s", id);
	else if (r < 0)
		return r;
	json_obj(j, NULL);
	add_meta_json(j, &m, alive);
	json_u64(j, "pending", count_pending_asks(fd, alive));
	add_usage_json(j, fd, alive, procs);
	json_end_obj(j);
	return 1;
}

int web_work_sandboxes(struct web_args *a, struct err *e)
{
	CLEANUP(procs_release) struct procs procs = { 0 };
	autostrv struct strv ids = STRV_INIT;
	struct json j = JSON_INIT(&a->out);
	uint64_t limit = cli_web_arg_num(a, "limit", 100), offset = cli_web_arg_num(a, "offset", 0), n = 0;
	bool all = cli_web_arg_num(a, "all", 0);
	size_t i = offset;
	int r = state_run_list(&a->st, &ids, e);

	json_obj(&j, NULL);
	json_arr(&j, "items");
	for (; r >= 0 && i < ids.n && n < limit; i++) {
		struct json before = j;
		size_t len = a->out.len;

		r = add_sandbox_json(a, &j, ids.v[i], all, &procs, e);
		n += r > 0;
		if (n > 1 && a->out.len > WEB_PAGE_BYTES - WEB_PAGE_REST) {
			a->out.len = len;
			j = before;
			break;
		}
	}
	json_end_arr(&j);
	if (i < ids.n)
		json_u64(&j, "next", i);
	else
		json_none(&j, "next");
	json_end_obj(&j);
	buf_addc(&a->out, '\n');
	return r < 0 ? r : 0;
}

int web_work_sandbox(struct web_args *a, struct err *e)
{
	CLEANUP(procs_release) struct procs procs = { 0 };
	struct json j = JSON_INIT(&a->out);
	char id[RUN_ID_LEN + 1];
	int r = state_resolve(&a->st, cli_web_arg(a, "sandbox"), id, e);

	if (r == 0)
		r = add_sandbox_json(a, &j, id, true, &procs, e);
	buf_addc(&a->out, '\n');
	return r == 0 ? err_set(e, -ENOENT, "sandbox %s has just been removed", id) : r < 0 ? r : 0;
}
