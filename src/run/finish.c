/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a run, in the process that is left to do it: the launcher, the guard, or a later coffer that sweeps. Every step
 * may have been done already by a process that died before the next (run.U3). A step must not rely on the process that began
 * the run.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "run/run.h"
#include "run/run_log.h"
#include "sandbox/state/compat.h"
#include "sandbox/state/layers.h"
#include "workspace/change/changes.h"
#include "workspace/store/ckpt_list.h"
#include "workspace/wipe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#define COUNT_CAP 1000000

#define DEATH_MS 10000
#define THAW_MS 300
#define GC_WAIT_MS 5000
#define FULL_BYTES (1u << 20)

/* pid 1 is the last process of its namespace to end: once it is gone, everything inside is dead. */
static int kill_pid1(int pidfd, struct cgroup *cg, struct err *e)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	if (syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0) {
		if (errno == ESRCH)
			return 0;
		return err_sys(e, -errno, "cannot kill what is left of the sandbox");
	}
	if (poll(&p, 1, THAW_MS) == 1)
		return 0;
	/* It may have been frozen when its launcher died, and a frozen process does not die. One that has no group to be
	 * frozen in only takes its time, as on a busy machine. */
	int thawed = cgroup_freeze(cg, false, NULL);

	if (poll(&p, 1, DEATH_MS) == 1)
		return 0;
	return err_set(e, -ETIMEDOUT, "the sandbox does not die%s",
		       thawed < 0 ? ", and cannot be thawed" : "");
}

/* When this returns 0, everything inside is dead and the control group is removed. */
static int kill_sandbox(struct run *r, struct err *e)
{
	int ret = r->er.pidfd >= 0 ? kill_pid1(r->er.pidfd, &r->cg, e) : 0;

	if (ret < 0)
		return ret;
	ret = cgroup_kill(&r->cg, e);
	if (ret < 0)
		return ret;
	cgroup_read_totals(&r->cg, &r->stat);
	return cgroup_destroy(&r->cg, e);
}

/* The sandbox may have taken all permissions from the layer's root; as its owner we give them back. */
static int open_upper_layer(int layers_fd)
{
	for (int again = 0;; again++) {
		int fd = openat(layers_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

		if (fd >= 0)
			return fd;
		if (errno != EACCES || again || fchmodat(layers_fd, "upper", 0700, 0) < 0)
			return -errno;
	}
}

/* Their files begin with a number. The directory alone, which may be there empty, does not count. */
static bool has_checkpoints(const struct run *r)
{
	int fd = openat(r->spec->run_fd, "checkpoints", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	autoclosedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;

	if (!d) {
		fd_close(fd);
		return false;
	}
	while ((de = readdir(d))) {
		if (de->d_name[0] >= '0' && de->d_name[0] <= '9')
			return true;
	}
	return false;
}

/* Removes the layer over the root file system, unless the run has a name, a session or a checkpoint to come back to. */
static int settle_root_layer(const struct run *r, struct err *e)
{
	static const char *const layers[] = { LAYERS_ROOT_WORK, LAYERS_ROOT_UPPER };
	const struct spec *s = r->spec;
	bool keep;

	if (!spec_has_root_layer(s))
		return 0;
	keep = s->name || s->series || has_checkpoints(r);
	layers_drop_root_work(s->layers_fd);
	for (size_t i = 0; i < (keep ? 1 : ARRAY_SIZE(layers)); i++) {
		int ret = workspace_wipe(s->layers_fd, layers[i], r->userns, NULL, e);

		if (ret < 0 && ret != -ENOENT)
			return ret;
	}
	return 0;
}

/* Removes the copy of another run's layer that a call was made over, as far as it was made: a call without changes is not
 * compared with it. */
static int drop_copied_layer(const struct run *r, struct err *e)
{
	static const char *const names[] = { LAYERS_FROM, LAYERS_FROM_NEW, LAYERS_FROM_NEW ".links" };

	for (size_t i = 0; r->spec->over[0] && i < ARRAY_SIZE(names); i++) {
		int ret = workspace_wipe(r->spec->run_fd, names[i], r->userns, NULL, e);

		if (ret < 0 && ret != -ENOENT)
			return ret;
	}
	return 0;
}

static int count_changes(struct run *r, int upper, struct err *e)
{
	const struct spec *s = r->spec;
	autoclose int layer =
		!s->over[0] ? -1
			    : openat(s->run_fd, LAYERS_FROM, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	/* A call whose copied layer was never complete has not run. */
	if ((s->over[0] && layer < 0) || (s->ws_fd < 0 && layer < 0))
		return 0;
	return workspace_count_changes(upper, (struct base){ layer, s->ws_fd }, COUNT_CAP, &r->changes, e);
}

/* A disk image enforces the limits: the command got ENOSPC, which nobody else reports. ext4 refuses a write while it still has
 * some blocks, which its own structures may need. */
static void note_full_image(struct run *r)
{
	struct stat layers, dir;
	struct statvfs v;
	uint64_t few;

	if (fstat(r->spec->layers_fd, &layers) < 0 || fstat(r->spec->run_fd, &dir) < 0 ||
	    layers.st_dev == dir.st_dev || fstatvfs(r->spec->layers_fd, &v) < 0)
		return;
	few = (uint64_t)v.f_blocks * v.f_frsize / 16;
	r->end.disk_full = (uint64_t)v.f_bavail * v.f_frsize < (few < FULL_BYTES ? few : FULL_BYTES);
	r->end.inodes_full = v.f_files && v.f_favail == 0;
}

/* Counts the changes of an overlay, and wipes an ephemeral workspace. */
static int settle_workspace(struct run *r, struct err *e)
{
	struct spec *s = r->spec;
	autoclose int upper = -1;
	int ret;

	if (!spec_needs_layers(s))
		return 0;
	if (s->layers_fd < 0) {
		s->layers_fd = layers_open(s->run_fd, e);
		if (s->layers_fd < 0)
			return s->layers_fd;
	}
	note_full_image(r);
	ret = settle_root_layer(r, e);
	if (ret < 0 || (s->ws_mode != WS_OVERLAY && s->ws_mode != WS_EPHEMERAL))
		return ret;
	/* A run that is about to be rolled back or started again needs its workspace. */
	if (s->ws_mode == WS_EPHEMERAL && (r->end.cause == CAUSE_ROLLED || s->series))
		return 0;
	if (s->ws_mode == WS_EPHEMERAL) {
		ret = workspace_wipe(s->layers_fd, "upper", r->userns, &r->wiped, e);
		return ret == -ENOENT ? 0 : ret;
	}
	upper = open_upper_layer(s->layers_fd);
	if (upper < 0)
		return upper == -ENOENT ? 0 : err_sys(e, upper, "cannot open the run's layer");
	ret = count_changes(r, upper, e);
	return ret == 0 && r->changes == 0 ? drop_copied_layer(r, e) : ret;
}

int run_write_meta(const struct run *r, struct err *e)
{
	const struct spec *s = r->spec;
	const uint64_t disk = s->limits.l[LIMIT_DISK].value;
	autobuf struct buf cmd = BUF_INIT;
	struct run_meta m = {
		.name = s->name,
		.engine = (char *)r->engine->name,
		.workspace = s->ws_path,
		.ws_mode = (char *)ws_mode_name(s->ws_mode),
		.root = s->root_mode == ROOT_DIR ? s->root_name : (char *)root_mode_name(s->root_mode),
		.image = s->root_mode == ROOT_IMAGE ? s->root_name : NULL,
		.image_digest = s->root_digest,
		.started = r->started,
		.ended = r->ended,
		.exit_code = r->end.exit_code,
		.cause = r->ended ? (char *)run_cause_name(r->end.cause) : NULL,
		.launcher = r->launcher,
		.guard = r->guard,
		.detached = s->detach,
		.changes = r->changes,
		.over = s->over[0] ? (char *)s->over : NULL,
		.over_time = s->over_time,
		.home = s->home_path ? strrchr(s->home_path, '/') + 1 : NULL,
		.profile = s->profile,
		.net = (char *)net_mode_name(s->net),
		.policy_digest = s->policy_digest,
		.ports = s->ports,
		.acts = s->acts,
		.map_ids = r->map_ids && !s->ids.host_root,
		.each = s->each,
		.keep = s->keep,
		.disk = disk == LIMIT_NONE ? 0 : disk,
		.restart = s->restart,
		.restarts = s->restarts,
		.since = r->since,
		.protocol = COMPAT_PROTOCOL,
	};

	memcpy(m.id, s->id, sizeof(m.id));
	for (size_t i = 0; i < s->argv.n && cmd.len < 1024; i++)
		buf_addf(&cmd, "%s%s", i ? " " : "", s->argv.v[i]);
	m.command = (char *)buf_cstr(&cmd);
	return state_meta_write(s->run_fd, &m, e);
}

/*
 * After most runs only empty directories with known names are left; removing those one by one is several times cheaper than
 * a walk. The walk removes everything else.
 */
static int remove_run_directory(struct run *r, struct err *e)
{
	const struct spec *s = r->spec;
	char name[RUN_BURIED_LEN];
	int ret;

	layers_drop_work(s->run_fd);
	(void)unlinkat(s->run_fd, "upper", AT_REMOVEDIR);
	if (unlinkat(r->st->runs_fd, s->id, AT_REMOVEDIR) == 0)
		return 0;
	ret = state_run_bury(r->st, s->id, name, e);
	return ret < 0 ? ret : fd_rm_rf(r->st->runs_fd, name, e);
}

/* The output of an engine that died is worth keeping. */
static bool has_engine_log(const struct spec *s)
{
	struct stat st;

	return fstatat(s->run_fd, "engine.log", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0;
}

/* Checkpoints of an ephemeral workspace are removed with it; a fork that never ran has none of its own. */
static bool keeps_checkpoints(const struct run *r)
{
	if (r->end.cause == CAUSE_NOT_STARTED)
		return r->origin.kind == RUN_RESUMED;
	return r->spec->ws_mode != WS_EPHEMERAL || r->end.cause == CAUSE_ROLLED;
}

/* Removes the stored content of the checkpoints of an ephemeral workspace. A copied run has added none, and its starter may
 * hold the lock until the launcher is done. */
static int drop_checkpoint_content(struct run *r, struct err *e)
{
	struct objects_use gone = { 0 }, left = { 0 };
	int ret = r->origin.kind == RUN_COPIED ? 0 : ckpt_gc(r->st, GC_WAIT_MS, &gone, &left, e);

	/* -EBUSY: another process makes a checkpoint just now. The next collection removes the content. */
	return ret == -EBUSY ? 0 : ret;
}

/* A run that left nothing loses its directory; one that did has its end written to meta.json. */
static int settle_directory(struct run *r, struct err *e)
{
	struct spec *s = r->spec;
	bool checkpoints = has_checkpoints(r);
	int ret;

	/* The content of a copy that never ran is still where it was copied from. */
	if (r->origin.kind == RUN_COPIED && r->end.cause == CAUSE_NOT_STARTED)
		r->changes = 0;
	r->kept = r->changes > 0 ||
		  ((s->detach || (s->name && spec_has_root_layer(s))) && r->end.cause != CAUSE_NOT_STARTED) ||
		  (r->end.cause == CAUSE_BROKEN && has_engine_log(s)) ||
		  (checkpoints && keeps_checkpoints(r)) ||
		  /* A run that could not be restarted has been started before. */
		  (s->restart && r->origin.kind == RUN_RESUMED) ||
		  (s->series && (r->origin.kind == RUN_RESUMED || r->end.cause != CAUSE_NOT_STARTED));
	if (!r->kept) {
		if (s->name)
			state_name_clear(r->st, s->name, s->id);
		ret = remove_run_directory(r, e);
		return ret == 0 && checkpoints ? drop_checkpoint_content(r, e) : ret;
	}
	if (unlinkat(s->run_fd, "ctl.sock", 0) < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot remove the control socket");
	if (s->layers_fd >= 0)
		layers_drop_work(s->layers_fd);
	ret = s->layers_fd < 0 ? 0 : fd_rm_rf(s->layers_fd, "work", e);
	r->ended = clock_nsec(CLOCK_REALTIME);
	return ret < 0 ? ret : run_write_meta(r, e);
}

struct net_config run_net_config(const struct run *r)
{
	return (struct net_config){ .st = r->st,
				    .audit = r->audit,
				    .spec = r->spec,
				    .plan = r->net,
				    .cgroup_host = &r->cgroup_host,
				    .sandbox = r->er.pidfd };
}

int run_finish(struct run *r, struct err *e)
{
	struct err trouble = ERR_INIT;
	int ret;

	/* A process that took over knows the control group only by its name. */
	if (!r->cg.host) {
		ret = cgroup_host_probe(&r->cgroup_host, e);
		if (ret == 0)
			ret = cgroup_reopen(&r->cg, &r->cgroup_host, r->spec->id, e);
		if (ret < 0)
			return ret;
	}
	ret = kill_sandbox(r, e);
	if (ret < 0)
		return ret;
	const struct net_config net = run_net_config(r);

	/* The guard logs the network's journals at its end; this is for a guard that died. */
	ret = !r->start_not_logged && !r->net_over && (r->net || !r->launcher) ? net_finish(&net, e) : 0;
	if (ret < 0)
		return ret;
	/* The sandbox decides what is in its layer: one that cannot be read must not keep run.end out of the log. It counts
	 * as changed. */
	if (settle_workspace(r, &trouble) < 0 && r->changes == 0)
		r->changes = 1;
	ret = !r->start_not_logged && state_run_has_begun(r->spec->run_fd) ? run_log_end(r, &trouble, e) : 0;
	if (ret == 0)
		ret = settle_directory(r, e);
	if (ret == 0 && trouble.code) {
		*e = trouble;
		ret = trouble.code;
	}
	return ret;
}

/* Fills in from meta.json what finishing needs. A run without that file has nothing worth keeping. */
static int read_back_meta(struct run *r, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	struct spec *s = r->spec;

	s->ws_mode = WS_RO;
	if (state_meta_read(s->run_fd, &m, NULL) < 0)
		return 0;
	if (m.command && strv_add(&s->argv, m.command) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	s->name = TAKE_PTR(m.name);
	s->detach = m.detached;
	s->ws_path = TAKE_PTR(m.workspace);
	if (m.image || (m.root && m.root[0] == '/')) {
		s->root_mode = m.image ? ROOT_IMAGE : ROOT_DIR;
		s->root_name = m.image ? TAKE_PTR(m.image) : TAKE_PTR(m.root);
		s->root_digest = TAKE_PTR(m.image_digest);
	}
	for (int k = 0; k < NET_MODE_COUNT; k++) {
		if (m.net && str_eq(m.net, net_mode_name((enum net_mode)k)))
			s->net = (enum net_mode)k;
	}
	s->policy_digest = TAKE_PTR(m.policy_digest);
	s->ports = TAKE_PTR(m.ports);
	s->acts = m.acts;
	s->each = m.each;
	s->keep = m.keep;
	s->limits.l[LIMIT_DISK].value = m.disk ? m.disk : LIMIT_NONE;
	s->restart = TAKE_PTR(m.restart);
	s->profile = TAKE_PTR(m.profile);
	s->restarts = m.restarts;
	if (m.over)
		snprintf(s->over, sizeof(s->over), "%s", m.over);
	s->over_time = m.over_time;
	if (m.home && asprintf(&s->home_path, "%s/homes/%s", r->st->path, m.home) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	r->map_ids = m.map_ids;
	r->started = m.started;
	r->since = m.since;
	for (int k = 0; k < WS_MODE_COUNT; k++) {
		if (m.ws_mode && str_eq(m.ws_mode, ws_mode_name((enum ws_mode)k)))
			s->ws_mode = (enum ws_mode)k;
	}
	if (s->ws_path)
		s->ws_fd = open(s->ws_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

static int sweep_one(struct state *st, struct audit *a, const char *id, struct err *e)
{
	CLEANUP(spec_release) struct spec s = SPEC_INIT;
	struct run r = {
		.st = st,
		.audit = a,
		.spec = &s,
		.engine = &engine_ns,
		.cg = CGROUP_INIT,
		.er = ENGINE_RUN_INIT,
		.userns = -1,
		.end = { .cause = CAUSE_CALLER, .exit_code = 137 },
	};
	int ret;

	s.run_fd = state_run_claim(st, id, e);
	if (s.run_fd < 0)
		return s.run_fd == -EBUSY || s.run_fd == -ENOENT ? 0 : s.run_fd;
	memcpy(s.id, id, sizeof(s.id));
	ret = read_back_meta(&r, e);
	return ret < 0 ? ret : run_finish(&r, e);
}

/* Removes the directories that a remover which died has left. A failure is not reported: they are under hidden names, and
 * the next sweep tries again. */
static int sweep_buried(struct state *st, struct err *e)
{
	autostrv struct strv names = STRV_INIT;
	int r = state_run_buried(st, &names, e);

	for (size_t i = 0; r == 0 && i < names.n; i++) {
		struct err ignored = ERR_INIT;

		(void)!workspace_wipe(st->runs_fd, names.v[i], -1, NULL, &ignored);
	}
	return r;
}

int run_sweep(struct state *st, struct audit *a, struct err *e)
{
	autostrv struct strv ids = STRV_INIT;
	int r = sweep_buried(st, e);

	if (r == 0)
		r = state_run_stale(st, &ids, e);

	for (size_t i = 0; r == 0 && i < ids.n; i++)
		r = sweep_one(st, a, ids.v[i], e);
	return r < 0 ? r : (int)ids.n;
}
