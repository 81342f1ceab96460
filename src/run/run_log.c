/* SPDX-License-Identifier: Apache-2.0 */
/* The two events of every run in the audit log. Values of environment variables must not be in them. */
#include "run/run_log.h"

#include "base/json.h"
#include "run/run_limits.h"

#include <errno.h>
#include <string.h>

/* Long commands are cut: a line of the log has a size limit. */
static void add_command_json(struct json *j, const struct strv *argv)
{
	json_arr(j, "command");
	for (size_t i = 0; i < argv->n && i < 64; i++) {
		size_t len = strlen(argv->v[i]);

		json_strn(j, NULL, argv->v[i], len < 1024 ? len : 1024);
	}
	json_end_arr(j);
	if (argv->n > 64)
		json_u64(j, "arguments", argv->n);
}

int run_log_start(struct run *r, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	const struct spec *s = r->spec;
	int ret;

	run_engine_json(r, &j);
	if (r->origin.kind == RUN_RESUMED)
		json_bool(&j, "again", true);
	if (s->restart) {
		json_str(&j, "restart", s->restart);
		json_u64(&j, "restarts", s->restarts);
	}
	if (s->name)
		json_str(&j, "name", s->name);
	if (s->from[0])
		json_str(&j, "from", s->from);
	if (s->over[0])
		json_str(&j, "over", s->over);
	add_command_json(&j, &s->argv);
	json_u64(&j, "uid", s->uid);
	json_u64(&j, "outside_uid", ids_outside_uid(&s->ids));
	net_plan_json(r->net, s->net, &j);
	run_root_json(s, &j);
	json_str(&j, "workspace", s->ws_path);
	json_str(&j, "workspace_mode", ws_mode_name(s->ws_mode));
	json_u64(&j, "masked", s->n_masks);
	json_arr(&j, "binds");
	for (size_t i = 0; i < s->n_binds; i++) {
		json_obj(&j, NULL);
		json_str(&j, "from", s->binds[i].src);
		json_str(&j, "to", s->binds[i].dst);
		json_bool(&j, "writable", s->binds[i].writable);
		json_end_obj(&j);
	}
	json_end_arr(&j);
	if (s->ports)
		json_str(&j, "ports", s->ports);
	json_u64(&j, "caps", s->caps);
	json_bool(&j, "nested", s->nested);
	run_limits_json(&s->limits, &j);
	if (buf_error(&b))
		return err_set(e, -ENOMEM, "out of memory");
	ret = audit_append(r->audit, "run.start", s->id, &b, e);
	/* A line that could not be written was taken back. The log may have room again by the end of the run: without a start
	 * it gets no end either. */
	r->start_not_logged = ret < 0;
	return ret;
}

int run_log_end(const struct run *r, const struct err *trouble, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_str(&j, "cause", run_cause_name(r->end.cause));
	json_i64(&j, "exit", r->end.exit_code);
	json_u64(&j, "wall_us", r->end.wall_ns / 1000);
	if (r->stat.has_cpu)
		json_u64(&j, "cpu_us", r->stat.cpu_usec);
	if (r->stat.has_memory)
		json_u64(&j, "memory_peak", r->stat.memory_peak);
	json_u64(&j, "output", r->end.output_bytes);
	json_u64(&j, "changes", r->changes);
	if (r->spec->ws_mode == WS_EPHEMERAL && !r->spec->series) {
		json_u64(&j, "wiped", r->wiped);
		json_bool(&j, "wipe_verified", trouble->code == 0);
	}
	if (r->end.cause == CAUSE_BROKEN || r->end.cause == CAUSE_NETWORK)
		json_str(&j, "broken", r->end.broken);
	if (trouble->code)
		json_str(&j, "workspace_error", trouble->msg);
	return buf_error(&b) ? err_set(e, -ENOMEM, "out of memory")
			     : audit_append(r->audit, "run.end", r->spec->id, &b, e);
}
