/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: loads policies, passes a new dialler or vault on, reports statistics, carries asks and
 * their answers. A policy that cannot be loaded leaves none in force, which denies everything (egress.E2).
 */
#include "egress/core/control.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "crypto/hash.h"
#include "egress/core/asking.h"
#include "egress/core/flow.h"
#include "ipc/fdpass.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define BUNDLE_MAX (512u << 20)
#define QUEUE_MAX (4u << 20) /* more than all asks that may be pending */

struct control {
	struct watch w;
	void *bundle; /* mapped */
	size_t bundle_len;
	struct buf queue; /* messages that did not fit into the socket: a u32 length, then the message */
	size_t queue_at;
};

void control_send(struct egress *eg, enum ctl_type type, const char *text, size_t len)
{
	struct ctl_head h = { .type = (uint32_t)type, .generation = eg->generation };
	struct iovec iov[2] = { { &h, sizeof(h) },
				{ (void *)text, len < CTL_TEXT_MAX ? len : CTL_TEXT_MAX } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = len ? 2 : 1 };

	if (sendmsg(eg->control->w.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		eg->quitting = true;
		eg->exit_code = 1;
	}
}

/* False: the socket is full. */
static bool send_message(struct egress *eg, const void *data, size_t len)
{
	if (send(eg->control->w.fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return true;
	if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
		return false;
	eg->quitting = true;
	eg->exit_code = 1;
	return true;
}

static void send_queued_messages(struct egress *eg)
{
	struct control *c = eg->control;
	uint32_t len;

	while (c->queue_at < c->queue.len) {
		memcpy(&len, c->queue.data + c->queue_at, sizeof(len));
		if (!send_message(eg, c->queue.data + c->queue_at + sizeof(len), len))
			break;
		c->queue_at += sizeof(len) + len;
	}
	if (c->queue_at == c->queue.len) {
		buf_release(&c->queue);
		c->queue_at = 0;
	}
	if (loop_watch(&eg->loop, &c->w, (uint32_t)(EPOLLIN | (c->queue.len ? EPOLLOUT : 0))) < 0)
		eg->quitting = true;
}

void control_queue(struct egress *eg, enum ctl_type type, const void *data, size_t len)
{
	struct ctl_head h = { .type = (uint32_t)type, .generation = eg->generation };
	struct control *c = eg->control;
	uint32_t n = (uint32_t)(sizeof(h) + len);

	if (!c)
		return;
	buf_add(&c->queue, &n, sizeof(n));
	buf_add(&c->queue, &h, sizeof(h));
	buf_add(&c->queue, data, len);
	/*
	 * A message that never reaches the guard would leave its counts wrong: exit, since a new process
	 * starts with none.
	 */
	if (buf_error(&c->queue) || c->queue.len - c->queue_at > QUEUE_MAX) {
		eg->quitting = true;
		eg->exit_code = 1;
		return;
	}
	send_queued_messages(eg);
}

void control_poke(struct egress *eg)
{
	const struct ctl_head h = { .type = CTL_FOLD, .generation = eg->generation };

	/* A guard that is busy with such messages will read the journal anyway. */
	if (eg->control)
		(void)!send(eg->control->w.fd, &h, sizeof(h), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_result(struct egress *eg, int r, const struct err *e)
{
	if (r < 0)
		control_send(eg, CTL_ERROR, e->msg, strlen(e->msg));
	else
		control_send(eg, CTL_OK, NULL, 0);
}

static int map_bundle(int fd, void **ret, size_t *ret_len, struct err *e)
{
	const int seals = F_SEAL_WRITE | F_SEAL_SHRINK;
	struct stat st;
	int have = fcntl(fd, F_GET_SEALS);
	void *p;

	if (have < 0 || (have & seals) != seals)
		return err_set(e, -EPERM, "the policy's memory is not sealed");
	/* The C library's fstat() is another system call, one that can open paths. */
	if (syscall(SYS_fstat, fd, &st) < 0)
		return err_sys(e, -errno, "cannot get the size of the policy");
	if (st.st_size <= 0 || st.st_size > BUNDLE_MAX)
		return err_set(e, -EFBIG, "the policy has a wrong size");
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_sys(e, -errno, "cannot map the policy");
	*ret = p;
	*ret_len = (size_t)st.st_size;
	return 0;
}

static void journal_policy(struct egress *eg)
{
	unsigned char digest[POLICY_DIGEST_LEN];
	char hex[2 * POLICY_DIGEST_LEN + 1];
	struct json *l = journal_begin(&eg->journal, "policy");

	json_u64(l, "generation", eg->generation);
	if (eg->policy) {
		policy_digest(eg->policy, digest);
		hash_hex(digest, sizeof(digest), hex);
		json_str(l, "digest", hex);
	} else {
		journal_str(l, "why", eg->why_none, sizeof(eg->why_none));
	}
	journal_end(&eg->journal);
}

int control_load(struct egress *eg, int fd, uint32_t generation, struct err *e)
{
	struct control *c = eg->control;
	struct policy *old = eg->policy, *p = NULL;
	void *old_bundle = c->bundle, *bundle = NULL;
	size_t old_len = c->bundle_len, len = 0;
	int r = map_bundle(fd, &bundle, &len, e);

	if (r == 0)
		r = policy_unpack(bundle, len, &p, e);
	if (r < 0) {
		if (bundle)
			munmap(bundle, len);
		bundle = NULL;
		snprintf(eg->why_none, sizeof(eg->why_none), "the policy cannot be read: %.200s",
			 e ? e->msg : "");
	}
	eg->policy = p;
	eg->generation = p && policy_generation(p) ? policy_generation(p) : generation;
	c->bundle = bundle;
	c->bundle_len = bundle ? len : 0;
	journal_policy(eg);
	limits_load(&eg->limits, p);
	flow_rejudge_all(eg);
	/* Nothing refers to the old policy any more. */
	policy_free(old);
	if (old_bundle)
		munmap(old_bundle, old_len);
	return r;
}

static int replace_policy(struct egress *eg, int fd, uint32_t generation, struct err *e)
{
	int r = control_load(eg, fd, generation, e);

	return r == 0 && eg->inspector && eg->inspector->policy_loaded ? eg->inspector->policy_loaded(eg, e)
								       : r;
}

static void add_connection_stats(struct egress *eg, struct json *j)
{
	const struct egress_stats *s = &eg->stats;

	json_obj(j, "connections");
	json_u64(j, "open", eg->n_flows);
	json_u64(j, "opened", s->opened);
	json_u64(j, "allowed", s->allowed);
	json_u64(j, "denied", s->denied);
	json_u64(j, "mismatched", s->mismatched);
	json_u64(j, "limited", s->limited);
	json_u64(j, "failed", s->failed);
	json_u64(j, "shed", s->shed);
	for (int i = 0; i < 3; i++)
		json_u64(j, policy_depth_name((enum policy_depth)i), s->by_depth[i]);
	json_end_obj(j);
}

/* Limits of the sandbox as a whole, and its use of them. */
static void add_budget_stats(struct egress *eg, struct json *j)
{
	const struct limit *l = &eg->limits.all;

	json_obj(j, "budget");
	if (l->max.bytes_up) {
		json_u64(j, "bytes_up_max", l->max.bytes_up);
		json_u64(j, "bytes_up", l->up ? *l->up : 0);
	}
	if (l->max.connections) {
		json_u64(j, "connections_max", l->max.connections);
		json_u64(j, "connections", l->connections);
	}
	if (l->max.requests_per_minute) {
		json_u64(j, "requests_max", l->max.requests_per_minute);
		json_u64(j, "requests", l->requests);
	}
	json_end_obj(j);
}

/* Use of the log by new things (ledger.h). */
static void add_ledger_stats(struct egress *eg, struct json *j)
{
	const struct ledger *l = &eg->ledger;

	json_obj(j, "log");
	json_u64(j, "bytes", *l->used);
	json_u64(j, "waiting", l->n_waits);
	json_u64(j, "waited", l->waited);
	json_u64(j, "late", l->late);
	json_u64(j, "full", l->full);
	json_end_obj(j);
}

void control_stats(struct egress *eg, struct buf *out)
{
	struct json j = JSON_INIT(out);
	uint64_t up = eg->stats.up, down = eg->stats.down;
	const struct egress_stats *s = &eg->stats;
	struct flow *f;

	/* Open connections count with their bytes so far. */
	TAILQ_FOREACH(f, &eg->flows, in_all)
	{
		up += f->client.bytes;
		down += f->server.bytes;
	}
	json_obj(&j, NULL);
	json_u64(&j, "generation", eg->generation);
	json_bool(&j, "policy", eg->policy != NULL);
	add_connection_stats(eg, &j);
	json_obj(&j, "bytes");
	json_u64(&j, "up", up);
	json_u64(&j, "down", down);
	json_end_obj(&j);
	json_obj(&j, "dns");
	json_u64(&j, "queries", s->dns_queries);
	json_u64(&j, "allowed", s->dns_allowed);
	json_u64(&j, "denied", s->dns_denied);
	json_u64(&j, "failed", s->dns_failed);
	json_u64(&j, "malformed", s->dns_bad);
	json_u64(&j, "dropped", s->dns_dropped);
	json_u64(&j, "names", eg->names.n);
	json_end_obj(&j);
	add_budget_stats(eg, &j);
	json_u64(&j, "asking", eg->n_asking);
	add_ledger_stats(eg, &j);
	json_u64(&j, "refused", s->refused);
	json_bool(&j, "dial", eg->dial.w.fd >= 0);
	json_u64(&j, "journal_dropped", eg->journal.dropped);
	if (eg->inspector && eg->inspector->add_stats) {
		json_obj(&j, "inspect");
		eg->inspector->add_stats(eg, &j);
		json_end_obj(&j);
	}
	json_end_obj(&j);
}

static int replace_vault(struct egress *eg, const int fds[2], struct err *e)
{
	if (fds[0] < 0 || fds[1] < 0)
		return err_set(e, -EBADMSG, "no vault came with the message");
	if (!eg->inspector || !eg->inspector->new_vault)
		return err_set(e, -ENOSYS, "secrets need inspection, which is not available");
	return eg->inspector->new_vault(eg, fds[0], fds[1], e);
}

static void handle_command(struct egress *eg, const struct ctl_head *h, int fds[2])
{
	struct err e = ERR_INIT;
	autobuf struct buf out = BUF_INIT;

	switch (h->type) {
	case CTL_NEW_BUNDLE:
		send_result(eg,
			    fds[0] < 0 ? err_set(&e, -EBADMSG, "no policy came with the message")
				       : replace_policy(eg, fds[0], h->generation, &e),
			    &e);
		return;
	case CTL_NEW_DIAL:
		send_result(eg,
			    fds[0] < 0 ? err_set(&e, -EBADMSG, "no socket came with the message")
				       : dialc_replace(&eg->dial, TAKE_FD(fds[0]), &e),
			    &e);
		return;
	case CTL_NEW_VAULT:
		send_result(eg, replace_vault(eg, fds, &e), &e);
		return;
	case CTL_STATS:
		control_stats(eg, &out);
		control_send(eg, CTL_STATS, buf_cstr(&out), out.len);
		return;
	case CTL_PING:
		control_send(eg, CTL_OK, NULL, 0);
		return;
	case CTL_QUIT:
		eg->quitting = true;
		return;
	default:
		err_set(&e, -EBADMSG, "message %u is not known", h->type);
		send_result(eg, -EBADMSG, &e);
	}
}

static void on_guard_message(struct watch *w, uint32_t events)
{
	struct egress *eg = w->ctx;
	struct {
		struct ctl_head h;
		struct ctl_answer answer;
	} m = { 0 };
	int fds[2] = { -1, -1 };
	size_t len = 0;
	int r;

	if (events & EPOLLOUT)
		send_queued_messages(eg);
	r = fdpass_recv_some(w->fd, &m, sizeof(m), &len, fds, 2);
	if (r == -EAGAIN)
		return;
	if (r == 0 && len == sizeof(m) && m.h.type == CTL_ANSWER) {
		asking_answered(eg, &m.answer);
		return;
	}
	if (r == 0 && len == sizeof(m) && m.h.type == CTL_ASKED) {
		asking_named(eg, &m.answer);
		return;
	}
	if (r < 0 || len != sizeof(m.h)) {
		/* Without the guard no process would restart the dialler or fold the journal: exit. */
		eg->quitting = true;
		eg->exit_code = r == -EPIPE ? 0 : 1;
		loop_unwatch(&eg->loop, w);
		return;
	}
	handle_command(eg, &m.h, fds);
	fd_close(fds[0]);
	fd_close(fds[1]);
}

int control_open(struct egress *eg, int fd, struct err *e)
{
	int r;

	eg->control = calloc(1, sizeof(*eg->control));
	if (!eg->control)
		return err_sys(e, -ENOMEM, "cannot listen to the guard");
	eg->control->w = (struct watch){ .fd = fd, .fn = on_guard_message, .ctx = eg };
	r = fd_set_nonblock(fd, true);
	if (r == 0)
		r = loop_watch(&eg->loop, &eg->control->w, EPOLLIN);
	return r < 0 ? err_sys(e, r, "cannot listen to the guard") : 0;
}

void control_close(struct egress *eg)
{
	if (!eg->control)
		return;
	loop_unwatch(&eg->loop, &eg->control->w);
	fd_close(eg->control->w.fd);
	policy_free(eg->policy);
	eg->policy = NULL;
	if (eg->control->bundle)
		munmap(eg->control->bundle, eg->control->bundle_len);
	buf_release(&eg->control->queue);
	free(eg->control);
	eg->control = NULL;
}
