/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warm pool: sandboxes made ahead of calls, by template (the options of the call). As many are ready as
 * calls come for them (daemon/pool/pool_demand.h), within a memory budget, a few made at a time. A standby
 * launcher is held only by its socket: closing it ends the sandbox, handing it out ends our part in it
 * (cofferd_client.D1).
 */
#include "base/clock.h"
#include "base/fd.h"
#include "daemon/child/child_coffer.h"
#include "daemon/cofferd_daemon.h"
#include "daemon/pool/standby.h"
#include "ipc/fdpass.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

/* A call that has just got its sandbox has the processors first: the next ones are made after this long
 * without a request, unless less than half of the wanted number is ready. */
#define LET_RUN (20 * NSEC_PER_MSEC)
#define TEMPLATES_MAX 32
/* Estimates for sandboxes whose memory use is unknown. */
#define GUESS_GVISOR (48ULL << 20)
#define GUESS_NS (3ULL << 20)

static void drop_pool_sandbox(struct daemon *d, struct ready *x)
{
	struct template *t = x->t;
	struct ready **p = &t->list;

	while (*p != x)
		p = &(*p)->next;
	*p = x->next;
	if (x->is_ready)
		t->n_ready--;
	else
		t->n_starting--;
	loop_unwatch(&d->loop, &x->w);
	/* The launcher sees end of file and ends the sandbox. */
	fd_close(x->w.fd);
	free(x);
}

void cofferd_pool_drop(struct daemon *d, struct template *t)
{
	struct template **p = &d->templates;

	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	d->n_templates--;
	while (t->list)
		drop_pool_sandbox(d, t->list);
	helpers_remove(&d->gate.helpers, &t->helper);
	buf_release(&t->key);
	strv_release(&t->args);
	free(t);
}

static uint64_t pool_bytes_held(const struct daemon *d)
{
	uint64_t n = 0;

	for (const struct template *t = d->templates; t; t = t->next)
		n += (t->n_ready + t->n_starting) * t->each;
	return n;
}

static unsigned pool_count_starting(const struct daemon *d)
{
	unsigned n = 0;

	for (const struct template *t = d->templates; t; t = t->next)
		n += t->n_starting;
	return n;
}

/* Message of a standby launcher: ready, failed, or end of file. */
static void on_standby_message(struct watch *w, uint32_t events)
{
	struct ready *x = w->ctx;
	struct template *t = x->t;
	struct standby_ready m = { 0 };
	int r = standby_recv_ready(w->fd, &m);

	(void)events;
	if (r == 0 && m.kind == STANDBY_READY && !x->is_ready) {
		x->is_ready = true;
		t->n_starting--;
		t->n_ready++;
		if (m.memory)
			t->each = m.memory;
		memcpy(x->id, m.id, sizeof(x->id));
		helper_is_up(&t->d->gate.helpers, &t->helper, clock_nsec(CLOCK_MONOTONIC));
		cofferd_pool_balance(t->d);
		return;
	}
	/* The next caller makes a sandbox itself and gets the error. */
	m.why[sizeof(m.why) - 1] = '\0';
	(void)helper_died(&t->d->gate.helpers, &t->helper, clock_nsec(CLOCK_MONOTONIC),
			  r == 0 && m.kind == STANDBY_FAILED ? m.why : "it died");
	drop_pool_sandbox(t->d, x);
}

/* Starts a standby launcher with only the socket, on descriptor 3. When cofferd dies the launcher sees its
 * end and removes the sandbox. */
static int start_standby(const struct daemon *d, const struct template *t, int sock)
{
	autostrv struct strv argv = STRV_INIT, env = STRV_INIT;
	const int fds[] = { 0, 1, 2, sock };
	struct child_coffer c = { .exe = d->coffer_fd,
				  .state = d->st->path,
				  .fds = fds,
				  .n_fds = ARRAY_SIZE(fds),
				  .outlives = true };
	pid_t pid;
	int r = strv_add(&argv, "coffer");

	if (r == 0)
		r = strv_add(&argv, "call");
	if (r == 0)
		r = strv_add(&argv, "--standby=3");
	for (size_t i = 0; r == 0 && i < t->args.n; i++)
		r = strv_add(&argv, t->args.v[i]);
	c.argv = argv.v;
	return r < 0 ? r : child_start_coffer(&c, &env, &pid, NULL);
}

static int make_pool_sandbox(struct daemon *d, struct template *t)
{
	struct ready *x = calloc(1, sizeof(*x)), **p;
	int sv[2], r;

	if (!x)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0) {
		free(x);
		return -errno;
	}
	r = start_standby(d, t, sv[1]);
	fd_close(sv[1]);
	*x = (struct ready){ .t = t, .w = { .fd = sv[0], .fn = on_standby_message, .ctx = x } };
	if (r < 0 || loop_watch(&d->loop, &x->w, EPOLLIN) < 0) {
		fd_close(sv[0]);
		free(x);
		return -EAGAIN;
	}
	for (p = &t->list; *p; p = &(*p)->next)
		;
	*p = x;
	t->n_starting++;
	return 0;
}

void cofferd_pool_refill(struct timer *timer)
{
	cofferd_pool_balance(timer->ctx);
}

static void make_pool_sandboxes(struct daemon *d, struct template *t, unsigned want, uint64_t now)
{
	if (t->n_ready * 2 >= want && now < d->taken_at + LET_RUN) {
		loop_timer(&d->loop, &d->refill, d->taken_at + LET_RUN);
		return;
	}
	while (t->n_ready + t->n_starting < want && helper_may_start(&t->helper, now) &&
	       pool_count_starting(d) < d->builders && pool_may_add(pool_bytes_held(d), t->each, d->budget)) {
		if (make_pool_sandbox(d, t) < 0)
			break;
	}
}

/* Makes missing sandboxes and drops superfluous ones; few at a time, because calls need the processors too. */
void cofferd_pool_balance(struct daemon *d)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	for (struct template *t = d->templates; t; t = t->next) {
		unsigned want = d->leaving ? 0 : pool_want(&t->demand, now);

		if (t->n_ready + t->n_starting < want)
			make_pool_sandboxes(d, t, want, now);
		while (t->n_ready > want) {
			struct ready *x = t->list;

			while (!x->is_ready)
				x = x->next;
			drop_pool_sandbox(d, x);
		}
		if (t->n_ready || t->n_starting || want)
			d->busy_at = now;
	}
}

struct template *cofferd_pool_template(struct daemon *d, const char *key, size_t len)
{
	struct template *t;

	for (t = d->templates; t; t = t->next) {
		if (t->key.len == len && memcmp(t->key.data, key, len) == 0)
			return t;
	}
	if (d->n_templates >= TEMPLATES_MAX || len == 0 || key[len - 1] != '\0')
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->d = d;
	helpers_add(&d->gate.helpers, &t->helper, "standby");
	t->each = memmem(key, len, "gvisor", 6) ? GUESS_GVISOR : GUESS_NS;
	buf_add(&t->key, key, len);
	t->next = d->templates;
	d->templates = t;
	d->n_templates++;
	for (size_t i = 0; i < len; i += strlen(key + i) + 1) {
		if (buf_error(&t->key) || strv_add(&t->args, key + i) < 0) {
			cofferd_pool_drop(d, t);
			return NULL;
		}
	}
	return t;
}

/* cofferd_client.D1: the descriptor is sent and closed here. */
void cofferd_pool_hand_out(struct daemon *d, struct client *c, struct template *t)
{
	struct cofferd_reply reply = { .magic = COFFERD_MAGIC };

	for (struct ready *x = t ? t->list : NULL, *next; x; x = next) {
		next = x->next;
		if (!x->is_ready)
			continue;
		reply.has = true;
		memcpy(reply.id, x->id, sizeof(reply.id));
		(void)!fdpass_send(c->w.fd, &reply, sizeof(reply), &x->w.fd, 1);
		drop_pool_sandbox(d, x);
		return;
	}
	(void)!fdpass_send(c->w.fd, &reply, sizeof(reply), NULL, 0);
}

void cofferd_pool_give(struct daemon *d, struct client *c, const struct cofferd_msg *m)
{
	struct template *t = cofferd_pool_template(d, m->body, m->len);

	cofferd_pool_hand_out(d, c, t);
	d->taken_at = clock_nsec(CLOCK_MONOTONIC);
	if (t)
		pool_note(&t->demand, d->taken_at);
	cofferd_pool_balance(d);
}

void cofferd_pool_count(void *ctx, struct pool_count *ret)
{
	const struct daemon *d = ctx;

	*ret = (struct pool_count){ .templates = d->n_templates, .held = pool_bytes_held(d) };
	for (const struct template *t = d->templates; t; t = t->next) {
		ret->ready += t->n_ready;
		ret->starting += t->n_starting;
	}
}

/* 1/32 of the memory, within limits; COFFER_POOL_MEMORY overrides it. */
uint64_t cofferd_pool_budget(void)
{
	const char *text = getenv("COFFER_POOL_MEMORY");
	struct sysinfo si;
	uint64_t v;

	if (text && str_to_size(text, &v) == 0)
		return v;
	v = sysinfo(&si) == 0 ? (uint64_t)si.totalram * si.mem_unit / 32 : 0;
	return v > (1ULL << 30) ? 1ULL << 30 : v < (128ULL << 20) ? 128ULL << 20 : v;
}
