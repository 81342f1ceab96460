/* SPDX-License-Identifier: Apache-2.0 */
/* From the job's host to a connection: courier.U2. Only addresses judged here are passed to the race. */
#include "courier/courier_int.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>

#define RESOLV_CONF_MAX (64u << 10)

static void courier_dial_finish(struct courier *c, int status, const char *why)
{
	c->status = status;
	snprintf(c->why, sizeof(c->why), "%s", why);
	loop_stop(&c->loop);
}

static void on_courier_connected(struct race *r, int status, int fd, const struct addr *a)
{
	struct courier *c = r->ctx;
	char text[ADDR_TEXT_LEN];

	if (status < 0) {
		courier_dial_finish(c, status, strerror(-status));
		return;
	}
	c->sock = fd;
	courier_dial_finish(c, 0, a ? addr_format(a, text) : "");
}

/* Why an address is not dialled, "" when it may be. */
static void judge_courier_addr(struct courier *c, const struct addr *a, char why[COURIER_WHY_LEN])
{
	enum addr_class class = addr_special(a);
	char text[ADDR_TEXT_LEN];
	int own;

	why[0] = '\0';
	addr_format(a, text);
	if (class != ADDR_GLOBAL) {
		snprintf(why, COURIER_WHY_LEN,
			 "%s is %s, which is dialled only where the configuration says 'to: %s'", text,
			 addr_special_name(class), text);
		return;
	}
	own = dial_is_own(&c->own, a);
	if (own == 1)
		snprintf(
			why, COURIER_WHY_LEN,
			"%s is this host itself, which is dialled only where the configuration says 'to: %s'",
			text, text);
	else if (own < 0)
		snprintf(why, COURIER_WHY_LEN, "%s cannot be reached from here: %s", text, strerror(-own));
}

/* Dials exactly the addresses that were judged. */
static void dial_addrs(struct courier *c, const struct addr *addrs, size_t n, bool is_pinned, uint16_t port)
{
	struct addr good[RACE_ADDRS_MAX];
	char why[COURIER_WHY_LEN] = "it has no address", first[COURIER_WHY_LEN] = "";
	size_t n_good = 0;
	int r;

	for (size_t i = 0; i < n && n_good < RACE_ADDRS_MAX; i++) {
		if (is_pinned)
			why[0] = '\0';
		else
			judge_courier_addr(c, &addrs[i], why);
		if (!why[0])
			good[n_good++] = addrs[i];
		else if (!first[0])
			memcpy(first, why, sizeof(first));
	}
	if (n_good == 0) {
		courier_dial_finish(c, -EPERM, first[0] ? first : "it has no address");
		return;
	}
	c->race.done = on_courier_connected;
	c->race.ctx = c;
	r = race_start(&c->race, &c->loop, good, n_good, port);
	if (r < 0)
		courier_dial_finish(c, r, strerror(-r));
}

static void on_courier_name(struct resolve_lookup *l, struct resolve_answer *a)
{
	struct courier *c = l->ctx;

	if (a->status < 0)
		courier_dial_finish(c, a->status, a->why);
	else
		dial_addrs(c, a->addrs, a->n_addrs, false, c->job.port);
}

static void on_dial_deadline(struct timer *t)
{
	courier_dial_finish(t->ctx, -ETIMEDOUT, "the connection timed out");
}

static void begin_courier_dial(struct courier *c)
{
	const struct courier_job *j = &c->job;
	struct resolve_answer *a = NULL;
	int r;

	if (j->flags & COURIER_HAS_PIN) {
		dial_addrs(c, &j->pin, 1, true, j->pin_port);
		return;
	}
	if (j->host.kind == HOST_ADDR) {
		dial_addrs(c, &j->host.addr, 1, false, j->port);
		return;
	}
	c->lookup = (struct resolve_lookup){ .fn = on_courier_name, .ctx = c };
	r = resolver_lookup(c->resolver, &j->host, &c->lookup, &a);
	if (r < 0)
		courier_dial_finish(c, r, strerror(-r));
	else if (r == 1)
		on_courier_name(&c->lookup, a);
}

static int set_courier_servers(struct courier *c, struct err *e)
{
	struct resolve_server servers[RESOLVE_SERVERS_MAX];
	autobuf struct buf conf = BUF_INIT;
	size_t n;
	int r = c->resolv < 0 ? 0 : fd_read_all(c->resolv, RESOLV_CONF_MAX, &conf);

	if (r < 0)
		return err_sys(e, r, "cannot read the resolvers");
	n = resolver_read_conf(buf_cstr(&conf), conf.len, servers);
	return resolver_set_servers(c->resolver, servers, n, e);
}

int courier_dial_open(struct courier *c, struct err *e)
{
	int r = loop_open(&c->loop, e);

	r = r < 0 ? r : own_probe_open(&c->own, e);
	r = r < 0 ? r : resolver_open(&c->resolver, &c->loop, e);
	return r < 0 ? r : set_courier_servers(c, e);
}

int courier_dial(struct courier *c, struct err *e)
{
	int r = 0;

	c->status = -EINPROGRESS;
	c->timer = (struct timer){ .fn = on_dial_deadline, .ctx = c };
	loop_timer(&c->loop, &c->timer, c->deadline);
	begin_courier_dial(c);
	while (r == 0 && c->status == -EINPROGRESS)
		r = loop_round(&c->loop, e);
	if (r < 0)
		return r;
	if (c->status < 0)
		return err_set(e, c->status, "cannot reach %s: %s", c->job.host.text, c->why);
	return 0;
}

void courier_dial_close(struct courier *c)
{
	if (c->loop.ep < 0)
		return;
	race_cancel(&c->race);
	own_probe_release(&c->own);
	loop_timer_off(&c->loop, &c->timer);
	resolver_free(c->resolver);
	c->resolver = NULL;
	loop_close(&c->loop);
}
