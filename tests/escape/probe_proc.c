/* SPDX-License-Identifier: Apache-2.0 */
/* Other processes: those of the host, and pid 1 of the sandbox, which holds the stream to the launcher. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static pid_t world_pid(void)
{
	return (pid_t)param_num("pid");
}

/* An address of another process. */
static void *remote_address(const char *hex)
{
	return (void *)(uintptr_t)strtoull(hex, NULL, 16); /* NOLINT(performance-no-int-to-ptr) */
}

/* The world's process carries its secret in its command line. */
static enum verdict p_process_list(void)
{
	const char *secret = param("secret");
	autoclosedir DIR *d = opendir("/proc");

	if (!d)
		return held();
	for (struct dirent *de = readdir(d); de; de = readdir(d)) {
		char path[4096], text[4096];
		long n;

		if (de->d_name[0] < '0' || de->d_name[0] > '9')
			continue;
		n = read_small(path_f(path, "/proc/%s/cmdline", de->d_name), text, sizeof(text));
		if (n > 0 && memmem(text, (size_t)n, secret, strlen(secret)))
			return broken("process %s of the host is visible", de->d_name);
	}
	return held_for("not in /proc");
}

static enum verdict p_process_stat(void)
{
	char path[4096], text[4096];
	const char *secret = param("secret");
	long n = read_small(path_f(path, "/proc/%d/cmdline", world_pid()), text, sizeof(text));

	if (n < 0)
		return held();
	if (!memmem(text, (size_t)n, secret, strlen(secret)))
		return held_for("another process has that number here");
	return broken("read the command line of a process of the host");
}

static enum verdict p_process_environ(void)
{
	char path[4096];

	return read_secret(path_f(path, "/proc/%d/environ", world_pid()));
}

static enum verdict p_signal_pid(void)
{
	if (kill(world_pid(), SIGUSR1) < 0)
		return held();
	return asks("sigusr1");
}

/* SIGURG is ignored by whoever does not ask for it. */
static enum verdict p_signal_all(void)
{
	if (kill(-1, SIGURG) < 0)
		return held();
	return asks("sigurg");
}

static enum verdict p_signal_thread(void)
{
	if (syscall(SYS_tgkill, world_pid(), world_pid(), SIGUSR2) < 0)
		return held();
	return asks("sigusr2");
}

static enum verdict p_signal_queue(void)
{
	siginfo_t si = { .si_code = SI_QUEUE };

	if (syscall(SYS_rt_sigqueueinfo, world_pid(), SIGCONT, &si) < 0)
		return held();
	return asks("sigcont");
}

/* The kernel sends the signal for us when the descriptor becomes readable. */
static enum verdict p_signal_fown(void)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0 || fcntl(p[0], F_SETOWN, world_pid()) < 0)
		return held();
	if (fcntl(p[0], F_SETFL, O_ASYNC) < 0 || write(p[1], "x", 1) < 0)
		return held();
	return asks("sigio");
}

static enum verdict p_pidfd_open(void)
{
	autoclose int fd = (int)syscall(SYS_pidfd_open, world_pid(), 0);

	if (fd < 0)
		return held();
	if (syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0) < 0)
		return held();
	return asks("sigusr1");
}

static enum verdict p_ptrace_host(void)
{
	if (ptrace(PTRACE_SEIZE, world_pid(), 0, 0) < 0)
		return held();
	ptrace(PTRACE_DETACH, world_pid(), 0, 0);
	return broken("traced a process of the host");
}

static enum verdict p_vm_read(void)
{
	char here[256] = "";
	const char *secret = param("secret");
	struct iovec local = { here, sizeof(here) - 1 };
	struct iovec remote = { remote_address(param("address")), sizeof(here) - 1 };

	if (process_vm_readv(world_pid(), &local, 1, &remote, 1, 0) < 0)
		return held();
	return memmem(here, sizeof(here), secret, strlen(secret))
		       ? broken("read the memory of a process of the host")
		       : held_for("read something else");
}

static enum verdict p_vm_write(void)
{
	char here[] = "changed";
	struct iovec local = { here, sizeof(here) };
	struct iovec remote = { remote_address(param("scratch")), sizeof(here) };

	if (process_vm_writev(world_pid(), &local, 1, &remote, 1, 0) < 0)
		return held();
	return asks("memory");
}

static enum verdict p_host_fd_steal(void)
{
	autoclose int pidfd = (int)syscall(SYS_pidfd_open, world_pid(), 0);

	if (pidfd < 0)
		return held();
	return judge(syscall(SYS_pidfd_getfd, pidfd, 1, 0), "took a descriptor of a process of the host");
}

static enum verdict p_host_priority(void)
{
	int now;

	/* One more than it has, which anybody may ask for: the tests themselves may run with a low priority. */
	errno = 0;
	now = getpriority(PRIO_PROCESS, (id_t)world_pid());
	if ((now == -1 && errno) || setpriority(PRIO_PROCESS, (id_t)world_pid(), now + 1) < 0)
		return held();
	return asks("nice");
}

static enum verdict p_host_affinity(void)
{
	cpu_set_t set;

	if (sched_getaffinity(world_pid(), sizeof(set), &set) < 0)
		return held();
	return judge(sched_setaffinity(world_pid(), sizeof(set), &set), "moved a process of the host");
}

static enum verdict p_host_rlimit(void)
{
	struct rlimit rl = { 0 };

	return judge(prlimit(world_pid(), RLIMIT_CORE, NULL, &rl),
		     "read the limits of a process of the host");
}

static enum verdict p_init_ptrace(void)
{
	return judge(ptrace(PTRACE_SEIZE, 1, 0, 0), "traced pid 1");
}

static enum verdict p_init_mem(void)
{
	autoclose int fd = open("/proc/1/mem", O_RDWR | O_CLOEXEC);

	return judge(fd, "opened the memory of pid 1");
}

static enum verdict p_init_vm_read(void)
{
	char here[16];
	struct iovec local = { here, sizeof(here) };
	struct iovec remote = { remote_address("10000"), sizeof(here) };

	/* A wrong address is seen only after the permission: EFAULT would mean that it was given. */
	return judge_permission(process_vm_readv(1, &local, 1, &remote, 1, 0), EFAULT, 0,
				"read the memory of pid 1");
}

static enum verdict p_init_environ(void)
{
	char text[4096];
	long n = read_small("/proc/1/environ", text, sizeof(text));

	if (n < 0)
		return held();
	return n ? broken("read %ld bytes of pid 1's environment", n) : held_for("empty");
}

/* Their numbers tell nothing; what they are would. */
static enum verdict p_init_fds(void)
{
	for (int i = 0; i < 64; i++) {
		char path[4096], target[256];
		ssize_t n = readlink(path_f(path, "/proc/1/fd/%d", i), target, sizeof(target));

		if (n > 0)
			return broken("descriptor %d of pid 1 is %.*s", i, (int)n, target);
		if (errno != ENOENT)
			return held();
	}
	return held();
}

static enum verdict p_init_fd_open(void)
{
	for (int i = 0; i < 64; i++) {
		char path[4096];
		autoclose int fd =
			open(path_f(path, "/proc/1/fd/%d", i), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

		if (fd >= 0 || errno == ENXIO)
			return broken("opened descriptor %d of pid 1", i);
	}
	return held();
}

static enum verdict p_init_fd_steal(void)
{
	autoclose int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
	int fd = -1;

	if (pidfd < 0)
		return held();
	for (int i = 0; i < 64; i++) {
		fd = (int)syscall(SYS_pidfd_getfd, pidfd, i, 0);
		if (fd >= 0)
			return broken("took descriptor %d of pid 1", i);
		if (errno != EBADF)
			break;
	}
	return held();
}

static enum verdict p_init_maps(void)
{
	char text[512];
	long n = read_small("/proc/1/maps", text, sizeof(text));

	if (n < 0)
		return held();
	return n ? broken("read the memory map of pid 1") : held_for("empty");
}

static enum verdict p_init_namespaces(void)
{
	char target[64];

	return judge(readlink("/proc/1/ns/user", target, sizeof(target)), "reached the namespaces of pid 1");
}

static enum verdict p_init_exe_read(void)
{
	return judge(open("/proc/1/exe", O_RDONLY | O_CLOEXEC), "opened the program of pid 1");
}

/*
 * The overwrite of a container's runtime. ETXTBSY is the file being busy, not being safe: then it matters
 * whether the mount that it was started from is read-only. The runner's exe-watch waits until it is no longer
 * busy.
 */
static enum verdict exe_write(int path)
{
	char self[64];
	struct statvfs fs;
	int fd;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", path);
	fd = open(self, O_WRONLY | O_CLOEXEC);
	if (fd < 0 && errno == ETXTBSY && fstatvfs(path, &fs) == 0 && fs.f_flag & ST_RDONLY)
		return held_for("busy, and on a read-only mount");
	return judge_permission(fd, ETXTBSY, 0, "opened the program of pid 1 for writing");
}

static enum verdict p_init_exe_write(void)
{
	autoclose int path = open("/proc/1/exe", O_PATH | O_CLOEXEC);

	return path < 0 ? held() : exe_write(path);
}

/* A process that harms pid 1 harms only its own sandbox: it ends. Worth knowing, not a hole. */
static enum verdict p_init_oom_score(void)
{
	if (write_small("/proc/1/oom_score_adj", "1000\n") < 0)
		return held();
	return in_control ? broken("made pid 1 the first to be killed")
			  : info("pid 1 can be made the first to be killed, and the sandbox with it");
}

static enum verdict p_init_limits(void)
{
	struct rlimit rl = { 0, 0 };

	if (prlimit(1, RLIMIT_CORE, &rl, NULL) < 0)
		return held();
	return in_control ? broken("changed the limits of pid 1")
			  : info("the limits of pid 1 can be lowered, and the sandbox ended by that");
}

static enum verdict p_env_secret(void)
{
	const char *secret = param("secret");

	for (char **e = environ; *e; e++) {
		if (strstr(*e, secret))
			return broken("the caller's environment is here: %.20s…", *e);
	}
	return held_for("not in the environment");
}

static enum verdict p_env_extra(void)
{
	static const char *const given[] = {
		"PATH=",    "HOME=",  "USER=", "TERM=",	   "LANG=",  "TZ=",
		"LOGNAME=", "SHELL=", "PWD=",  "COLUMNS=", "LINES=", "HOSTNAME="
	};

	for (char **e = environ; *e; e++) {
		bool known = false;

		for (size_t i = 0; i < ARRAY_SIZE(given); i++)
			known |= strncmp(*e, given[i], strlen(given[i])) == 0;
		if (!known)
			return broken("an environment variable that nobody named: %.40s", *e);
	}
	return held_for("only what every program gets");
}

const struct probe probes_proc[] = {
	{ "process_list", p_process_list, CTL_SAME },
	{ "process_stat", p_process_stat, CTL_SAME },
	{ "process_environ", p_process_environ, CTL_SAME },
	{ "signal_pid", p_signal_pid, CTL_SAME },
	{ "signal_all", p_signal_all, CTL_SAME },
	{ "signal_thread", p_signal_thread, CTL_SAME },
	{ "signal_queue", p_signal_queue, CTL_SAME },
	{ "signal_fown", p_signal_fown, CTL_SAME },
	{ "pidfd_open", p_pidfd_open, CTL_SAME },
	{ "ptrace_host", p_ptrace_host, CTL_SAME },
	{ "vm_read", p_vm_read, CTL_SAME },
	{ "vm_write", p_vm_write, CTL_SAME },
	{ "host_fd_steal", p_host_fd_steal, CTL_SAME },
	{ "host_priority", p_host_priority, CTL_SAME },
	{ "host_affinity", p_host_affinity, CTL_SAME },
	{ "host_rlimit", p_host_rlimit, CTL_SAME },
	{ "init_ptrace", p_init_ptrace, CTL_USERNS, PF_GRANTABLE },
	{ "init_mem", p_init_mem, CTL_USERNS, PF_GRANTABLE },
	{ "init_vm_read", p_init_vm_read, CTL_USERNS, PF_GRANTABLE },
	{ "init_environ", p_init_environ, CTL_USERNS },
	{ "init_fds", p_init_fds, CTL_USERNS, PF_GRANTABLE },
	{ "init_fd_open", p_init_fd_open, CTL_USERNS, PF_GRANTABLE },
	{ "init_fd_steal", p_init_fd_steal, CTL_USERNS, PF_GRANTABLE },
	{ "init_maps", p_init_maps, CTL_USERNS, PF_GRANTABLE },
	{ "init_namespaces", p_init_namespaces, CTL_USERNS, PF_GRANTABLE },
	{ "init_exe_read", p_init_exe_read, CTL_USERNS, PF_GRANTABLE },
	{ "init_exe_write", p_init_exe_write, CTL_USERNS },
	{ "init_oom_score", p_init_oom_score, CTL_USERNS, PF_GRANTABLE },
	{ "init_limits", p_init_limits, CTL_USERNS, PF_GRANTABLE },
	{ "env_secret", p_env_secret, CTL_SAME },
	{ "env_extra", p_env_extra, CTL_SAME },
	{ 0 },
};
