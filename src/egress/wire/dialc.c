/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of dialc.h over one SOCK_SEQPACKET: fresh requests wait for the journal, ready ones for a free
 * slot and for room in the socket. Judges nothing: the policy decided before, and coffer-dial decides again.
 */
#include "egress/wire/dialc.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BATCH 32

/* In a slot whose request was cancelled: its id is still with coffer-dial, which owes one reply. */
static struct dialc_request cancelled;

static void dial_list_init(struct dial_list *l)
{
	*l = (struct dial_list){ 0 };
	l->end = &l->first;
}

static void dial_list_add(struct dial_list *l, struct dialc_request *a)
{
	a->next = NULL;
	a->link = l->end;
	*l->end = a;
	l->end = &a->next;
	l->n++;
}

static void dial_list_remove(struct dial_list *l, struct dialc_request *a)
{
	*a->link = a->next;
	if (a->next)
		a->next->link = a->link;
	else
		l->end = a->link;
	a->link = NULL;
	a->next = NULL;
	l->n--;
}

static void free_unsent_message(struct dialc_request *a)
{
	free(a->req);
	a->req = NULL;
}

static void fail_request(struct dialc_request *a, int status, const char *why)
{
	struct dial_rep rep = { .type = DIAL_REP, .status = status };

	strncpy(rep.why, why, sizeof(rep.why) - 1);
	free_unsent_message(a);
	a->done(a, &rep, -1);
}

static void fail_requests(struct dial_list *l, int status, const char *why)
{
	struct dialc_request *a;

	/* A request made from within done() waits for the next round. */
	for (unsigned n = l->n; n && (a = l->first) != NULL; n--) {
		dial_list_remove(l, a);
		fail_request(a, status, why);
	}
}

static void reset_slots(struct dialc *d)
{
	d->n_free = DIAL_IN_FLIGHT_MAX;
	for (unsigned i = 0; i < DIAL_IN_FLIGHT_MAX; i++) {
		d->slots[i] = NULL;
		d->free_slots[i] = (uint16_t)(DIAL_IN_FLIGHT_MAX - 1 - i);
	}
}

/* Closes the link and fails every request that was sent over it, once. */
static void close_link(struct dialc *d, const char *why)
{
	loop_unwatch(d->loop, &d->w);
	d->w.fd = fd_close(d->w.fd);
	buf_clear(&d->more);
	for (unsigned i = 0; i < DIAL_IN_FLIGHT_MAX; i++) {
		struct dialc_request *a = d->slots[i];

		d->slots[i] = NULL;
		if (a && a != &cancelled) {
			a->id = 0;
			fail_request(a, -ENOTCONN, why);
		}
	}
	reset_slots(d);
	if (d->on_down)
		d->on_down(d, why);
}

/*
 * Returns the descriptor of a message; closes further ones. -1: none, -2: one was lost (no free number here).
 */
static int take_message_fd(struct msghdr *m)
{
	int fd = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
				   ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
				   : 0;

		for (size_t i = 0; i < n; i++) {
			int got;

			memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof(got));
			if (fd < 0)
				fd = got;
			else
				fd_close(got);
		}
	}
	return fd < 0 && (m->msg_flags & MSG_CTRUNC) ? -2 : fd;
}

static int take_reply_message(struct dialc *d, const struct dial_rep *rep, int fd, bool lost)
{
	struct dialc_request *a;

	a = rep->id > 0 && rep->id <= DIAL_IN_FLIGHT_MAX ? d->slots[rep->id - 1] : NULL;
	/* dialc.C3: a second reply would put the id on the stack twice, and two requests would share it. */
	if (!a) {
		fd_close(fd);
		return -EPROTO;
	}
	d->slots[rep->id - 1] = NULL;
	d->free_slots[d->n_free++] = (uint16_t)(rep->id - 1);
	if (a == &cancelled) {
		fd_close(fd);
		return 0;
	}
	a->id = 0;
	if (lost) {
		fail_request(a, -EMFILE, "this sandbox has too many connections open");
		return 0;
	}
	if ((rep->status == 0 && !a->resolve_only) != (fd >= 0)) {
		fd_close(fd);
		fail_request(a, -EPROTO, "the dialler sent a reply that does not match the request");
		return -EPROTO;
	}
	a->done(a, rep, fd);
	return 0;
}

static int take_one_message(struct dialc *d, struct mmsghdr *m)
{
	int fd = take_message_fd(&m->msg_hdr);
	union dial_msg msg;

	if (m->msg_len == 0 ||
	    dialproto_parse_to_egress(m->msg_hdr.msg_iov->iov_base, m->msg_len, &msg) < 0 ||
	    (m->msg_hdr.msg_flags & MSG_TRUNC)) {
		fd_close(fd);
		return m->msg_len == 0 ? -EPIPE : -EPROTO;
	}
	return take_reply_message(d, &msg.rep, fd, fd == -2);
}

static int take_messages(struct dialc *d)
{
	struct dial_rep reps[BATCH];
	struct iovec iov[BATCH];
	struct mmsghdr m[BATCH];
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl[BATCH];
	int n, r = 0;

	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ &reps[i], sizeof(reps[i]) };
		m[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[i],
						      .msg_iovlen = 1,
						      .msg_control = ctl[i].bytes,
						      .msg_controllen = sizeof(ctl[i].bytes) } };
	}
	n = recvmmsg(d->w.fd, m, BATCH, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, NULL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = take_one_message(d, &m[i]);
		else
			fd_close(take_message_fd(&m[i].msg_hdr));
	}
	return n == 0 ? -EPIPE : r;
}

static void on_dialler_event(struct watch *w, uint32_t events)
{
	struct dialc *d = w->ctx;
	int r = 0;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = take_messages(d);
	if (r < 0 && d->w.fd >= 0)
		close_link(d, r == -EPIPE ? "the dialler has ended" : "the dialler broke its protocol");
}

static int attach_link(struct dialc *d, int fd, struct err *e)
{
	int r;

	/*
	 * Every call on it uses MSG_DONTWAIT: once confined, this process cannot change a descriptor's flags.
	 */
	d->w = (struct watch){ .fd = fd, .fn = on_dialler_event, .ctx = d };
	r = loop_watch(d->loop, &d->w, EPOLLIN);
	if (r < 0) {
		d->w.fd = fd_close(fd);
		return err_sys(e, r, "cannot listen to the dialler");
	}
	return 0;
}

int dialc_init(struct dialc *d, struct loop *loop, int fd, struct err *e)
{
	*d = (struct dialc){ .loop = loop, .w = WATCH_INIT };
	dial_list_init(&d->fresh);
	dial_list_init(&d->ready);
	// NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
	d->slots = calloc(DIAL_IN_FLIGHT_MAX, sizeof(*d->slots));
	d->free_slots = calloc(DIAL_IN_FLIGHT_MAX, sizeof(*d->free_slots));
	if (!d->slots || !d->free_slots) {
		fd_close(fd);
		return err_sys(e, -ENOMEM, "cannot speak with the dialler");
	}
	reset_slots(d);
	return attach_link(d, fd, e);
}

void dialc_release(struct dialc *d)
{
	if (d->w.fd >= 0) {
		loop_unwatch(d->loop, &d->w);
		fd_close(d->w.fd);
	}
	free(d->slots);
	free(d->free_slots);
	buf_release(&d->more);
	*d = (struct dialc){ .w = WATCH_INIT };
}

int dialc_replace(struct dialc *d, int fd, struct err *e)
{
	if (d->w.fd >= 0)
		close_link(d, "the dialler was replaced");
	return attach_link(d, fd, e);
}

// NOLINTNEXTLINE(readability-function-size): a request has as many parts
int dialc_dial(struct dialc *d, struct dialc_request *a, const struct host *h, uint16_t port, unsigned flags,
	       uint32_t generation, const char *proxy_set, const char *sticky)
{
	if (d->fresh.n + d->ready.n >= DIALC_WAIT_MAX)
		return -EBUSY;
	a->req = malloc(sizeof(*a->req));
	if (!a->req)
		return -ENOMEM;
	dialproto_request(a->req, 0, h, port, flags);
	a->req->generation = generation;
	if (proxy_set)
		strncpy(a->req->proxy_set, proxy_set, sizeof(a->req->proxy_set) - 1);
	if (sticky)
		strncpy(a->req->sticky, sticky, sizeof(a->req->sticky) - 1);
	a->resolve_only = flags & DIAL_RESOLVE_ONLY;
	a->is_ready = false;
	a->id = 0;
	dial_list_add(&d->fresh, a);
	return 0;
}

void dialc_cancel(struct dialc *d, struct dialc_request *a)
{
	struct dial_cancel c = { .type = DIAL_CANCEL, .id = a->id };

	if (a->link) {
		dial_list_remove(a->is_ready ? &d->ready : &d->fresh, a);
	} else if (a->id) {
		d->slots[a->id - 1] = &cancelled;
		buf_add(&d->more, &c, sizeof(c));
	}
	a->id = 0;
	free_unsent_message(a);
}

void dialc_fault(struct dialc *d, const char *proxy_set, const char *proxy)
{
	struct dial_fault f = { .type = DIAL_FAULT };

	strncpy(f.proxy_set, proxy_set, sizeof(f.proxy_set) - 1);
	strncpy(f.proxy, proxy, sizeof(f.proxy) - 1);
	if (d->w.fd >= 0 && d->more.len < sizeof(f) * DIAL_IN_FLIGHT_MAX)
		buf_add(&d->more, &f, sizeof(f));
}

/* 1: all sent, 0: the socket is full, or negative errno. */
static int send_cancels_and_faults(struct dialc *d)
{
	while (d->more.len) {
		uint32_t type;
		size_t len;

		memcpy(&type, d->more.data, sizeof(type));
		len = type == DIAL_CANCEL ? sizeof(struct dial_cancel) : sizeof(struct dial_fault);
		if (send(d->w.fd, d->more.data, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			return errno == EAGAIN ? 0 : -errno;
		buf_consume(&d->more, len);
	}
	return 1;
}

/* Sends up to BATCH ready requests, each with a slot of its own. Returns how many, or negative errno. */
static int send_batch(struct dialc *d)
{
	struct dialc_request *asks[BATCH];
	struct iovec iov[BATCH];
	struct mmsghdr m[BATCH];
	unsigned n = 0;
	int sent;

	for (struct dialc_request *a = d->ready.first; a && n < BATCH && n < d->n_free; a = a->next) {
		a->req->id = d->free_slots[d->n_free - 1 - n] + 1u;
		iov[n] = (struct iovec){ a->req, sizeof(*a->req) };
		m[n] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[n], .msg_iovlen = 1 } };
		asks[n++] = a;
	}
	if (n == 0)
		return 0;
	sent = sendmmsg(d->w.fd, m, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0)
		return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? 0 : -errno;
	for (int i = 0; i < sent; i++) {
		// NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): no more are sent than were filled in
		struct dialc_request *a = asks[i];

		dial_list_remove(&d->ready, a);
		a->id = a->req->id;
		d->slots[a->id - 1] = a;
		d->n_free--;
		free_unsent_message(a);
	}
	return sent;
}

static void send_ready(struct dialc *d)
{
	int r = send_cancels_and_faults(d);

	while (r > 0 && d->ready.n && d->n_free)
		r = send_batch(d);
	if (r < 0) {
		close_link(d, "the dialler has ended");
		return;
	}
	/* Room in the socket wakes this process; a slot becomes free by a reply, which wakes it too. */
	if (loop_watch(d->loop, &d->w, r == 0 ? EPOLLIN | EPOLLOUT : EPOLLIN) < 0)
		close_link(d, "cannot wait for the dialler");
}

void dialc_flush(struct dialc *d, int status)
{
	if (status < 0) {
		fail_requests(&d->fresh, -EIO, "the journal cannot be written, so nothing is let through");
	} else {
		struct dialc_request *a;

		while ((a = d->fresh.first) != NULL) {
			dial_list_remove(&d->fresh, a);
			dial_list_add(&d->ready, a);
			a->is_ready = true;
		}
	}
	if (d->w.fd >= 0)
		send_ready(d);
	if (d->w.fd < 0)
		fail_requests(&d->ready, -ENOTCONN, "the dialler is not running; it is being restarted");
}
