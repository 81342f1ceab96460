/* SPDX-License-Identifier: Apache-2.0 */
/* The link to coffer-egress: messages in, and replies out behind their lines in the journal (L4, L5 of dial.h). */
#include "egress/dial_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "ipc/fdpass.h"

#include <errno.h>
#include <sys/socket.h>

#define BATCH 64		      /* messages in one round, so that answers get their turn */
#define RESEND_NS (5 * NSEC_PER_MSEC) /* the kernel holds too many descriptors that egress has not taken */

int dial_take(struct dial *d, const void *data, size_t len)
{
	struct dial_request *r;
	union dial_msg m;
	int ret = dialproto_parse_to_dial(data, len, &m);

	if (ret < 0)
		return ret;
	switch (m.type) {
	case DIAL_REQ:
		if (dial_request_find(d, m.req.id))
			return -EPROTO;
		dial_request_new(d, &m.req);
		break;
	case DIAL_CANCEL:
		r = dial_request_find(d, m.cancel.id);
		if (r)
			dial_request_end(r, -ECANCELED, -1, NULL, NULL, "cancelled");
		break;
	case DIAL_FAULT:
		pools_fault(d->pools, m.fault.pool, m.fault.proxy);
		break;
	default:
		return -EPROTO;
	}
	return 0;
}

void dial_queue(struct dial *d, const struct dial_rep *rep, int fd, bool has_line)
{
	struct dial_reply *y = calloc(1, sizeof(*y));

	if (!y) {
		/* egress waits for each reply; one that cannot be sent ends the link, and with it all of them. */
		fd_close(fd);
		d->is_broken = true;
		return;
	}
	y->rep = *rep;
	y->fd = fd;
	y->has_line = has_line;
	TAILQ_INSERT_TAIL(&d->replies, y, link);
	d->n_replies++;
}

static void drop_reply(struct dial *d, struct dial_reply *y)
{
	TAILQ_REMOVE(&d->replies, y, link);
	d->n_replies--;
	fd_close(y->fd);
	free(y);
}

/* 0: gone; 1: not now; or the link is dead. */
static int send_one(struct dial *d, const struct dial_reply *y)
{
	int r = fdpass_send(d->egress.fd, &y->rep, sizeof(y->rep), &y->fd, y->fd >= 0);

	if (r == -ETOOMANYREFS) {
		loop_timer(&d->loop, &d->resend, clock_nsec(CLOCK_MONOTONIC) + RESEND_NS);
		return 1;
	}
	return r == -EAGAIN ? 1 : r;
}

static void watch_link(struct dial *d)
{
	uint32_t want = (d->n_replies < REPLIES_MAX ? EPOLLIN : 0u) |
			(d->n_replies && !d->resend.armed ? EPOLLOUT : 0u);

	if (loop_watch(&d->loop, &d->egress, want) < 0)
		d->is_broken = true;
}

void dial_settle(struct dial *d)
{
	int failed = journal_is_dirty(&d->journal) ? journal_commit(&d->journal) : 0;
	struct dial_reply *y, *next;

	/* What could not be recorded did not happen. */
	for (y = TAILQ_FIRST(&d->replies); failed && y; y = next) {
		next = TAILQ_NEXT(y, link);
		if (!y->has_line || y->rep.status < 0)
			continue;
		y->fd = fd_close(y->fd);
		y->rep = (struct dial_rep){ .type = DIAL_REP,
					    .id = y->rep.id,
					    .status = -EIO,
					    .why = "the journal cannot be written, so nothing is connected" };
	}
	while (!d->is_broken && !d->resend.armed && (y = TAILQ_FIRST(&d->replies))) {
		int r = send_one(d, y);

		if (r == 1)
			break;
		if (r < 0) {
			d->is_gone = true;
			break;
		}
		y->has_line = false;
		drop_reply(d, y);
	}
	if (!d->is_gone && !d->is_broken)
		watch_link(d);
	if (d->is_gone || d->is_broken)
		loop_stop(&d->loop);
}

static void on_egress(struct watch *w, uint32_t events)
{
	struct dial *d = w->ctx;
	union dial_msg m;
	size_t len = 0;

	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	for (int i = 0; i < BATCH && d->n_replies < REPLIES_MAX && !d->is_broken; i++) {
		int r = fdpass_recv_some(w->fd, &m, sizeof(m), &len, NULL, 0);

		if (r == -EAGAIN)
			return;
		if (r == -EPROTO || (r == 0 && dial_take(d, &m, len) < 0)) {
			d->is_broken = true;
		} else if (r < 0) {
			d->is_gone = true;
			return;
		}
	}
}

static void on_resend(struct timer *t)
{
	(void)t; /* dial_settle() comes behind every round */
}

int dial_serve_open(struct dial *d, int fd, struct err *e)
{
	int r = fd_set_nonblock(fd, true);

	d->egress = (struct watch){ .fd = fd, .fn = on_egress, .ctx = d };
	d->resend = (struct timer){ .fn = on_resend, .ctx = d };
	if (r == 0)
		r = loop_watch(&d->loop, &d->egress, EPOLLIN);
	return r < 0 ? err_sys(e, r, "cannot use the link to coffer-egress") : 0;
}
