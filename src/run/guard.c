/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both sides of the guard: guard_main() is the guard process; the functions from guard_start() on are the launcher's.
 *
 * The guard is a fork of the launcher: it first closes the descriptors and gives up the privileges that it does not need.
 */
#include "run/guard.h"

#include "base/fd.h"
#include "config/notify_file.h"
#include "ipc/fdpass.h"
#include "run/guard_wait.h"
#include "sandbox/state/layers.h"
#include "sys/fence/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>

#define CA_WAIT_MS 60000
#define END_WAIT_MS 30000 /* longer than the guard's own deadlines together (net.c, net_reader.c) */
#define CLAIM_TRIES 12000 /* a minute */
#define REPORT_MAX (4u << 20)

/* The guard must not hold the caller's terminal or pipes open, and no signal of the terminal may reach it. */
static void let_go_of_caller(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	for (int fd = 0; fd < 3; fd++) {
		if (null < 0 || dup2(null, fd) < 0)
			close(fd);
	}
	fd_close(null);
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	prctl(PR_SET_NAME, "coffer-guard");
	prctl(PR_SET_DUMPABLE, 0);
}

/* Keeps the capabilities that a confined launcher keeps: to kill, and to count and remove files of other owners. A disk image
 * needs a mount; the network's programs and the notifier (asknotify.h) run under ids of their own. */
static void give_up_privilege(const struct spec *s)
{
	uint64_t keep = 1ULL << CAP_KILL | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_FOWNER, have;
	struct err e = ERR_INIT;

	if (s->limits.l[LIMIT_DISK].named || s->limits.l[LIMIT_INODES].named)
		keep |= 1ULL << CAP_SYS_ADMIN;
	if (s->net != NET_NONE || config_notify_is_there())
		keep |= 1ULL << CAP_SETUID | 1ULL << CAP_SETGID;
	/* Not for an ordinary user: newuidmap, which removing files of its subordinate ids needs, is set-user-ID. */
	if (state_is_host_root() && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(1);
	if (caps_effective(&have, &e) < 0 || (have && caps_drop_all_but(have & keep, &e) < 0))
		_exit(1);
}

static void finish_for_launcher(struct run *r)
{
	struct err e = ERR_INIT;
	int fd = -EBUSY;

	/* -EBUSY may mean only that the kernel still closes the dead launcher's descriptors, which takes seconds on a busy
	 * machine, or that another process looks at the run. */
	for (int i = 0; i < CLAIM_TRIES && fd == -EBUSY; i++) {
		if (i)
			usleep(5000);
		fd = state_run_claim(r->st, r->spec->id, &e);
	}
	/* The directory was never made, or another process has swept it already. */
	if (fd < 0)
		return;
	fd_close(r->spec->run_fd);
	r->spec->run_fd = fd;
	r->end = (struct run_end){ .cause = CAUSE_CALLER, .exit_code = 137 };
	/* A copy whose layers were still being filled was never started. */
	if (r->origin.kind == RUN_COPIED && r->er.pid <= 0)
		r->end.cause = CAUSE_NOT_STARTED;
	/* The dead launcher may have logged run.start; a run.end too many is better than a missing one. */
	r->start_not_logged = false;
	/* There is no process to report a failure to; the next sweep finds what is left. */
	if (run_finish(r, &e) < 0)
		_exit(1);
}

/* Removing the overlay's work directories waits for the disk, so the guard does it while the launcher is busy with control
 * group and log. When both do it, each finds the other's work done. */
static void drop_overlay_work(void *ctx)
{
	const struct run *r = ctx;
	autoclose int run_fd =
		openat(r->st->runs_fd, r->spec->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (run_fd >= 0)
		layers_drop_work(run_fd);
	if (run_fd >= 0 && spec_has_root_layer(r->spec))
		layers_drop_root_work(run_fd);
}

/* Finishes other runs whose launcher and guard are dead. */
static void sweep_others(void *ctx)
{
	const struct run *r = ctx;
	struct err e = ERR_INIT;

	(void)!run_sweep(r->st, r->audit, &e);
}

/* Waits until the launcher is gone, where there is no memory for an event loop. */
static void wait_for_launcher(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

/* The launcher makes the terminal raw, and restores it; when it died first, the guard restores it. */
struct terminal {
	int fd; /* the guard's own copy, -1: none */
	struct termios before;
};

static struct terminal remember_terminal(int tty)
{
	struct terminal t = { .fd = tty >= 0 ? fcntl(tty, F_DUPFD_CLOEXEC, 3) : -1 };

	if (t.fd >= 0 && tcgetattr(t.fd, &t.before) < 0)
		t.fd = fd_close(t.fd);
	return t;
}

/* The message of guard_tell(), sent with a pidfd. */
struct sandbox_message {
	pid_t pid;
	uint32_t out_uid; /* host root: the first of the run's own ids */
};

/* The first message of the launcher is the sandbox. End of file instead means that the launcher died before it had one. */
_Noreturn static void guard_main(struct run *r, int fd)
{
	struct terminal tty = remember_terminal(r->tty);
	struct sandbox_message w;

	/* The directory of a resumed run carries the run's lock. The guard must be able to take that lock when the launcher is
	 * gone, so it closes its own descriptor of it. */
	run_origin_close(&r->origin);
	for (size_t i = 0; r->ports && i < r->ports->n; i++)
		r->ports->v[i].fd = fd_close(r->ports->v[i].fd);
	if (r->net)
		r->net->secrets.agent = fd_close(r->net->secrets.agent);
	let_go_of_caller();
	give_up_privilege(r->spec);
	if (fdpass_recv(fd, &w, sizeof(w), &r->er.pidfd, 1) == 0) {
		r->er.pid = w.pid;
		r->spec->ids.out_uid = w.out_uid;
		const struct net_config net = run_net_config(r);
		const struct net_calls calls = { .idle = sweep_others, .dead = drop_overlay_work, .ctx = r };

		if (r->net)
			r->net_over = net_guard(&net, fd, &calls);
		else if (guard_wait(r, fd, &calls) < 0)
			wait_for_launcher(fd);
	}
	if (tty.fd >= 0)
		tcsetattr(tty.fd, TCSANOW, &tty.before);
	finish_for_launcher(r);
	_exit(0);
}

int guard_start(struct guard *g, struct run *r, struct err *e)
{
	int sv[2];
	pid_t pid;

	g->agent = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, -errno, "cannot make a socket pair");
	pid = fork();
	if (pid < 0) {
		fd_close(sv[0]);
		fd_close(sv[1]);
		return err_sys(e, -errno, "cannot start the guard process");
	}
	if (pid == 0) {
		fd_close(sv[0]);
		guard_main(r, sv[1]);
	}
	fd_close(sv[1]);
	*g = (struct guard){ .pid = pid, .fd = sv[0], .agent = -1 };
	return 0;
}

int guard_tell(struct guard *g, pid_t pid, int pidfd, const struct ids *ids, struct err *e)
{
	const struct sandbox_message w = { pid, ids->host_root ? ids->out_uid : 0 };
	int r = fdpass_send(g->fd, &w, sizeof(w), &pidfd, 1);

	/* -EPIPE: the guard was killed. That is no reason to end a run whose launcher lives. */
	return r == 0 || r == -EPIPE ? 0 : err_sys(e, r, "cannot send the sandbox's pid to the guard");
}

int guard_net(struct guard *g, struct wall *w, struct err *e)
{
	int r = wall_send(g->fd, w);

	wall_release(w);
	return r < 0 ? err_sys(e, r, "cannot hand over the sandbox's network") : 0;
}

int guard_net_ca_files(struct guard *g, int fds[2], struct err *e)
{
	const struct net_msg m = { .type = NET_CA_FILES };
	int r = fdpass_send(g->fd, &m, sizeof(m), fds, 2);

	fds[0] = fd_close(fds[0]);
	fds[1] = fd_close(fds[1]);
	return r < 0 ? err_sys(e, r, "cannot hand over the files for a later certificate") : 0;
}

/* Receives one message of the guard; -EPIPE: the guard is gone. */
static int receive_guard_message(struct guard *g, int timeout_ms, struct net_msg *m, int *ret_fd)
{
	struct pollfd p = { .fd = g->fd, .events = POLLIN };
	size_t len = 0;
	int n;

	*ret_fd = -1;
	do {
		n = poll(&p, 1, timeout_ms);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -ETIMEDOUT;
	n = fdpass_recv_some(g->fd, m, sizeof(*m), &len, ret_fd, 1);
	if (n < 0)
		return n;
	if (len != sizeof(*m) || m->type >= NET_MSG_COUNT) {
		*ret_fd = fd_close(*ret_fd);
		return -EPROTO;
	}
	m->text[sizeof(m->text) - 1] = '\0';
	return 0;
}

int guard_net_ca(struct guard *g, struct err *e)
{
	for (;;) {
		autoclose int fd = -1;
		struct net_msg m;
		int r = receive_guard_message(g, CA_WAIT_MS, &m, &fd);

		if (r < 0)
			return err_sys(e, r, "the sandbox's certificate authority was not made");
		if (m.type == NET_FAILED)
			return err_set(e, -EIO, "%s", m.text);
		if (m.type == NET_CA && fd >= 0)
			return TAKE_FD(fd);
		if (m.type == NET_AGENT && fd >= 0) {
			fd_close(g->agent);
			g->agent = TAKE_FD(fd);
		}
	}
}

static void read_net_report(int fd, struct buf *ret)
{
	if (fd >= 0 && (lseek(fd, 0, SEEK_SET) < 0 || fd_read_all(fd, REPORT_MAX, ret) < 0))
		buf_clear(ret);
}

bool guard_net_end(struct guard *g, void (*say)(void *ctx, enum net_level level, const char *text), void *ctx,
		   struct buf *ret_report)
{
	struct net_msg m = { .type = NET_END };
	char line[NET_MSG_TEXT];

	/* The network ended with a guard that is gone, and run_finish() logs what is in its journals. */
	if (fdpass_send(g->fd, &m, sizeof(m), NULL, 0) < 0)
		return false;
	for (;;) {
		autoclose int fd = -1;

		if (receive_guard_message(g, END_WAIT_MS, &m, &fd) < 0)
			return false;
		if (m.type == NET_SAY) {
			net_say_format(&m, line);
			say(ctx, (enum net_level)m.level, line);
		}
		if (m.type == NET_ENDED) {
			read_net_report(fd, ret_report);
			return m.level == NET_ALL_LOGGED;
		}
	}
}

void guard_stop(struct guard *g)
{
	if (g->pid < 0)
		return;
	kill(g->pid, SIGKILL);
	while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	fd_close(g->fd);
	*g = GUARD_INIT;
}
