/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/engine/gv_inside.h"

#include "base/fd.h"
#include "ipc/fdpass.h"
#include "sandbox/engine/gv_config.h"
#include "sys/fence/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FD_STREAM = GV_STREAM_FD, FD_INIT, FD_LOG, FD_RUNSC, FD_COUNT };

/* Puts descriptors where the command line below says they are. None of them is closed by exec but runsc's own. */
static int arrange_fds(const struct ns_inside *in, int init_fd, struct err *e)
{
	int want[FD_COUNT] = {
		[FD_STREAM] = in->stream, [FD_LOG] = in->gv->log_fd, [FD_RUNSC] = in->gv->runsc_fd
	};
	int moved[FD_COUNT];
	char path[32];
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* The program itself is read by gVisor's loader, so a mere place of it does not do. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", init_fd);
	want[FD_INIT] = open(path, O_RDONLY | O_CLOEXEC);
	if (want[FD_INIT] < 0)
		return err_sys(e, -errno, "cannot open coffer-init for gVisor");
	/* Out of the way first: one may stand where another goes. */
	for (int i = FD_STREAM; i < FD_COUNT; i++) {
		moved[i] = fcntl(want[i], F_DUPFD_CLOEXEC, FD_COUNT + 64);
		if (moved[i] < 0)
			return err_sys(e, -errno, "cannot arrange descriptors");
	}
	if (null < 0 || dup2(null, 0) < 0 || dup2(moved[FD_LOG], 1) < 0 || dup2(moved[FD_LOG], 2) < 0)
		return err_sys(e, -errno, "cannot arrange descriptors");
	if (syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) < 0)
		return err_sys(e, -errno, "cannot close inherited descriptors");
	for (int i = FD_STREAM; i < FD_RUNSC; i++) {
		if (dup2(moved[i], i) < 0)
			return err_sys(e, -errno, "cannot arrange descriptors");
	}
	return moved[FD_RUNSC];
}

/*
 * gVisor sets the modes that a command asks for, on the host's own files. What is bound through is the host's to use, and
 * a setuid file there would be one on the host. The lock is around runsc, so what broke out of gVisor has it too.
 */
static int lock_setid(const struct spec *s, struct err *e)
{
	struct sock_filter insns[SECCOMP_MAX_INSNS];
	bool bound = s->ws_mode == WS_RW;
	size_t n;
	int r;

	for (size_t i = 0; i < s->n_binds; i++)
		bound = bound || s->binds[i].writable;
	if (!bound)
		return 0;
	r = seccomp_compile_setid(insns, ARRAY_SIZE(insns), &n, e);
	return r < 0 ? r : seccomp_install(insns, n, e);
}

/* The outer limit of processes where no control group counts them; where one does it comes first, for it tells. */
static int limit_tasks(const struct spec *s, struct err *e)
{
	uint64_t pids = s->limits.l[LIMIT_PIDS].value, most = gv_tasks(pids) + 64;
	struct rlimit l;

	if (pids == LIMIT_NONE)
		return 0;
	if (getrlimit(RLIMIT_NPROC, &l) < 0)
		return err_sys(e, -errno, "cannot read the limit of processes");
	if (l.rlim_max > most)
		l.rlim_max = most;
	l.rlim_cur = l.rlim_max;
	return setrlimit(RLIMIT_NPROC, &l) < 0 ? err_sys(e, -errno, "cannot limit processes") : 0;
}

/*
 * How many names gVisor remembers. Its own number, a thousand, is less than a source tree has, and every name beyond it
 * costs a round trip to the host each time. Each holds a descriptor, so it depends on how many there may be.
 */
static void set_dcache(char *arg, size_t cap)
{
	struct rlimit l = { 0 };
	uint64_t n;

	getrlimit(RLIMIT_NOFILE, &l);
	n = l.rlim_max / 4;
	n = n < 1000 ? 1000 : n > 16000 ? 16000 : n;
	snprintf(arg, cap, "--dcache=%llu", (unsigned long long)n);
}

static const char *network(const struct spec *s)
{
	if (s->net == NET_NONE)
		return "--network=none";
	return s->gv_hostnet ? "--network=host" : "--network=sandbox";
}

int gv_exec(const struct ns_inside *in, int init_fd, struct err *e)
{
	/* The sync socket goes with exec, which is how the launcher knows; it may stand where a descriptor goes. */
	int sync = fcntl(in->sync, F_DUPFD_CLOEXEC, FD_COUNT + 32);
	struct ns_ready ready = { 0 };
	char dcache[32];
	static const char root[] = "--root=" GV_STATE, bundle[] = "--bundle=" GV_BUNDLE;
	const char *const argv[] = {
		"runsc",
		root,
		"--platform=systrap",
		network(in->spec),
		"--ignore-cgroups",
		"--overlay2=none",
		gv_directfs(in->spec) ? "--directfs=true" : "--directfs=false",
		"--file-access=exclusive",
		"--file-access-mounts=shared",
		"--host-uds=none",
		"--host-fifo=none",
		dcache,
		"--log-fd=5",
		"--log-format=text",
		"--panic-log=/proc/self/fd/5",
		"run",
		bundle,
		"--pass-fd=3:3",
		"--exec-fd=4",
		in->spec->id,
		NULL,
	};
	char *envp[] = { NULL };
	int runsc;

	set_dcache(dcache, sizeof(dcache));

	if (sync < 0) {
		err_sys(e, -errno, "cannot arrange descriptors");
		return in->sync;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		err_sys(e, -errno, "cannot set no_new_privs");
		return sync;
	}
	runsc = arrange_fds(in, init_fd, e);
	if (runsc < 0 || limit_tasks(in->spec, e) < 0 || lock_setid(in->spec, e) < 0 ||
	    fdpass_send(sync, &ready, sizeof(ready), NULL, 0) < 0)
		return sync;
	syscall(SYS_execveat, runsc, "", argv, envp, AT_EMPTY_PATH);
	err_sys(e, -errno, "cannot start runsc");
	return sync;
}
