/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames from init, which means from the sandbox: hostile. A table lists the frames that are legal on a channel in each
 * state; any other frame ends the sandbox (proto.P2). No memory is allocated by a size that init states.
 */
#include "run/supervise/supervise_int.h"

#include <errno.h>
#include <string.h>

#define IN_STARTING (1u << CHAN_STARTING)
#define IN_RUNNING (1u << CHAN_RUNNING)

struct frame_rule {
	uint8_t type;
	uint8_t states;
	const char *name;
};

static const struct frame_rule frame_rules[] = {
	{ PROTO_STARTED, IN_STARTING, "started" },
	{ PROTO_STDOUT, IN_RUNNING, "output" },
	{ PROTO_STDERR, IN_RUNNING, "error output" },
	{ PROTO_STDIN_CREDIT, IN_RUNNING, "input credit" },
	{ PROTO_STDIN_CLOSED, IN_RUNNING, "end of input" },
	{ PROTO_TTY_IS, IN_RUNNING, "the state of a terminal" },
	{ PROTO_EXIT, IN_STARTING | IN_RUNNING, "exit" },
};

static const struct frame_rule *find_frame_rule(uint8_t type)
{
	for (size_t i = 0; i < ARRAY_SIZE(frame_rules); i++) {
		if (frame_rules[i].type == type)
			return &frame_rules[i];
	}
	return NULL;
}

struct chan *supervise_find_chan(struct supervision *sv, uint32_t id)
{
	for (struct chan *ch = sv->chans; ch; ch = ch->next) {
		if (ch->id == id && ch->state != CHAN_BODY)
			return ch;
	}
	return NULL;
}

static int take_init_hello(struct supervision *sv, const struct frame *f)
{
	uint32_t version;

	if (f->type != PROTO_HELLO || f->chan != 0 || proto_get_u32(f, &version) < 0) {
		supervise_broken(sv, "its first message is not a greeting");
		return -EPROTO;
	}
	if (version != PROTO_VERSION) {
		supervise_broken(sv, "it speaks version %u of the protocol, not %d", version, PROTO_VERSION);
		return -EPROTO;
	}
	sv->hello = true;
	return 0;
}

static int take_init_pong(struct supervision *sv, const struct frame *f)
{
	struct ping p;

	if (!sv->n_ping || f->len != sv->ping[0].len || memcmp(f->data, sv->ping[0].data, f->len) != 0) {
		supervise_broken(sv, "it sent a pong without a ping");
		return -EPROTO;
	}
	p = sv->ping[0];
	sv->n_ping--;
	memmove(sv->ping, sv->ping + 1, sv->n_ping * sizeof(p));
	if (p.client) {
		frame_add(&p.client->conn.out, PROTO_PONG, 0, p.data, p.len);
		supervise_client_later(p.client);
	}
	return 0;
}

static int take_init_exit(struct supervision *sv, struct chan *ch, const struct frame *f)
{
	struct proto_exit x;

	if (proto_get_exit(f, &x) < 0 || x.what == PROTO_WHAT_CUT || x.what == PROTO_WHAT_ROLLED ||
	    (x.what == PROTO_WHAT_PIDS && !supervise_pids_by_rlimit(sv->spec)) ||
	    (x.kind == PROTO_NOT_STARTED) != (ch->state == CHAN_STARTING))
		return -EPROTO;
	if (ch->is_port) {
		supervise_port_ended(ch, &x);
		return 0;
	}
	if (ch->is_agent) {
		supervise_agent_ended(ch, &x);
		return 0;
	}
	if (!ch->is_main) {
		supervise_exec_ended(ch, &x);
		return 0;
	}
	sv->end->claim = x;
	sv->ended = true;
	pump_finish(&sv->pump);
	supervise_chan_free(ch);
	/* Init exits by itself after the main command; the kill makes sure of it. */
	supervise_kill(sv, CAUSE_COUNT);
	return 0;
}

static int take_init_started(struct supervision *sv, struct chan *ch, const struct frame *f)
{
	uint32_t pid;

	if (proto_get_u32(f, &pid) < 0)
		return -EPROTO;
	ch->state = CHAN_RUNNING;
	if (ch->is_main)
		supervise_main_started(sv);
	if (ch->is_port)
		supervise_port_started(ch);
	if (ch->is_agent)
		supervise_agent_started(ch);
	if (ch->client) {
		proto_add_u32(&ch->client->conn.out, PROTO_STARTED, ch->client_id, pid);
		supervise_client_later(ch->client);
	}
	if (ch->flags & PROTO_F_DETACH && ch->client)
		supervise_exec_detach(ch);
	return 0;
}

/* Init grants more input to a channel, or says that its command reads no more. */
static int take_input_credit(struct chan *ch, const struct frame *f)
{
	uint32_t v;

	if (!(ch->flags & PROTO_F_STDIN) || ch->in_closed)
		return -EPROTO;
	if (f->type == PROTO_STDIN_CREDIT) {
		if (proto_get_u32(f, &v) < 0 || v < PROTO_CREDIT_MIN || v > PROTO_WINDOW - ch->in_room)
			return -EPROTO;
		ch->in_room += v;
	} else {
		if (f->len)
			return -EPROTO;
		ch->in_closed = true;
	}
	if (ch->is_port)
		return supervise_port_input(ch);
	if (ch->client) {
		frame_add(&ch->client->conn.out, f->type, ch->client_id, f->data, f->len);
		supervise_client_later(ch->client);
	}
	return 0;
}

static int dispatch_init_frame(struct supervision *sv, struct chan *ch, const struct frame *f)
{
	switch (f->type) {
	case PROTO_STARTED:
		return take_init_started(sv, ch, f);
	case PROTO_EXIT:
		return take_init_exit(sv, ch, f);
	case PROTO_STDOUT:
	case PROTO_STDERR:
		return ch->is_main    ? pump_frame(&sv->pump, f)
		       : ch->is_port  ? supervise_port_output(ch, f)
		       : ch->is_agent ? supervise_agent_output(ch, f)
				      : supervise_exec_output(ch, f);
	case PROTO_TTY_IS:
		return ch->is_main ? supervise_say_tty(sv, f) : -EPROTO;
	default:
		return ch->is_main ? pump_frame(&sv->pump, f) : take_input_credit(ch, f);
	}
}

int supervise_init_frame(struct supervision *sv, const struct frame *f)
{
	const struct frame_rule *rule;
	struct chan *ch;

	if (!sv->hello)
		return take_init_hello(sv, f);
	if (f->type == PROTO_PONG && f->chan == 0)
		return take_init_pong(sv, f);
	rule = find_frame_rule(f->type);
	if (!rule) {
		supervise_broken(sv, "it sent a message of unknown type %u", f->type);
		return -EPROTO;
	}
	ch = f->chan ? supervise_find_chan(sv, f->chan) : NULL;
	if (!ch || !(rule->states & (1u << ch->state)) || dispatch_init_frame(sv, ch, f) < 0) {
		supervise_broken(sv, "it sent %s that is not valid now", rule->name);
		return -EPROTO;
	}
	return 0;
}
