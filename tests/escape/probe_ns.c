/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces and identity: which ones we are in, making new ones, entering others, gaining capabilities. */
#include "probe.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

static enum verdict same_namespace(const char *type)
{
	char path[64], key[32], here[128] = "";

	snprintf(path, sizeof(path), "/proc/self/ns/%s", type);
	snprintf(key, sizeof(key), "ns:%s", type);
	if (readlink(path, here, sizeof(here) - 1) < 0)
		return in_control ? not_here("this kernel has no %s namespaces", type) : held();
	return strcmp(here, param(key)) == 0 ? broken("shares the host's %s namespace", type)
					     : held_for("%s", here);
}

#define NAMESPACE(type)                       \
	static enum verdict p_ns_##type(void) \
	{                                     \
		return same_namespace(#type); \
	}

NAMESPACE(user)
NAMESPACE(pid)
NAMESPACE(mnt)
NAMESPACE(net)
NAMESPACE(ipc)
NAMESPACE(uts)
NAMESPACE(cgroup)
NAMESPACE(time)

static enum verdict p_uid_map_write(void)
{
	char map[32];

	snprintf(map, sizeof(map), "0 %u 1\n", getuid());
	if (in_control && unshare(CLONE_NEWUSER) < 0)
		return not_here("no user namespaces for this identity");
	return judge(write_small("/proc/self/uid_map", map), "wrote a new uid map");
}

static enum verdict new_namespace(unsigned long flags)
{
	return judge(syscall(SYS_unshare, flags), "made a namespace");
}

static enum verdict p_unshare_user(void)
{
	return new_namespace(CLONE_NEWUSER);
}

static enum verdict p_unshare_mount(void)
{
	return new_namespace(CLONE_NEWNS);
}

static enum verdict p_unshare_net(void)
{
	return new_namespace(CLONE_NEWNET);
}

static enum verdict p_unshare_pid(void)
{
	return new_namespace(CLONE_NEWPID);
}

static enum verdict p_unshare_time(void)
{
	return new_namespace(CLONE_NEWTIME);
}

static enum verdict clone_with(unsigned long flags)
{
	long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		wait_exit((int)pid);
	return judge(pid, "made a child in a namespace of its own");
}

static enum verdict p_clone_user(void)
{
	return clone_with(CLONE_NEWUSER);
}

/* The kernel reads 32 bits of the flags: the filter must see them so. */
static enum verdict p_clone_user_high(void)
{
	return clone_with(0xffffffff00000000UL | CLONE_NEWUSER);
}

static enum verdict p_clone3_user(void)
{
	struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		wait_exit((int)pid);
	return judge(pid, "made a child in a namespace of its own");
}

/* A tracer changes the call's number after the tracee has passed its entry; the filter must judge what is
 * run. */
static enum verdict p_seccomp_by_tracer(void)
{
	struct user_regs_struct regs;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(syscall(SYS_getppid, CLONE_NEWUSER, 0, 0) == 0 ? 42 : 0);
	}
	waitpid(pid, &status, 0);
	if (!WIFSTOPPED(status))
		return held_for("cannot trace a child");
	ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	for (int stops = 0; stops < 64; stops++) {
		if (ptrace(PTRACE_SYSCALL, pid, 0, 0) < 0 || waitpid(pid, &status, 0) < 0 ||
		    WIFEXITED(status))
			break;
		if (ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0 && regs.orig_rax == SYS_getppid &&
		    (long)regs.rax == -ENOSYS) {
			regs.orig_rax = SYS_unshare;
			ptrace(PTRACE_SETREGS, pid, 0, &regs);
		}
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 42)
		return broken("a tracer smuggled a call past the filter");
	return held_for("the filter judged the changed call");
}

static enum verdict p_setns_host(void)
{
	static const char *const types[] = { "mnt", "net", "pid", "uts", "ipc", "user" };
	int last = 0;

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		char path[4096];
		autoclose int fd = open(path_f(path, "/proc/%ld/ns/%s", param_num("pid"), types[i]),
					O_RDONLY | O_CLOEXEC);

		if (fd >= 0 && setns(fd, 0) == 0)
			return broken("entered the host's %s namespace", types[i]);
		last = errno;
	}
	errno = last;
	return held();
}

static enum verdict p_setns_pidfd(void)
{
	autoclose int fd = (int)syscall(SYS_pidfd_open, in_control ? param_num("pid") : 1, 0);

	if (fd < 0)
		return held();
	return judge(setns(fd, CLONE_NEWNS | CLONE_NEWNET), "entered namespaces of another process");
}

/* In a control the namespace asked about is a child's, whose parent is ours and may be seen. */
static enum verdict p_ns_get_parent(void)
{
	char path[4096];
	autoclose int fd = -1;
	int up[2], r;
	pid_t pid;

	if (!in_control) {
		fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
		return judge(ioctl(fd, NS_GET_PARENT), "reached the parent user namespace");
	}
	if (pipe2(up, O_CLOEXEC) < 0)
		return probe_error("pipe");
	pid = fork();
	if (pid == 0) {
		r = unshare(CLONE_NEWUSER);
		if (write(up[1], r < 0 ? "n" : "y", 1) < 0)
			_exit(1);
		pause();
	}
	r = read(up[0], path, 1) == 1 && path[0] == 'y';
	fd = open(path_f(path, "/proc/%d/ns/user", pid), O_RDONLY | O_CLOEXEC);
	r = r ? ioctl(fd, NS_GET_PARENT) : -1;
	kill(pid, SIGKILL);
	return judge(r, "reached the parent user namespace");
}

/* Anything but zero in the sets that matter, outside of what --cap named. */
static enum verdict p_caps_any(void)
{
	static const char *const sets[] = { "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:" };
	char text[8192];

	if (read_small("/proc/self/status", text, sizeof(text)) < 0)
		return held();
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		const char *at = strstr(text, sets[i]);

		if (at && strtoull(at + 7, NULL, 16))
			return broken("%.7s %llx", sets[i], strtoull(at + 7, NULL, 16));
	}
	return held_for("all sets are empty");
}

static enum verdict p_caps_raise(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };

	d[0].effective = d[0].permitted = 1u << CAP_SYS_ADMIN;
	return judge(syscall(SYS_capset, &h, d), "raised a capability");
}

static enum verdict p_caps_ambient(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };

	syscall(SYS_capget, &h, d);
	d[0].inheritable = d[0].permitted;
	syscall(SYS_capset, &h, d);
	return judge(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0),
		     "raised an ambient capability");
}

static enum verdict p_no_new_privs(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? held_for("set")
							   : broken("new privileges are possible");
}

static enum verdict p_seccomp_on(void)
{
	char text[8192];
	const char *at;

	if (read_small("/proc/self/status", text, sizeof(text)) < 0)
		return held();
	at = strstr(text, "Seccomp:");
	if (!at && in_control)
		return not_here("this kernel has no seccomp");
	return at && strtol(at + 8, NULL, 10) == 2 ? held_for("on") : broken("no filter is in force");
}

static enum verdict p_setuid_root(void)
{
	if (getuid() == 0 && !in_control)
		return held_for("uid 0 of a namespace; the runner looks who that is outside");
	return judge(setresuid(0, 0, 0), "became uid 0");
}

static enum verdict p_setgroups(void)
{
	gid_t g = 0;

	return judge(syscall(SYS_setgroups, 1, &g), "chose its own groups");
}

/* A group that is not mapped is shown as 65534, and still counts where a file's group is asked for. */
static enum verdict p_groups_kept(void)
{
	gid_t g[64];
	int n = getgroups((int)ARRAY_SIZE(g), g), unmapped = 0;

	for (int i = 0; i < n; i++) {
		if (g[i] == 65534)
			unmapped++;
		else if (g[i] != getgid())
			return broken("a group of the caller is here: %u", g[i]);
	}
	if (in_control)
		return not_here("this identity has no other groups");
	return unmapped ? info("%d groups of the caller are kept, unmapped", unmapped)
			: held_for("no other groups");
}

const struct probe probes_ns[] = {
	{ "ns_user", p_ns_user, CTL_SAME },
	{ "ns_pid", p_ns_pid, CTL_SAME },
	{ "ns_mnt", p_ns_mnt, CTL_SAME },
	{ "ns_net", p_ns_net, CTL_SAME },
	{ "ns_ipc", p_ns_ipc, CTL_SAME },
	{ "ns_uts", p_ns_uts, CTL_SAME },
	{ "ns_cgroup", p_ns_cgroup, CTL_SAME },
	{ "ns_time", p_ns_time, CTL_SAME },
	{ "ns_get_parent", p_ns_get_parent, CTL_SAME },
	{ "uid_map_write", p_uid_map_write, CTL_SAME },
	{ "unshare_user", p_unshare_user, CTL_SAME },
	{ "unshare_mount", p_unshare_mount, CTL_USERNS, PF_GRANTABLE },
	{ "unshare_net", p_unshare_net, CTL_USERNS, PF_GRANTABLE },
	{ "unshare_pid", p_unshare_pid, CTL_USERNS, PF_GRANTABLE },
	{ "unshare_time", p_unshare_time, CTL_USERNS, PF_GRANTABLE },
	{ "clone_user", p_clone_user, CTL_SAME },
	{ "clone_user_high", p_clone_user_high, CTL_SAME },
	{ "clone3_user", p_clone3_user, CTL_SAME },
	{ "seccomp_by_tracer", p_seccomp_by_tracer, CTL_SAME },
	{ "setns_host", p_setns_host, CTL_ROOT },
	{ "setns_pidfd", p_setns_pidfd, CTL_ROOT, PF_GRANTABLE },
	{ "caps_any", p_caps_any, CTL_ROOT, PF_GRANTABLE },
	{ "caps_raise", p_caps_raise, CTL_ROOT, PF_GRANTABLE },
	{ "caps_ambient", p_caps_ambient, CTL_ROOT, PF_GRANTABLE },
	{ "no_new_privs", p_no_new_privs, CTL_SAME },
	{ "seccomp_on", p_seccomp_on, CTL_SAME },
	{ "setuid_root", p_setuid_root, CTL_ROOT },
	{ "setgroups", p_setgroups, CTL_ROOT, PF_GRANTABLE },
	{ "groups_kept", p_groups_kept, CTL_SAME },
	{ 0 },
};
