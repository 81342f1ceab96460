/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropping for real, in a child with a user namespace of its own where it is uid 0 and has everything: so
 * the test says the same as root and as an ordinary user.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/fence/caps.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIT(c) (1ULL << (c))
#define NO_NAMESPACE 77

static bool become_root_in_namespace(void)
{
	char map[64];
	uid_t uid = getuid();
	gid_t gid = getgid();

	if (unshare(CLONE_NEWUSER) < 0)
		return false;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (fd_write_file(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
	    fd_write_file(AT_FDCWD, "/proc/self/uid_map", map) < 0)
		return false;
	snprintf(map, sizeof(map), "0 %u 1", gid);
	return fd_write_file(AT_FDCWD, "/proc/self/gid_map", map) == 0;
}

typedef int child_fn(int out);

/* The child's output goes into `b`; returns its exit code. */
static int in_namespace(child_fn *fn, struct buf *b)
{
	int fds[2], status = -1;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(become_root_in_namespace() ? fn(fds[1]) : NO_NAMESPACE);
	close(fds[1]);
	if (fd_read_all(fds[0], 65536, b) < 0 || pid < 0 || waitpid(pid, &status, 0) < 0)
		status = -1;
	close(fds[0]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The Cap… lines as a program that is executed by uid 0 sees them. */
static int exec_status(int out)
{
	if (dup2(out, 1) < 0)
		return 1;
	execl("/bin/sh", "sh", "-c", "id -u; grep ^Cap /proc/self/status", (char *)NULL);
	return 1;
}

static bool has_sets(const struct buf *b, uint64_t inh, uint64_t prm, uint64_t eff, uint64_t bnd,
		     uint64_t amb)
{
	char want[256];

	snprintf(want, sizeof(want),
		 "0\nCapInh:\t%016llx\nCapPrm:\t%016llx\nCapEff:\t%016llx\n"
		 "CapBnd:\t%016llx\nCapAmb:\t%016llx\n",
		 (unsigned long long)inh, (unsigned long long)prm, (unsigned long long)eff,
		 (unsigned long long)bnd, (unsigned long long)amb);
	if (str_eq(buf_cstr(b), want))
		return true;
	for (const char *p = buf_cstr(b); *p; p++) {
		if (p == buf_cstr(b) || p[-1] == '\n')
			printf("#   ");
		putchar(*p);
	}
	return false;
}

static int drop_nothing(int out)
{
	return exec_status(out);
}

static int drop_all(int out)
{
	struct err e = ERR_INIT;

	if (caps_drop_all_but(0, &e) < 0) {
		dprintf(out, "%s\n", e.msg);
		return 1;
	}
	return exec_status(out);
}

#define SOME (BIT(CAP_NET_RAW) | BIT(CAP_SYS_CHROOT) | BIT(CAP_CHECKPOINT_RESTORE))

static int keep_some(int out)
{
	struct err e = ERR_INIT;

	if (caps_drop_all_but(SOME, &e) < 0) {
		dprintf(out, "%s\n", e.msg);
		return 1;
	}
	return exec_status(out);
}

static int limit_first(int out)
{
	struct err e = ERR_INIT;
	uint64_t now = 0;

	if (caps_limit(SOME, &e) < 0 || caps_effective(&now, &e) < 0 || now != BIT(CAP_LAST_CAP + 1) - 1 ||
	    caps_give_up(SOME, &e) < 0) {
		dprintf(out, "%llx, %s\n", (unsigned long long)now, e.msg);
		return 1;
	}
	return exec_status(out);
}

static int drop_twice(int out)
{
	struct err e = ERR_INIT;
	uint64_t now = 0;
	int bad = 0;

	bad += caps_drop_all_but(SOME, &e) < 0;
	bad += caps_drop_all_but(SOME, &e) < 0;
	bad += caps_effective(&now, &e) < 0 || now != SOME;
	/* A dropped capability cannot be had again, and one left in the bounding set cannot be taken without
	 * SETPCAP. */
	bad += caps_drop_all_but(SOME | BIT(CAP_KILL), &e) != -EPERM || !strstr(e.msg, "(kill)");
	bad += caps_drop_all_but(0, &e) != -EPERM || !strstr(e.msg, "net_raw");
	if (bad)
		dprintf(out, "%d: %s\n", bad, e.msg);
	return bad;
}

static int locked(int out)
{
	struct err e = ERR_INIT;
	const int all =
		SECURE_ALL_LOCKS | SECBIT_NOROOT | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_CAP_AMBIENT_RAISE;
	int bad = 0;

	bad += caps_drop_all_but(BIT(CAP_SETPCAP) | BIT(CAP_SETUID) | BIT(CAP_CHOWN), &e) < 0;
	bad += prctl(PR_GET_SECUREBITS) != all;
	/* Even with the capability to change them. */
	bad += prctl(PR_SET_SECUREBITS, 0) == 0;
	bad += prctl(PR_SET_SECUREBITS, all & ~SECBIT_NOROOT) == 0;
	bad += prctl(PR_SET_KEEPCAPS, 1) == 0;
	bad += prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, CAP_CHOWN, 0, 0) < 0;
	bad += prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0) == 0;
	if (bad)
		dprintf(out, "%d: %s\n", bad, e.msg);
	return bad;
}

static void test_drop(void)
{
	autobuf struct buf b = BUF_INIT;
	const uint64_t every = BIT(CAP_LAST_CAP + 1) - 1;
	int r = in_namespace(drop_nothing, &b);

	if (r == NO_NAMESPACE) {
		tap_skip("capabilities are dropped in a user namespace",
			 "user namespaces cannot be made here");
		return;
	}
	/* The control: without dropping, what uid 0 executes has everything. */
	CHECKF(r == 0 && has_sets(&b, 0, every, every, every, 0),
	       "uid 0 of a namespace executes with everything");
	buf_clear(&b);
	CHECKF(in_namespace(drop_all, &b) == 0 && has_sets(&b, 0, 0, 0, 0, 0),
	       "uid 0 of a namespace executes without capabilities after dropping them");
	buf_clear(&b);
	CHECKF(in_namespace(keep_some, &b) == 0 && has_sets(&b, SOME, SOME, SOME, SOME, SOME),
	       "kept capabilities reach an executed program, and no others do");
	buf_clear(&b);
	CHECKF(in_namespace(limit_first, &b) == 0 && has_sets(&b, SOME, SOME, SOME, SOME, SOME),
	       "two steps of dropping, of which the first drops nothing, keep the same capabilities");
	buf_clear(&b);
	CHECKF(in_namespace(drop_twice, &b) == 0, "capabilities can be dropped twice and not regained: %s",
	       buf_cstr(&b));
	buf_clear(&b);
	CHECKF(in_namespace(locked, &b) == 0, "the securebits are locked: %s", buf_cstr(&b));
}

/* clang-format off */
#define N(c) { c, #c }
static const struct {
	int cap;
	const char *name;
} known[] = {
	N(CAP_CHOWN), N(CAP_DAC_OVERRIDE), N(CAP_DAC_READ_SEARCH), N(CAP_FOWNER), N(CAP_FSETID),
	N(CAP_KILL), N(CAP_SETGID), N(CAP_SETUID), N(CAP_SETPCAP), N(CAP_LINUX_IMMUTABLE),
	N(CAP_NET_BIND_SERVICE), N(CAP_NET_BROADCAST), N(CAP_NET_ADMIN), N(CAP_NET_RAW), N(CAP_IPC_LOCK),
	N(CAP_IPC_OWNER), N(CAP_SYS_MODULE), N(CAP_SYS_RAWIO), N(CAP_SYS_CHROOT), N(CAP_SYS_PTRACE),
	N(CAP_SYS_PACCT), N(CAP_SYS_ADMIN), N(CAP_SYS_BOOT), N(CAP_SYS_NICE), N(CAP_SYS_RESOURCE),
	N(CAP_SYS_TIME), N(CAP_SYS_TTY_CONFIG), N(CAP_MKNOD), N(CAP_LEASE), N(CAP_AUDIT_WRITE),
	N(CAP_AUDIT_CONTROL), N(CAP_SETFCAP), N(CAP_MAC_OVERRIDE), N(CAP_MAC_ADMIN), N(CAP_SYSLOG),
	N(CAP_WAKE_ALARM), N(CAP_BLOCK_SUSPEND), N(CAP_AUDIT_READ), N(CAP_PERFMON), N(CAP_BPF),
	N(CAP_CHECKPOINT_RESTORE),
};
/* clang-format on */

static void test_names(void)
{
	struct err e = ERR_INIT;
	uint64_t m = 0;
	bool ok = true;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		ok = ok && caps_parse(known[i].name, &m, &e) == 0 && m == BIT(known[i].cap);
		ok = ok && caps_parse(known[i].name + 4, &m, &e) == 0 && m == BIT(known[i].cap);
		ok = ok && caps_parse(caps_name(known[i].cap), &m, &e) == 0 && m == BIT(known[i].cap);
	}
	CHECKF(ok, "every name of the kernel's is read, with and without CAP_");
	CHECKF(str_eq(caps_name(CAP_CHOWN), "chown") && str_eq(caps_name(CAP_NET_RAW), "net_raw") &&
		       str_eq(caps_name(CAP_SETFCAP), "setfcap") &&
		       str_eq(caps_name(CAP_CHECKPOINT_RESTORE), "checkpoint_restore"),
	       "names of capabilities stand at their numbers");
	CHECK(caps_name(-1) == NULL && caps_name(CAP_CHECKPOINT_RESTORE + 1) == NULL &&
	      caps_name(1000) == NULL);
}

static void test_wrong_names(void)
{
	struct err e = ERR_INIT;
	uint64_t m = 0;

	CHECK(caps_parse("Net_Raw", &m, &e) == 0 && m == BIT(CAP_NET_RAW));
	m = 7;
	CHECK(caps_parse("net_rwa", &m, &e) == -EINVAL && m == 7 && strstr(e.msg, "net_rwa") &&
	      strstr(e.hint, "net_raw"));
	CHECK(caps_parse("CAP_SYS_ADMN", &m, &e) == -EINVAL && strstr(e.hint, "sys_admin"));
	CHECK(caps_parse("", &m, &e) == -EINVAL && caps_parse("cap_", &m, &e) == -EINVAL);
	CHECK(caps_parse("x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x-x", &m,
			 &e) == -EINVAL &&
	      e.hint[0] == '\0');
}

static void test_effective(void)
{
	struct err e = ERR_INIT;
	uint64_t now = 0;
	autobuf struct buf b = BUF_INIT;
	char line[64];

	CHECK(caps_effective(&now, &e) == 0 && fd_read_file(AT_FDCWD, "/proc/self/status", 65536, &b) == 0);
	snprintf(line, sizeof(line), "\nCapEff:\t%016llx\n", (unsigned long long)now);
	CHECKF(strstr(buf_cstr(&b), line), "the effective set is that of /proc");
}

int main(void)
{
	test_names();
	test_wrong_names();
	test_effective();
	test_drop();
	return tap_done();
}
