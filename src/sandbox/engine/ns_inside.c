/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's first process, in the order of its life: outer user namespace, trees, root, network; then the inner user
 * namespace and every fence; then exec. The invariants are in ns_inside.h. Nothing foreign runs in this process, and it opens
 * nothing of the host by a name that the sandbox could have changed without checking that it is the same file.
 */
#include "sandbox/engine/ns_inside.h"

#include "base/fd.h"
#include "ipc/fdpass.h"
#include "sandbox/engine/gv_inside.h"
#include "sandbox/engine/rootfs.h"
#include "sandbox/state/layers.h"
#include "sandbox/wall/wall.h"
#include "sys/fence/caps.h"
#include "sys/fence/landlock.h"
#include "sys/fence/seccomp.h"
#include "sys/mnt.h"
#include "sys/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/ioprio.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define STREAM_FD 3
#define TIMER_SLACK_NS 50000UL /* the kernel's default */

size_t ns_tree_count(const struct spec *s)
{
	return NS_TREES_FIXED + s->n_binds + s->n_lowers;
}

/* Opens the file that was checked outside again, in this mount namespace, and fails if it is not the same one. */
static int open_checked(const char *path, int checked_fd, struct err *e)
{
	autoclose int tree = mnt_tree(AT_FDCWD, path, true);
	struct stat a, b;

	if (tree < 0)
		return err_sys(e, tree, "cannot open %s for the sandbox", path);
	if (fstat(tree, &a) < 0 || fstat(checked_fd, &b) < 0)
		return err_sys(e, -errno, "cannot look at %s", path);
	if (a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		return err_set(e, -ESTALE, "%s was replaced while the sandbox was being built", path);
	return TAKE_FD(tree);
}

static int open_from_layer(const struct spec *s, struct err *e)
{
	autofree char *path = NULL;

	if (asprintf(&path, "%s/" LAYERS_FROM, s->run_path) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	return open_checked(path, s->from_fd, e);
}

/* Opens the trees of an ordinary user. Those of the host's root come over the socket, idmapped. */
static int open_trees(const struct ns_inside *in, int *fds, struct err *e)
{
	const struct spec *s = in->spec;

	for (size_t i = 0; i < ns_tree_count(s); i++)
		fds[i] = -1;
	if (s->ws_fd >= 0 && (fds[0] = open_checked(s->ws_path, s->ws_fd, e)) < 0)
		return fds[0];
	/* Only the host's root has disk images: these layers are in the run's directory, or will be. */
	if (spec_needs_layers(s) && (fds[1] = open_checked(s->run_path, s->run_fd, e)) < 0)
		return fds[1];
	if (s->home_fd >= 0 && (fds[2] = open_checked(s->home_path, s->home_fd, e)) < 0)
		return fds[2];
	if (s->from_fd >= 0 && (fds[3] = open_from_layer(s, e)) < 0)
		return fds[3];
	for (size_t i = 0; i < s->n_binds; i++) {
		int *fd = &fds[NS_TREES_FIXED + i];

		*fd = open_checked(s->binds[i].src, s->binds[i].fd, e);
		if (*fd < 0)
			return *fd;
	}
	for (size_t i = 0; i < s->n_lowers; i++) {
		int *fd = &fds[NS_TREES_FIXED + s->n_binds + i];

		*fd = open_checked(s->lowers[i].path, s->lowers[i].fd, e);
		if (*fd < 0)
			return *fd;
	}
	return 0;
}

/* Becomes root of the outer user namespace, with none of the caller's groups. */
static int become_builder(const struct ids *ids, struct err *e)
{
	if (!ids->range)
		return 0;
	/* A process that changes its ids becomes undumpable, and its files in /proc then belong to the host's root. */
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 1) < 0)
		return err_sys(e, -errno, "cannot take the ids of the sandbox");
	return 0;
}

enum which_map { OUTER, INNER };

static int write_id_maps(const struct ids *ids, enum which_map which, const char *proc, struct err *e)
{
	char map[IDS_MAP_LEN];

	for (int groups = 0; groups < 2; groups++) {
		int r = ns_map_ids(proc, groups,
				   which == OUTER ? ids_outer_map(ids, groups, map)
						  : ids_inner_map(ids, groups, map),
				   e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A process may map its own id, as the only one, without help. */
static int map_own_id(const struct ids *ids, enum which_map which, struct err *e)
{
	int r = ns_deny_setgroups("/proc/self", e);

	return r < 0 ? r : write_id_maps(ids, which, "/proc/self", e);
}

static int launcher_is_gone(int code, struct err *e)
{
	return err_sys(e, code < 0 ? code : -EPROTO, "the launcher died");
}

/* A range of ids is mapped by the launcher; a single one by the process itself. */
static int map_or_wait_mapped(const struct ns_inside *in, struct err *e)
{
	char c;
	int r;

	if (!in->spec->ids.range)
		return map_own_id(&in->spec->ids, OUTER, e);
	r = fdpass_recv(in->sync, &c, 1, NULL, 0);
	return r < 0 || c != NS_SYNC_MAPPED ? launcher_is_gone(r, e) : 0;
}

/* Puts the received trees of the host's root where the spec has one. */
static int sort_received_trees(const struct spec *s, const int *got, size_t n, int *fds, struct err *e)
{
	bool want[NS_TREES_MAX] = { s->ws_fd >= 0, spec_needs_layers(s), s->home_fd >= 0, s->from_fd >= 0 };
	size_t k = 0;

	for (size_t i = NS_TREES_FIXED; i < ns_tree_count(s); i++)
		want[i] = true;
	for (size_t i = 0; i < ns_tree_count(s); i++) {
		if (want[i] && k == n)
			return launcher_is_gone(-EPROTO, e);
		fds[i] = want[i] ? got[k++] : -1;
	}
	return k == n ? 0 : launcher_is_gone(-EPROTO, e);
}

/* Waits for "go", and joins the control group. */
static int wait_go(const struct ns_inside *in, int *fds, struct ns_go *go, struct err *e)
{
	int got[FDPASS_MAX];
	int r = fdpass_recv(in->sync, go, sizeof(*go), NULL, 0);

	if (r < 0 || go->type != NS_SYNC_GO || go->fds > FDPASS_MAX || go->tasks > go->fds)
		return launcher_is_gone(r, e);
	if (go->fds) {
		r = fdpass_recv(in->sync, &go->type, 1, got, go->fds);
		if (r < 0)
			return launcher_is_gone(r, e);
	}
	for (size_t i = 0; i < go->tasks; i++) {
		/* Of the ways to join a group, only this one does not make the kernel wait for every CPU. */
		if (write(got[i], "0", 1) != 1)
			return err_sys(e, -errno, "cannot join the sandbox's control group");
		fd_close(got[i]);
	}
	return in->spec->ids.host_root
		       ? sort_received_trees(in->spec, got + go->tasks, go->fds - go->tasks, fds, e)
		       : 0;
}

static int wait_ca(const struct ns_inside *in, int *ret, struct err *e)
{
	char c;
	int r = fdpass_recv(in->sync, &c, 1, ret, 1);

	return r < 0 || c != NS_SYNC_CA ? launcher_is_gone(r, e) : 0;
}

static int bring_up_loopback(struct err *e)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return err_sys(e, -errno, "cannot bring up the sandbox's loopback interface");
	return 0;
}

/* Builds the network, and sends the sockets of its wall to the launcher. */
static int build_network(const struct ns_inside *in, struct err *e)
{
	struct wall w;
	int r;

	if (in->spec->net == NET_NONE)
		return bring_up_loopback(e);
	r = wall_build(&w, in->gv && !in->spec->gv_hostnet, e);
	if (r < 0)
		return r;
	r = wall_send(in->sync, &w);
	wall_release(&w);
	return r < 0 ? launcher_is_gone(r, e) : 0;
}

/*
 * Settings of the new namespaces. Any user may bind ports below 1024 inside, as programs in a container expect. inotify
 * instances inside count against the caller's own user, who has few: some must be left. Where /proc is read-only neither can
 * be set; no protection depends on them.
 */
static void set_sysctls(void)
{
	static const char *const settings[][2] = {
		{ "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0" },
		{ "/proc/sys/user/max_inotify_instances", "64" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		int r = fd_write_file(AT_FDCWD, settings[i][0], settings[i][1]);

		(void)r;
	}
}

/*
 * A whole range can only be mapped from the outer namespace: this child stays there, waits until its parent is in the inner
 * one, writes the parent's maps, and exits.
 */
static pid_t fork_mapper(const struct ids *ids, int *ret_go)
{
	int p[2];
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0) {
		fd_close(p[0]);
		fd_close(p[1]);
		return -errno;
	}
	if (pid == 0) {
		char c;

		fd_close(p[1]);
		if (read(p[0], &c, 1) != 1)
			_exit(1);
		_exit(write_id_maps(ids, INNER, "/proc/1", NULL) < 0);
	}
	fd_close(p[0]);
	*ret_go = p[1];
	return pid;
}

static int map_by_mapper(pid_t mapper, int go, struct err *e)
{
	int status, r = fd_write_all(go, "g", 1);

	if (r < 0)
		return err_sys(e, r, "cannot map the ids of the sandbox");
	if (waitpid(mapper, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, -EPERM, "cannot map the ids of the sandbox");
	return 0;
}

/* Enters the inner user namespace, as the command's user. */
static int enter_inner(const struct ids *ids, struct err *e)
{
	autoclose int go = -1;
	pid_t mapper = 0;
	int r;

	if (ids->range) {
		mapper = fork_mapper(ids, &go);
		if (mapper < 0)
			return err_sys(e, mapper, "cannot map the ids of the sandbox");
		if (setresgid(ids->gid, ids->gid, ids->gid) < 0 ||
		    setresuid(ids->uid, ids->uid, ids->uid) < 0)
			return err_sys(e, -errno, "cannot become user %u inside", ids->uid);
		if (prctl(PR_SET_DUMPABLE, 1) < 0)
			return err_sys(e, -errno, "cannot prepare the inner user namespace");
	}
	if (unshare(CLONE_NEWUSER) < 0) {
		r = err_sys(e, -errno, "cannot make the inner user namespace");
		return err_hint(e, r, "`coffer doctor` tells what this host allows");
	}
	return ids->range ? map_by_mapper(mapper, go, e) : map_own_id(ids, INNER, e);
}

static int set_one_rlimit(int what, uint64_t soft, uint64_t hard, struct err *e)
{
	struct rlimit now, want;

	if (getrlimit((__rlimit_resource_t)what, &now) < 0)
		return err_sys(e, -errno, "cannot read a resource limit");
	want.rlim_max = hard < now.rlim_max ? hard : now.rlim_max;
	want.rlim_cur = soft < want.rlim_max ? soft : want.rlim_max;
	if (setrlimit((__rlimit_resource_t)what, &want) < 0)
		return err_sys(e, -errno, "cannot set a resource limit");
	return 0;
}

static int set_rlimits(const struct limits *l, bool count_pids, struct err *e)
{
	/* A control group counts better, and reports refusals; the rlimit is for a host without one. */
	uint64_t nproc = count_pids ? l->l[LIMIT_PIDS].value : LIMIT_NONE;
	const struct {
		int what;
		uint64_t soft, hard;
	} limits[] = {
		{ RLIMIT_CORE, 0, 0 },
		{ RLIMIT_NOFILE, l->l[LIMIT_NOFILE_SOFT].value, l->l[LIMIT_NOFILE_HARD].value },
		{ RLIMIT_NPROC, nproc, nproc },
		{ RLIMIT_FSIZE, l->l[LIMIT_DISK].value, l->l[LIMIT_DISK].value },
		{ RLIMIT_MEMLOCK, 8u << 20, 8u << 20 },
		{ RLIMIT_MSGQUEUE, 819200, 819200 },
		{ RLIMIT_RTPRIO, 0, 0 },
		{ RLIMIT_NICE, 0, 0 },
		/* Timers and queued signals count against the caller's own user: some must be left. */
		{ RLIMIT_SIGPENDING, 8192, 8192 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		int r = set_one_rlimit(limits[i].what, limits[i].soft, limits[i].hard, e);

		if (r < 0)
			return r;
	}
	return 0;
}

static int fence_landlock(const struct spec *s, int init_fd, struct ns_ready *ready, struct err *e)
{
	struct landlock_rule rules[10 + NS_BINDS_MAX] = {
		{ "/", spec_has_root_layer(s) ? LANDLOCK_WRITE : LANDLOCK_READ_EXEC },
		{ "/tmp", LANDLOCK_WRITE },
		{ "/run", LANDLOCK_WRITE },
		{ "/var/tmp", LANDLOCK_WRITE },
		{ "/dev", LANDLOCK_DEVICES },
		{ "/dev/shm", LANDLOCK_WRITE },
		{ "/proc", LANDLOCK_WRITE },
	};
	char init[32];
	size_t n = 7;
	int r;

	/* A process under Landlock cannot mount, which --nested is for. */
	if (s->nested)
		return 0;
	/* No path inside leads to the mount that coffer-init is on. */
	snprintf(init, sizeof(init), "/proc/self/fd/%d", init_fd);
	rules[n++] = (struct landlock_rule){ init, LANDLOCK_READ_EXEC };
	rules[n++] = (struct landlock_rule){ rootfs_home_of(s), LANDLOCK_WRITE };
	if (s->ws_mode != WS_RO)
		rules[n++] = (struct landlock_rule){ ROOTFS_WORKSPACE, LANDLOCK_WRITE };
	for (size_t i = 0; i < s->n_binds; i++) {
		if (s->binds[i].writable)
			rules[n++] = (struct landlock_rule){ s->binds[i].dst, LANDLOCK_WRITE };
	}
	r = landlock_apply(rules, n, e);
	if (r < 0)
		return r;
	ready->landlock_abi = r;
	return 0;
}

static int fence_seccomp(const struct spec *s, struct err *e)
{
	struct seccomp_opts o = { .nested = s->nested,
				  .caps = s->caps,
				  .no_setid_mode = s->ws_mode == WS_RW };
	struct sock_filter insns[SECCOMP_MAX_INSNS];
	size_t n;
	int r;

	for (size_t i = 0; i < s->n_binds; i++)
		o.no_setid_mode = o.no_setid_mode || s->binds[i].writable;
	r = seccomp_compile(&o, insns, ARRAY_SIZE(insns), &n, e);
	return r < 0 ? r : seccomp_install(insns, n, e);
}

/* A read-only mount of coffer-init that is attached nowhere: the process that runs from it can never write to it. */
static int open_init_read_only(int init_fd, struct err *e)
{
	char link[32], path[PATH_MAX];
	autoclose int tree = -1;
	ssize_t n;
	int r;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", init_fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return err_sys(e, -errno, "cannot find coffer-init");
	path[n] = '\0';
	tree = open_checked(path, init_fd, e);
	if (tree < 0)
		return tree;
	r = mnt_set(tree, "", MNT_RO, false);
	return r < 0 ? err_sys(e, r, "cannot protect %s", path) : TAKE_FD(tree);
}

/* Descriptors as coffer-init expects them; exec closes all others. */
static int arrange_init_fds(int stream, struct err *e)
{
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return err_sys(e, -errno, "cannot open /dev/null inside");
	for (int fd = 0; fd < 3; fd++) {
		if (dup2(null, fd) < 0)
			return err_sys(e, -errno, "cannot arrange descriptors");
	}
	if (syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) < 0)
		return err_sys(e, -errno, "cannot close inherited descriptors");
	return stream == STREAM_FD	     ? fd_set_cloexec(STREAM_FD, false)
	       : dup2(stream, STREAM_FD) < 0 ? err_sys(e, -errno, "cannot arrange descriptors")
					     : 0;
}

/* ns_inside.N3: from here on the kernel kills the process when the launcher dies. A launcher that is dead already is seen by
 * end of file on the sync socket. */
static int tie_to_launcher(int sync, struct err *e)
{
	char c;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_sys(e, -errno, "cannot tie the sandbox to its launcher");
	if (recv(sync, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		return err_set(e, -EPIPE, "the launcher died");
	return 0;
}

/* These take the kernel long, so clone3() does not make them: meanwhile the launcher does its own part. */
static int unshare_costly_namespaces(struct err *e)
{
	int r = unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0 ? -errno : 0;

	if (r == 0)
		return 0;
	r = err_sys(e, r, "cannot make the sandbox's namespaces");
	return err_hint(e, r, "`coffer doctor` tells what this host allows, and how to change it");
}

/* A process can join a control group of the user only with that user's id, which become_builder() gives up. */
static bool joins_as_caller(const struct ids *ids)
{
	return ids->range && !ids->host_root;
}

/* In the outer user namespace: all that needs nothing of the launcher but the id maps. */
static int build_before_go(const struct ns_inside *in, int *fds, int *ret_init, struct ns_go *go,
			   struct err *e)
{
	const struct spec *s = in->spec;
	int r = unshare_costly_namespaces(e);

	if (r == 0)
		r = map_or_wait_mapped(in, e);
	/* Opened as the caller, whose groups may be needed for the path. */
	if (r == 0 && !s->ids.host_root)
		r = open_trees(in, fds, e);
	if (r == 0 && joins_as_caller(&s->ids))
		r = wait_go(in, fds, go, e);
	if (r < 0)
		return r;
	*ret_init = open_init_read_only(in->init_fd, e);
	if (*ret_init < 0)
		return *ret_init;
	r = become_builder(&s->ids, e);
	if (r < 0)
		return r;
	set_sysctls();
	r = rootfs_begin(s, in->gv != NULL, e);
	if (r == 0)
		r = build_network(in, e);
	if (r == 0 && sethostname(s->hostname, strlen(s->hostname)) < 0)
		return err_sys(e, -errno, "cannot name the sandbox");
	return r;
}

/* Sends the files that a later certificate is appended to. */
static int send_ca_later(const struct ns_inside *in, int *fds, struct err *e)
{
	const struct ns_ca_later w = { { NS_SYNC_CA, 0 } };
	int r = fdpass_send(in->sync, &w, sizeof(w), fds, ROOTFS_CA_FILES);

	for (size_t i = 0; i < ROOTFS_CA_FILES; i++)
		fds[i] = fd_close(fds[i]);
	return r < 0 ? err_sys(e, r, "cannot hand over the files for a later certificate") : 0;
}

/* Still in the outer user namespace: all that needs its capabilities. */
static int build_outer(const struct ns_inside *in, int *ret_init, struct ns_go *go, struct ns_ready *ready,
		       struct err *e)
{
	int fds[NS_TREES_MAX];
	autoclose int ca = -1;
	struct trees t;
	int r = build_before_go(in, fds, ret_init, go, e);

	if (r == 0 && !joins_as_caller(&in->spec->ids))
		r = wait_go(in, fds, go, e);
	if (r < 0)
		return r;
	r = in->spec->ca ? wait_ca(in, &ca, e) : 0;
	if (r < 0)
		return r;
	t = (struct trees){ .ws = fds[0],
			    .run = fds[1],
			    .home = fds[2],
			    .from = fds[3],
			    .binds = fds + NS_TREES_FIXED,
			    .lowers = fds + NS_TREES_FIXED + in->spec->n_binds,
			    .ca = ca,
			    .ca_later = { -1, -1 } };
	r = in->gv ? rootfs_finish_guest(in->spec, &t, e) : rootfs_finish(in->spec, &t, e);
	if (r == 0 && in->spec->ca_later)
		r = send_ca_later(in, t.ca_later, e);
	if (r < 0 || in->gv)
		return r;
	ready->timens = ns_new_time("/proc", NULL) == 0;
	ready->cgroupns = unshare(CLONE_NEWCGROUP) == 0;
	return 0;
}

/* In the inner user namespace: ns_inside.N1, but for seccomp, which comes after the last message. */
static int confine_inner(const struct ns_inside *in, int init_fd, bool count_pids, struct ns_ready *ready,
			 struct err *e)
{
	const struct spec *s = in->spec;
	int r = enter_inner(&s->ids, e);

	if (r == 0)
		r = set_rlimits(&s->limits, count_pids, e);
	if (r == 0)
		r = arrange_init_fds(in->stream, e);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, -errno, "cannot set no_new_privs");
	r = caps_drop_all_but(s->caps, e);
	if (r == 0)
		r = fence_landlock(s, init_fd, ready, e);
	if (r == 0)
		r = tie_to_launcher(in->sync, e);
	return r;
}

/*
 * ns_inside.N1: no scheduling favour of the caller goes inside, and none of its switches that weaken a program (no address
 * randomization). A lower priority than usual stays: the caller has chosen it for the command, too. Nothing here needs
 * privilege. Where a value cannot be read, the kernel has none.
 */
static int drop_scheduling(struct err *e)
{
	static const struct sched_param none;
	long policy = syscall(SYS_sched_getscheduler, 0), io = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
	/* The kernel refuses to take this flag away. */
	long flag = policy < 0 ? 0 : policy & SCHED_RESET_ON_FORK;
	int persona = personality(0xffffffff);

	policy -= flag;
	if ((policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE) &&
	    syscall(SYS_sched_setscheduler, 0, SCHED_OTHER | flag, &none) < 0)
		return err_sys(e, -errno, "cannot leave the real-time scheduling of the caller");
	errno = 0;
	if (getpriority(PRIO_PROCESS, 0) < 0 && errno == 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
		return err_sys(e, -errno, "cannot leave the priority of the caller");
	if (io > 0 && io >> IOPRIO_CLASS_SHIFT != IOPRIO_CLASS_IDLE &&
	    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, 0) < 0)
		return err_sys(e, -errno, "cannot leave the I/O priority of the caller");
	if (persona != -1 && persona != PER_LINUX && personality(PER_LINUX) < 0)
		return err_sys(e, -errno, "cannot leave the execution domain of the caller");
	/* Not 0: that means the slack of the caller, who is the parent. */
	if (prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0) < 0)
		return err_sys(e, -errno, "cannot set the timer slack");
	return 0;
}

static int begin_inside(struct err *e)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_DFL);
	setsid();
	return drop_scheduling(e);
}

void ns_inside(const struct ns_inside *in)
{
	struct err e = ERR_INIT;
	struct ns_ready ready = { 0 };
	struct ns_go go = { 0 };
	char *argv[] = { (char *)"coffer-init", NULL }, *envp[] = { NULL };
	int init_fd = -1, sync = in->sync, r = begin_inside(&e);

	if (r == 0 && in->gv) {
		if (build_outer(in, &init_fd, &go, &ready, &e) == 0 && tie_to_launcher(in->sync, &e) == 0)
			sync = gv_exec(in, init_fd, &e);
	} else if (r == 0 && build_outer(in, &init_fd, &go, &ready, &e) == 0 &&
		   confine_inner(in, init_fd, go.rlimit_pids, &ready, &e) == 0 &&
		   fdpass_send(in->sync, &ready, sizeof(ready), NULL, 0) == 0 &&
		   fence_seccomp(in->spec, &e) == 0) {
		syscall(SYS_execveat, init_fd, "", argv, envp, AT_EMPTY_PATH);
		err_sys(&e, -errno, "cannot start coffer-init inside");
	}
	if (e.code == 0)
		err_set(&e, -EPIPE, "the launcher died");
	if (fdpass_send(sync, &e, sizeof(e), NULL, 0) < 0)
		_exit(1);
	_exit(1);
}
