/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The --report object: the whole of one run as a line of JSON, for other programs; and the members that it shares with the
 * audit log. Values of environment variables must not be in it.
 */
#include "base/clock.h"
#include "base/json.h"
#include "run/run.h"
#include "run/run_limits.h"
#include "sys/fence/caps.h"

void run_root_json(const struct spec *s, struct json *j)
{
	json_str(j, "root", s->root_mode == ROOT_DIR ? s->root_name : root_mode_name(s->root_mode));
	if (s->root_mode == ROOT_IMAGE) {
		json_str(j, "image", s->root_name);
		json_str(j, "image_digest", s->root_digest);
	}
}

static void add_layers_json(const struct layers *l, const struct spec *s, struct json *j)
{
	json_obj(j, "layers");
	json_arr(j, "namespaces");
	if (l->userns)
		json_str(j, NULL, "user");
	if (l->pidns)
		json_str(j, NULL, "pid");
	if (l->mountns)
		json_str(j, NULL, "mount");
	if (l->netns)
		json_str(j, NULL, "net");
	if (l->ipcns)
		json_str(j, NULL, "ipc");
	if (l->utsns)
		json_str(j, NULL, "uts");
	if (l->cgroupns)
		json_str(j, NULL, "cgroup");
	if (l->timens)
		json_str(j, NULL, "time");
	json_end_arr(j);
	json_bool(j, "seccomp", l->seccomp);
	json_bool(j, "no_new_privs", l->no_new_privs);
	json_u64(j, "landlock_abi", (uint64_t)l->landlock_abi);
	if (l->landlock_off)
		json_str(j, "landlock_off", l->landlock_off);
	if (l->cgroupns_off)
		json_str(j, "cgroup_namespace_off", l->cgroupns_off);
	if (l->timens_off)
		json_str(j, "time_namespace_off", l->timens_off);
	json_u64(j, "outside_uid", l->outside_uid);
	json_u64(j, "mapped_ids", l->mapped_ids);
	json_bool(j, "idmapped_mounts", l->idmapped);
	json_arr(j, "capabilities");
	for (int c = 0; c < 64 && caps_name(c); c++) {
		if (s->caps & (1ULL << c))
			json_str(j, NULL, caps_name(c));
	}
	json_end_arr(j);
	json_bool(j, "nested", s->nested);
	json_end_obj(j);
}

static void add_end_json(const struct run *r, struct json *j)
{
	json_i64(j, "exit", r->end.exit_code);
	json_str(j, "cause", run_cause_name(r->end.cause));
	if (r->end.cause == CAUSE_SIGNAL)
		json_i64(j, "signal", r->end.signal);
	if (r->end.cause == CAUSE_BROKEN || r->end.cause == CAUSE_NETWORK)
		json_str(j, "broken", r->end.broken);
	json_bool(j, "pids_limit_hit", r->end.pids_hit);
	json_bool(j, "pids_limit_claimed", r->end.pids_claimed);
	json_bool(j, "output_cut", r->end.output_cut);
	json_u64(j, "output_bytes", r->end.output_bytes);
	json_u64(j, "wall_us", r->end.wall_ns / 1000);
	if (r->stat.has_cpu)
		json_u64(j, "cpu_us", r->stat.cpu_usec);
	else
		json_none(j, "cpu_us");
	if (r->stat.has_memory)
		json_u64(j, "memory_peak", r->stat.memory_peak);
	else
		json_none(j, "memory_peak");
}

void run_engine_json(const struct run *r, struct json *j)
{
	const struct choice *c = r->choice;

	json_str(j, "engine", r->engine->name);
	if (!c)
		return;
	if (c->by_itself)
		json_str(j, "engine_asked", "auto");
	if (c->why[0])
		json_str(j, "engine_why", c->why);
	if (c->engine == &engine_gvisor) {
		json_obj(j, "runsc");
		json_str(j, "path", c->runsc.path);
		json_str(j, "version", c->runsc.version);
		json_str(j, "sha256", c->runsc.sha256);
		json_bool(j, "pinned", c->runsc.pinned[0] != '\0');
		if (c->runsc.hostnet[0])
			json_str(j, "hostnet", c->runsc.hostnet);
		json_end_obj(j);
	}
}

void run_report(const struct run *r, struct buf *out)
{
	struct json j = JSON_INIT(out);
	const struct spec *s = r->spec;
	char when[CLOCK_TEXT_LEN];

	json_obj(&j, NULL);
	json_str(&j, "id", s->id);
	json_str(&j, "name", s->name);
	run_engine_json(r, &j);
	json_str(&j, "started", clock_format(r->started, when));
	json_arr(&j, "command");
	for (size_t i = 0; i < s->argv.n; i++)
		json_str(&j, NULL, s->argv.v[i]);
	json_end_arr(&j);
	run_root_json(s, &j);
	net_plan_json(r->net, s->net, &j);
	if (r->net) {
		json_obj(&j, "network");
		buf_add(out, buf_cstr(&r->net_report), r->net_report.len);
		j.comma = r->net_report.len > 0;
		json_end_obj(&j);
	}
	if (s->ports)
		json_str(&j, "ports", s->ports);
	add_layers_json(&r->er.layers, s, &j);
	run_limits_json(&s->limits, &j);
	if (r->disk_watched[0])
		json_str(&j, "disk_watched", r->disk_watched);
	if (r->limits_off[0])
		json_str(&j, "limits_off", r->limits_off);
	add_end_json(r, &j);
	json_str(&j, "workspace", s->ws_path);
	json_str(&j, "workspace_mode", ws_mode_name(s->ws_mode));
	json_arr(&j, "masked");
	for (size_t i = 0; i < s->n_masks; i++)
		json_str(&j, NULL, s->masks[i].path);
	json_end_arr(&j);
	json_u64(&j, "changed_files", r->changes);
	if (s->ws_mode == WS_EPHEMERAL)
		json_u64(&j, "wiped_entries", r->wiped);
	json_bool(&j, "kept", r->kept);
	json_end_obj(&j);
	buf_addc(out, '\n');
}
