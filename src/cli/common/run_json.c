/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a run as members of a JSON object. The names of the members are part of the API
 * (doc/openapi.yaml). Values of environment variables must not be among them.
 */
#include "cli/common/run_json.h"

#include "base/clock.h"

const char *cli_run_status(const struct run_meta *m, bool alive)
{
	if (alive)
		return m->started ? "running" : "starting";
	return m->ended ? "ended" : "broken off";
}

void cli_run_json_add(struct json *j, const struct run_meta *m, bool alive)
{
	char text[CLOCK_TEXT_LEN];

	json_str(j, "id", m->id);
	json_str(j, "name", m->name);
	json_str(j, "engine", m->engine);
	json_str(j, "status", cli_run_status(m, alive));
	json_str(j, "started", m->started ? clock_format(m->started, text) : NULL);
	if (!alive && m->ended) {
		json_str(j, "ended", clock_format(m->ended, text));
		json_i64(j, "exit", m->exit_code);
		json_str(j, "cause", m->cause);
		json_u64(j, "changes", m->changes);
	}
	cli_run_json_add_how(j, m);
}

void cli_run_json_add_how(struct json *j, const struct run_meta *m)
{
	json_bool(j, "detached", m->detached);
	json_str(j, "restart", m->restart ? m->restart : "no");
	json_u64(j, "restarts", m->restarts);
	json_str(j, "workspace", m->workspace);
	json_str(j, "workspace_mode", m->ws_mode);
	json_str(j, "root", m->root ? m->root : "host");
	json_str(j, "image", m->image);
	json_str(j, "image_digest", m->image_digest);
	json_str(j, "net", m->net ? m->net : "none");
	json_str(j, "policy_digest", m->policy_digest);
	json_str(j, "ports", m->ports);
	json_str(j, "profile", m->profile);
	json_str(j, "command", m->command);
}

static void add_usage_figure(struct json *j, const char *key, uint64_t v)
{
	if (v == USAGE_UNKNOWN)
		json_none(j, key);
	else
		json_u64(j, key, v);
}

void cli_run_json_add_usage(struct json *j, const struct usage *u)
{
	add_usage_figure(j, "memory", u->memory);
	add_usage_figure(j, "memory_peak", u->memory_peak);
	add_usage_figure(j, "memory_limit", u->memory_limit);
	add_usage_figure(j, "cpu_us", u->cpu_usec);
	add_usage_figure(j, "pids", u->pids);
	add_usage_figure(j, "pids_limit", u->pids_limit);
	add_usage_figure(j, "uptime_us", u->uptime_usec);
	add_usage_figure(j, "commands", u->commands);
}
