/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main loop of coffer-vault: polls the control channel, holders, clients and agents, and hands each
 * message to its handler (serve.h). Opens no file and makes no socket.
 */

#include "vault/serve/serve.h"

#include "base/clock.h"
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "vault/serve/serve_int.h"
#include "vault/serve/vault_fence.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#define FDS_MAX 2

void vault_release(struct vault *v)
{
	hold_end_all(v);
	store_release(&v->store);
	secmem_release(&v->key);
}

/* grant.R4: a client that broke the protocol loses everything. */
static void end_client(struct vault *v, size_t i, int why)
{
	if (why != -EPROTO && client_park(v->clients[i]))
		return;
	/* Nor is its last capture saved. */
	if (why == -EPROTO) {
		keep_free(v->clients[i]->keep);
		v->clients[i]->keep = NULL;
	}
	client_release(v->clients[i]);
	free(v->clients[i]);
	v->clients[i] = v->clients[--v->n_clients];
}

/* The length of the next message, without taking it; 0: end of the channel, or a message of impossible
 * length. */
static size_t next_length(int fd)
{
	ssize_t n = recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);

	return n > 0 && n <= VAULT_MSG_MAX ? (size_t)n : 0;
}

/* --- clients --------------------------------------------------------------------------------------------------- */

/* 0: sent, or pending; -EPIPE: the client has gone. */
static int send_response(int fd, struct secmem *pending, struct secmem *m)
{
	ssize_t n = send(fd, m->p, m->len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n == (ssize_t)m->len) {
		secmem_release(m);
		return 0;
	}
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		return -EPIPE;
	if (m != pending) {
		*pending = *m;
		*m = SECMEM_INIT;
	}
	return 0;
}

/* Handles one message of a client. It is in locked memory, because a capture contains a credential. */
static int receive_from_client(struct vault *v, struct client *c)
{
	autosecmem struct secmem in = SECMEM_INIT, out = SECMEM_INIT;
	size_t len = next_length(c->fd), got = 0;
	int r;

	if (len == 0 || secmem_new(&in, len, NULL) < 0)
		return -EPIPE;
	/* Clients may send no descriptors: one that came is a protocol error. */
	r = fdpass_recv_some(c->fd, in.p, in.cap, &got, NULL, 0);
	if (r < 0)
		return r;
	r = client_handle_message(c, &v->store, in.p, got, 0, &v->handles,
				  clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC, clock_nsec(CLOCK_MONOTONIC),
				  &out);
	return r < 0 ? r : send_response(c->fd, &c->pending, &out);
}

static void watch_channel(int fd, const struct secmem *pending, struct pollfd *p)
{
	*p = (struct pollfd){ .fd = fd, .events = pending->p ? POLLOUT : POLLIN };
}

static int on_client_event(struct vault *v, struct client *c, short events)
{
	if (c->pending.p)
		return events & (POLLHUP | POLLERR) ? -EPIPE : send_response(c->fd, &c->pending, &c->pending);
	return receive_from_client(v, c);
}

/* --- agents ---------------------------------------------------------------------------------------------------- */

/* Handles one message of an ssh-agent's channel, or sends a pending response. */
static int on_agent_event(struct vault *v, struct agent *a, short events)
{
	autosecmem struct secmem out = SECMEM_INIT;
	uint8_t in[VAULT_ASK_MAX + 256];
	size_t len = next_length(a->fd), got = 0;
	int r;

	if (a->pending.p)
		return events & (POLLHUP | POLLERR) ? -EPIPE : send_response(a->fd, &a->pending, &a->pending);
	if (len == 0 || len > sizeof(in))
		return -EPIPE;
	r = fdpass_recv_some(a->fd, in, sizeof(in), &got, NULL, 0);
	if (r < 0)
		return r;
	r = agent_handle_message(a, &v->store, in, got, clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC,
				 clock_nsec(CLOCK_MONOTONIC), &out);
	return r < 0 ? r : send_response(a->fd, &a->pending, &out);
}

static void end_agent(struct vault *v, size_t i)
{
	agent_release(v->agents[i]);
	free(v->agents[i]);
	v->agents[i] = v->agents[--v->n_agents];
}

/* --- the starter ----------------------------------------------------------------------------------------------- */

/* `by` is NULL for the starter itself. */
static int receive_request(struct vault *v, struct holder *by)
{
	int from = by ? by->fd : v->control;
	size_t len = next_length(from), got = 0;
	autofree void *in = NULL;
	int fds[FDS_MAX] = { -1, -1 };
	int n;

	/* The end of the control channel ends the process. */
	if (len == 0)
		return -EPIPE;
	in = malloc(len);
	if (!in)
		return -ENOMEM;
	n = fdpass_recv_some(from, in, len, &got, fds, FDS_MAX);
	return n < 0 ? n : control_handle_message(v, by, in, got, fds, (unsigned)n);
}

/* Backwards: a channel that ends is replaced by the last one, which was served already. */
static void serve_channels(struct vault *v, const struct pollfd *clients, const struct pollfd *agents,
			   size_t n_clients, size_t n_agents)
{
	for (size_t i = n_clients; i-- > 0;) {
		int why = clients[i].revents ? on_client_event(v, v->clients[i], clients[i].revents) : 0;

		if (why < 0)
			end_client(v, i, why);
	}
	for (size_t i = n_agents; i-- > 0;) {
		if (agents[i].revents && on_agent_event(v, v->agents[i], agents[i].revents) < 0)
			end_agent(v, i);
	}
}

/* keep.K4: saves pending changes that are due. True while any are pending. */
static bool save_pending(struct vault *v)
{
	uint64_t mono = clock_nsec(CLOCK_MONOTONIC);
	bool waits = false;

	for (size_t i = 0; i < v->n_clients; i++) {
		struct client *c = v->clients[i];

		if (keep_tick(c->keep, &c->issued, &c->grants, mono, false))
			waits = true;
	}
	return waits;
}

/* Polls all channels until the control channel ends or breaks the protocol. */
static int vault_loop(struct vault *v)
{
	struct pollfd p[2 * GRANT_CLIENTS_MAX + HOLDERS_MAX + 1];
	int r = 0;

	while (r == 0) {
		size_t n = v->n_clients, m = v->n_agents, held = v->n_holders;

		p[0] = (struct pollfd){ .fd = v->control, .events = POLLIN };
		for (size_t i = 0; i < n; i++)
			watch_channel(v->clients[i]->fd, &v->clients[i]->pending, &p[i + 1]);
		for (size_t i = 0; i < m; i++)
			watch_channel(v->agents[i]->fd, &v->agents[i]->pending, &p[n + i + 1]);
		for (size_t i = 0; i < held; i++)
			p[n + m + i + 1] = (struct pollfd){ .fd = v->holders[i]->fd, .events = POLLIN };
		if (poll(p, n + m + held + 1, save_pending(v) ? KEEP_EVERY : -1) < 0) {
			r = errno == EINTR ? 0 : -errno;
			continue;
		}
		serve_channels(v, p + 1, p + 1 + n, n, m);
		/* After the clients: the end of a holder drops clients of its sandbox. */
		for (size_t i = held; i-- > 0;) {
			if (p[n + m + i + 1].revents && receive_request(v, v->holders[i]) < 0)
				holder_end(v, i);
		}
		if (p[0].revents)
			r = receive_request(v, NULL);
	}
	return r == -EPIPE ? 0 : r;
}

/* --- start and end --------------------------------------------------------------------------------------------- */

static void report_start_failure(const struct vault *v, const struct err *e)
{
	struct vault_msg m = { .type = VAULT_FAIL };

	m.text[0] = (struct slice){ e->msg, strnlen(e->msg, VAULT_WHY_MAX) };
	m.text[1] = (struct slice){ e->hint, strnlen(e->hint, VAULT_WHY_MAX) };
	(void)!starter_send(v, &m);
}

static void ignore_terminal_signals(void)
{
	/* Keys that are typed to stop coffer are for coffer to handle; this process ends with its channel,
	 * and until then restores the terminal, from the background, too. */
	static const int ignored[] = { SIGPIPE, SIGINT, SIGQUIT, SIGTSTP, SIGTTOU,
				       SIGTTIN, SIGHUP, SIGXFSZ, SIGTERM };

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
}

int vault_main(int argc, char **argv)
{
	static struct vault v = { .control = VAULT_FD_CONTROL };
	struct vault_msg ready = { .type = VAULT_READY };
	struct err e = ERR_INIT;
	socklen_t len = sizeof(int);
	int type = 0, r;

	(void)argv;
	if (argc != 1 || getsockopt(VAULT_FD_CONTROL, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
	    type != SOCK_SEQPACKET) {
		fprintf(stderr, "coffer-vault: started by coffer when secrets are used, not by hand\n");
		return 2;
	}
	ignore_terminal_signals();
	sshsign_begin();
	r = secmem_begin(&e);
	if (r == 0)
		r = fence_up(&vault_fence, &e);
	if (r < 0)
		report_start_failure(&v, &e);
	else
		r = starter_send(&v, &ready);
	if (r == 0)
		r = vault_loop(&v);
	vault_release(&v);
	return r < 0 ? 125 : 0;
}
