/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's two lists of system calls in a real kernel: what each forbids ends a child, what it allows works, and every
 * forbidden act is possible without a list (positive control).
 */
#include "base/cleanup.h"
#include "run/launcher_fence.h"
#include "sys/fence/seccomp.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DID = 0, DIED, FAILED, NO_SETUP };

enum phase {
	NO_LIST,
	BEFORE, /* phase 1 alone */
	AFTER,	/* both */
	ASKS,	/* both, for a launcher that asks on a terminal */
	WIPES,	/* both, for one whose child enters `userns` */
	PHASES
};

static const char *const phase_names[PHASES] = { "no list", "phase 1", "phase 2", "phase 2 of one that asks",
						 "phase 2 of one that wipes" };

static pid_t parent;
static int userns = -1; /* of a child that holds it */
static int other_ns = -1;
static char dir[] = "/tmp/test-launcher-fence-XXXXXX";
static struct sockaddr_un listening = { .sun_family = AF_UNIX };

static void install(const struct seccomp_list *l)
{
	struct sock_filter insns[SECCOMP_LIST_MAX];
	struct err e = ERR_INIT;
	size_t n = 0;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    seccomp_list_compile(l, insns, ARRAY_SIZE(insns), &n, &e) < 0 ||
	    seccomp_install(insns, n, &e) < 0) {
		printf("# no list: %s\n", e.msg);
		fflush(stdout);
		_exit(NO_SETUP);
	}
}

static void put_up(enum phase p)
{
	const struct launcher_needs needs = { .userns = p == WIPES ? userns : -1, .asks = p == ASKS };
	struct launcher_calls c;

	if (p == NO_LIST)
		return;
	install(&launcher_never);
	if (p == BEFORE)
		return;
	launcher_calls(&c, &needs);
	install(&c.list);
}

static int end_of(pid_t pid)
{
	int status = 0;

	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return NO_SETUP;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? DIED : FAILED;
	return WEXITSTATUS(status);
}

static int attempt(enum phase p, bool (*act)(void))
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setsid();
		put_up(p);
		syscall(SYS_exit_group, act() ? DID : FAILED);
	}
	return end_of(pid);
}

/* --- phase 1: every number of its list --------------------------------------------------------------------------- */

/* With arguments that are wrong for all of them, and in a session without a terminal: what the kernel lets root do does nothing.
 * FAILED: the call came back. */
static int call_number(enum phase p, uint16_t nr)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setsid();
		put_up(p);
		syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L);
		syscall(SYS_exit_group, FAILED);
	}
	return end_of(pid);
}

static void check_never(void)
{
	for (size_t i = 0; i < launcher_never.n_calls; i++) {
		uint16_t nr = launcher_never.calls[i];

		CHECKF(call_number(NO_LIST, nr) == FAILED, "control: call %u returns without a list", nr);
		CHECKF(call_number(BEFORE, nr) == DIED, "phase 1 ends a process at call %u", nr);
	}
}

/* No call that phase 1 forbids is on the list of phase 2: otherwise one of the two lists is wrong about it. */
static void check_disjoint(void)
{
	const struct launcher_needs all = { .userns = 3, .asks = true };
	struct launcher_calls c;
	bool good = true;

	launcher_calls(&c, &all);
	for (size_t i = 0; i < launcher_never.n_calls; i++) {
		for (size_t k = 0; k < c.list.n_calls; k++)
			good = good && c.list.calls[k] != launcher_never.calls[i];
		for (size_t k = 0; k < c.list.n_rules; k++)
			good = good && c.list.rules[k].nr != launcher_never.calls[i];
	}
	CHECKF(good, "phase 2 allows no call that phase 1 forbids");
}

/* --- acts -------------------------------------------------------------------------------------------------------- */

static bool execute(void)
{
	static char *const argv[] = { (char *)"true", NULL }, *const env[] = { NULL };

	/* Its exit is what attempt() sees of success. */
	execve("/bin/true", argv, env);
	return false;
}

static bool make_userns(void)
{
	return unshare(CLONE_NEWUSER) == 0;
}

static bool clone_userns(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		syscall(SYS_exit_group, 0);
	return pid > 0 && end_of((pid_t)pid) == DID;
}

/* clone3() has its flags in memory, where no list sees them. */
static bool clone_three(void)
{
	return syscall(SYS_clone3, NULL, 0) < 0 && errno == EINVAL;
}

static bool fork_and_wait(void)
{
	pid_t pid = fork();

	if (pid == 0)
		syscall(SYS_exit_group, DID);
	return end_of(pid) == DID;
}

static bool kill_a_child(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			poll(NULL, 0, -1);
	}
	return pid > 0 && kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
}

static bool signal_parent(void)
{
	return syscall(SYS_tgkill, parent, parent, 0) == 0;
}

static bool signal_self(void)
{
	long pid = syscall(SYS_getpid);

	return syscall(SYS_tgkill, pid, pid, 0) == 0;
}

static bool probe_everybody(void)
{
	return kill(-1, 0) == 0 || errno == EPERM || errno == ESRCH;
}

static bool terminate_nobody(void)
{
	return kill(0x7ffffffe, SIGTERM) < 0 && errno == ESRCH;
}

static bool enter_userns(void)
{
	return setns(userns, CLONE_NEWUSER) == 0;
}

/* As what it is not: the kernel judges the type before the right, so this fails for root too. */
static bool enter_another_way(void)
{
	return setns(userns, CLONE_NEWNS) < 0 && errno == EINVAL;
}

static bool enter_another(void)
{
	return setns(other_ns, CLONE_NEWUSER) < 0 && errno == EINVAL;
}

static bool mount_nothing(void)
{
	return syscall(SYS_mount, NULL, NULL, NULL, 0, NULL) < 0 && errno != ENOSYS;
}

static bool open_mount(void)
{
	return syscall(SYS_fsopen, "tmpfs", 0) >= 0 || errno == EPERM;
}

static bool be_traced(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

static bool read_parent(void)
{
	char c;
	struct iovec mine = { &c, 1 }, theirs = { &parent, 1 };

	return syscall(SYS_process_vm_readv, getpid(), &mine, 1, &theirs, 1, 0) == 1;
}

static bool change_user(void)
{
	return syscall(SYS_setuid, getuid()) == 0;
}

static bool map_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

static bool be_dumpable(void)
{
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}

static bool be_undumpable(void)
{
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

static bool adopt(void)
{
	return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

static bool own_a_socket(void)
{
	int fd[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0 && fcntl(fd[0], F_SETOWN, parent) == 0;
}

/* No descriptor: root could type into whatever the test was started from. */
static bool type_into_terminal(void)
{
	return ioctl(-1, TIOCSTI, "x") < 0 && errno == EBADF;
}

static bool look_at_terminal(void)
{
	struct winsize ws;

	return ioctl(0, TIOCGWINSZ, &ws) == 0 || errno == ENOTTY;
}

static bool make_tcp(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0;
}

static bool make_udp(void)
{
	return socket(AF_INET6, SOCK_DGRAM, 0) >= 0 || errno == EAFNOSUPPORT;
}

static bool make_netlink(void)
{
	return socket(AF_NETLINK, SOCK_RAW, 0) >= 0;
}

static bool make_vsock(void)
{
	return socket(AF_VSOCK, SOCK_STREAM, 0) >= 0 || errno == EAFNOSUPPORT;
}

static bool make_unix(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) >= 0;
}

static bool connect_unix(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && connect(fd, (struct sockaddr *)&listening, sizeof(listening)) == 0;
}

static bool open_by_sending(void)
{
	int fd[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0 && send(fd[0], "x", 1, MSG_FASTOPEN) == 1;
}

static bool pass_a_message(void)
{
	struct iovec iov = { (void *)"x", 1 };
	const struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	char c = 0;
	int fd[2];

	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) == 0 &&
	       sendmsg(fd[0], &m, MSG_NOSIGNAL) == 1 && recv(fd[1], &c, 1, MSG_DONTWAIT) == 1 && c == 'x';
}

static bool make_node(void)
{
	char path[sizeof(dir) + 8];

	snprintf(path, sizeof(path), "%s/node", dir);
	unlink(path);
	return mknod(path, S_IFIFO | 0600, 0) == 0;
}

static bool make_link(void)
{
	char path[sizeof(dir) + 8];

	snprintf(path, sizeof(path), "%s/link", dir);
	unlink(path);
	return symlink("/", path) == 0;
}

static bool give_away(void)
{
	return chown(dir, getuid(), getgid()) == 0;
}

static bool forbid_more(void)
{
	install(&launcher_never);
	return true;
}

/* What the end of a run does with a layer and its directory. */
static bool work_on_files(void)
{
	autoclose int d = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
	struct flock whole = { .l_type = F_WRLCK };
	char raw[4096];
	struct stat st;

	if (d < 0 || (mkdirat(d, "a", 0700) < 0 && errno != EEXIST))
		return false;
	fd = openat(d, "a/f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return fd >= 0 && fcntl(fd, F_SETLKW, &whole) == 0 && write(fd, "x", 1) == 1 &&
	       ftruncate(fd, 0) == 0 && fstat(fd, &st) == 0 && fchmodat(d, "a", 0700, 0) == 0 &&
	       getdents64(d, raw, sizeof(raw)) > 0 && renameat2(d, "a/f", d, "a/g", 0) == 0 &&
	       unlinkat(d, "a/g", 0) == 0 && unlinkat(d, "a", AT_REMOVEDIR) == 0;
}

static bool run_a_loop(void)
{
	autoclose int ep = epoll_create1(EPOLL_CLOEXEC), fd = memfd_create("report", MFD_CLOEXEC);
	struct epoll_event ev;

	return ep >= 0 && fd >= 0 && epoll_wait(ep, &ev, 1, 0) == 0;
}

/* In each phase what an act comes to. */
static const struct {
	const char *what;
	bool (*act)(void);
	int before, after;
} acts[] = {
	/* phase 1 leaves what the launcher still needs, or what the programs and children that inherit it need */
	{ "executing a program", execute, DID, DIED },
	{ "making a user namespace", make_userns, DID, DIED },
	{ "forking into a user namespace", clone_userns, DID, DIED },
	{ "clone3()", clone_three, DID, DIED },
	{ "mounting", mount_nothing, DID, DIED },
	{ "opening a file system", open_mount, DID, DIED },
	{ "mapping code", map_code, DID, DIED },
	{ "changing the user", change_user, DID, DIED },
	{ "entering the sandbox's user namespace", enter_userns, DID, DIED },
	/* what phase 1 forbids */
	{ "being traced", be_traced, DIED, DIED },
	{ "reading memory by pid", read_parent, DIED, DIED },
	/* sockets */
	{ "making a TCP socket", make_tcp, DID, DIED },
	{ "making a UDP socket", make_udp, DID, DIED },
	{ "making a netlink socket", make_netlink, DID, DIED },
	{ "making a vsock socket", make_vsock, DID, DIED },
	{ "making a UNIX socket", make_unix, DID, DID },
	{ "connecting a UNIX socket", connect_unix, DID, DIED },
	{ "opening a connection by sending", open_by_sending, DID, DIED },
	{ "passing a message", pass_a_message, DID, DID },
	{ "directing a socket's signals to another process", own_a_socket, DID, DIED },
	/* processes */
	{ "forking", fork_and_wait, DID, DID },
	{ "killing a child", kill_a_child, DID, DID },
	{ "signalling a thread of another process", signal_parent, DID, DIED },
	{ "signalling itself", signal_self, DID, DID },
	{ "signalling everybody", probe_everybody, DID, DIED },
	{ "another signal than SIGKILL", terminate_nobody, DID, DIED },
	{ "becoming dumpable again", be_dumpable, DID, DIED },
	{ "giving up core dumps", be_undumpable, DID, DID },
	{ "becoming the parent of orphans", adopt, DID, DIED },
	{ "a further list", forbid_more, DID, DID },
	/* files and terminals */
	{ "typing into a terminal", type_into_terminal, DID, DIED },
	{ "the size of a terminal", look_at_terminal, DID, DID },
	{ "making a node", make_node, DID, DIED },
	{ "making a symlink", make_link, DID, DIED },
	{ "changing an owner", give_away, DID, DIED },
	{ "the work on a run's files", work_on_files, DID, DID },
	{ "an event loop", run_a_loop, DID, DID },
};

static void check_act(enum phase p, const char *what, bool (*act)(void), int want)
{
	int got = attempt(p, act);

	CHECKF(got == want, "under %s the act %s: %s", phase_names[p],
	       want == DIED ? "ends the process" : "is possible", what);
	if (got != want)
		printf("# got %d\n", got);
}

/* --- what only some launchers need -------------------------------------------------------------------------------- */

/* Opens the user namespace of a child, which is held until the test ends, and one of another type. */
static bool open_namespaces(void)
{
	char path[48], c;
	int up[2];
	pid_t pid;

	if (pipe2(up, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER) < 0)
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(up[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(up[1]);
	if (pid < 0 || read(up[0], &c, 1) != 1)
		return false;
	close(up[0]);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	userns = open(path, O_RDONLY | O_CLOEXEC);
	other_ns = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return userns >= 0 && other_ns >= 0;
}

static void check_needs(void)
{
	check_act(ASKS, "connecting a UNIX socket", connect_unix, DID);
	check_act(ASKS, "making a TCP socket", make_tcp, DIED);
	check_act(ASKS, "entering the sandbox's user namespace", enter_userns, DIED);
	check_act(WIPES, "entering the sandbox's user namespace", enter_userns, DID);
	check_act(NO_LIST, "control: entering it as a mount namespace is refused by the kernel",
		  enter_another_way, DID);
	check_act(WIPES, "entering it as a mount namespace", enter_another_way, DIED);
	check_act(NO_LIST, "control: entering the own user namespace is refused by the kernel", enter_another,
		  DID);
	check_act(WIPES, "entering another user namespace", enter_another, DIED);
	check_act(WIPES, "connecting a UNIX socket", connect_unix, DIED);
}

static bool listen_somewhere(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(listening.sun_path, sizeof(listening.sun_path), "%s/sock", dir);
	return fd >= 0 && bind(fd, (struct sockaddr *)&listening, sizeof(listening)) == 0 &&
	       listen(fd, 64) == 0;
}

static void remove_files(void)
{
	static const char *const names[] = { "sock", "node", "link" };
	char path[sizeof(dir) + 8];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	CHECKF(rmdir(dir) == 0, "the test's directory is empty at its end");
}

int main(void)
{
	parent = getpid();
	if (!mkdtemp(dir) || !listen_somewhere() || !open_namespaces()) {
		CHECKF(false, "the test can make its files and a user namespace");
		return tap_done();
	}
	check_never();
	check_disjoint();
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		check_act(NO_LIST, acts[i].what, acts[i].act, DID);
		check_act(BEFORE, acts[i].what, acts[i].act, acts[i].before);
		check_act(AFTER, acts[i].what, acts[i].act, acts[i].after);
	}
	check_needs();
	remove_files();
	return tap_done();
}
