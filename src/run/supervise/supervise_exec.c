/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of clients (coffer exec, coffer cp): the start request is gathered, logged, merged with the sandbox's
 * environment and sent to init; output and exit go back to the client. No command starts before its audit line is written.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "run/supervise/supervise_int.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define HANG_UP_GRACE (5 * NSEC_PER_SEC)
#define LOG_ARGS 64
#define LOG_ARG_LEN 1024

static void on_hang_up_deadline(struct timer *t)
{
	struct chan *ch = t->ctx;

	proto_add_u32(&ch->sv->init.out, PROTO_SIGNAL, ch->id, SIGKILL);
	supervise_flush_init(ch->sv);
}

struct chan *supervise_chan_new(struct supervision *sv, struct client *c, uint32_t client_id)
{
	struct chan *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->sv = sv;
	ch->client = c;
	ch->client_id = client_id;
	ch->out_room = ch->in_room = PROTO_WINDOW;
	ch->kill = (struct timer){ .fn = on_hang_up_deadline, .ctx = ch };
	ch->next = sv->chans;
	sv->chans = ch;
	sv->n_chan++;
	if (c)
		c->n_chan++;
	return ch;
}

void supervise_chan_free(struct chan *ch)
{
	struct supervision *sv = ch->sv;
	struct chan **p = &sv->chans;

	while (*p != ch)
		p = &(*p)->next;
	*p = ch->next;
	sv->n_chan--;
	if (ch->client)
		ch->client->n_chan--;
	if (ch->state == CHAN_BODY)
		sv->bodies -= ch->body.len;
	loop_timer_off(&sv->loop, &ch->kill);
	buf_release(&ch->body);
	free(ch);
}

static struct chan *find_client_chan(struct client *c, uint32_t id)
{
	for (struct chan *ch = c->sv->chans; ch; ch = ch->next) {
		if (ch->client == c && ch->client_id == id)
			return ch;
	}
	return NULL;
}

int supervise_refuse(struct client *c, const char *text)
{
	frame_add(&c->conn.out, PROTO_ERROR, 0, text, (uint32_t)strlen(text));
	c->closing = true;
	return 0;
}

/* A piece of a start request. Sizes are capped (proto.P1); a client's channel numbers only grow, so a number that was
 * used before is illegal (proto.P2). */
int supervise_exec_body(struct client *c, const struct frame *f)
{
	struct supervision *sv = c->sv;
	struct chan *ch = find_client_chan(c, f->chan);

	if (!ch) {
		if (f->chan <= c->last_chan)
			return -EPROTO;
		if (c->n_chan >= SUPERVISE_CLIENT_CHANNELS || sv->n_chan >= PROTO_CHANNELS)
			return supervise_refuse(c, "too many commands run in this sandbox");
		c->last_chan = f->chan;
		ch = supervise_chan_new(sv, c, f->chan);
		if (!ch)
			return -ENOMEM;
	}
	if (ch->state != CHAN_BODY || f->len > PROTO_START_MAX - ch->body.len)
		return -EPROTO;
	if (f->len > PROTO_BODIES_MAX - sv->bodies)
		return supervise_refuse(c, "too many commands are being started in this sandbox");
	buf_add(&ch->body, f->data, f->len);
	if (buf_error(&ch->body))
		return -ENOMEM;
	sv->bodies += f->len;
	return 0;
}

static bool is_var_overridden(const char *var, char *const *env)
{
	size_t n = strcspn(var, "=") + 1;

	for (; *env; env++) {
		if (strncmp(*env, var, n) == 0)
			return true;
	}
	return false;
}

static void add_c_string(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s) + 1);
}

/* Builds the request that init gets: the client's command, and the sandbox's environment with the client's variables
 * over it. */
static void merge_environment(struct supervision *sv, const struct proto_body *from, struct proto_start *s,
			      struct buf *out)
{
	const struct strv *base = &sv->spec->env;
	const char *cwd = from->cwd[0] ? from->cwd : sv->spec->cwd ? sv->spec->cwd : "/";

	add_c_string(out, cwd);
	for (char **a = from->argv; *a; a++)
		add_c_string(out, *a);
	for (size_t i = 0; i < base->n; i++) {
		if (is_var_overridden(base->v[i], from->env))
			continue;
		add_c_string(out, base->v[i]);
		s->envc++;
	}
	for (char **v = from->env; *v; v++)
		add_c_string(out, *v);
}

static int log_exec_start(struct chan *ch, const struct proto_body *b, const struct proto_start *s)
{
	autobuf struct buf fields = BUF_INIT;
	struct json j = JSON_INIT(&fields);
	const struct client *c = ch->client;

	if (!ch->sv->io->event)
		return 0;
	json_u64(&j, "exec", ch->id);
	json_arr(&j, "command");
	for (unsigned i = 0; i < s->argc && i < LOG_ARGS; i++)
		json_strn(&j, NULL, b->argv[i], strnlen(b->argv[i], LOG_ARG_LEN));
	json_end_arr(&j);
	if (s->argc > LOG_ARGS)
		json_u64(&j, "arguments", s->argc);
	json_bool(&j, "tty", s->flags & PROTO_F_TTY);
	if (s->flags & PROTO_F_DETACH)
		json_bool(&j, "detached", true);
	json_i64(&j, "client_pid", c->pid);
	json_u64(&j, "client_uid", c->uid);
	if (buf_error(&fields))
		return -ENOMEM;
	return ch->sv->io->event(ch->sv->io->ctx, "exec.start", &fields);
}

/* Is this a request that clients may make? The flags of the main command, and builtins other than copying, are not. */
static bool client_may_start(const struct proto_start *s, const struct proto_body *b)
{
	if (s->flags & (PROTO_F_MAIN | PROTO_F_PIDS))
		return false;
	/* A detached command has no client that could send its input, or take a copy's output. */
	if (s->flags & PROTO_F_DETACH && s->flags & (PROTO_F_STDIN | PROTO_F_BUILTIN))
		return false;
	if (!(s->flags & PROTO_F_BUILTIN))
		return true;
	return !(s->flags & PROTO_F_TTY) && (str_eq(b->argv[0], "cp-in") || str_eq(b->argv[0], "cp-out"));
}

static int start_exec(struct chan *ch, struct proto_start *s, const struct proto_body *body)
{
	autobuf struct buf merged = BUF_INIT;
	struct supervision *sv = ch->sv;

	/* The log line is written first; if that fails, nothing is started. */
	ch->id = ++sv->last_chan;
	if (log_exec_start(ch, body, s) < 0)
		return supervise_refuse(ch->client, "the audit log cannot be written, so nothing is started");
	merge_environment(sv, body, s, &merged);
	if (buf_error(&merged))
		return -ENOMEM;
	ch->state = CHAN_STARTING;
	sv->bodies -= ch->body.len;
	buf_release(&ch->body);
	ch->flags = s->flags;
	ch->started = clock_nsec(CLOCK_MONOTONIC);
	s->flags &= ~(unsigned)(PROTO_F_CAP | PROTO_F_DETACH);
	if (supervise_pids_by_rlimit(sv->spec))
		s->flags |= PROTO_F_PIDS;
	if (merged.len > PROTO_START_MAX) {
		const struct proto_exit x = { PROTO_NOT_STARTED, E2BIG, PROTO_WHAT_REQUEST };

		supervise_exec_ended(ch, &x);
		return 0;
	}
	proto_add_data(&sv->init.out, PROTO_START_DATA, ch->id, merged.data, merged.len);
	proto_add_start(&sv->init.out, ch->id, s);
	supervise_flush_init(sv);
	return 0;
}

int supervise_exec_start(struct client *c, const struct frame *f)
{
	struct chan *ch = find_client_chan(c, f->chan);
	struct proto_body body = { 0 };
	struct proto_start s;
	int r;

	if (!ch || ch->state != CHAN_BODY || proto_get_start(f, &s) < 0)
		return -EPROTO;
	r = proto_body_split(ch->body.data, ch->body.len, &s, &body);
	if (r == -E2BIG)
		return supervise_refuse(c, "too many arguments and variables");
	if (r < 0)
		return r;
	r = client_may_start(&s, &body) ? start_exec(ch, &s, &body) : -EPROTO;
	proto_body_release(&body);
	return r;
}

void supervise_drop_output(struct chan *ch, uint32_t cost)
{
	ch->out_owed += cost;
	if (ch->out_owed < PROTO_CREDIT_STEP)
		return;
	proto_add_u32(&ch->sv->init.out, PROTO_CREDIT, ch->id, ch->out_owed);
	ch->out_room += ch->out_owed;
	ch->out_owed = 0;
	supervise_flush_init(ch->sv);
}

int supervise_exec_output(struct chan *ch, const struct frame *f)
{
	uint64_t limit = ch->sv->spec->limits.l[LIMIT_OUTPUT].value;
	uint32_t cost = f->len + FRAME_HEAD;

	if (!f->len || cost > ch->out_room || (ch->flags & PROTO_F_TTY && f->type == PROTO_STDERR))
		return -EPROTO;
	ch->out_room -= cost;
	ch->output += f->len;
	if (ch->flags & PROTO_F_CAP && ch->output > limit)
		ch->cut = true;
	if (!ch->client || ch->cut) {
		supervise_drop_output(ch, cost);
		return 0;
	}
	frame_add(&ch->client->conn.out, f->type, ch->client_id, f->data, f->len);
	supervise_client_later(ch->client);
	return 0;
}

static int log_exec_end(struct chan *ch, const struct proto_exit *x)
{
	autobuf struct buf fields = BUF_INIT;
	struct json j = JSON_INIT(&fields);

	json_u64(&j, "exec", ch->id);
	json_i64(&j, "exit", proto_exit_code(x));
	json_u64(&j, "wall_us", (clock_nsec(CLOCK_MONOTONIC) - ch->started) / 1000);
	json_u64(&j, "output", ch->output);
	if (!ch->client && !ch->detached)
		json_bool(&j, "hung_up", true);
	return buf_error(&fields) ? -ENOMEM : supervise_event(ch->sv, "exec.end", &fields);
}

void supervise_exec_ended(struct chan *ch, const struct proto_exit *x)
{
	struct client *c = ch->client;
	struct proto_exit told = *x;

	if (ch->cut && told.kind != PROTO_NOT_STARTED && told.what == PROTO_WHAT_NONE)
		told.what = PROTO_WHAT_CUT;
	if (c) {
		proto_add_exit(&c->conn.out, ch->client_id, &told);
		supervise_client_flush(c);
	}
	/* The log line is written after the client was told, for speed: it records a past event. Its failure ends the sandbox. */
	if (log_exec_end(ch, x) < 0)
		supervise_kill(ch->sv, CAUSE_BROKEN);
	supervise_chan_free(ch);
}

void supervise_exec_detach(struct chan *ch)
{
	ch->client->n_chan--;
	ch->client = NULL;
	ch->detached = true;
}

void supervise_exec_hang_up(struct chan *ch)
{
	struct supervision *sv = ch->sv;

	ch->client->n_chan--;
	ch->client = NULL;
	proto_add_u32(&sv->init.out, PROTO_SIGNAL, ch->id, SIGHUP);
	proto_add_u32(&sv->init.out, PROTO_SIGNAL, ch->id, SIGCONT);
	/* Nobody will grant the output that the client had not taken: grant it now, so that the command can end. */
	if (PROTO_WINDOW - ch->out_room >= PROTO_CREDIT_MIN) {
		ch->out_owed = 0;
		proto_add_u32(&sv->init.out, PROTO_CREDIT, ch->id, PROTO_WINDOW - ch->out_room);
		ch->out_room = PROTO_WINDOW;
	} else {
		ch->out_owed = PROTO_WINDOW - ch->out_room;
	}
	loop_timer(&sv->loop, &ch->kill, clock_nsec(CLOCK_MONOTONIC) + HANG_UP_GRACE);
	supervise_flush_init(sv);
}
