/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the questions of one run and sends notifications about them (notify/askpost.h). It is a client of
 * the run's ask server like any other: it reads, answers nothing, and ends with the run. It drops all
 * privileges except those that its children need to change identity.
 */
#include "cli/admin/notify_asks.h"

#include "approval/wire/askproto.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/core/say.h"
#include "notify/askpost.h"
#include "sys/fence/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>

#define LAST_WORDS (5 * NSEC_PER_SEC) /* timeout for pending notifications after the run has ended */

struct following {
	struct loop loop;
	struct askc c;
	struct watch w;
	struct timer t_tick, t_end;
	struct notify *notify;
	struct askpost post;
	bool ended, over;
};

static void send_post(void *ctx, const struct notify_event *ev)
{
	struct following *f = ctx;

	/* Without memory this notification is lost; the question still waits. */
	if (f->notify)
		(void)!notify_post(f->notify, ev);
}

static void arm_next_post(struct following *f)
{
	uint64_t next = askpost_tick(&f->post, clock_nsec(CLOCK_MONOTONIC));

	if (next)
		loop_timer(&f->loop, &f->t_tick, next + NSEC_PER_MSEC);
}

static void on_post_due(struct timer *t)
{
	arm_next_post(t->ctx);
}

static void on_end_timeout(struct timer *t)
{
	((struct following *)t->ctx)->over = true;
}

static int post_question(void *ctx, json_t *ask)
{
	struct following *f = ctx;

	if (ask)
		askpost_take(&f->post, clock_nsec(CLOCK_MONOTONIC), ask);
	return 0;
}

static void on_ask_server(struct watch *w, uint32_t events)
{
	struct following *f = w->ctx;
	struct err e = ERR_INIT;

	(void)events;
	if (askc_follow_read(&f->c, post_question, f, &e) == 0) {
		arm_next_post(f);
		return;
	}
	loop_unwatch(&f->loop, w);
	f->ended = true;
	askpost_end(&f->post);
	loop_timer(&f->loop, &f->t_end, clock_nsec(CLOCK_MONOTONIC) + LAST_WORDS);
}

static int follow_run_questions(struct following *f, int run_fd, struct err *e)
{
	int r = askc_open(&f->c, run_fd, e);

	r = r < 0 ? r : askc_follow_begin(&f->c, false, e);
	if (r < 0)
		return r;
	f->w = (struct watch){ .fd = f->c.fd, .fn = on_ask_server, .ctx = f };
	f->t_tick = (struct timer){ .fn = on_post_due, .ctx = f };
	f->t_end = (struct timer){ .fn = on_end_timeout, .ctx = f };
	r = loop_watch(&f->loop, &f->w, EPOLLIN) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
	while (r == 0 && !f->over && !(f->ended && notify_waiting(f->notify) == 0))
		r = loop_round(&f->loop, e);
	return r;
}

static int drop_notifier_privileges(struct err *e)
{
	/*
	 * CAP_KILL, because the kernel checks it for the parent-death signal, too: without it, a child with
	 * another identity would outlive this process.
	 */
	const uint64_t keep = 1ULL << CAP_SETUID | 1ULL << CAP_SETGID | 1ULL << CAP_KILL;
	uint64_t have = 0;
	int r = caps_effective(&have, e);

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, -errno, "cannot drop privileges");
	return r < 0 || !have ? r : caps_give_up(have & keep, e);
}

/* This process has no terminal: failures go to the audit log. */
static void log_notify_failure(struct audit *audit, const char *run, const struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_str(&j, "event", "ask.new");
	json_str(&j, "why", e->msg);
	if (audit && !buf_error(&b))
		(void)!audit_append(audit, "notify.failed", run, &b, NULL);
}

static int notify_of_run(struct state *st, struct audit *audit, const char *run, uint64_t number,
			 struct err *e)
{
	CLEANUP(config_notify_release) struct notify_conf conf = NOTIFY_CONF_INIT;
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	autoclose int fd = openat(st->runs_fd, run, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct following f = { .loop = LOOP_INIT, .c = ASKC_INIT, .w = WATCH_INIT };
	int r = fd < 0 ? err_sys(e, -errno, "cannot open the sandbox") : drop_notifier_privileges(e);

	r = r < 0 ? r : config_notify_load(&conf, NULL, e);
	r = r < 0 ? r : loop_open(&f.loop, e);
	r = r < 0 ? r : notify_new(&f.notify, &f.loop, &conf, st->fd, audit, NULL, e);
	if (r == 0) {
		(void)!state_meta_read(fd, &m, NULL);
		f.post = (struct askpost){ .post = send_post,
					   .ctx = &f,
					   .ui = conf.ui[0] ? conf.ui : NULL,
					   .name = m.name,
					   .last = number - 1 };
		r = follow_run_questions(&f, fd, e);
	}
	notify_free(f.notify);
	askc_close(&f.c);
	loop_close(&f.loop);
	return r;
}

int cmd_notify_asks(int argc, char **argv)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(audit_freep) struct audit *audit = NULL;
	struct err e = ERR_INIT;
	uint64_t number = 0;
	int r;

	if (argc != 3 || strlen(argv[1]) != RUN_ID_LEN || strchr(argv[1], '/') ||
	    str_to_u64(argv[2], &number) < 0 || !number)
		return EXIT_USAGE;
	r = state_open(&st, &e);
	r = r < 0 ? r : audit_open(&audit, st.fd, &e);
	r = r < 0 ? r : notify_of_run(&st, audit, argv[1], number, &e);
	if (r < 0)
		log_notify_failure(audit, argv[1], &e);
	return r < 0 ? EXIT_OURS : 0;
}
