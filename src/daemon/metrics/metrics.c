/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the metrics (metrics.h): collects the snapshots of all running sandboxes and responds to HTTP requests
 * on a local socket. Changes nothing.
 */
#include "daemon/metrics/metrics.h"
#include "netd/serve/net.h"

#include "audit/anchor.h"
#include "base/fd.h"
#include "codec/http/http1.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define WANTED_FOR (600 * NSEC_PER_SEC) /* after a request: longer than any scrape interval */
#define SANDBOXES_MAX 10000

struct scraper {
	struct scraper *next;
	struct metrics *m;
	struct watch w;
	struct timer late;
	struct buf in, out;
	size_t sent;
	bool done; /* response sent; more input is discarded, since closing with unread input resets it */
};

struct metrics {
	struct metrics_env env;
	struct watch w;
	struct scraper *askers;
	unsigned n_askers;
	uint64_t asked_at;
};

static void drop_scraper(struct scraper *a)
{
	struct metrics *m = a->m;
	struct scraper **p = &m->askers;

	while (*p != a)
		p = &(*p)->next;
	*p = a->next;
	m->n_askers--;
	loop_timer_off(m->env.loop, &a->late);
	loop_unwatch(m->env.loop, &a->w);
	fd_close(a->w.fd);
	buf_release(&a->in);
	buf_release(&a->out);
	free(a);
}

static void on_scraper_timeout(struct timer *t)
{
	drop_scraper(t->ctx);
}

/* --- collecting ----------------------------------------------------------------------------------------- */

static json_t *read_snapshot(int run_fd, const char *name)
{
	autobuf struct buf b = BUF_INIT;

	return fd_read_file(run_fd, name, METRICS_SNAPSHOT_MAX, &b) < 0
		       ? NULL
		       : metrics_snapshot(buf_cstr(&b), b.len);
}

/* False for a run that has ended meanwhile or is only in the warm pool. */
static bool read_sandbox(struct state *st, const char *id, struct metrics_sandbox *ret, struct run_meta *meta)
{
	struct err e = ERR_INIT;
	bool alive = false;
	autoclose int run = state_run_open(st, id, &alive, &e);

	if (run < 0 || !alive || state_meta_read(run, meta, &e) < 0)
		return false;
	*ret = (struct metrics_sandbox){
		.id = meta->id,
		.name = meta->name,
		.engine = meta->engine,
		.started = meta->started,
		.egress = read_snapshot(run, NET_STATS_EGRESS),
		.dial = read_snapshot(run, NET_STATS_DIAL),
		.asks = read_snapshot(run, ASKCOUNT_FILE),
	};
	return true;
}

static void read_audit_position(struct state *st, struct metrics_all *a)
{
	autoclose int dir = openat(st->fd, "audit", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	autoclose int fd = dir < 0 ? -1 : openat(dir, ANCHOR_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct anchor an;

	if (fd < 0 || anchor_read(fd, &an) < 0)
		return;
	a->audit_seq = an.seq;
	a->has_audit = true;
}

static int make_metrics_text(struct metrics *m, struct buf *out)
{
	struct metrics_all all = { 0 };
	autostrv struct strv ids = STRV_INIT;
	struct run_meta *metas = NULL;
	struct err e = ERR_INIT;
	size_t n = 0;
	int r = state_run_list(m->env.st, &ids, &e);

	if (r == 0) {
		n = ids.n < SANDBOXES_MAX ? ids.n : SANDBOXES_MAX;
		all.sandboxes = calloc(n + 1, sizeof(*all.sandboxes));
		metas = calloc(n + 1, sizeof(*metas));
		r = all.sandboxes && metas ? 0 : -ENOMEM;
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (read_sandbox(m->env.st, ids.v[i], &all.sandboxes[all.n], &metas[i]))
			all.n++;
	}
	read_audit_position(m->env.st, &all);
	m->env.pool(m->env.ctx, &all.pool);
	m->env.web(m->env.ctx, &all.web);
	if (r == 0)
		metrics_text(&all, out);
	for (size_t i = 0; i < all.n; i++) {
		json_decref(all.sandboxes[i].egress);
		json_decref(all.sandboxes[i].dial);
		json_decref(all.sandboxes[i].asks);
	}
	for (size_t i = 0; metas && i < n; i++)
		state_meta_release(&metas[i]);
	free(all.sandboxes);
	free(metas);
	return r < 0 ? r : buf_error(out);
}

int metrics_make_response(void *metrics, struct buf *out)
{
	return make_metrics_text(metrics, out);
}

/* --- the socket ----------------------------------------------------------------------------------------- */

static void send_response(struct scraper *a)
{
	while (a->sent < a->out.len) {
		ssize_t n = send(a->w.fd, a->out.data + a->sent, a->out.len - a->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN && loop_watch(a->m->env.loop, &a->w, EPOLLOUT) == 0)
			return;
		if (n <= 0)
			break;
		a->sent += (size_t)n;
	}
	a->done = true;
	if (a->sent < a->out.len || shutdown(a->w.fd, SHUT_WR) < 0 ||
	    loop_watch(a->m->env.loop, &a->w, EPOLLIN) < 0)
		drop_scraper(a);
}

static void respond_to_scraper(struct scraper *a, unsigned status, bool with_text)
{
	autobuf struct buf body = BUF_INIT;

	a->m->asked_at = clock_nsec(CLOCK_MONOTONIC);
	if (status == 200 && make_metrics_text(a->m, &body) < 0) {
		status = 500;
		buf_clear(&body);
	}
	if (status != 200)
		buf_addf(&body, "%s: only GET /metrics is served here\n", http1_reason(status));
	buf_addf(&a->out,
		 "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
		 "Connection: close\r\n\r\n",
		 status, http1_reason(status),
		 status == 200 ? "text/plain; version=0.0.4; charset=utf-8" : "text/plain; charset=utf-8",
		 body.len);
	if (with_text)
		buf_add(&a->out, body.data, body.len);
	if (buf_error(&body) || buf_error(&a->out))
		drop_scraper(a);
	else
		send_response(a);
}

static void on_scraper(struct watch *w, uint32_t events)
{
	struct scraper *a = w->ctx;
	char data[2048];
	unsigned status;
	ssize_t n;

	(void)events;
	if (a->out.len && !a->done) {
		send_response(a);
		return;
	}
	n = recv(w->fd, data, sizeof(data), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && a->done)
		return;
	if (n > 0)
		buf_add(&a->in, data, (size_t)n);
	if (n <= 0 || buf_error(&a->in)) {
		drop_scraper(a);
		return;
	}
	switch (metrics_parse(a->in.data, a->in.len, &status)) {
	case METRICS_MORE:
		return;
	case METRICS_TEXT:
		respond_to_scraper(a, 200, true);
		return;
	case METRICS_HEAD:
		respond_to_scraper(a, 200, false);
		return;
	default:
		respond_to_scraper(a, status, true);
	}
}

/* metrics.M1: only the owner of the state directory. */
static bool scraper_is_owner(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.uid == geteuid();
}

static void on_metrics_connection(struct watch *w, uint32_t events)
{
	struct metrics *m = w->ctx;
	autoclose int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct scraper *a = fd >= 0 && scraper_is_owner(fd) && m->n_askers < METRICS_CLIENTS
				    ? calloc(1, sizeof(*a))
				    : NULL;

	(void)events;
	if (!a)
		return;
	*a = (struct scraper){ .next = m->askers, .m = m, .in = BUF_INIT, .out = BUF_INIT };
	a->w = (struct watch){ .fd = TAKE_FD(fd), .fn = on_scraper, .ctx = a };
	a->late = (struct timer){ .fn = on_scraper_timeout, .ctx = a };
	m->askers = a;
	m->n_askers++;
	loop_timer(m->env.loop, &a->late, clock_nsec(CLOCK_MONOTONIC) + METRICS_WITHIN);
	if (loop_watch(m->env.loop, &a->w, EPOLLIN) < 0)
		drop_scraper(a);
}

int metrics_open(struct metrics **ret, const struct metrics_env *env, struct err *e)
{
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct metrics *m;
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "cannot make a socket");
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" METRICS_SOCKET, env->st->fd);
	/* Left over from a killed cofferd: our caller has the lock. */
	(void)unlinkat(env->st->fd, METRICS_SOCKET, 0);
	if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0)
		return err_sys(e, -errno, "cannot make %s/" METRICS_SOCKET, env->st->path);
	m = calloc(1, sizeof(*m));
	if (!m)
		return err_set(e, -ENOMEM, "out of memory");
	m->env = *env;
	m->w = (struct watch){ .fd = TAKE_FD(fd), .fn = on_metrics_connection, .ctx = m };
	r = loop_watch(env->loop, &m->w, EPOLLIN);
	if (r < 0) {
		metrics_close(m);
		return err_sys(e, r, "cannot watch a socket");
	}
	*ret = m;
	return 0;
}

void metrics_close(struct metrics *m)
{
	if (!m)
		return;
	while (m->askers)
		drop_scraper(m->askers);
	(void)unlinkat(m->env.st->fd, METRICS_SOCKET, 0);
	loop_unwatch(m->env.loop, &m->w);
	fd_close(m->w.fd);
	free(m);
}

bool metrics_is_wanted(const struct metrics *m, uint64_t now)
{
	return m && (m->askers || (m->asked_at && now - m->asked_at < WANTED_FOR));
}
