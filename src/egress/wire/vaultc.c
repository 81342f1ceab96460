/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request queue of vaultc.h over one SOCK_SEQPACKET. Secret bytes live only in v->in, which is zeroed
 * after each reply (vaultc.C2); this file never copies or logs them.
 */
#include "egress/wire/vaultc.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define VAULTC_IN (VAULT_SECRET_MAX + 4096)
#define IN_FLIGHT_MAX 200
#define WAIT_MAX 4096

static void on_vault_readable(struct watch *w, uint32_t events);

int vaultc_init(struct vaultc *v, struct loop *loop, struct err *e)
{
	*v = (struct vaultc){ .loop = loop, .w = WATCH_INIT };
	v->end = &v->first;
	v->in = calloc(1, VAULTC_IN);
	return v->in ? 0 : err_sys(e, -ENOMEM, "cannot send requests to the vault");
}

static void dequeue_request(struct vaultc *v, struct vaultc_request *a)
{
	*a->link = a->next;
	if (a->next)
		a->next->link = a->link;
	else
		v->end = a->link;
	a->link = NULL;
	buf_release(&a->msg);
}

/* vaultc.C3: refuses every queued request, once. */
static void close_channel(struct vaultc *v, const char *why)
{
	struct vaultc_request *a;

	if (v->w.fd < 0)
		return;
	loop_unwatch(v->loop, &v->w);
	v->w.fd = fd_close(v->w.fd);
	v->in_flight = 0;
	if (v->on_down)
		v->on_down(v, why);
	/* A callback may queue a new request: it gets -EPIPE at once. */
	while ((a = v->first) != NULL) {
		dequeue_request(v, a);
		a->done(a, -EPIPE, SLICE_NONE, "the vault is not running");
	}
}

void vaultc_release(struct vaultc *v)
{
	while (v->first)
		dequeue_request(v, v->first);
	if (v->w.fd >= 0)
		loop_unwatch(v->loop, &v->w);
	v->w.fd = fd_close(v->w.fd);
	if (v->in)
		explicit_bzero(v->in, VAULTC_IN);
	free(v->in);
	v->in = NULL;
}

int vaultc_connect(struct vaultc *v, int fd, struct err *e)
{
	int r;

	close_channel(v, "it was replaced");
	v->w = (struct watch){ .fd = fd, .fn = on_vault_readable, .ctx = v };
	r = loop_watch(v->loop, &v->w, EPOLLIN);
	if (r < 0)
		v->w.fd = fd_close(fd);
	return r < 0 ? err_sys(e, r, "cannot listen to the vault") : 0;
}

/* 0 also when the vault accepts no more for now: its next reply triggers another attempt. */
static int send_queued(struct vaultc *v)
{
	for (struct vaultc_request *a = v->first; a && v->in_flight < IN_FLIGHT_MAX; a = a->next) {
		if (!a->msg.len)
			continue;
		if (send(v->w.fd, a->msg.data, a->msg.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
			if (errno == EINTR)
				continue;
			return errno == EAGAIN && v->in_flight ? 0 : -errno;
		}
		buf_release(&a->msg);
		v->in_flight++;
	}
	return 0;
}

static int pack_request(struct vaultc_request *a, const struct vault_msg *m)
{
	size_t size = vault_msg_size(VAULT_FROM_CLIENT, m);
	char *p;
	long n;

	a->msg.wipe = true;
	p = size ? buf_reserve(&a->msg, size) : NULL;
	n = p ? vault_msg_pack(VAULT_FROM_CLIENT, m, p, size) : size ? -ENOMEM : -EINVAL;

	if (n < 0)
		return (int)n;
	a->msg.len += (size_t)n;
	return 0;
}

static int queue_request(struct vaultc *v, struct vaultc_request *a, struct vault_msg *m)
{
	unsigned n = 0;
	int r;

	if (v->w.fd < 0)
		return -EPIPE;
	for (const struct vaultc_request *x = v->first; x; x = x->next)
		n++;
	if (n >= WAIT_MAX)
		return -EBUSY;
	m->id = a->id = ++v->last_id ? v->last_id : ++v->last_id;
	r = pack_request(a, m);
	if (r < 0) {
		buf_release(&a->msg);
		return r;
	}
	a->next = NULL;
	a->link = v->end;
	*v->end = a;
	v->end = &a->next;
	r = send_queued(v);
	if (r < 0)
		dequeue_request(v, a);
	return r;
}

int vaultc_render(struct vaultc *v, struct vaultc_request *a, uint32_t handle, const char *host,
		  uint16_t port, struct slice path)
{
	struct vault_msg m = { .type = VAULT_RENDER,
			       .num = { handle, port },
			       .text = { slice_of(host), path } };

	a->reply_type = VAULT_RENDERED;
	return queue_request(v, a, &m);
}

int vaultc_capture(struct vaultc *v, struct vaultc_request *a, const struct vaultc_issued *i)
{
	struct vault_msg m = { .type = VAULT_CAPTURE,
			       .num = { i->issuer, i->expires_in, i->carried },
			       .text = { i->value, slice_of(i->member) } };

	a->reply_type = VAULT_CAPTURED;
	return queue_request(v, a, &m);
}

void vaultc_cancel(struct vaultc *v, struct vaultc_request *a)
{
	if (a->link)
		dequeue_request(v, a);
}

static struct vaultc_request *find_request(const struct vaultc *v, uint32_t id)
{
	struct vaultc_request *a = v->first;

	while (a && (a->id != id || a->msg.len))
		a = a->next;
	return a;
}

/* Handles one reply. False when the channel must be closed. */
static bool take_vault_reply(struct vaultc *v, size_t len)
{
	struct vaultc_request *a;
	struct vault_msg m;
	char why[VAULT_WHY_MAX + 1];

	if (vault_msg_parse(VAULT_TO_CLIENT, v->in, len, 0, &m) < 0 ||
	    (m.type != VAULT_RENDERED && m.type != VAULT_CAPTURED && m.type != VAULT_REFUSED) ||
	    v->in_flight == 0)
		return false;
	v->in_flight--;
	a = find_request(v, m.id);
	if (!a)
		return true;
	if (m.type != VAULT_REFUSED && m.type != a->reply_type)
		return false;
	dequeue_request(v, a);
	if (m.type != VAULT_REFUSED) {
		a->handle = (uint32_t)m.num[0];
		a->dropped = (uint32_t)m.num[1];
		a->expires = m.num[2];
		a->kept = m.num[3];
		a->name = m.text[1];
		a->done(a, 0, m.text[0], NULL);
		return true;
	}
	snprintf(why, sizeof(why), "%.*s", (int)m.text[0].len, m.text[0].p ? m.text[0].p : "");
	a->done(a, m.status, SLICE_NONE, why);
	return true;
}

static void on_vault_readable(struct watch *w, uint32_t events)
{
	struct vaultc *v = w->ctx;
	ssize_t n;
	bool ok;

	(void)events;
	while ((n = recv(v->w.fd, v->in, VAULTC_IN, MSG_DONTWAIT | MSG_TRUNC)) > 0) {
		ok = (size_t)n <= VAULTC_IN && take_vault_reply(v, (size_t)n);
		explicit_bzero(v->in, (size_t)n < VAULTC_IN ? (size_t)n : VAULTC_IN);
		if (!ok) {
			close_channel(v, "it broke the protocol");
			return;
		}
		if (v->w.fd < 0)
			return;
		if (send_queued(v) < 0)
			break;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	close_channel(v, "it closed its channel");
}
