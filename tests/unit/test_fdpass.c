/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that come over a socket: the right number, or none stays open. */
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static int pair[2], null_fd;

static unsigned count_open(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	BUG_ON(!d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void make_pair(int type)
{
	BUG_ON(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0);
}

static void close_pair(void)
{
	fd_close(pair[0]);
	fd_close(pair[1]);
}

static void send_with(size_t n)
{
	const int fds[] = { null_fd, null_fd, null_fd };

	CHECK(fdpass_send(pair[0], "four", 4, fds, n) == 0);
}

static void test_messages(void)
{
	char in[8];
	int fds[3] = { -1, -1, -1 };
	unsigned before;
	size_t len = 0;

	make_pair(SOCK_SEQPACKET);
	before = count_open();
	send_with(2);
	CHECK(fdpass_recv_some(pair[1], in, sizeof(in), &len, fds, 3) == 2 && len == 4 && fds[2] == -1);
	CHECKF((fcntl(fds[0], F_GETFD) & FD_CLOEXEC) && (fcntl(fds[1], F_GETFD) & FD_CLOEXEC),
	       "received descriptors are CLOEXEC");
	fd_close(fds[0]);
	fd_close(fds[1]);
	send_with(3);
	CHECKF(fdpass_recv_some(pair[1], in, sizeof(in), &len, fds, 2) == -EPROTO,
	       "more descriptors than may come are refused");
	send_with(1);
	CHECKF(fdpass_recv_some(pair[1], in, 3, &len, fds, 3) == -EPROTO,
	       "a message that is too long is refused");
	send_with(1);
	CHECKF(fdpass_recv(pair[1], in, 4, fds, 2) == -EPROTO, "fewer descriptors than expected are refused");
	send_with(1);
	CHECKF(fdpass_recv(pair[1], in, 5, fds, 1) == -EPROTO, "a message that is too short is refused");
	CHECKF(count_open() == before, "no descriptor of a refused message stays open");
	fd_close(pair[0]);
	pair[0] = -1;
	CHECK(fdpass_recv_some(pair[1], in, sizeof(in), &len, fds, 3) == -EPIPE);
	close_pair();
}

static void test_stream(void)
{
	char in[8];
	unsigned before;
	int fd = -1;

	make_pair(SOCK_STREAM);
	before = count_open();
	send_with(3);
	CHECKF(fdpass_recv_stream(pair[1], in, 3, &fd) == 3 && fd >= 0 && count_open() == before + 1,
	       "of several descriptors the first is taken, and the others are closed");
	fd_close(fd);
	CHECKF(fdpass_recv_stream(pair[1], in, sizeof(in), &fd) == 1 && fd == -1,
	       "the rest of the stream has no descriptor");
	CHECK(fd_set_nonblock(pair[1], true) == 0 &&
	      fdpass_recv_stream(pair[1], in, sizeof(in), &fd) == -EAGAIN);
	fd_close(pair[0]);
	pair[0] = -1;
	CHECK(fdpass_recv_stream(pair[1], in, sizeof(in), &fd) == 0 && fd == -1);
	close_pair();
}

int main(void)
{
	null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	BUG_ON(null_fd < 0);
	test_messages();
	test_stream();
	fd_close(null_fd);
	return tap_done();
}
