/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of a sandbox in the warm pool (standby.h). A command that was sent must not be sent to
 * another sandbox (standby.W3).
 */
#include "base/fd.h"
#include "daemon/pool/standby.h"
#include "ipc/fdpass.h"
#include "sandbox/init/proto.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

int standby_recv_ready(int sock, struct standby_ready *ret)
{
	int r = fdpass_recv(sock, ret, sizeof(*ret), NULL, 0);

	if (r == 0 &&
	    (ret->magic != STANDBY_MAGIC || (ret->kind != STANDBY_READY && ret->kind != STANDBY_FAILED)))
		r = -EPROTO;
	ret->id[RUN_ID_LEN] = '\0';
	ret->why[sizeof(ret->why) - 1] = '\0';
	return r;
}

/* The command's strings in a memory file: they may be longer than any message. */
static int make_command_body(const struct spec *s, struct standby_go *go, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	autoclose int fd = memfd_create("go", MFD_CLOEXEC);

	buf_add(&b, s->cwd, strlen(s->cwd) + 1);
	for (size_t i = 0; i < s->argv.n; i++)
		buf_add(&b, s->argv.v[i], strlen(s->argv.v[i]) + 1);
	for (size_t i = 0; i < s->env.n; i++)
		buf_add(&b, s->env.v[i], strlen(s->env.v[i]) + 1);
	if (buf_error(&b))
		return err_set(e, -ENOMEM, "out of memory");
	if (b.len > PROTO_START_MAX || s->argv.n + s->env.n > PROTO_STRINGS_MAX)
		return err_set(e, -E2BIG, "the command's arguments and environment are too long");
	if (fd < 0 || fd_write_all(fd, b.data, b.len) < 0)
		return err_sys(e, -errno, "cannot pass on the command");
	go->body = b.len;
	go->argc = (uint32_t)s->argv.n;
	go->envc = (uint32_t)s->env.n;
	return TAKE_FD(fd);
}

static int send_command(int sock, const struct spec *s, const int stdio[3], unsigned flags, struct err *e)
{
	const struct limit *timeout = &s->limits.l[LIMIT_TIMEOUT], *output = &s->limits.l[LIMIT_OUTPUT];
	struct standby_go go = {
		.magic = STANDBY_MAGIC,
		.kind = STANDBY_GO,
		.flags = flags,
		.timeout = timeout->value,
		.timeout_named = timeout->named,
		.output = output->value,
		.output_named = output->named,
	};
	autoclose int body = make_command_body(s, &go, e);
	int fds[4] = { body, stdio[0], stdio[1], stdio[2] }, r;

	if (body < 0)
		return body;
	memcpy(go.from, s->from, sizeof(go.from));
	r = fdpass_send(sock, &go, sizeof(go), fds, ARRAY_SIZE(fds));
	return r < 0 ? err_sys(e, r, "cannot pass on the command") : 0;
}

static int recv_command_end(int sock, struct standby_end *ret, int *ret_report)
{
	size_t len;
	int r = fdpass_recv_some(sock, ret, sizeof(*ret), &len, ret_report, 1);

	if (r < 0)
		return r;
	if (len != sizeof(*ret) || ret->magic != STANDBY_MAGIC || ret->kind != STANDBY_END ||
	    ret->report != (r == 1))
		return -EPROTO;
	ret->limits_off[sizeof(ret->limits_off) - 1] = '\0';
	ret->end.broken[sizeof(ret->end.broken) - 1] = '\0';
	return 0;
}

/* Signals typed at the client are meant for the command. */
static int block_user_signals(sigset_t *old)
{
	static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		struct sigaction sa;

		if (sigaction(wanted[i], NULL, &sa) == 0 && sa.sa_handler != SIG_IGN)
			sigaddset(&set, wanted[i]);
	}
	sigprocmask(SIG_BLOCK, &set, old);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/*
 * -ECONNRESET: the launcher's end of the socket was closed with the go still unread in it. Its guard holds that end open
 * for a moment after the launcher's death, so the go could still be sent. A signal that was sent after the go may be the
 * unread message, so from then on a reset proves nothing.
 */
static int wait_for_command_end(int sock, int sig, struct standby_end *ret, int *ret_report)
{
	struct pollfd p[] = { { .fd = sock, .events = POLLIN }, { .fd = sig, .events = POLLIN } };
	struct signalfd_siginfo si;
	bool sent_signal = false;
	int r;

	while (!p[0].revents) {
		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			return -errno;
		if (p[1].revents && read(sig, &si, sizeof(si)) == sizeof(si)) {
			unsigned char c = (unsigned char)si.ssi_signo;

			(void)!send(sock, &c, 1, MSG_NOSIGNAL);
			sent_signal = true;
		}
	}
	r = recv_command_end(sock, ret, ret_report);
	return r == -ECONNRESET && sent_signal ? -EIO : r;
}

int standby_use(int sock, const struct spec *s, const int stdio[3], unsigned flags, struct standby_end *ret,
		int *ret_report, struct err *e)
{
	sigset_t old;
	/* Before the command can run: from then on signals are passed on to it. */
	autoclose int sig = block_user_signals(&old);
	int r = sig < 0 ? err_sys(e, -errno, "cannot take signals") : send_command(sock, s, stdio, flags, e);

	*ret_report = -1;
	if (r == 0) {
		r = wait_for_command_end(sock, sig, ret, ret_report);
		if (r < 0)
			r = err_set(e, r == -ECONNRESET ? r : -EIO, "the sandbox's launcher died");
	}
	sigprocmask(SIG_SETMASK, &old, NULL);
	return r;
}
