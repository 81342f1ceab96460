/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Becoming runsc: descriptors, limits, the command line, exec. See gv_inside.h. runsc must not get a
 * descriptor that it is not told of, nor a variable (gv_inside.G1).
 */
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

/* Puts the descriptors where runsc's command line expects them. All of them but that of runsc's program survive exec. */
static int arrange_runsc_fds(const struct ns_inside *in, int init_fd, struct err *e)
{
	int want[FD_COUNT] = {
		[FD_STREAM] = in->stream, [FD_LOG] = in->gv->log_fd, [FD_RUNSC] = in->gv->runsc_fd
	};
	int moved[FD_COUNT];
	char path[32];
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* gVisor's loader reads the program, so an O_PATH descriptor is not enough. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", init_fd);
	want[FD_INIT] = open(path, O_RDONLY | O_CLOEXEC);
	if (want[FD_INIT] < 0)
		return err_sys(e, -errno, "cannot open coffer-init for gVisor");
	/* Moved out of the way first: one may have the number that another needs. */
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
 * gVisor sets the modes that a command asks for on the host's own files. In a writable bind, a setuid file would be one on
 * the host. The filter is around runsc, so a command that broke out of gVisor is under it too.
 */
static int deny_setid_modes(const struct spec *s, struct err *e)
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

/* The outer limit of processes where no control group counts them. Where one does, its limit is lower: it reports refusals. */
static int limit_host_tasks(const struct spec *s, struct err *e)
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
 * The size of gVisor's cache of names. Its default, a thousand, is less than a source tree has, and every name beyond it
 * costs a round trip to the host each time. Each entry holds a descriptor, so the size depends on their limit.
 */
static void format_dcache(char *arg, size_t cap)
{
	struct rlimit l = { 0 };
	uint64_t n;

	getrlimit(RLIMIT_NOFILE, &l);
	n = l.rlim_max / 4;
	n = n < 1000 ? 1000 : n > 16000 ? 16000 : n;
	snprintf(arg, cap, "--dcache=%llu", (unsigned long long)n);
}

static const char *network_option(const struct spec *s)
{
	if (s->net == NET_NONE)
		return "--network=none";
	return s->gv_hostnet ? "--network=host" : "--network=sandbox";
}

int gv_exec(const struct ns_inside *in, int init_fd, struct err *e)
{
	/* Exec closes the sync socket, which tells the launcher. It may have a number that another descriptor needs. */
	int sync = fcntl(in->sync, F_DUPFD_CLOEXEC, FD_COUNT + 32);
	struct ns_ready ready = { 0 };
	char dcache[32];
	static const char root[] = "--root=" GV_STATE, bundle[] = "--bundle=" GV_BUNDLE;
	const char *const argv[] = {
		"runsc",
		root,
		"--platform=systrap",
		network_option(in->spec),
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

	format_dcache(dcache, sizeof(dcache));

	if (sync < 0) {
		err_sys(e, -errno, "cannot arrange descriptors");
		return in->sync;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		err_sys(e, -errno, "cannot set no_new_privs");
		return sync;
	}
	runsc = arrange_runsc_fds(in, init_fd, e);
	if (runsc < 0 || limit_host_tasks(in->spec, e) < 0 || deny_setid_modes(in->spec, e) < 0 ||
	    fdpass_send(sync, &ready, sizeof(ready), NULL, 0) < 0)
		return sync;
	syscall(SYS_execveat, runsc, "", argv, envp, AT_EMPTY_PATH);
	err_sys(e, -errno, "cannot start runsc");
	return sync;
}
