/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher between a hostile init and clients: any bytes as if from init, any bytes as if from a client, in any
 * order. The input is a row of steps: one byte who (init, one of three clients, a client that goes, time), one byte
 * how many, the bytes. One client never reads, so its queue is seen to stay bounded. Two have connected to a port that leads
 * inside, on channels 2 and 3; one of these never reads either. Channel 4 and later ones are for programs at the
 * ssh-agent, and the vault's answers are the input's too.
 */
#include "base/clock.h"
#include "fakekernel.h"
#include "run/supervise/supervise_int.h"
#include "vault/common/vaultproto.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CLIENTS 3
#define PORT_CLIENTS 2

static int on_event(void *ctx, const char *type, const struct buf *fields)
{
	unsigned *n = ctx;

	/* Now and then the log is full. */
	BUG_ON(!type || buf_error(fields));
	return ++*n % 61 == 0 ? -28 : 0;
}

static void on_pump(void *ctx)
{
	supervise_flush_init(ctx);
}

struct world {
	struct supervision sv;
	struct spec spec;
	struct engine_run run;
	struct supervise_io io;
	struct run_end end;
	struct err err;
	unsigned events;
	bool init_dead;
	struct client *client[CLIENTS];
	int unread; /* the other end of client 0 */
	struct timer now;
	int vault;		/* the other end of the agent's channel */
	int guard;		/* the other end of the guard's */
	unsigned allowed;	/* by a person, and not with the vault yet */
	int port[PORT_CLIENTS]; /* theirs of those that connected to a port */
};

static void add_client(struct world *w, int i)
{
	int p[2] = { -1, -1 };

	if (i == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) < 0)
		return;
	BUG_ON(supervise_client_add(&w->sv, p[0], 1, 0) < 0);
	w->client[i] = w->sv.clients;
	if (i == 0)
		w->unread = p[1];
}

static void on_now(struct timer *t)
{
	(void)t;
}

static void world_open(struct world *w)
{
	const struct pump_opts o = { .in = -1,
				     .out = -1,
				     .err = -1,
				     .tty = -1,
				     .log_fd = -1,
				     .limit = 1000,
				     .kick = on_pump,
				     .ctx = &w->sv };
	struct chan *ch;

	memset(w, 0, sizeof(*w));
	w->spec = SPEC_INIT;
	for (int i = 0; i < LIMIT_COUNT; i++)
		w->spec.limits.l[i].value = 1000;
	w->run = ENGINE_RUN_INIT;
	w->io = (struct supervise_io){ .in = -1,
				       .out = -1,
				       .err = -1,
				       .tty = -1,
				       .log_fd = -1,
				       .alive_fd = -1,
				       .guard_fd = -1,
				       .listen_fd = -1,
				       .usage_fd = -1,
				       .usage2_fd = -1,
				       .engine_log = -1,
				       .event = on_event,
				       .ctx = &w->events };
	w->unread = -1;
	w->now.fn = on_now;
	w->sv = (struct supervision){
		.spec = &w->spec, .run = &w->run, .io = &w->io, .end = &w->end, .err = &w->err
	};
	w->sv.cause = CAUSE_COUNT;
	conn_init(&w->sv.init, -1);
	w->sv.w_init = WATCH_INIT;
	BUG_ON(loop_open(&w->sv.loop, NULL) < 0);
	supervise_start_timeout(&w->sv);
	BUG_ON(pump_open(&w->sv.pump, &w->sv.loop, &w->sv.init, SUPERVISE_MAIN_CHAN, &o, NULL) < 0);
	w->sv.pump.in_on = true;
	w->sv.pump.in_done = true;
	ch = supervise_chan_new(&w->sv, NULL, 0);
	if (!ch)
		abort();
	ch->is_main = true;
	ch->id = w->sv.last_chan = SUPERVISE_MAIN_CHAN;
	ch->state = CHAN_STARTING;
	ch->flags = PROTO_F_STDIN;
	for (int i = 0; i < CLIENTS; i++)
		add_client(w, i);
	w->sv.agent.w = WATCH_INIT;
	w->vault = -1;
	for (int i = 0; i < PORT_CLIENTS; i++) {
		int p[2];

		BUG_ON(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) < 0);
		w->port[i] = p[1];
		supervise_port_begin(&w->sv, p[0], 80);
	}
}

static void open_agent(struct world *w)
{
	int p[2];

	BUG_ON(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) < 0);
	w->io.guard_fd = p[0];
	w->guard = p[1];
	BUG_ON(supervise_guard_watch(&w->sv) < 0);
	BUG_ON(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) < 0);
	w->io.agent = true;
	w->io.agent_fd = p[0];
	w->vault = p[1];
	supervise_agent_begin(&w->sv);
}

/* Nothing is said to be allowed that nobody has allowed. */
static void to_vault(struct world *w)
{
	uint8_t packed[VAULT_ASK_MAX + 64];
	struct vault_msg m;
	ssize_t n;

	while ((n = read(w->vault, packed, sizeof(packed))) > 0) {
		BUG_ON(vault_msg_parse(VAULT_FROM_CLIENT, packed, (size_t)n, 0, &m) < 0);
		BUG_ON(m.num[1] && w->allowed == 0);
		w->allowed -= m.num[1] ? 1 : 0;
	}
}

/* A person's answer, or none any more. */
static void from_guard(struct world *w, unsigned how)
{
	char nowhere[1024];

	while (read(w->guard, nowhere, sizeof(nowhere)) > 0)
		;
	if (how & 1) {
		/* A verdict that nobody waits for counts for nothing, and is not counted again: it is at most one. */
		w->allowed += (how & 2) != 0;
		supervise_agent_verdict(&w->sv, w->sv.agent.last_ticket - (how >> 2 & 1), how & 2,
					how & 8 ? "abc-1 why" : "");
	}
	if (how & 16)
		supervise_agent_unanswered(&w->sv);
	to_vault(w);
}

/* The vault's answer to what it was asked last, or anything at all; what waits for it is taken. */
static void from_vault(struct world *w, const uint8_t *data, size_t len)
{
	struct vault_msg m = { .type = VAULT_SAID,
			       .id = 1,
			       .num = { w->sv.agent.asked, len ? data[0] % VAULT_SAID_COUNT : 0, 22 } };
	uint8_t packed[8192];
	long n;

	to_vault(w);
	m.text[0] = (struct slice){ (const char *)data, len };
	m.text[1] = slice_of("key");
	m.text[6] = slice_of(len > 1 && data[1] & 1 ? "one reason" : "another");
	n = vault_msg_pack(VAULT_TO_CLIENT, &m, packed, sizeof(packed));
	if (n > 0)
		BUG_ON(supervise_agent_said(&w->sv, packed, (size_t)n) < 0 && m.num[1] != VAULT_SAID_ASKS);
	else
		(void)!supervise_agent_said(&w->sv, data, len);
	if (len > 2)
		from_guard(w, data[2]);
	supervise_clients_flush(&w->sv);
}

/* Data to and from a client that connected to a port. */
static void from_port(struct world *w, const uint8_t *data, size_t len)
{
	char nowhere[4096];

	(void)!send(w->port[1], data, len, MSG_NOSIGNAL);
	while (read(w->port[1], nowhere, sizeof(nowhere)) > 0)
		;
	/* A timer that is due, so that the round does not wait. */
	loop_timer(&w->sv.loop, &w->now, 1);
	BUG_ON(loop_round(&w->sv.loop, NULL) < 0);
	supervise_clients_flush(&w->sv);
}

static void drop(struct world *w, int i)
{
	if (!w->client[i])
		return;
	supervise_client_drop(w->client[i]);
	w->client[i] = NULL;
}

static void world_close(struct world *w)
{
	for (int i = 0; i < CLIENTS; i++)
		drop(w, i);
	supervise_ports_close(&w->sv);
	supervise_agent_close(&w->sv);
	close(w->vault);
	close(w->guard);
	close(w->io.guard_fd);
	for (int i = 0; i < PORT_CLIENTS; i++)
		close(w->port[i]);
	while (w->sv.chans)
		supervise_chan_free(w->sv.chans);
	if (w->unread >= 0)
		close(w->unread);
	supervise_settle(&w->sv);
	BUG_ON(w->end.exit_code < 0 || w->end.exit_code > 255 || w->sv.n_chan || w->sv.bodies);
	pump_release(&w->sv.pump);
	conn_release(&w->sv.init);
	loop_close(&w->sv.loop);
}

static void from_init(struct world *w, const uint8_t *data, size_t len)
{
	struct frame f;

	if (w->init_dead || conn_feed(&w->sv.init, data, len) < 0)
		return;
	while (!w->init_dead && conn_next(&w->sv.init, &f) > 0)
		w->init_dead = supervise_init_frame(&w->sv, &f) < 0 || w->sv.ended;
	supervise_clients_flush(&w->sv);
	BUG_ON(w->init_dead && !w->sv.killed);
}

static void from_client(struct world *w, int i, const uint8_t *data, size_t len)
{
	struct client *c = w->client[i];
	struct frame f;
	int r = 0;

	if (!c || conn_feed(&c->conn, data, len) < 0)
		return;
	while (r == 0 && !c->closing && conn_next(&c->conn, &f) > 0)
		r = supervise_client_frame(&w->sv, c, &f);
	supervise_client_flush(c);
	BUG_ON(conn_pending(&c->conn) > SUPERVISE_CLIENT_CHANNELS * (size_t)PROTO_WINDOW + (1u << 20));
	BUG_ON(c->n_chan > SUPERVISE_CLIENT_CHANNELS);
	if (r < 0 || c->closing)
		drop(w, i);
}

static void check(const struct world *w)
{
	unsigned n = 0;
	size_t bodies = 0;

	for (const struct chan *ch = w->sv.chans; ch; ch = ch->next) {
		n++;
		bodies += ch->state == CHAN_BODY ? ch->body.len : 0;
		BUG_ON(ch->out_room > PROTO_WINDOW || ch->in_room > PROTO_WINDOW);
		BUG_ON(supervise_port_waiting(ch) > PROTO_WINDOW);
	}
	BUG_ON(n != w->sv.n_chan || n > PROTO_CHANNELS + 1 || bodies != w->sv.bodies ||
	       bodies > PROTO_BODIES_MAX);
	BUG_ON(w->sv.n_ping > SUPERVISE_PINGS);
}

static void next_timer(struct world *w)
{
	struct timer *t = w->sv.loop.timers;

	loop_timer_off(&w->sv.loop, t);
	t->fn(t);
}

static void step(struct world *w, uint8_t who, const uint8_t *data, size_t len)
{
	if (who < 4)
		from_init(w, data, len);
	else if (who < 4 + CLIENTS)
		from_client(w, who - 4, data, len);
	else if (who < 7 + CLIENTS)
		drop(w, who - 7);
	else if (who == 10)
		from_port(w, data, len);
	else if (who == 11)
		from_vault(w, data, len);
	else if (w->sv.loop.timers)
		next_timer(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world w;
	size_t off = 0;

	fake_stat = (struct cgroup_stat){ .has_memory = true, .has_pids = true };
	world_open(&w);
	open_agent(&w);
	while (size - off >= 2) {
		uint8_t who = data[off] % 13;
		size_t len = data[off + 1];

		off += 2;
		len = len > size - off ? size - off : len;
		step(&w, who, data + off, len);
		off += len;
		check(&w);
	}
	world_close(&w);
	return 0;
}
