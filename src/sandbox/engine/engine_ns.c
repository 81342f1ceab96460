/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine ns, the launcher's side: forks a child into new namespaces (ns_inside.c), writes its id maps, hands it its trees
 * and its control group, and waits for its exec of coffer-init. Engine gvisor uses the same functions (engine_ns.h).
 *
 * Messages of the child are read only here. It is still trusted code while it sends them: nothing of the sandbox runs
 * before its exec, which closes the socket.
 */
#include "sandbox/engine/engine_ns.h"

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

/* Opens a tree of the host for a sandbox that root starts: an idmapped mount shows its owners as the sandbox's ids. */
static int open_idmapped_tree(int fd, int userns, const char *path, struct layers *l, struct err *e)
{
	autoclose int tree = mnt_tree(fd, "", true);
	int r;

	if (tree < 0)
		return err_sys(e, tree, "cannot open %s for the sandbox", path);
	r = mnt_idmap(tree, userns);
	if (r == 0)
		l->idmapped = true;
	/* On a file system without idmapped mounts the files belong to nobody inside: less useful, no less safe. */
	else if (r != -EINVAL && r != -EOPNOTSUPP)
		return err_sys(e, r, "cannot map the owners of %s", path);
	return TAKE_FD(tree);
}

/* The descriptors that go with "go": files of control groups, which stay the group's own, then trees, which are closed
 * once they are sent. */
struct handed {
	int fds[CGROUP_CTL_COUNT + NS_TREES_MAX];
	size_t n;
	int userns;
	struct layers *layers;
};

static int add_tree(struct handed *h, int fd, const char *path, struct err *e)
{
	int tree = open_idmapped_tree(fd, h->userns, path, h->layers, e);

	if (tree < 0)
		return tree;
	h->fds[h->n++] = tree;
	return 0;
}

static int add_host_root_trees(const struct spec *s, struct handed *h, struct err *e)
{
	int r = s->ws_fd >= 0 ? add_tree(h, s->ws_fd, s->ws_path, e) : 0;

	if (r == 0 && spec_needs_layers(s))
		r = add_tree(h, s->layers_fd, s->run_path, e);
	if (r == 0 && s->home_fd >= 0)
		r = add_tree(h, s->home_fd, s->home_path, e);
	if (r == 0 && s->from_fd >= 0)
		r = add_tree(h, s->from_fd, s->run_path, e);
	for (size_t i = 0; r == 0 && i < s->n_binds; i++)
		r = add_tree(h, s->binds[i].fd, s->binds[i].src, e);
	for (size_t i = 0; r == 0 && i < s->n_lowers; i++)
		r = add_tree(h, s->lowers[i].fd, s->lowers[i].path, e);
	return r;
}

static int send_mapped(const struct spec *s, int sync, pid_t pid, struct err *e)
{
	char c = NS_SYNC_MAPPED;
	int r = ids_write_maps(&s->ids, pid, e);

	if (r < 0)
		return r;
	r = fdpass_send(sync, &c, 1, NULL, 0);
	return r < 0 ? err_sys(e, r, "cannot send the sandbox its ids") : 0;
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
		r = add_host_root_trees(s, &h, e);
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

/* A message of the child while it builds; told apart by their lengths. */
union child_message {
	struct err err;
	struct ns_ready ready;
	struct ns_ca_later ca;
	char wall[WALL_WORD];
};

static_assert(sizeof(struct ns_ca_later) != WALL_WORD, "they are told apart by their length");

static int take_child_message(struct engine_run *run, const union child_message *m, size_t len,
			      const int *fds, size_t n, struct err *e)
{
	struct layers *l = &run->layers;

	if (len == sizeof(m->wall) && run->wall.tcp4 < 0 && wall_unpack(m->wall, fds, n, &run->wall) == 0)
		return 0;
	if (len == sizeof(m->ca) && n == ROOTFS_CA_FILES && m->ca.type[0] == NS_SYNC_CA &&
	    run->ca_later[0] < 0) {
		memcpy(run->ca_later, fds, sizeof(run->ca_later));
		return 0;
	}
	if (len == sizeof(m->ready) && !l->engine) {
		l->landlock_abi = m->ready.landlock_abi;
		l->cgroupns = m->ready.cgroupns;
		l->timens = m->ready.timens;
		l->engine = "ns";
		return 0;
	}
	if (len == sizeof(m->err)) {
		*e = m->err;
		return e->code < 0 ? e->code : -EIO;
	}
	return err_set(e, -EPROTO, "the sandbox died while it was being built");
}

/* Receives one message of the child. 1: the socket was closed instead; *e is not set then. */
static int receive_child_message(struct engine_run *run, struct err *e)
{
	union child_message m;
	int fds[WALL_FDS], n;
	size_t len = 0;

	/* The kernel reports a reset once, ahead of the messages, when the child died with some of ours unread. */
	do {
		n = fdpass_recv_some(run->sync, &m, sizeof(m), &len, fds, ARRAY_SIZE(fds));
	} while (n == -ECONNRESET);
	if (n == -EPIPE)
		return 1;
	if (n < 0)
		return err_set(e, -EPIPE, "the sandbox died while it was being built");
	return take_child_message(run, &m, len, fds, (size_t)n, e);
}

/* Waits for the child's exec, which closes the socket, before it reads the messages: one wake-up, not two. */
static int wait_for_exec(struct engine_run *run, bool wants_wall, struct err *e)
{
	struct pollfd p = { .fd = run->sync };
	int r;

	while (poll(&p, 1, -1) < 0) {
		if (errno != EINTR)
			return err_sys(e, -errno, "cannot wait for the sandbox");
	}
	while ((r = receive_child_message(run, e)) == 0)
		;
	if (r < 0)
		return r;
	/* ns_inside.N2: closed without "ready" is no exec. */
	if (!run->layers.engine || wants_wall != (run->wall.tcp4 >= 0))
		return err_set(e, -EPIPE, "the sandbox died while it was being built");
	run->sync = fd_close(run->sync);
	return 0;
}

/* For a send that failed with r: a child that failed first has sent its own reason, which says more. */
static int child_failure(struct engine_run *run, int r, struct err *e)
{
	int why;

	if (r != -EPIPE && r != -ESRCH)
		return r;
	why = wait_for_exec(run, false, e);
	return why < 0 ? why : r;
}

static int clone_error(int r, struct err *e)
{
	bool refused = r == -EPERM;

	r = err_sys(e, r, "cannot make the sandbox's namespaces");
	return err_hint(e, r, "`coffer doctor` tells what this host allows, and how to change it%s",
			refused ? " (in a chroot the kernel makes no user namespaces)" : "");
}

/* Forks the child; run gets the launcher's ends of both sockets. */
static int fork_child(const struct spec *s, struct cgroup *cg, int init_fd, const struct gv_start *gv,
		      struct engine_run *run, struct err *e)
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
	run->sync = sync[0];
	pid = ns_fork(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID, cgroup_fd, &run->pidfd);
	if (pid == 0) {
		struct ns_inside in = { s, sync[1], stream[1], init_fd, gv };

		fd_close(sync[0]);
		fd_close(stream[0]);
		ns_inside(&in);
	}
	fd_close(sync[1]);
	fd_close(stream[1]);
	if (pid < 0)
		return clone_error(pid, e);
	run->pid = pid;
	return fd_set_nonblock(run->stream, true);
}

int ns_spawn_with(const struct spec *s, struct cgroup *cg, const struct gv_start *gv, struct engine_run *run,
		  struct err *e)
{
	autoclose int init_fd = helper_open("coffer-init", e);
	int r;

	if (init_fd < 0)
		return init_fd;
	if (s->n_binds > NS_BINDS_MAX)
		return err_set(e, -E2BIG, "too many -v options: at most %d", NS_BINDS_MAX);
	if (s->n_lowers > ROOT_LOWERS_MAX)
		return err_set(e, -E2BIG, "the image has too many layers: at most %d", ROOT_LOWERS_MAX);
	r = fork_child(s, cg, init_fd, gv, run, e);
	if (r == 0 && s->ids.range) {
		r = send_mapped(s, run->sync, run->pid, e);
		r = r < 0 ? child_failure(run, r, e) : 0;
	}
	return r;
}

static int ns_spawn(const struct spec *s, struct cgroup *cg, struct engine_run *run, struct err *e)
{
	return ns_spawn_with(s, cg, NULL, run, e);
}

int ns_release(const struct spec *s, const struct cgroup *cg, struct engine_run *run, struct err *e)
{
	int r = send_go(s, cg, run->sync, run->pid, &run->layers, e);

	return r < 0 ? child_failure(run, r, e) : 0;
}

int engine_wait_wall(struct engine_run *run, struct err *e)
{
	int r = receive_child_message(run, e);

	return r > 0 ? err_set(e, -EPIPE, "the sandbox died while it was being built") : r;
}

int engine_give_ca(struct engine_run *run, int ca_fd, struct err *e)
{
	char c = NS_SYNC_CA;
	int r = fdpass_send(run->sync, &c, 1, &ca_fd, 1);

	/* -EPIPE: the child failed, and wait_ready() reads its reason. */
	return r < 0 && r != -EPIPE ? err_sys(e, r, "cannot hand the sandbox its certificate") : 0;
}

int ns_wait_exec(const struct spec *s, struct engine_run *run, struct err *e)
{
	/* Where spec->ca the wall has a new owner already. */
	return wait_for_exec(run, s->net != NET_NONE && !s->ca, e);
}

static int ns_wait_ready(const struct spec *s, struct engine_run *run, struct err *e)
{
	struct layers *l = &run->layers;
	int r = ns_wait_exec(s, run, e);

	if (r < 0)
		return r;
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
	return 0;
}

void engine_drop(struct engine_run *run)
{
	fd_close(run->stream);
	fd_close(run->sync);
	wall_release(&run->wall);
	fd_close(run->ca_later[0]);
	fd_close(run->ca_later[1]);
	if (run->pid > 0) {
		kill(run->pid, SIGKILL);
		while (waitpid(run->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	fd_close(run->pidfd);
	fd_close(run->log);
	*run = ENGINE_RUN_INIT;
}

const struct engine engine_ns = {
	.name = "ns", .spawn = ns_spawn, .release = ns_release, .wait_ready = ns_wait_ready
};
