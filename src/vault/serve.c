/* SPDX-License-Identifier: Apache-2.0 */
#include "vault/serve.h"

#include "base/clock.h"
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "vault/fence.h"
#include "vault/serve_int.h"

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

static void end_client(struct vault *v, size_t i)
{
	client_release(v->clients[i]);
	free(v->clients[i]);
	v->clients[i] = v->clients[--v->n_clients];
}

/* How long the next message is, without taking it; 0: the end, or nothing that could be one. */
static size_t next_length(int fd)
{
	ssize_t n = recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);

	return n > 0 && n <= VAULT_MSG_MAX ? (size_t)n : 0;
}

/* --- clients --------------------------------------------------------------------------------------------------- */

/* 0: gone, or it waits; -EPIPE: the client is no more. */
static int send_answer(struct client *c, struct secmem *m)
{
	ssize_t n = send(c->fd, m->p, m->len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n == (ssize_t)m->len) {
		secmem_release(m);
		return 0;
	}
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		return -EPIPE;
	if (m != &c->pending) {
		c->pending = *m;
		*m = SECMEM_INIT;
	}
	return 0;
}

static int serve_client(struct vault *v, struct client *c)
{
	autosecmem struct secmem in = SECMEM_INIT, out = SECMEM_INIT;
	size_t len = next_length(c->fd), got = 0;
	int r;

	if (len == 0 || secmem_new(&in, len, NULL) < 0)
		return -EPIPE;
	/* No descriptor is taken: one that came is an error. */
	r = fdpass_recv_some(c->fd, in.p, in.cap, &got, NULL, 0);
	if (r < 0)
		return r;
	r = client_take(c, &v->store, in.p, got, 0, &v->handles, clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC,
			clock_nsec(CLOCK_MONOTONIC), &out);
	return r < 0 ? r : send_answer(c, &out);
}

static void watch_client(const struct client *c, struct pollfd *p)
{
	*p = (struct pollfd){ .fd = c->fd, .events = c->pending.p ? POLLOUT : POLLIN };
}

static int on_client(struct vault *v, struct client *c, short events)
{
	if (c->pending.p)
		return events & (POLLHUP | POLLERR) ? -EPIPE : send_answer(c, &c->pending);
	return serve_client(v, c);
}

/* --- the starter ----------------------------------------------------------------------------------------------- */

/* `by` is NULL for the starter itself. */
static int on_control(struct vault *v, struct holder *by)
{
	int from = by ? by->fd : v->control;
	size_t len = next_length(from), got = 0;
	autofree void *in = NULL;
	int fds[FDS_MAX] = { -1, -1 };
	int n;

	/* The end of the channel is the end of all. */
	if (len == 0)
		return -EPIPE;
	in = malloc(len);
	if (!in)
		return -ENOMEM;
	n = fdpass_recv_some(from, in, len, &got, fds, FDS_MAX);
	return n < 0 ? n : control_take(v, by, in, got, fds, (unsigned)n);
}

static int serve(struct vault *v)
{
	struct pollfd p[GRANT_CLIENTS_MAX + HOLDERS_MAX + 1];
	int r = 0;

	while (r == 0) {
		size_t n = v->n_clients, held = v->n_holders;

		p[0] = (struct pollfd){ .fd = v->control, .events = POLLIN };
		for (size_t i = 0; i < n; i++)
			watch_client(v->clients[i], &p[i + 1]);
		for (size_t i = 0; i < held; i++)
			p[n + i + 1] = (struct pollfd){ .fd = v->holders[i]->fd, .events = POLLIN };
		if (poll(p, n + held + 1, -1) < 0) {
			r = errno == EINTR ? 0 : -errno;
			continue;
		}
		/* From the last: one that ends is replaced by the last, which was served. */
		for (size_t i = n; i-- > 0;) {
			if (p[i + 1].revents && on_client(v, v->clients[i], p[i + 1].revents) < 0)
				end_client(v, i);
		}
		for (size_t i = held; i-- > 0;) {
			if (p[n + i + 1].revents && on_control(v, v->holders[i]) < 0)
				holder_end(v, i);
		}
		if (p[0].revents)
			r = on_control(v, NULL);
	}
	return r == -EPIPE ? 0 : r;
}

/* --- start and end --------------------------------------------------------------------------------------------- */

static void say_fail(const struct vault *v, const struct err *e)
{
	struct vault_msg m = { .type = VAULT_FAIL };

	m.text[0] = (struct slice){ e->msg, strnlen(e->msg, VAULT_WHY_MAX) };
	m.text[1] = (struct slice){ e->hint, strnlen(e->hint, VAULT_WHY_MAX) };
	(void)!control_say(v, &m);
}

static void plain_signals(void)
{
	/* A key that is typed to stop coffer is coffer's to answer; this one ends with its channel, and until then puts the
	 * terminal back, from the background too. */
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
	plain_signals();
	r = secmem_begin(&e);
	if (r == 0)
		r = vault_fence(&e);
	if (r < 0)
		say_fail(&v, &e);
	else
		r = control_say(&v, &ready);
	if (r == 0)
		r = serve(&v);
	vault_release(&v);
	return r < 0 ? 125 : 0;
}
