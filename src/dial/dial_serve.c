/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link to coffer-egress: messages in, and replies out after their journal lines (dial.L4, dial.L5).
 * Judges nothing.
 */
#include "dial/dial_int.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define BATCHES 2		      /* per round, so that replies get their turn */
#define RESEND_NS (5 * NSEC_PER_MSEC) /* the kernel holds too many descriptors that egress has not received */

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
		proxy_sets_fault(d->proxy_sets, m.fault.proxy_set, m.fault.proxy);
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
		/*
		 * egress waits for each reply; one that cannot be sent ends the link, and with it all of
		 * them.
		 */
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

static void dequeue_reply(struct dial *d, struct dial_reply *y)
{
	TAILQ_REMOVE(&d->replies, y, link);
	d->n_replies--;
	fd_close(y->fd);
	free(y);
}

union one_fd {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static void attach_fd(struct msghdr *m, union one_fd *ctl, int fd)
{
	struct cmsghdr *c;

	*ctl = (union one_fd){ 0 };
	m->msg_control = ctl->bytes;
	m->msg_controllen = sizeof(ctl->bytes);
	c = CMSG_FIRSTHDR(m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
}

/* Returns how many of the first replies were sent; 0: none now; negative: the link is dead. */
static int send_reply_batch(struct dial *d)
{
	struct mmsghdr m[DIAL_BATCH];
	struct iovec iov[DIAL_BATCH];
	union one_fd ctl[DIAL_BATCH];
	struct dial_reply *y;
	unsigned n = 0;
	int sent;

	for (y = TAILQ_FIRST(&d->replies); y && n < DIAL_BATCH; y = TAILQ_NEXT(y, link), n++) {
		iov[n] = (struct iovec){ &y->rep, sizeof(y->rep) };
		m[n] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[n], .msg_iovlen = 1 } };
		if (y->fd >= 0)
			attach_fd(&m[n].msg_hdr, &ctl[n], y->fd);
	}
	sent = sendmmsg(d->egress.fd, m, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent >= 0)
		return sent;
	if (errno == ETOOMANYREFS)
		loop_timer(&d->loop, &d->resend, clock_nsec(CLOCK_MONOTONIC) + RESEND_NS);
	return errno == ETOOMANYREFS || errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static void watch_egress_link(struct dial *d)
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

	own_probe_forget(&d->own);
	/* A connection that could not be recorded is refused below, so it must count as new when it comes again. */
	if (failed)
		seen_forget(&d->seen);
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
	journal_settled(&d->journal);
	while (!d->is_broken && !d->is_gone && !d->resend.armed && d->n_replies) {
		int sent = send_reply_batch(d);

		d->is_gone = sent < 0;
		if (sent <= 0)
			break;
		while (sent--)
			dequeue_reply(d, TAILQ_FIRST(&d->replies));
	}
	if (!d->is_gone && !d->is_broken)
		watch_egress_link(d);
	if (d->is_gone || d->is_broken)
		loop_stop(&d->loop);
}

/*
 * Returns how many messages came; -EPROTO, or the link is dead. No message carries a descriptor
 * (dialproto.D3): there is no room for one, so the kernel drops it and sets MSG_CTRUNC.
 */
static int take_message_batch(struct dial *d)
{
	struct mmsghdr m[DIAL_BATCH];
	struct iovec iov[DIAL_BATCH];
	int n;

	for (int i = 0; i < DIAL_BATCH; i++) {
		iov[i] = (struct iovec){ &d->in[i], sizeof(d->in[i]) };
		m[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[i], .msg_iovlen = 1 } };
	}
	n = recvmmsg(d->egress.fd, m, DIAL_BATCH, MSG_DONTWAIT, NULL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		if (m[i].msg_len == 0)
			return -EPIPE;
		if ((m[i].msg_hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
		    dial_take(d, &d->in[i], m[i].msg_len) < 0)
			return -EPROTO;
	}
	return n;
}

static void on_egress_message(struct watch *w, uint32_t events)
{
	struct dial *d = w->ctx;
	int n = DIAL_BATCH;

	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	for (int i = 0; i < BATCHES && n == DIAL_BATCH && d->n_replies < REPLIES_MAX; i++)
		n = take_message_batch(d);
	d->is_broken = d->is_broken || n == -EPROTO;
	d->is_gone = d->is_gone || (n < 0 && n != -EPROTO);
}

static void on_resend(struct timer *t)
{
	(void)t; /* dial_settle() follows every round */
}

int dial_serve_open(struct dial *d, int fd, struct err *e)
{
	int r;

	d->egress = (struct watch){ .fd = fd, .fn = on_egress_message, .ctx = d };
	d->resend = (struct timer){ .fn = on_resend, .ctx = d };
	r = loop_watch(&d->loop, &d->egress, EPOLLIN);
	return r < 0 ? err_sys(e, r, "cannot use the link to coffer-egress") : 0;
}
