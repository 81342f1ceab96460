/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard's side of compiling a changed policy (net_compile.h): starts the child, ends one that is late or no longer
 * wanted, and takes its result out of a memory file that nobody writes to any more. It must not wait for a child that may
 * hang, nor open a file that the child names.
 */
#include "netd/serve/net_compile.h"
#include "base/clock.h"
#include "base/fd.h"
#include "netd/serve/net_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define COMPILE_WITHIN 10 /* s */
#define LET_GO_MAX 4	  /* net_compile.C3 */
#define PROXIES_MAX (64u << 20)
#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct net_compiler {
	struct net_guard *g;
	struct watch w_pid; /* its pidfd */
	int files[2];	    /* result, and the proxies' credentials */
	bool is_let_go;	    /* killed, and its result is not wanted */
};

static void free_compiler(struct net_compiler *c)
{
	loop_unwatch(&c->g->loop, &c->w_pid);
	fd_close(c->w_pid.fd);
	fd_close(c->files[0]);
	fd_close(c->files[1]);
	free(c);
}

/* Reaps it. Without an error it has done what it was to do. */
static int reap_compiler(const struct net_compiler *c, struct err *e)
{
	siginfo_t si = { 0 };

	while (waitid(P_PIDFD, (id_t)c->w_pid.fd, &si, WEXITED) < 0 && errno == EINTR)
		;
	if (si.si_pid == 0)
		return err_set(e, -EIO, "the process that compiles the policy ended with an unknown status");
	if (si.si_code != CLD_EXITED)
		return err_set(e, -EIO, "the process that compiles the policy was killed by signal %d (%s)",
			       si.si_status, strsignal(si.si_status));
	if (si.si_status != 0)
		return err_set(e, -EIO, "the process that compiles the policy ended with status %d",
			       si.si_status);
	return 0;
}

/* The child has ended, and no other process has the file. */
static int take_result(const struct net_compiler *c, struct net_compiled *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct stat st;
	ssize_t n;
	char *to;

	if (fstat(c->files[0], &st) < 0)
		return err_sys(e, -errno, "cannot read the compiled policy");
	if (st.st_size < 0 || (size_t)st.st_size > NET_COMPILED_MAX)
		return err_set(e, -EFBIG, "the compiled policy is too large");
	to = buf_reserve(&b, (size_t)st.st_size + 1);
	if (!to)
		return err_set(e, -ENOMEM, "out of memory");
	n = fd_read_at(c->files[0], to, (size_t)st.st_size, 0);
	if (n < 0)
		return err_sys(e, (int)n, "cannot read the compiled policy");
	b.len += (size_t)n;
	b.data[b.len] = '\0';
	return net_compiled_parse(&b, ret, e);
}

/* The credentials go on to coffer-dial unread. */
static int take_credentials(struct net_compiler *c, struct err *e)
{
	struct stat st;

	if (fstat(c->files[1], &st) < 0 || lseek(c->files[1], 0, SEEK_SET) < 0 ||
	    fcntl(c->files[1], F_ADD_SEALS, SEALS) < 0)
		return err_sys(e, -errno, "cannot hand over the proxies' credentials");
	if (st.st_size > PROXIES_MAX)
		return err_set(e, -EFBIG, "the proxies' credentials have more than %u MiB",
			       PROXIES_MAX >> 20);
	return TAKE_FD(c->files[1]);
}

static void on_compiler_end(struct watch *w, uint32_t events)
{
	struct net_compiler *c = w->ctx;
	struct net_guard *g = c->g;
	CLEANUP(net_compiled_release) struct net_compiled result = NET_COMPILED_INIT;
	autoclose int credentials = -1;
	struct err e = ERR_INIT;
	int r = reap_compiler(c, &e);

	(void)events;
	if (c->is_let_go) {
		g->n_let_go--;
		free_compiler(c);
		return;
	}
	g->compiler = NULL;
	loop_timer_off(&g->loop, &g->t_compile);
	r = r < 0 ? r : take_result(c, &result, &e);
	r = credentials = r < 0 ? r : take_credentials(c, &e);
	free_compiler(c);
	net_reload_compiled(g, r < 0 ? NULL : &result, &credentials, &e);
}

/* net_compile.C3. What it has written is freed with it. */
static void let_go(struct net_compiler *c)
{
	syscall(SYS_pidfd_send_signal, c->w_pid.fd, SIGKILL, NULL, 0);
	c->is_let_go = true;
	c->g->n_let_go++;
	c->files[0] = fd_close(c->files[0]);
	c->files[1] = fd_close(c->files[1]);
}

static int fork_compiler(struct net_compiler *c, enum net_compile_job job, struct err *e)
{
	pid_t pid, self = getpid();

	c->files[0] = memfile_make("compiled", NULL, 0, false, e);
	c->files[1] = c->files[0] < 0 ? -1 : memfile_make("proxy-sets", NULL, 0, false, e);
	if (c->files[1] < 0)
		return e->code;
	pid = fork();
	if (pid < 0)
		return err_sys(e, -errno, "cannot start the process that compiles the policy");
	if (pid == 0)
		net_compile_child(c->g->c.plan, job, c->files, self);
	c->w_pid.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (c->w_pid.fd >= 0 && loop_watch(&c->g->loop, &c->w_pid, EPOLLIN) == 0)
		return 0;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return err_set(e, -ENOMEM, "cannot watch the process that compiles the policy");
}

static struct net_compiler *start_compiler(struct net_guard *g, enum net_compile_job job, struct err *e)
{
	struct net_compiler *c;

	if (g->n_let_go >= LET_GO_MAX) {
		err_set(e, -EBUSY,
			"%u processes that compiled the policy hang since they were killed: is a file system gone?",
			g->n_let_go);
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		err_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	c->g = g;
	c->w_pid = (struct watch){ .fd = -1, .fn = on_compiler_end, .ctx = c };
	c->files[0] = c->files[1] = -1;
	if (fork_compiler(c, job, e) < 0) {
		free_compiler(c);
		return NULL;
	}
	return c;
}

void net_compile_stop(struct net_guard *g)
{
	loop_timer_off(&g->loop, &g->t_compile);
	if (g->compiler)
		let_go(g->compiler);
	g->compiler = NULL;
}

static int report_late(struct err *e)
{
	return err_set(e, -ETIMEDOUT, "compiling the policy took longer than %d s", COMPILE_WITHIN);
}

static void on_compile_deadline(struct timer *t)
{
	struct net_guard *g = t->ctx;
	struct err e = ERR_INIT;
	int none = -1;

	net_compile_stop(g);
	report_late(&e);
	net_reload_compiled(g, NULL, &none, &e);
}

void net_compile_start(struct net_guard *g)
{
	struct err e = ERR_INIT;
	int none = -1;

	net_compile_stop(g);
	g->compiler = start_compiler(g, NET_COMPILE_POLICY, &e);
	if (!g->compiler) {
		net_reload_compiled(g, NULL, &none, &e);
		return;
	}
	g->t_compile = (struct timer){ .fn = on_compile_deadline, .ctx = g };
	loop_timer(&g->loop, &g->t_compile, clock_nsec(CLOCK_MONOTONIC) + COMPILE_WITHIN * NSEC_PER_SEC);
}

/* The result of a child that was waited for. */
static int take_credentials_alone(struct net_compiler *c, struct err *e)
{
	CLEANUP(net_compiled_release) struct net_compiled result = NET_COMPILED_INIT;
	int r = reap_compiler(c, e);

	r = r < 0 ? r : take_result(c, &result, e);
	if (r == 0 && result.outcome == NET_COMPILED_BROKEN)
		r = err_set(e, -EIO, "%s", result.error);
	r = r < 0 ? r : take_credentials(c, e);
	free_compiler(c);
	return r;
}

int net_compile_credentials(struct net_guard *g, struct err *e)
{
	struct net_compiler *c = start_compiler(g, NET_COMPILE_CREDENTIALS, e);
	struct pollfd p = { .fd = c ? c->w_pid.fd : -1, .events = POLLIN };
	int n;

	if (!c)
		return e->code;
	do {
		n = poll(&p, 1, COMPILE_WITHIN * 1000);
	} while (n < 0 && errno == EINTR);
	if (n == 1)
		return take_credentials_alone(c, e);
	let_go(c);
	return report_late(e);
}
