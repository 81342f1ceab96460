/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of a run: control group, rlimits, tmpfs sizes, and those that the launcher enforces. See
 * run_limits.h. A named limit that cannot be enforced is an error or, with --limits best-effort, reported:
 * never dropped in silence.
 */
#include "run/run_limits.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "sandbox/engine/gv_config.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

static void mark_limit(struct limits *l, enum limit_kind k, bool enforced, const char *how)
{
	l->l[k].enforced = enforced;
	l->l[k].how = enforced ? how : NULL;
}

/* Limits that do not depend on the host: rlimits, sizes of mounts, and those that the launcher watches. */
static void mark_host_independent(struct limits *l, const char *disk)
{
	mark_limit(l, LIMIT_NOFILE_SOFT, true, "rlimit");
	mark_limit(l, LIMIT_NOFILE_HARD, true, "rlimit");
	mark_limit(l, LIMIT_TIMEOUT, true, "launcher");
	mark_limit(l, LIMIT_TMP, true, "tmpfs");
	mark_limit(l, LIMIT_SHM, true, "tmpfs");
	mark_limit(l, LIMIT_OUTPUT, true, "launcher");
	mark_limit(l, LIMIT_DISK, disk != NULL, disk);
	mark_limit(l, LIMIT_INODES, disk != NULL, disk);
}

/* Can the sandbox write to the workspace itself, with no layer over anything whose size could be limited? An rlimit still
 * limits each of its files, but neither their number nor their total. */
static bool disk_is_unlimited(const struct spec *s)
{
	return s->ws_mode == WS_RW && !spec_needs_layers(s);
}

/* How the size of the workspace's layer is limited; NULL when it is not. */
static const char *disk_enforcement(const struct spec *s)
{
	struct stat layers, dir;

	if (s->layers_fd < 0)
		return disk_is_unlimited(s) ? NULL : "read-only";
	if (fstat(s->layers_fd, &layers) < 0 || fstat(s->run_fd, &dir) < 0)
		return "watched";
	return layers.st_dev == dir.st_dev ? "watched" : "disk image";
}

static uint64_t wanted_value(const struct limits *l, enum limit_kind k)
{
	return l->l[k].value == LIMIT_NONE ? CGROUP_UNSET : l->l[k].value;
}

static const char *why_cgroup_cannot(const struct run *r, enum cgroup_ctl ctl)
{
	if (r->cgroup_host.usable[ctl])
		return r->cg.why[0] ? r->cg.why : "the kernel refused it";
	return r->cgroup_host.why[ctl][0] ? r->cgroup_host.why[ctl] : "no control group can be used";
}

static int refuse_named_limit(const struct run *r, enum limit_kind k, enum cgroup_ctl ctl, struct err *e)
{
	err_set(e, -ENOTSUP, "--%s cannot be enforced: %s", limit_name(k), why_cgroup_cannot(r, ctl));
	return err_hint(e, -ENOTSUP,
			"`coffer doctor` tells how to get it, or add --limits best-effort to go without");
}

/* A default limit is no error: the warning about the writable workspace names it. */
static int refuse_unlimited_disk(const struct spec *s, struct err *e)
{
	const struct limits *l = &s->limits;
	bool bytes = l->l[LIMIT_DISK].named && l->l[LIMIT_DISK].value != LIMIT_NONE;
	bool files = l->l[LIMIT_INODES].named && l->l[LIMIT_INODES].value != LIMIT_NONE;

	if (!disk_is_unlimited(s) || l->best_effort || (!bytes && !files))
		return 0;
	err_set(e, -ENOTSUP,
		"--%s cannot be enforced: with -C DIR:rw the command writes to DIR itself, not to a layer",
		limit_name(LIMIT_DISK));
	return err_hint(
		e, -ENOTSUP,
		"leave :rw out and take the changes with `coffer apply`, or add --limits best-effort to limit "
		"only the size of each file");
}

/* The limits that a control group enforces. */
static const struct {
	enum limit_kind kind;
	enum cgroup_ctl ctl;
	unsigned bit;
} by_cgroup[] = {
	{ LIMIT_MEMORY, CGROUP_MEMORY, 1u << CGROUP_MEMORY },
	{ LIMIT_MEMORY_LOW, CGROUP_MEMORY, CGROUP_SET_MEMORY_LOW },
	{ LIMIT_CPUS, CGROUP_CPU, 1u << CGROUP_CPU },
	{ LIMIT_PIDS, CGROUP_PIDS, 1u << CGROUP_PIDS },
};

static struct cgroup_want wanted_limits(const struct run *r)
{
	const struct limits *l = &r->spec->limits;
	struct cgroup_want w = {
		.memory_max = wanted_value(l, LIMIT_MEMORY),
		.memory_low = wanted_value(l, LIMIT_MEMORY_LOW),
		.cpu_milli = wanted_value(l, LIMIT_CPUS),
		.pids_max = wanted_value(l, LIMIT_PIDS),
	};
	/* gVisor enforces the limit itself; the control group has to allow for runsc's own threads. */
	if (r->engine == &engine_gvisor && w.pids_max != CGROUP_UNSET)
		w.pids_max = gv_tasks(w.pids_max);
	return w;
}

int run_limits_begin(struct run *r, struct err *e)
{
	const struct cgroup_want w = wanted_limits(r);
	int ret = refuse_unlimited_disk(r->spec, e);

	if (ret == 0)
		ret = cgroup_host_probe(&r->cgroup_host, e);
	return ret < 0 ? ret : cgroup_create_born(&r->cg, &r->cgroup_host, r->spec->id, &w, e);
}

int run_limits_enforce(struct run *r, struct err *e)
{
	struct limits *l = &r->spec->limits;
	const struct cgroup_want w = wanted_limits(r);
	const char *why = NULL;
	autobuf struct buf off = BUF_INIT;
	unsigned set = 0;
	int ret;

	mark_host_independent(l, disk_enforcement(r->spec));
	ret = cgroup_complete(&r->cg, &w, &set, e);
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < ARRAY_SIZE(by_cgroup); i++) {
		enum limit_kind k = by_cgroup[i].kind;
		const char *how = set & by_cgroup[i].bit
					  ? (r->cgroup_host.version == 2 ? "cgroup v2" : "cgroup v1")
				  : k == LIMIT_PIDS ? "rlimit"
						    : NULL;

		if (k == LIMIT_PIDS && r->engine == &engine_gvisor)
			how = "gvisor";
		mark_limit(l, k, how != NULL, how);
		if (how || l->l[k].value == LIMIT_NONE)
			continue;
		if (l->l[k].named && !l->best_effort)
			return refuse_named_limit(r, k, by_cgroup[i].ctl, e);
		buf_addf(&off, "%s%s", off.len ? " and " : "", limit_name(k));
		why = why_cgroup_cannot(r, by_cgroup[i].ctl);
	}
	if (off.len)
		snprintf(r->limits_off, sizeof(r->limits_off), "%s not limited: %s", buf_cstr(&off), why);
	return buf_error(&off);
}

void run_limits_json(const struct limits *l, struct json *j)
{
	json_obj(j, "limits");
	for (int k = 0; k < LIMIT_COUNT; k++) {
		const struct limit *x = &l->l[k];

		if (x->value == LIMIT_NONE)
			continue;
		json_obj(j, limit_key((enum limit_kind)k));
		json_u64(j, "value", x->value);
		json_bool(j, "named", x->named);
		json_bool(j, "enforced", x->enforced);
		if (x->how)
			json_str(j, "how", x->how);
		json_end_obj(j);
	}
	json_end_obj(j);
}
