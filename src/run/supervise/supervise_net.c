/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the guard while the command runs: notices about the network, pending asks, verdicts on ssh signatures, a
 * new channel to the vault, and a network that failed. The guard's disappearance does not end the sandbox: its network is
 * refused from then on, and the audit log says so.
 */
#include "codec/term/termrows.h"
#include "ipc/fdpass.h"
#include "run/supervise/supervise_int.h"
#include "run/supervise/tty.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define GUARD_GONE \
	"the guard process is gone, and with it the sandbox's network: all its connections are refused"

/* One row of the terminal: text that the sandbox wrote comes last in it and is cut, so it cannot start a second row. */
static void say_pending_ask(struct supervision *sv, enum net_level level, const char *text)
{
	autobuf struct buf line = BUF_INIT;
	unsigned rows, cols;

	tty_size(sv->io->err, &rows, &cols);
	prompt_notice_cut(text, termrows_cols(cols) - 1 - strlen("coffer: "), &line);
	supervise_say_text(sv, NET_ASKED, level, buf_cstr(&line));
}

static void guard_is_gone(struct supervision *sv)
{
	autobuf struct buf fields = BUF_INIT;

	loop_unwatch(&sv->loop, &sv->w_guard);
	if (sv->ended || sv->killed)
		return;
	supervise_agent_unanswered(sv);
	supervise_say_text(sv, NET_SAY, NET_LEVEL_WARN, GUARD_GONE);
	buf_adds(&fields, "\"part\":\"guard\",\"why\":\"it is gone\"");
	(void)!supervise_event(sv, "net.down", &fields);
}

static void on_guard_message(struct watch *w, uint32_t events)
{
	struct supervision *sv = w->ctx;
	struct net_msg m;
	size_t len = 0;
	int r, fd = -1;

	(void)events;
	/* The socket is blocking because other processes share it; this call does not wait. */
	r = fdpass_recv_some(w->fd, &m, sizeof(m), &len, &fd, 1);
	if (r == -EINTR || r == -EAGAIN)
		return;
	if (r >= 0 && len == sizeof(m) && m.type == NET_AGENT && fd >= 0) {
		supervise_agent_channel(sv, fd);
		return;
	}
	fd_close(fd);
	if (r < 0 || len != sizeof(m)) {
		guard_is_gone(sv);
		return;
	}
	m.text[sizeof(m.text) - 1] = '\0';
	if (m.type == NET_SAY)
		supervise_say(sv, &m);
	if (m.type == NET_ASKED && !supervise_prompt_asked(sv))
		say_pending_ask(sv, (enum net_level)m.level, m.text);
	if (m.type == NET_ALLOW || m.type == NET_DENY)
		supervise_agent_verdict(sv, m.level, m.type == NET_ALLOW, m.text);
	if (m.type == NET_FAILED && !sv->ended && !sv->killed) {
		snprintf(sv->end->broken, sizeof(sv->end->broken), "%.159s", m.text);
		supervise_kill(sv, CAUSE_NETWORK);
	}
}

int supervise_guard_watch(struct supervision *sv)
{
	sv->w_guard = (struct watch){ .fd = sv->io->guard_fd, .fn = on_guard_message, .ctx = sv };
	return sv->w_guard.fd < 0 ? 0 : loop_watch(&sv->loop, &sv->w_guard, EPOLLIN);
}
