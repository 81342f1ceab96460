/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ask server's list, files and timers: connects the pure list (asks.h) with its owner, its files in the
 * run's directory and its clients (askserve_client.c). The owner decides on policy; this file only passes it
 * on.
 */
#include "approval/server/askserve_int.h"

#include "approval/list/granted.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define STORE_AFTER (100 * NSEC_PER_MSEC)
/* After a change of only how often it was asked: an asker must not be able to make us write constantly. */
#define STORE_LATER (10 * NSEC_PER_SEC)
#define LISTEN_AGAIN (500 * NSEC_PER_MSEC)
#define FILE_MAX (32u << 20)
#define LOCK_FILE "asks.lock"

struct asks_now asks_clock(void)
{
	return (struct asks_now){ clock_nsec(CLOCK_BOOTTIME), clock_nsec(CLOCK_REALTIME) };
}

/* ---- The file, and deadlines. ---- */

void askserve_store(struct askserve *s)
{
	autobuf struct buf b = BUF_INIT;

	loop_timer_off(s->loop, &s->t_store);
	asks_store(s->asks, &b);
	/* A failure is ignored: the log has the record, and this file is for people to look at. */
	if (!buf_error(&b))
		(void)!fd_replace_file(s->dir, ASKS_FILE, buf_cstr(&b), b.len, 0600);
	buf_clear(&b);
	askcount_json(&s->count, asks_pending(s->asks), asks_shed_count(s->asks), &b);
	if (!buf_error(&b))
		(void)!fd_replace_file(s->dir, ASKCOUNT_FILE, buf_cstr(&b), b.len, 0600);
}

static void on_store_timer(struct timer *t)
{
	askserve_store(t->ctx);
}

uint64_t askserve_tick_at(uint64_t next, uint64_t boot, uint64_t mono)
{
	uint64_t wait = next > boot ? next - boot : 0;

	return mono + (wait < ASKSERVE_LOOK ? wait : ASKSERVE_LOOK) + NSEC_PER_MSEC;
}

static void arm_deadline_timer(struct askserve *s, uint64_t next)
{
	if (next)
		loop_timer(s->loop, &s->t_tick,
			   askserve_tick_at(next, asks_clock().mono, clock_nsec(CLOCK_MONOTONIC)));
	else
		loop_timer_off(s->loop, &s->t_tick);
}

/* Call after any change of the list: arms the deadline timer and puts changed rules in force. */
void askserve_settle(struct askserve *s)
{
	struct err e = ERR_INIT;

	arm_deadline_timer(s, asks_tick(s->asks, asks_clock()));
	/* A rule has ended. If the policy cannot be compiled it stays as it was; the owner reports that. */
	if (s->widen_changed && s->owner.widened) {
		s->widen_changed = false;
		(void)!s->owner.widened(s->owner.ctx, &e);
	}
}

/* granted.G1: grants of a session end with it, also while another process is the ask server. */
void askserve_check_session(struct askserve *s)
{
	if (!s->keeps || granted_session_is_alive(s->dir))
		return;
	s->keeps = false;
	asks_keep(s->asks, 0);
	asks_kept_end(s->asks, asks_clock(), "the session has ended");
}

static void on_ask_deadline(struct timer *t)
{
	askserve_check_session(t->ctx);
	askserve_settle(t->ctx);
}

/* ---- Answers and rules. ---- */

int askserve_answer(struct askserve *s, const char *id, const char *digest, const struct ask_answer *a,
		    struct err *e)
{
	bool always = a->allow && a->scope == ASK_ALWAYS && s->owner.always;
	int r;

	if (always)
		s->owner.always(s->owner.ctx, true);
	r = asks_answer(s->asks, asks_clock(), id, digest, a, e);
	if (always)
		s->owner.always(s->owner.ctx, false);
	askserve_store(s);
	askserve_settle(s);
	return r;
}

int askserve_check_widen(struct askserve *s, struct ask_question *q, struct buf *canon, struct err *e)
{
	int r;

	if (q->kind != ASK_WIDEN)
		return 0;
	if (!s->owner.widened || !s->owner.check_widen)
		return err_set(e, -EINVAL, "this sandbox has no network policy to widen");
	r = s->owner.check_widen(s->owner.ctx, q->what, canon, e);
	q->what = buf_cstr(canon);
	q->generation = 0;
	return r;
}

/* ---- Callbacks of the list. ---- */

static int on_list_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	struct askserve *s = ctx;
	int r = s->owner.event(s->owner.ctx, type, fields, ret_seq);

	if (r >= 0)
		askcount_event(&s->count, type, fields);
	return r;
}

static void on_waiter_answer(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why)
{
	struct askserve *s = ctx;

	if (waiter & ASKSERVE_WAITER)
		askserve_tell_client(s, waiter, allow, id, why);
	else if (s->owner.tell)
		s->owner.tell(s->owner.ctx, waiter, allow, id, why);
}

static void store_soon(struct askserve *s, uint64_t after)
{
	uint64_t at = clock_nsec(CLOCK_MONOTONIC) + after;

	if (!s->t_store.armed || s->t_store.at > at)
		loop_timer(s->loop, &s->t_store, at);
}

static void on_list_changed(void *ctx, const struct ask *a)
{
	struct askserve *s = ctx;
	struct ask_view v;

	ask_view(s->asks, a, &v);
	/* A newly granted rule was put in force with its answer; here a rule has ended. */
	if (v.q.kind == ASK_WIDEN && v.answered && v.answer.allow && v.state != ASK_GRANTED)
		s->widen_changed = true;
	askserve_tell_followers(s, a);
	store_soon(s, v.state == ASK_PENDING && v.number <= s->newest ? STORE_LATER : STORE_AFTER);
	s->newest = v.number > s->newest ? v.number : s->newest;
	if (s->owner.changed)
		s->owner.changed(s->owner.ctx, a);
	/* askserve.V8. After the owner's callback: the owner may start to listen only with its first
	 * question. */
	if (s->owner.st && v.state == ASK_PENDING && v.number > s->told) {
		s->told = v.number;
		asknotify_question(&s->notify, s->loop, s->owner.st, v.run, v.number);
	}
}

static int on_list_widened(void *ctx, struct err *e)
{
	struct askserve *s = ctx;

	return s->owner.widened ? s->owner.widened(s->owner.ctx, e)
				: err_set(e, -EINVAL, "this sandbox has no network policy to widen");
}

static int on_kept(void *ctx, bool less, struct err *e)
{
	struct askserve *s = ctx;

	return granted_write(s->dir, s->asks, less, e);
}

/* ---- Start and end. ---- */

static int load_history(struct askserve *s, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(s->dir, ASKS_FILE, FILE_MAX, &b);

	if (r == -ENOENT)
		return 0;
	return r < 0 ? err_sys(e, r, "cannot read the run's questions")
		     : asks_load(s->asks, asks_clock(), buf_cstr(&b), b.len, e);
}

static bool has_granted_rules(const struct askserve *s)
{
	const struct ask *a = NULL;
	struct ask_view v;

	while ((a = asks_next(s->asks, a)) != NULL) {
		ask_view(s->asks, a, &v);
		if (v.q.kind == ASK_WIDEN && v.state == ASK_GRANTED)
			return true;
	}
	return false;
}

/* askserve.V7. A file that cannot be read grants nothing; the next grant replaces it. */
static void load_session_grants(struct askserve *s)
{
	struct err ignored = ERR_INIT;

	(void)!granted_load(s->dir, s->asks, asks_clock(), &ignored);
	s->keeps = granted_session_is_alive(s->dir);
	if (s->keeps)
		asks_keep(s->asks, 1u << ASK_TOOL | (s->owner.keeps_rules ? 1u << ASK_WIDEN : 0));
	else
		asks_kept_end(s->asks, asks_clock(), "the session has ended");
	s->widen_changed = s->widen_changed || has_granted_rules(s);
}

static void on_listen_again(struct timer *t)
{
	askserve_listen_soon(t->ctx);
}

int askserve_open(struct askserve *s, struct loop *l, int dir, const char run_id[RUN_ID_LEN + 1],
		  uint64_t timeout_s, const struct askserve_owner *o, struct err *e)
{
	const struct asks_out out = { on_list_event,   on_waiter_answer, on_list_changed, s,
				      on_list_widened, on_kept };
	struct err ignored = ERR_INIT;

	*s = ASKSERVE_INIT;
	s->loop = l;
	s->dir = dir;
	s->owner = *o;
	s->t_tick = (struct timer){ .fn = on_ask_deadline, .ctx = s };
	s->t_store = (struct timer){ .fn = on_store_timer, .ctx = s };
	s->t_again = (struct timer){ .fn = askserve_on_again, .ctx = s };
	s->t_listen = (struct timer){ .fn = on_listen_again, .ctx = s };
	s->asks = asks_new(run_id, timeout_s, &out);
	if (!s->asks)
		return err_set(e, -ENOMEM, "out of memory");
	/* Unreadable history grants nothing and must not prevent questions. */
	(void)!load_history(s, &ignored);
	asknumber_open(s, faccessat(dir, ASKS_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
	return 0;
}

static int bind_socket(struct askserve *s, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t old;
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "cannot make a socket");
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", s->dir, ASKP_SOCK);
	/* The socket may be left over from an earlier server of this run. */
	r = connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
	if (r == 0 || r == -EAGAIN)
		return err_set(e, -EADDRINUSE, "this run's questions are served already");
	/* askserve.V5: remove it only if certainly no process listens there. */
	if (r != -ENOENT && r != -ECONNREFUSED)
		return err_sys(e, r, "cannot determine whether this run's questions are served");
	(void)unlinkat(s->dir, ASKP_SOCK, 0);
	old = umask(0177);
	r = bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
	umask(old);
	if (r == 0 && listen(fd, ASKP_CLIENTS) < 0)
		r = -errno;
	if (r < 0)
		return err_sys(e, r, "cannot serve the run's questions");
	s->w_listen = (struct watch){ .fd = TAKE_FD(fd), .fn = askserve_on_listen, .ctx = s };
	return 0;
}

/* The lock of askserve.V5: only one process at a time may become the ask server. */
int askserve_lock(const struct askserve *s)
{
	autoclose int fd = openat(s->dir, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return -errno;
	do {
		r = flock(fd, LOCK_EX) < 0 ? -errno : 0;
	} while (r == -EINTR);
	return r < 0 ? r : TAKE_FD(fd);
}

int askserve_listen(struct askserve *s, struct err *e)
{
	struct err ignored = ERR_INIT;
	autoclose int lock = -1;
	int r;

	if (s->w_listen.fd >= 0)
		return 0;
	lock = askserve_lock(s);
	r = lock < 0 ? err_sys(e, lock, "cannot serve the run's questions") : bind_socket(s, e);
	if (r < 0)
		return r;
	/* The former ask server may have added entries since askserve_open(). */
	(void)!load_history(s, &ignored);
	asknumber_open(s, faccessat(s->dir, ASKS_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
	load_session_grants(s);
	if (loop_watch(s->loop, &s->w_listen, EPOLLIN) < 0)
		return err_set(e, -ENOMEM, "cannot serve the run's questions");
	askserve_settle(s);
	return 0;
}

void askserve_listen_soon(struct askserve *s)
{
	struct err e = ERR_INIT;

	if (askserve_listen(s, &e) == -EADDRINUSE)
		loop_timer(s->loop, &s->t_listen, clock_nsec(CLOCK_MONOTONIC) + LISTEN_AGAIN);
}

static void server_end(struct askserve *s, bool store)
{
	if (store && asks_next(s->asks, NULL))
		askserve_store(s);
	asknumber_close(s);
	askserve_drop_clients(s);
	if (s->w_listen.fd >= 0) {
		/* Remove the name before closing the socket: a server that starts in between would lose its
		 * own name. */
		(void)unlinkat(s->dir, ASKP_SOCK, 0);
		loop_unwatch(s->loop, &s->w_listen);
		fd_close(s->w_listen.fd);
	}
	loop_timer_off(s->loop, &s->t_tick);
	loop_timer_off(s->loop, &s->t_store);
	loop_timer_off(s->loop, &s->t_again);
	loop_timer_off(s->loop, &s->t_listen);
	asknotify_close(&s->notify);
	asks_free(s->asks);
	*s = ASKSERVE_INIT;
}

void askserve_close(struct askserve *s)
{
	if (!s->asks)
		return;
	asks_end(s->asks, asks_clock());
	server_end(s, true);
}

void askserve_leave(struct askserve *s, const char *why)
{
	if (!s->asks)
		return;
	askserve_drop_clients(s);
	asks_end_why(s->asks, asks_clock(), why);
	/* A process that never served has nothing to add; the file belongs to the ask server. */
	server_end(s, s->w_listen.fd >= 0);
}

void askserve_put(struct askserve *s, const struct ask_question *q, uint64_t waiter, char ret_id[ASK_ID_MAX])
{
	autobuf struct buf canon = BUF_INIT;
	struct ask_question asked = *q;
	struct err e = ERR_INIT;

	askserve_check_session(s);
	if (askserve_check_widen(s, &asked, &canon, &e) < 0) {
		if (ret_id)
			ret_id[0] = '\0';
		on_waiter_answer(s, waiter, false, "", e.msg);
		return;
	}
	asks_put(s->asks, asks_clock(), &asked, waiter, 0, ret_id);
	askserve_settle(s);
}

void askserve_drop(struct askserve *s, uint64_t waiter)
{
	asks_drop(s->asks, asks_clock(), waiter);
}

void askserve_unused(struct askserve *s, uint64_t waiter)
{
	(void)!asks_unused(s->asks, asks_clock(), waiter);
	askserve_settle(s);
}

void askserve_new_policy(struct askserve *s, uint32_t generation)
{
	asks_new_policy(s->asks, asks_clock(), generation);
	askserve_settle(s);
}
