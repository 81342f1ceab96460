/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory, CPU and processes of a running sandbox, for coffer ps and coffer stats. The launcher's reply comes first;
 * figures that no control group counts are summed over the processes in /proc.
 */
#include "run/supervise/usage.h"

#include "base/clock.h"
#include "run/supervise/run_link.h"

#include <errno.h>
#include <jansson.h>

/* A launcher answers within a millisecond; one that is stopped must not hold up the others. */
#define ANSWER_MSEC 500

static uint64_t usage_number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) && json_integer_value(v) >= 0 ? (uint64_t)json_integer_value(v)
								: USAGE_UNKNOWN;
}

static int parse_usage(const struct buf *text, struct usage *u, uint64_t *ret_pid, struct err *e)
{
	json_t *o = json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES, NULL);

	if (!json_is_object(o)) {
		json_decref(o);
		return err_set(e, -EPROTO, "the sandbox's launcher sent a malformed response");
	}
	*ret_pid = usage_number(o, "pid");
	u->uptime_usec = usage_number(o, "uptime_us");
	u->commands = usage_number(o, "commands");
	u->memory = usage_number(o, "memory");
	u->memory_peak = usage_number(o, "memory_peak");
	u->memory_limit = usage_number(o, "memory_limit");
	u->cpu_usec = usage_number(o, "cpu_us");
	u->pids = usage_number(o, "pids");
	u->pids_limit = usage_number(o, "pids_limit");
	u->memory_from = u->memory == USAGE_UNKNOWN ? NULL : "cgroup";
	json_decref(o);
	return 0;
}

static int add_usage_from_procs(struct procs *procs, pid_t pid, struct usage *u, struct err *e)
{
	bool memory = u->memory == USAGE_UNKNOWN;
	struct procs_sum sum;
	int r = procs->n ? 0 : procs_read(procs, e);

	if (r < 0)
		return r;
	/* The processes are gone or not visible to us: the figures stay unknown. */
	if (procs_sum(procs, pid, memory, &sum) < 0)
		return 0;
	if (memory) {
		u->memory = sum.memory;
		u->memory_from = sum.is_pss ? "pss" : "rss";
	}
	if (u->cpu_usec == USAGE_UNKNOWN)
		u->cpu_usec = sum.cpu_usec;
	if (u->pids == USAGE_UNKNOWN)
		u->pids = sum.threads;
	return 0;
}

int usage_read(int run_fd, struct procs *procs, struct usage *ret, struct err *e)
{
	autolink struct run_link l = RUN_LINK_INIT;
	autobuf struct buf text = BUF_INIT;
	struct usage u = { 0 };
	uint64_t pid = 0;
	int r = run_link_open_within(&l, run_fd, ANSWER_MSEC, e);

	if (r == 0)
		r = run_link_stat(&l, ANSWER_MSEC, &text, e);
	u.at = clock_nsec(CLOCK_MONOTONIC);
	if (r == 0)
		r = parse_usage(&text, &u, &pid, e);
	if (r == 0 && pid <= INT32_MAX && pid > 0 &&
	    (u.memory == USAGE_UNKNOWN || u.cpu_usec == USAGE_UNKNOWN || u.pids == USAGE_UNKNOWN))
		r = add_usage_from_procs(procs, (pid_t)pid, &u, e);
	if (r == 0)
		*ret = u;
	return r;
}
