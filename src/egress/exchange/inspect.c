/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects the inspector to the core: takes flows over, terminates TLS, chooses the HTTP version, checks
 * timeouts. Requests themselves are judged in http_decide.c. A request must not be served for another name
 * than the one that was looked up (inspect.N1).
 */
#include "egress/exchange/inspect.h"

#include "base/clock.h"
#include "base/container.h"
#include "egress/core/control.h"
#include "egress/exchange/http_secret.h"
#include "egress/exchange/upstream.h"
#include "egress/tls/ca.h"
#include "egress/tls/tls_ctx.h"
#include "egress/wire/fds.h"

#include <jansson.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#define TICK_NS (100 * NSEC_PER_MSEC)

int inspect_need_tls(struct inspect *in, struct err *e)
{
	return in->tls ? 0 : tls_ctx_new(&in->tls, in->store_fd, e);
}

int inspect_need_ca(struct inspect *in, struct err *e)
{
	int r = inspect_need_tls(in, e);

	if (r == 0 && !in->ca)
		r = ca_open(&in->ca, in->ca_fd, in->fenced, e);
	return r;
}

static void inspect_conn_bury(struct task *t)
{
	free(CONTAINER_OF(t, struct inspect_conn, grave));
}

/* Releases everything except the flow, which the core owns. */
static void inspect_conn_release(struct inspect_conn *c)
{
	struct inspect *in = c->in;

	if (c->dying)
		return;
	c->dying = true;
	h1_server_close(c);
	h2_server_close(c);
	c->flow->client.bytes = c->io.rx;
	c->flow->server.bytes = c->io.tx;
	c->flow->inspect = NULL;
	c->io.borrowed = true;
	io_close(&c->io);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	in->n_conns--;
	runq_bury(&in->q, &c->grave, inspect_conn_bury);
}

void inspect_conn_end(struct inspect_conn *c, const char *how)
{
	struct flow *f = c->flow;

	if (c->dying)
		return;
	inspect_conn_release(c);
	flow_end(f, how);
}

static void open_http_server(struct inspect_conn *c)
{
	bool h2 = c->io.ssl ? tls_is_h2(c->io.ssl) : c->in->clear_h2_front;
	int r = h2 ? h2_server_open(c) : h1_server_open(c);

	c->in->h2_conns += h2;
	c->active = c->in->eg->now;
	if (r < 0)
		inspect_conn_end(c, "error: out of memory");
}

static void inspect_conn_run(struct io *io)
{
	struct inspect_conn *c = io->owner;
	char how[256];
	int r;

	flow_touch(c->flow);
	if (!c->h1 && !c->h2) {
		r = io_handshake(io);
		if (r < 0) {
			snprintf(how, sizeof(how), "error: TLS with the client: %.200s", io->why);
			inspect_conn_end(c, how);
			return;
		}
		if (r == 0) {
			io_arm(io);
			return;
		}
		open_http_server(c);
		if (c->dying)
			return;
	}
	if (c->h1)
		h1_server_run(c);
	else
		h2_server_run(c);
}

static int inspect_open_io(struct inspect_conn *c, struct err *e)
{
	SSL *ssl = NULL;
	int r, on = 1;

	if (c->tls) {
		r = inspect_need_ca(c->in, e);
		if (r == 0)
			r = tls_ctx_accept(c->in->tls, c->in->ca, &c->host, &ssl, e);
		if (r < 0)
			return r;
	}
	setsockopt(c->flow->client.w.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return io_open(&c->io, &c->in->q, c->flow->client.w.fd, ssl, inspect_conn_run, c);
}

static void inspect_begin(struct inspect *in, struct flow *f)
{
	struct inspect_conn *c = calloc(1, sizeof(*c));
	struct policy_target t;
	struct err e = ERR_INIT;

	if (!c) {
		flow_reset(f, "error: out of memory");
		return;
	}
	c->in = in;
	c->flow = f;
	c->tls = f->hello != NULL;
	c->port = f->port;
	c->active = in->eg->now;
	flow_target(f, &c->host, &t);
	if (!f->name)
		host_from_addr(&f->addr, &c->host);
	if (inspect_open_io(c, &e) < 0) {
		egress_alert(in->eg, "inspect", c->host.text, "%s", e.msg);
		free(c);
		flow_reset(f, "error: TLS cannot be terminated");
		return;
	}
	io_unread(&c->io, f->first.data, f->first.len);
	buf_release(&f->first);
	f->inspect = c;
	c->next = in->conns;
	c->link = &in->conns;
	if (in->conns)
		in->conns->link = &c->next;
	in->conns = c;
	in->n_conns++;
	inspect_tick_on(in);
	io_kick(&c->io);
}

static struct inspect *inspect_of(struct egress *eg)
{
	return eg->inspector->ctx;
}

static void inspect_take_flow(struct egress *eg, struct flow *f)
{
	struct inspect *in = inspect_of(eg);

	runq_enter(&in->q);
	inspect_begin(in, f);
	runq_leave(&in->q);
}

static void inspect_policy_changed(struct egress *eg, struct flow *f)
{
	struct inspect *in = inspect_of(eg);
	struct exch *next;

	runq_enter(&in->q);
	for (struct exch *x = in->exchs; x; x = next) {
		next = x->all_next;
		if (x->conn && x->conn->flow == f)
			exch_new_policy(x);
	}
	upstream_new_policy(in);
	if (in->tls)
		tls_ctx_forget_cas(in->tls);
	runq_leave(&in->q);
}

static void inspect_hold(struct egress *eg, bool on)
{
	if (on)
		runq_enter(&inspect_of(eg)->q);
	else
		runq_leave(&inspect_of(eg)->q);
}

static void inspect_drop_flow(struct egress *eg, struct flow *f)
{
	struct inspect *in = inspect_of(eg);

	if (!f->inspect)
		return;
	runq_enter(&in->q);
	inspect_conn_release(f->inspect);
	runq_leave(&in->q);
}

/* The core puts these under its "inspect" object. */
static void inspect_add_stats(struct egress *eg, struct json *j)
{
	const struct inspect *in = inspect_of(eg);

	json_u64(j, "requests", in->requests);
	json_u64(j, "requests_denied", in->denied);
	json_u64(j, "requests_failed", in->failed);
	json_u64(j, "requests_now", in->n_exchs);
	json_u64(j, "held_bytes", in->held);
	json_u64(j, "h2_connections", in->h2_conns);
	json_u64(j, "upstream_dialled", in->dialled);
	json_u64(j, "upstream_reused", in->reused);
	json_u64(j, "upstream_resumed", in->resumed);
	json_u64(j, "upstream_now", in->n_ups);
	json_u64(j, "upstream_looked", in->looked);
	json_u64(j, "certificates", in->ca ? in->ca->minted : 0);
}

/* Bandwidth may be available again. */
static void exch_unpause(struct exch *e)
{
	e->paused = false;
	if (e->back)
		e->back->wake(e);
	if (e->conn && e->head_sent)
		e->front->wake(e);
}

static void exch_check_timeouts(struct exch *e, uint64_t now)
{
	const struct inspect_times *t = &e->in->times;
	uint64_t quiet = (now - e->active) / NSEC_PER_SEC;

	if (e->paused)
		exch_unpause(e);
	if (!e->conn || e->failed)
		return;
	if (((e->state == EXCH_HOLD || e->state == EXCH_LOCAL) && quiet > t->body) ||
	    (e->state == EXCH_NEW && quiet > t->head)) {
		e->failed = true;
		e->front->fail(e);
	} else if (e->state == EXCH_RENDER && quiet > t->render) {
		e->back->drop(e);
		exch_refuse(e, 503, "the vault did not respond in time, so the secret cannot be rendered");
	} else if (upstream_is_waiting(e) && quiet > t->response) {
		exch_respond_failed(e, "all connections to it were in use for too long");
	} else if (e->state == EXCH_LIVE && e->back && quiet > (e->head_sent ? t->stall : t->response)) {
		e->back->drop(e);
		if (e->head_sent)
			e->front->fail(e);
		else
			exch_respond_failed(e, "it did not respond in time");
	}
}

static void exch_check_all_timeouts(struct inspect *in, uint64_t now)
{
	struct exch *next;

	for (struct exch *e = in->exchs; e; e = next) {
		next = e->all_next;
		exch_check_timeouts(e, now);
	}
}

static void on_inspect_tick(struct timer *t)
{
	struct inspect *in = t->ctx;
	uint64_t now = in->eg->now;
	bool second = now - in->second >= NSEC_PER_SEC;
	struct inspect_conn *next;

	runq_enter(&in->q);
	if (second || in->paused) {
		in->paused = false;
		exch_check_all_timeouts(in, now);
	}
	if (second) {
		in->second = now;
		for (struct inspect_conn *c = in->conns; c; c = next) {
			next = c->next;
			if (c->h1)
				h1_server_tick(c, now);
			else if (c->h2)
				h2_server_tick(c, now);
			else if ((now - c->active) / NSEC_PER_SEC > in->times.head)
				inspect_conn_end(c, "timeout");
		}
		upstream_tick(in, now);
	}
	runq_leave(&in->q);
	/* Nothing left to watch: the next connection starts the timer again. */
	in->ticking = in->conns || in->ups;
	if (in->ticking)
		loop_timer(&in->eg->loop, &in->tick, now + (in->paused ? TICK_NS : NSEC_PER_SEC));
}

void inspect_tick_on(struct inspect *in)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	if (in->ticking && !in->paused)
		return;
	in->ticking = true;
	in->second = in->eg->now;
	loop_timer(&in->eg->loop, &in->tick, now + (in->paused ? TICK_NS : NSEC_PER_SEC));
}

int inspect_open(struct inspect **ret, struct egress *eg, int ca_fd, int store_fd, struct err *e)
{
	struct inspect *in = calloc(1, sizeof(*in));
	size_t seed;

	if (!in)
		return err_sys(e, -ENOMEM, "cannot set up inspection");
	/* Otherwise jansson would open /dev/urandom for the first document. */
	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
		free(in);
		return err_sys(e, -EIO, "cannot set up inspection");
	}
	json_object_seed(seed | 1);
	tzset(); /* certificates have dates, and the first date opens /etc/localtime */
	in->eg = eg;
	in->ca_fd = ca_fd;
	in->store_fd = store_fd;
	in->times = INSPECT_TIMES;
	in->waiting_end = &in->waiting;
	in->tick = (struct timer){ .fn = on_inspect_tick, .ctx = in };
	runq_init(&in->q, &eg->loop);
	*ret = in;
	return 0;
}

void inspect_drop_all(struct inspect *in)
{
	runq_enter(&in->q);
	while (in->conns)
		inspect_conn_end(in->conns, "policy");
	upstream_close_all(in);
	runq_leave(&in->q);
}

void inspect_close(struct inspect *in)
{
	if (!in)
		return;
	inspect_drop_all(in);
	loop_timer_off(&in->eg->loop, &in->tick);
	runq_release(&in->q);
	exch_free_spares(in);
	http_secrets_close(in);
	ca_close(in->ca);
	tls_ctx_free(in->tls);
	free(in);
}

int inspect_ca_pem(struct egress *eg, const char **ret, struct err *e)
{
	struct inspect *in = inspect_of(eg);
	int r = inspect_need_ca(in, e);

	if (r == 0)
		*ret = mint_pem(in->ca->mint);
	return r;
}

/* Programs started inside from now on must find it among their trusted certificates. */
static int send_ca_to_guard(struct egress *eg, struct err *e)
{
	struct inspect *in = inspect_of(eg);
	const char *pem = NULL;
	int r;

	if (in->ca_told)
		return 0;
	r = inspect_ca_pem(eg, &pem, e);
	if (r < 0 || !pem)
		return r;
	in->ca_told = true;
	control_send(eg, CTL_CA, pem, strlen(pem));
	return 0;
}

static int inspect_policy_loaded(struct egress *eg, struct err *e)
{
	return eg->policy && policy_needs_ca(eg->policy) ? send_ca_to_guard(eg, e) : 0;
}

static bool inspect_wants(struct egress *eg, const struct host *h, uint16_t port)
{
	return http_secrets_want(inspect_of(eg), h, port);
}

static int inspect_new_vault(struct egress *eg, int grants_fd, int vault_fd, struct err *e)
{
	struct inspect *in = inspect_of(eg);
	int r;

	runq_enter(&in->q);
	r = http_secrets_open(in, grants_fd, vault_fd, e);
	runq_leave(&in->q);
	return r;
}

static struct egress_inspector inspector = {
	.take = inspect_take_flow,
	.policy_loaded = inspect_policy_loaded,
	.policy_changed = inspect_policy_changed,
	.drop = inspect_drop_flow,
	.hold = inspect_hold,
	.add_stats = inspect_add_stats,
	.wants = inspect_wants,
	.new_vault = inspect_new_vault,
};

/* Descriptors that were not given are /dev/null. */
static int fd_if_regular(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fd : -1;
}

static bool fd_is_socket(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int inspect_install_fds(struct egress *eg, int ca_fd, int store_fd, struct err *e)
{
	struct inspect *in = NULL;
	int r = inspect_open(&in, eg, ca_fd, store_fd, e);

	if (r < 0)
		return r;
	inspector.ctx = in;
	eg->inspector = &inspector;
	return 0;
}

int inspect_install(struct egress *eg, struct err *e)
{
	int r = inspect_install_fds(eg, fd_if_regular(EGRESS_FD_CA), fd_if_regular(EGRESS_FD_STORE), e);

	if (r == 0 && fd_if_regular(EGRESS_FD_SECRETS) >= 0)
		r = http_secrets_open(inspect_of(eg), EGRESS_FD_SECRETS,
				      fd_is_socket(EGRESS_FD_VAULT) ? EGRESS_FD_VAULT : -1, e);
	if (r == 0 && ((eg->policy && policy_needs_ca(eg->policy)) || ca_is_kept(EGRESS_FD_CA) ||
		       inspect_of(eg)->secrets))
		r = send_ca_to_guard(eg, e);
	if (r == 0)
		inspect_of(eg)->fenced = true;
	return r;
}

void inspect_uninstall(struct egress *eg)
{
	struct inspect *in = inspect_of(eg);

	inspect_close(in);
	inspector.ctx = NULL;
	eg->inspector = NULL;
}
