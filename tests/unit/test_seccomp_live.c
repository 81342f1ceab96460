/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter in a real kernel: each forbidden act is tried in a child outside the filter, to see that the
 * probe gets past the point where the filter stops it, and in one inside. And real programs, that must not
 * notice it.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sys/fence/seccomp.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETUP_FAILED 250 /* exit codes of probes are 0 or an errno */
#define CRASHED 251
#define HIGH (1ULL << 32)

static char tmpdir[] = "/tmp/test-seccomp-XXXXXX";

static void install(const struct seccomp_opts *o)
{
	struct sock_filter insns[SECCOMP_MAX_INSNS];
	struct err e = ERR_INIT;
	size_t n;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    seccomp_compile(o, insns, SECCOMP_MAX_INSNS, &n, &e) < 0 || seccomp_install(insns, n, &e) < 0) {
		printf("# no filter: %s\n", e.msg);
		fflush(stdout);
		_exit(SETUP_FAILED);
	}
}

static int errno_of(long r)
{
	return r < 0 ? errno : 0;
}

typedef int probe_fn(void);

/* 0, an errno, CRASHED or SETUP_FAILED. Without options, outside the filter. */
static int attempt(probe_fn *probe, const struct seccomp_opts *o, bool own_netns)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (own_netns && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
			_exit(SETUP_FAILED);
		if (o)
			install(o);
		_exit(probe());
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return SETUP_FAILED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : CRASHED;
}

static int probe_unshare_user(void)
{
	return errno_of(unshare(CLONE_NEWUSER));
}

static int probe_unshare_files(void)
{
	return errno_of(unshare(CLONE_FILES | CLONE_FS));
}

static int probe_clone_user(void)
{
	long pid = syscall(SYS_clone, HIGH | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
	return errno_of(pid);
}

static int probe_clone3(void)
{
	return errno_of(syscall(435, NULL, 0));
}

static int probe_io_uring(void)
{
	return errno_of(syscall(425, 0, NULL));
}

static int probe_mount(void)
{
	return errno_of(syscall(SYS_mount, NULL, NULL, NULL, 0, NULL));
}

static int probe_setns(void)
{
	return errno_of(setns(-1, 0));
}

static int probe_perf(void)
{
	return errno_of(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
}

static int probe_keyctl(void)
{
	return errno_of(syscall(SYS_keyctl, 0xffff, 0, 0, 0, 0));
}

static int probe_handle(void)
{
	return errno_of(syscall(SYS_open_by_handle_at, -1, NULL, 0));
}

static int probe_ptrace(void)
{
	return errno_of(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int probe_read_implies_exec(void)
{
	return errno_of(syscall(SYS_personality, 0x400000));
}

static int probe_no_randomize(void)
{
	return errno_of(syscall(SYS_personality, 0x40000));
}

static int probe_device(void)
{
	char path[sizeof(tmpdir) + 16];

	snprintf(path, sizeof(path), "%s/dev", tmpdir);
	unlink(path);
	return errno_of(mknod(path, S_IFCHR | 0600, 0x103));
}

static int probe_fifo(void)
{
	char path[sizeof(tmpdir) + 16];

	snprintf(path, sizeof(path), "%s/fifo", tmpdir);
	unlink(path);
	return errno_of(mkfifo(path, 0600));
}

static int probe_vsock(void)
{
	return errno_of(syscall(SYS_socket, HIGH | 40, SOCK_STREAM, 0));
}

static int probe_packet(void)
{
	return errno_of(syscall(SYS_socket, AF_PACKET, HIGH | SOCK_RAW, 0));
}

static int probe_alg(void)
{
	return errno_of(socket(38, SOCK_SEQPACKET, 0));
}

static int probe_raw(void)
{
	return errno_of(syscall(SYS_socket, AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1));
}

static int probe_old_packet(void)
{
	return errno_of(socket(AF_INET, SOCK_PACKET, 0));
}

static int probe_netfilter(void)
{
	return errno_of(socket(AF_NETLINK, SOCK_RAW, 12));
}

static int probe_sockets(void)
{
	int pair[2];

	if (socket(AF_INET, SOCK_STREAM, 0) < 0 || socket(AF_INET6, SOCK_DGRAM, 17) < 0 ||
	    socket(AF_NETLINK, SOCK_RAW, 0) < 0)
		return errno;
	return errno_of(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
}

static int on_own_terminal(unsigned long request, const void *arg)
{
	int master, slave;

	if (setsid() < 0 || openpty(&master, &slave, NULL, NULL, NULL) < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
		return SETUP_FAILED;
	return errno_of(syscall(SYS_ioctl, slave, request, arg));
}

static int probe_tiocsti(void)
{
	return on_own_terminal(TIOCSTI, "x");
}

static int probe_tiocsti_high(void)
{
	return on_own_terminal(HIGH | TIOCSTI, "x");
}

static int probe_ldisc(void)
{
	int n_tty = 0;

	return on_own_terminal(TIOCSETD, &n_tty);
}

static int probe_winsize(void)
{
	struct winsize w = { 0 };

	return on_own_terminal(TIOCGWINSZ, &w);
}

#ifdef __x86_64__
/* getpid() by the i386 way into the kernel. */
static int probe_i386(void)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "r8", "r9", "r10", "r11", "memory");
	return r < 0 ? (int)-r : r == getpid() ? 0 : SETUP_FAILED;
}
#endif

struct probe {
	const char *name;
	probe_fn *fn;
	int inside;	/* 0 or errno under the plain filter */
	bool own_netns; /* in a namespace where the capability for it is held */
};

static const struct probe probes[] = {
	{ "unshare(CLONE_NEWUSER)", probe_unshare_user, EPERM, false },
	{ "unshare(CLONE_FILES)", probe_unshare_files, 0, false },
	{ "clone(CLONE_NEWUSER) with high bits", probe_clone_user, EPERM, false },
	{ "clone3", probe_clone3, ENOSYS, false },
	{ "io_uring_setup", probe_io_uring, ENOSYS, false },
	{ "mount", probe_mount, EPERM, false },
	{ "setns", probe_setns, EPERM, false },
	{ "perf_event_open", probe_perf, EPERM, false },
	{ "keyctl", probe_keyctl, EPERM, false },
	{ "open_by_handle_at", probe_handle, EPERM, false },
	{ "ptrace of own processes", probe_ptrace, 0, false },
	{ "personality(READ_IMPLIES_EXEC)", probe_read_implies_exec, EPERM, false },
	{ "personality(ADDR_NO_RANDOMIZE)", probe_no_randomize, 0, false },
	{ "a character device", probe_device, EPERM, false },
	{ "a named pipe", probe_fifo, 0, false },
	{ "a vsock socket", probe_vsock, EAFNOSUPPORT, false },
	{ "a packet socket", probe_packet, EAFNOSUPPORT, true },
	{ "a kernel crypto socket", probe_alg, EAFNOSUPPORT, false },
	{ "a raw socket", probe_raw, EPERM, true },
	{ "a packet socket by its old name", probe_old_packet, EPERM, true },
	{ "a netfilter socket", probe_netfilter, EPROTONOSUPPORT, true },
	{ "ordinary sockets", probe_sockets, 0, false },
	{ "typing into the own terminal", probe_tiocsti, EPERM, false },
	{ "the same with high bits", probe_tiocsti_high, EPERM, false },
	{ "a line discipline", probe_ldisc, EPERM, false },
	{ "the size of the own terminal", probe_winsize, 0, false },
#ifdef __x86_64__
	{ "a system call by int 0x80", probe_i386, ENOSYS, false },
#endif
};

static void test_probes(void)
{
	const struct seccomp_opts plain = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		const struct probe *p = &probes[i];
		int outside = attempt(p->fn, NULL, p->own_netns),
		    inside = attempt(p->fn, &plain, p->own_netns);
		bool control = outside < SETUP_FAILED && (!p->inside || outside != p->inside);

		CHECKF(inside == p->inside, "%s ends with %s inside, %s outside%s", p->name, strerror(inside),
		       strerror(outside), control ? "" : " (so here nothing shows which of the two refused)");
	}
}

static int probe_setid_modes(void)
{
	char path[sizeof(tmpdir) + 16];
	struct stat st;
	int fd, bad = 0;

	if (chdir(tmpdir) < 0)
		return SETUP_FAILED;
	snprintf(path, sizeof(path), "%s/suid", tmpdir);
	unlink(path);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0755);
	if (fd < 0 || fchmod(fd, 0700) < 0 || chmod(path, 01755) < 0)
		return SETUP_FAILED;
	bad += !(fchmod(fd, 04755) < 0 && errno == EPERM);
	bad += !(chmod(path, 02755) < 0 && errno == EPERM);
	bad += !(fchmodat(AT_FDCWD, path, 06755, 0) < 0 && errno == EPERM);
	bad += !(syscall(452, AT_FDCWD, path, 04755, 0) < 0 && errno == EPERM);
	bad += !(open("x", O_CREAT | O_RDWR | O_CLOEXEC, 04755) < 0 && errno == EPERM);
	bad += !(open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 04755) < 0 && errno == EPERM);
	bad += !(mknod("x", S_IFREG | 04755, 0) < 0 && errno == EPERM);
	bad += !(mkdir("x", 02755) < 0 && errno == EPERM);
	bad += !(syscall(SYS_openat2, AT_FDCWD, path, NULL, 0) < 0 && errno == ENOSYS);
	/* A mode that nothing reads is not looked at. */
	bad += syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 06777) < 0;
	bad += stat(path, &st) < 0 || (st.st_mode & 06000);
	return bad;
}

static void test_options(void)
{
	const struct seccomp_opts no_setid = { .no_setid_mode = true }, nested = { .nested = true };
	const struct seccomp_opts raw = { .caps = 1ULL << CAP_NET_RAW };
	int outside = attempt(probe_unshare_user, NULL, false);

	CHECKF(attempt(probe_setid_modes, NULL, false) >= 8, "setuid and setgid bits can be set outside");
	CHECKF(attempt(probe_setid_modes, &no_setid, false) == 0,
	       "setuid and setgid bits cannot be set with no_setid");
	if (outside == 0) {
		CHECKF(attempt(probe_unshare_user, &nested, false) == 0,
		       "a user namespace can be made in a nested sandbox");
		CHECKF(attempt(probe_raw, &raw, true) == 0, "a raw socket can be made with its capability");
	} else {
		tap_skip("a user namespace can be made in a nested sandbox", strerror(outside));
		tap_skip("a raw socket can be made with its capability", strerror(outside));
	}
	CHECKF(attempt(probe_mount, &nested, false) == EFAULT,
	       "mount() reaches the kernel in a nested sandbox");
	CHECKF(attempt(probe_clone3, &nested, false) == ENOSYS, "clone3 is missing in a nested sandbox");
	CHECKF(attempt(probe_old_packet, &raw, true) == EPERM,
	       "SOCK_PACKET is refused with the capability too");
}

struct program {
	const char *needs; /* looked for in the path below */
	const char *script;
};

#define PATH_INSIDE "/usr/local/bin:/usr/bin:/bin"

/* clang-format off */
static const struct program programs[] = {
	{ "bash", "bash -c 'set -e; a=$(printf %s x | tr x y); test $a = y; (sleep 0 & wait); cat <(echo z);"
	  " ulimit -a'" },
	{ "python3", "python3 -c 'import subprocess, threading, socket, multiprocessing as m, sys\n"
	  "f = lambda: subprocess.run([\"/bin/true\"], check=True)\n"
	  "t = [threading.Thread(target=f) for _ in range(4)]\n"
	  "[x.start() for x in t]; [x.join() for x in t]\n"
	  "a, b = socket.socketpair(); a.send(b\"x\"); assert b.recv(1) == b\"x\"\n"
	  "s = socket.create_server((\"127.0.0.1\", 0)); c = socket.create_connection(s.getsockname())\n"
	  "p = m.get_context(\"spawn\").Process(target=print); p.start(); p.join(); sys.exit(p.exitcode)'" },
	{ "git", "git init -q r && cd r && echo a > a && git add a"
	  " && git -c user.name=t -c user.email=t@t commit -qm a && git gc -q && git clone -q . ../s"
	  " && git -C ../s fsck" },
	{ "gcc", "printf '#include <pthread.h>\\n#include <stdio.h>\\n"
	  "static void *f(void *p) { return p; }\\n"
	  "int main(void) { pthread_t t; if (pthread_create(&t, 0, f, 0) || pthread_join(t, 0)) return 1; "
	  "puts(\"ok\"); return 0; }\\n' > t.c && gcc -pipe -O2 -pthread -o t t.c && ./t" },
	{ "make", "printf 'all: a b\\na b:\\n\\t@echo $@ > $@\\n' > Makefile && make -s -j2 && test -s b" },
	{ "node", "node -e 'const { Worker } = require(\"worker_threads\"); const fs = require(\"fs\");"
	  "require(\"child_process\").execFileSync(\"/bin/true\"); fs.writeFileSync(\"n\", \"x\");"
	  "new Worker(\"0\", { eval: true })"
	  ".on(\"exit\", c => fs.promises.readFile(\"n\").then(() => process.exit(c)))'" },
	{ "xz", "mkdir d && echo x > d/x && tar -cJf d.tar.xz d && rm -r d && tar -xf d.tar.xz"
	  " && test -s d/x" },
	{ "sqlite3", "sqlite3 db 'pragma journal_mode=wal; create table t(a); insert into t values(1);"
	  " select a from t;'" },
	{ "openssl", "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out k"
	  " && openssl dgst -sha256 -sign k -out s k" },
	{ "gdb", "gdb -q -batch -nx -ex run -ex 'info inferiors' --args /bin/true 2>&1"
	  " | grep -q 'exited normally'" },
	{ "strace", "strace -f -o /dev/null /bin/sh -c 'true | true'" },
	{ "perl", "perl -e 'fork // die; wait; open(my $f, \"-|\", \"echo x\") or die;"
	  " <$f> eq \"x\\n\" or die'" },
	{ "java", "java -version" },
	{ "setarch", "setarch -R /bin/true" },
};
/* clang-format on */

static bool in_path(const char *name)
{
	char path[256];
	const char *dirs[] = { "/usr/local/bin", "/usr/bin", "/bin" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static int run_program(const struct program *p, const struct seccomp_opts *o)
{
	char *argv[] = { (char *)"timeout", (char *)"60",      (char *)"/bin/sh",
			 (char *)"-ec",	    (char *)p->script, NULL };
	char home[sizeof(tmpdir) + 8];
	char *env[] = { (char *)"PATH=" PATH_INSIDE, home, (char *)"LC_ALL=C", NULL };
	struct err e = ERR_INIT;
	int status = -1;
	pid_t pid;

	snprintf(home, sizeof(home), "HOME=%s", tmpdir);
	if (fd_rm_rf(AT_FDCWD, tmpdir, &e) < 0 || mkdir(tmpdir, 0700) < 0)
		return -1;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int log = chdir(tmpdir) < 0 ? -1 : open(".log", O_CREAT | O_RDWR | O_CLOEXEC, 0600);

		if (log < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0 || !freopen("/dev/null", "r", stdin))
			_exit(SETUP_FAILED);
		if (o)
			install(o);
		execve("/usr/bin/timeout", argv, env);
		_exit(SETUP_FAILED);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	return status;
}

static void show_log(void)
{
	autobuf struct buf b = BUF_INIT;
	char path[sizeof(tmpdir) + 8];

	snprintf(path, sizeof(path), "%s/.log", tmpdir);
	if (fd_read_file(AT_FDCWD, path, 65536, &b) < 0)
		return;
	for (char *line = b.data, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		printf("#   %s\n", line);
	}
}

static void test_program(const struct program *p, const struct seccomp_opts *o, const char *kind)
{
	char name[64];
	bool ok;

	snprintf(name, sizeof(name), "%s under the %s filter", p->needs, kind);
	if (!in_path(p->needs)) {
		tap_skip(name, "not installed");
		return;
	}
	ok = run_program(p, o) == 0;
	if (!ok) {
		show_log();
		if (run_program(p, NULL) != 0) {
			tap_skip(name, "it fails outside the filter too");
			return;
		}
	}
	CHECKF(ok, "%s", name);
}

static void test_programs(void)
{
	const struct seccomp_opts plain = { 0 }, no_setid = { .no_setid_mode = true };

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		test_program(&programs[i], &plain, "plain");
		test_program(&programs[i], &no_setid, "strictest");
	}
}

int main(void)
{
	struct err e = ERR_INIT;

	if (!mkdtemp(tmpdir)) {
		printf("Bail out! cannot make a temporary directory\n");
		return 1;
	}
	test_probes();
	test_options();
	test_programs();
	if (fd_rm_rf(AT_FDCWD, tmpdir, &e) < 0)
		printf("# %s\n", e.msg);
	return tap_done();
}
