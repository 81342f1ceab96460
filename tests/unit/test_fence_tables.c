/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filters of the programs that lock themselves in, in a real kernel: what somebody would try who has taken the process over.
 * Each act is tried without the filter first, where it must succeed.
 */
#include "base/cleanup.h"
#include "courier/courier.h"
#include "dial/dial_int.h"
#include "egress/core/egress_fence.h"
#include "netd/read/netd_fence.h"
#include "sys/fence/seccomp.h"
#include "tap.h"
#include "vault/serve/vault_fence.h"
#include "web/server/webserve.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { DID = 0, DIED, FAILED, NO_SETUP };

static void put_up(const struct fence *f)
{
	struct sock_filter insns[SECCOMP_LIST_MAX];
	struct err e = ERR_INIT;
	size_t n = 0;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    seccomp_list_compile(&f->calls, insns, ARRAY_SIZE(insns), &n, &e) < 0 ||
	    seccomp_install(insns, n, &e) < 0)
		_exit(NO_SETUP);
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

/* `act` says whether it did it. Ends by the one call that every list has. */
static int attempt(const struct fence *f, bool (*act)(void))
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (f)
			put_up(f);
		syscall(SYS_exit_group, act() ? DID : FAILED);
	}
	return end_of(pid);
}

static pid_t parent;

static bool signal_parent(void)
{
	return syscall(SYS_tgkill, parent, parent, 0) == 0;
}

static bool signal_self(void)
{
	long pid = syscall(SYS_getpid);

	return syscall(SYS_tgkill, pid, pid, 0) == 0;
}

static int sock;

static bool own_a_socket(void)
{
	return syscall(SYS_fcntl, sock, F_SETOWN, parent) == 0;
}

static bool change_flags(void)
{
	return syscall(SYS_fcntl, sock, F_SETFL, O_NONBLOCK) == 0;
}

static bool look_at_a_file(void)
{
	struct stat st;

	return syscall(SYS_newfstatat, AT_FDCWD, "/", &st, 0) == 0;
}

static bool keep_alive(void)
{
	const int on = 1;

	return syscall(SYS_setsockopt, sock, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) == 0;
}

static bool linger(void)
{
	const struct linger now = { .l_onoff = 1 };

	return syscall(SYS_setsockopt, sock, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0;
}

/* Listens on a loopback of its own. */
static int listener(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)at, len) < 0 || listen(fd, 8) < 0 ||
	    getsockname(fd, (struct sockaddr *)at, &len) < 0)
		_exit(NO_SETUP);
	return fd;
}

static void own_loopback(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		_exit(NO_SETUP);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		_exit(NO_SETUP);
	close(fd);
}

/* As coffer-dial makes them, and reset by its server. */
static int used_up_socket(void)
{
	const struct linger now = { .l_onoff = 1 };
	struct sockaddr_in at;
	struct pollfd p = { .events = POLLIN };
	int server = listener(&at), error = 0, peer;
	socklen_t len = sizeof(error);

	p.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (p.fd < 0 || (connect(p.fd, (struct sockaddr *)&at, sizeof(at)) < 0 && errno != EINPROGRESS) ||
	    poll(&(struct pollfd){ .fd = server, .events = POLLIN }, 1, 25000) != 1)
		_exit(NO_SETUP);
	peer = accept(server, NULL, NULL);
	if (peer < 0 || setsockopt(peer, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) < 0 || close(peer) < 0 ||
	    poll(&p, 1, 25000) != 1 || getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		_exit(NO_SETUP);
	return p.fd;
}

static bool send_opening(int how, int fd, const struct sockaddr_in *to)
{
	struct iovec iov = { (void *)"x", 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_name = (void *)to,
					  .msg_namelen = sizeof(*to),
					  .msg_iov = &iov,
					  .msg_iovlen = 1 } };
	const int flags = MSG_FASTOPEN | MSG_DONTWAIT | MSG_NOSIGNAL;

	switch (how) {
	case SYS_sendto:
		return syscall(SYS_sendto, fd, "x", 1, flags, to, sizeof(*to)) >= 0;
	case SYS_sendmsg:
		return syscall(SYS_sendmsg, fd, &m.msg_hdr, flags) >= 0;
	default:
		return syscall(SYS_sendmmsg, fd, &m, 1, flags) >= 0;
	}
}

/* Was there a connection to somewhere that nobody has dialled? */
static int open_by_sending(const struct fence *f, int how)
{
	struct sockaddr_in to;
	pid_t pid, inner;
	int fd, elsewhere;

	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return end_of(pid);
	own_loopback();
	fd = used_up_socket();
	elsewhere = listener(&to);
	inner = fork();
	if (inner == 0) {
		if (f)
			put_up(f);
		/* The first puts the socket back to where it began. */
		for (int i = 0; i < 3; i++)
			send_opening(how, fd, &to);
		syscall(SYS_exit_group, DID);
	}
	end_of(inner);
	/* On loopback it is there before the call returns. */
	_exit(accept(elsewhere, NULL, NULL) >= 0 ? DID : FAILED);
}

static void check_egress(void)
{
	static const int ways[] = { SYS_sendto, SYS_sendmsg, SYS_sendmmsg };

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		CHECKF(open_by_sending(NULL, ways[i]) == DID,
		       "control: a used socket can be sent elsewhere by call %d", ways[i]);
		CHECKF(open_by_sending(&egress_fence, ways[i]) == FAILED,
		       "coffer-egress cannot send a used socket elsewhere by call %d", ways[i]);
	}
	CHECK(attempt(&egress_fence, signal_parent) == DIED);
	CHECK(attempt(&egress_fence, signal_self) == DID);
	CHECK(attempt(&egress_fence, own_a_socket) == DIED);
	CHECK(attempt(&egress_fence, change_flags) == DIED);
	CHECK(attempt(&egress_fence, look_at_a_file) == DIED);
	CHECK(attempt(&egress_fence, keep_alive) == DIED);
	CHECK(attempt(&egress_fence, linger) == DID);
}

static void check_dial(void)
{
	CHECK(attempt(&dial_fence, signal_parent) == DIED);
	CHECK(attempt(&dial_fence, signal_self) == DID);
	CHECK(attempt(&dial_fence, own_a_socket) == DIED);
	CHECK(attempt(&dial_fence, change_flags) == DIED);
	CHECK(attempt(&dial_fence, look_at_a_file) == DIED);
}

static void check_vault(void)
{
	CHECK(attempt(&vault_fence, signal_parent) == DIED);
	CHECK(attempt(&vault_fence, signal_self) == DID);
	CHECK(attempt(&vault_fence, own_a_socket) == DIED);
	CHECK(attempt(&vault_fence, change_flags) == DIED);
	CHECK(attempt(&vault_fence, look_at_a_file) == DIED);
	CHECK(attempt(&vault_fence, linger) == DIED);
}

static bool open_a_file(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0;
}

static bool execute(void)
{
	static char *const argv[] = { (char *)"true", NULL }, *const env[] = { NULL };

	/* Its exit is what attempt() sees of success. */
	execve("/bin/true", argv, env);
	return false;
}

static bool make_unix(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
}

static bool make_raw(void)
{
	return socket(AF_INET, SOCK_RAW, 1) >= 0 || errno == EPERM || errno == EACCES;
}

static bool make_tcp(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0;
}

static void check_netd(void)
{
	CHECK(attempt(&netd_fence, signal_parent) == DIED);
	CHECK(attempt(&netd_fence, signal_self) == DID);
	CHECK(attempt(&netd_fence, own_a_socket) == DIED);
	CHECK(attempt(&netd_fence, change_flags) == DIED);
	CHECK(attempt(&netd_fence, keep_alive) == DIED);
	CHECK(attempt(&netd_fence, make_raw) == DIED);
	CHECK(attempt(&netd_fence, make_tcp) == DIED);
}

static void check_courier(void)
{
	CHECK(attempt(&courier_fence, signal_parent) == DIED);
	CHECK(attempt(&courier_fence, signal_self) == DID);
	CHECK(attempt(&courier_fence, own_a_socket) == DIED);
	CHECK(attempt(&courier_fence, change_flags) == DIED);
	CHECK(attempt(&courier_fence, look_at_a_file) == DIED);
	CHECK(attempt(&courier_fence, open_a_file) == DIED);
	CHECK(attempt(&courier_fence, make_unix) == DIED);
	CHECK(attempt(&courier_fence, make_raw) == DIED);
	CHECK(attempt(&courier_fence, execute) == DIED);
	CHECK(attempt(&courier_fence, make_tcp) == DID);
}

static void check_web(void)
{
	CHECK(attempt(&web_fence, signal_parent) == DIED);
	CHECK(attempt(&web_fence, signal_self) == DID);
	CHECK(attempt(&web_fence, own_a_socket) == DIED);
	CHECK(attempt(&web_fence, change_flags) == DIED);
	CHECK(attempt(&web_fence, keep_alive) == DIED);
	CHECK(attempt(&web_fence, make_tcp) == DIED);
}

/* The rules that make up for Landlock on a kernel that has none: F1 of sys/fence/fence.h. */
static void check_openers(void)
{
	static const struct fence *const all[] = { &egress_fence, &dial_fence, &courier_fence,
						   &vault_fence,  &web_fence,  &netd_fence };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		CHECKF(attempt(all[i], open_a_file) == DIED, "%s cannot open a file", all[i]->who);
		CHECKF(attempt(all[i], look_at_a_file) == DIED, "%s cannot look at a path", all[i]->who);
		CHECKF(attempt(all[i], make_unix) == DIED, "%s cannot make a UNIX socket", all[i]->who);
		CHECKF(attempt(all[i], execute) == DIED, "%s cannot execute a program", all[i]->who);
	}
}

int main(void)
{
	static bool (*const acts[])(void) = { signal_parent,  signal_self, own_a_socket, change_flags,
					      look_at_a_file, keep_alive,  linger,	 open_a_file,
					      make_unix,      make_raw,	   make_tcp };

	parent = getpid();
	sock = socket(AF_INET, SOCK_STREAM, 0);
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++)
		CHECKF(attempt(NULL, acts[i]) == DID, "act %zu is possible without a filter", i);
	check_egress();
	check_dial();
	check_vault();
	check_courier();
	check_web();
	check_netd();
	check_openers();
	return tap_done();
}
