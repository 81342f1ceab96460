/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in engine, from outside: a child in new namespaces (ns_inside.c), its ids, its control group.
 *
 * When this returns success the child has exec'ed coffer-init, confined; when it fails there is no child left.
 */
#include "sandbox/engine/engine.h"

#include "base/fd.h"
#include "ipc/fdpass.h"
#include "sandbox/engine/helper.h"
#include "sandbox/engine/ns_inside.h"
#include "sandbox/engine/rootfs.h"
#include "sys/mnt.h"
#include "sys/ns.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* One tree of the host for a sandbox that root starts: its owners as they are, seen through the sandbox's ids. */
static int idmapped_tree(int fd, int userns, const char *path, struct layers *l, struct err *e)
{
	autoclose int tree = mnt_tree(fd, "", true);
	int r;

	if (tree < 0)
		return err_sys(e, tree, "cannot open %s for the sandbox", path);
	r = mnt_idmap(tree, userns);
	if (r == 0)
		l->idmapped = true;
	/* A file system without idmapped mounts shows its files as nobody's: less use, no less wall. */
	else if (r != -EINVAL && r != -EOPNOTSUPP)
		return err_sys(e, r, "cannot map the owners of %s", path);
	return TAKE_FD(tree);
}

/* What is handed over: files of control groups, which are the group's own, then trees, which are closed afterwards. */
struct handed {
	int fds[CGROUP_CTL_COUNT + NS_TREES_MAX];
	size_t n;
	int userns;
	struct layers *layers;
};

static int hand(struct handed *h, int fd, const char *path, struct err *e)
{
	int tree = idmapped_tree(fd, h->userns, path, h->layers, e);

	if (tree < 0)
		return tree;
	h->fds[h->n++] = tree;
	return 0;
}

static int host_root_trees(const struct spec *s, struct handed *h, struct err *e)
{
	int r = s->ws_fd >= 0 ? hand(h, s->ws_fd, s->ws_path, e) : 0;

	if (r == 0 && spec_needs_layers(s))
		r = hand(h, s->layers_fd, s->run_path, e);
	if (r == 0 && s->home_fd >= 0)
		r = hand(h, s->home_fd, s->home_path, e);
	if (r == 0 && s->from_fd >= 0)
		r = hand(h, s->from_fd, s->run_path, e);
	for (size_t i = 0; r == 0 && i < s->n_binds; i++)
		r = hand(h, s->binds[i].fd, s->binds[i].src, e);
	for (size_t i = 0; r == 0 && i < s->n_lowers; i++)
		r = hand(h, s->lowers[i].fd, s->lowers[i].path, e);
	return r;
}

static int send_mapped(const struct spec *s, int sync, pid_t pid, struct err *e)
{
	char c = NS_SYNC_MAPPED;
	int r = ids_write_maps(&s->ids, pid, e);

	if (r < 0)
		return r;
	r = fdpass_send(sync, &c, 1, NULL, 0);
	return r < 0 ? err_sys(e, r, "cannot tell the sandbox its ids") : 0;
}

static int send_go(const struct spec *s, const struct cgroup *cg, int sync, pid_t pid, struct layers *l,
		   struct err *e)
{
	const char *how = s->limits.l[LIMIT_PIDS].how;
	struct ns_go go = { .type = NS_SYNC_GO, .rlimit_pids = how && str_eq(how, "rlimit") };
	struct handed h = { .layers = l };
	unsigned tasks = cgroup_attach_fds(cg, h.fds);
	autoclose int userns = -1;
	char path[48];
	int r = 0;

	h.n = tasks;
	if (s->ids.host_root) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
		userns = open(path, O_RDONLY | O_CLOEXEC);
		if (userns < 0)
			return err_sys(e, -errno, "cannot open the sandbox's user namespace");
		h.userns = userns;
		r = host_root_trees(s, &h, e);
	}
	go.tasks = (uint8_t)tasks;
	go.fds = (uint8_t)h.n;
	if (r == 0)
		r = fdpass_send(sync, &go, sizeof(go), NULL, 0);
	if (r == 0 && go.fds)
		r = fdpass_send(sync, &go.type, 1, h.fds, go.fds);
	for (size_t i = tasks; i < h.n; i++)
		fd_close(h.fds[i]);
	return r < 0 && e->code == 0 ? err_sys(e, r, "cannot hand the sandbox its files") : r;
}

/* What the child said while it built. */
union word {
	struct err err;
	struct ns_ready ready;
	struct ns_ca_later ca;
	char wall[WALL_WORD];
};

static_assert(sizeof(struct ns_ca_later) != WALL_WORD, "they are told apart by their length");

static int take_word(struct engine_run *run, const union word *w, size_t len, const int *fds, size_t n,
		     struct err *e)
{
	struct layers *l = &run->layers;

	if (len == sizeof(w->wall) && run->wall.tcp4 < 0 && wall_unpack(w->wall, fds, n, &run->wall) == 0)
		return 0;
	if (len == sizeof(w->ca) && n == ROOTFS_CA_FILES && w->ca.type[0] == NS_SYNC_CA &&
	    run->ca_later[0] < 0) {
		memcpy(run->ca_later, fds, sizeof(run->ca_later));
		return 0;
	}
	if (len == sizeof(w->ready) && !l->engine) {
		l->landlock_abi = w->ready.landlock_abi;
		l->cgroupns = w->ready.cgroupns;
		l->timens = w->ready.timens;
		l->engine = "ns";
		return 0;
	}
	if (len == sizeof(w->err)) {
		*e = w->err;
		return e->code < 0 ? e->code : -EIO;
	}
	return err_set(e, -EPROTO, "the sandbox died while it was being built");
}

/* Waits for the child's exec, which closes the socket, and reads what it said before: one wake-up, not two. */
static int wait_ready(int sync, bool wants_wall, struct engine_run *run, struct err *e)
{
	struct pollfd p = { .fd = sync };
	union word w;
	int fds[WALL_FDS], n, r = 0;
	size_t len;

	while (poll(&p, 1, -1) < 0) {
		if (errno != EINTR)
			return err_sys(e, -errno, "cannot wait for the sandbox");
	}
	while (r == 0) {
		/* Reset: told once when it died without having read all, before what it said itself. */
		do {
			n = fdpass_recv_some(sync, &w, sizeof(w), &len, fds, ARRAY_SIZE(fds));
		} while (n == -ECONNRESET);
		if (n < 0 && (n != -EPIPE || !run->layers.engine || wants_wall != (run->wall.tcp4 >= 0)))
			return err_set(e, -EPIPE, "the sandbox died while it was being built");
		if (n < 0)
			return 0;
		r = take_word(run, &w, len, fds, (size_t)n, e);
	}
	return r;
}

/* A sandbox with an authority of its own waits, with its wall built, for the certificate. */
static int send_ca(int sync, const struct engine_meanwhile *m, struct engine_run *run, struct err *e)
{
	autoclose int ca = -1;
	char c = NS_SYNC_CA;
	union word w;
	int fds[WALL_FDS], r;
	size_t len = 0;

	do {
		r = fdpass_recv_some(sync, &w, sizeof(w), &len, fds, ARRAY_SIZE(fds));
	} while (r == -ECONNRESET);
	if (r < 0)
		return err_set(e, -EPIPE, "the sandbox died while it was being built");
	r = take_word(run, &w, len, fds, (size_t)r, e);
	if (r < 0)
		return r;
	ca = m->ca(m->ctx, &run->wall, e);
	if (ca < 0)
		return ca;
	r = fdpass_send(sync, &c, 1, &ca, 1);
	/* -EPIPE: it failed, and says why where everybody looks for it. */
	return r < 0 && r != -EPIPE ? err_sys(e, r, "cannot hand the sandbox its certificate") : 0;
}

static void fill_layers(const struct spec *s, struct layers *l)
{
	l->userns = l->pidns = l->mountns = l->netns = l->ipcns = l->utsns = true;
	l->seccomp = l->no_new_privs = l->caps_dropped = true;
	l->outside_uid = ids_outside_uid(&s->ids);
	l->mapped_ids = s->ids.range ? IDS_BLOCK : 1;
	l->rlimit_pids = "rlimit";
	if (!l->landlock_abi)
		l->landlock_off = s->nested ? "--nested needs mounts" : "the kernel has none";
	if (!l->cgroupns)
		l->cgroupns_off = "the kernel has none";
	if (!l->timens)
		l->timens_off = "the kernel has none";
}

/* The parent's part while the child builds. */
static int attend(const struct spec *s, const struct cgroup *cg, const struct engine_meanwhile *m,
		  struct engine_run *run, int sync, struct err *e)
{
	int r = s->ids.range ? send_mapped(s, sync, run->pid, e) : 0;

	if (r == 0) {
		r = m->prepare(m->ctx, run->pid, run->pidfd, e);
		if (r < 0)
			return r;
		r = send_go(s, cg, sync, run->pid, &run->layers, e);
	}
	if (r == 0) {
		r = m->rest(m->ctx, run->stream, e);
		if (r < 0)
			return r;
	}
	/* -EPIPE: the child failed first, and its reason is waiting for us. */
	if (r < 0 && r != -EPIPE && r != -ESRCH)
		return r;
	if (r == 0 && s->ca) {
		r = send_ca(sync, m, run, e);
		if (r < 0)
			return r;
	}
	return wait_ready(sync, s->net != NET_NONE && !s->ca, run, e);
}

static int clone_error(int r, struct err *e)
{
	bool refused = r == -EPERM;

	r = err_sys(e, r, "cannot make the sandbox's namespaces");
	return err_hint(e, r, "`coffer doctor` tells what this host allows, and how to change it%s",
			refused ? " (in a chroot the kernel makes no user namespaces)" : "");
}

/* Forks the child; the parent keeps run->stream and *ret_sync. */
static int ns_spawn(const struct spec *s, struct cgroup *cg, int init_fd, const struct gv_start *gv,
		    struct engine_run *run, int *ret_sync, struct err *e)
{
	int cgroup_fd = cgroup_clone_fd(cg);
	int stream[2], sync[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) < 0)
		return err_sys(e, -errno, "cannot make a socket pair");
	run->stream = stream[0];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync) < 0) {
		fd_close(stream[1]);
		return err_sys(e, -errno, "cannot make a socket pair");
	}
	pid = ns_fork(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, cgroup_fd, &run->pidfd);
	if (pid == 0) {
		struct ns_inside in = { s, sync[1], stream[1], init_fd, gv };

		fd_close(sync[0]);
		fd_close(stream[0]);
		ns_inside(&in);
	}
	fd_close(sync[1]);
	fd_close(stream[1]);
	*ret_sync = sync[0];
	if (pid < 0)
		return clone_error(pid, e);
	run->pid = pid;
	return 0;
}

int ns_start_with(const struct spec *s, struct cgroup *cg, const struct engine_meanwhile *m,
		  const struct gv_start *gv, struct engine_run *ret, struct err *e)
{
	autoclose int init_fd = helper_open("coffer-init", e), sync = -1;
	struct engine_run run = ENGINE_RUN_INIT;
	int r;

	if (init_fd < 0)
		return init_fd;
	if (s->n_binds > NS_BINDS_MAX)
		return err_set(e, -E2BIG, "too many -v options: at most %d", NS_BINDS_MAX);
	if (s->n_lowers > ROOT_LOWERS_MAX)
		return err_set(e, -E2BIG, "the image has too many layers: at most %d", ROOT_LOWERS_MAX);
	r = ns_spawn(s, cg, init_fd, gv, &run, &sync, e);
	if (r == 0)
		r = fd_set_nonblock(run.stream, true);
	if (r == 0)
		r = attend(s, cg, m, &run, sync, e);
	if (r < 0) {
		fd_close(run.stream);
		wall_release(&run.wall);
		fd_close(run.ca_later[0]);
		fd_close(run.ca_later[1]);
		if (run.pid > 0) {
			kill(run.pid, SIGKILL);
			while (waitpid(run.pid, NULL, 0) < 0 && errno == EINTR)
				;
		}
		fd_close(run.pidfd);
		return r;
	}
	if (!gv)
		fill_layers(s, &run.layers);
	*ret = run;
	return 0;
}

static int ns_start(const struct spec *s, struct cgroup *cg, const struct engine_meanwhile *m,
		    struct engine_run *ret, struct err *e)
{
	return ns_start_with(s, cg, m, NULL, ret, e);
}

const struct engine engine_ns = { .name = "ns", .start = ns_start };
