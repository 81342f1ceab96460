/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/askserve.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "gateway/granted.h"

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
#define STORE_LATER \
	(10 * NSEC_PER_SEC) /* that the same was asked once more: whoever asks must not make us write */
#define LISTEN_AGAIN (500 * NSEC_PER_MSEC)
#define FILE_MAX (32u << 20)
#define LOCK_FILE "asks.lock"

struct askserve_client {
	struct askserve_client *next;
	struct askserve *s;
	struct watch w;
	struct conn conn;
	uid_t uid;
	uint64_t waiter; /* not 0: waits for a verdict */
	bool follows, all;
	bool closing;	/* what is queued goes out, then it ends */
	bool is_asking; /* within asks_put(): a verdict waits in `early` until the ask itself was told */
	struct buf early;
	char why[ASK_WHY_MAX];
};

struct asks_now asks_clock(void)
{
	return (struct asks_now){ clock_nsec(CLOCK_BOOTTIME), clock_nsec(CLOCK_REALTIME) };
}

/* ---- The file, and time. ---- */

void askserve_store(struct askserve *s)
{
	autobuf struct buf b = BUF_INIT;

	loop_timer_off(s->loop, &s->t_store);
	asks_store(s->asks, &b);
	/* The log has it; this is what people look at. */
	if (!buf_error(&b))
		(void)!fd_replace_file(s->dir, ASKS_FILE, buf_cstr(&b), b.len, 0600);
	buf_clear(&b);
	askcount_json(&s->count, asks_pending(s->asks), asks_shed(s->asks), &b);
	if (!buf_error(&b))
		(void)!fd_replace_file(s->dir, ASKCOUNT_FILE, buf_cstr(&b), b.len, 0600);
}

static void on_store(struct timer *t)
{
	askserve_store(t->ctx);
}

uint64_t askserve_tick_at(uint64_t next, uint64_t boot, uint64_t mono)
{
	uint64_t wait = next > boot ? next - boot : 0;

	return mono + (wait < ASKSERVE_LOOK ? wait : ASKSERVE_LOOK) + NSEC_PER_MSEC;
}

static void arm_tick(struct askserve *s, uint64_t next)
{
	if (next)
		loop_timer(s->loop, &s->t_tick,
			   askserve_tick_at(next, asks_clock().mono, clock_nsec(CLOCK_MONOTONIC)));
	else
		loop_timer_off(s->loop, &s->t_tick);
}

/* After whatever may have changed the list. */
static void settle(struct askserve *s)
{
	struct err e = ERR_INIT;

	arm_tick(s, asks_tick(s->asks, asks_clock()));
	/* A rule whose time is over. What cannot be compiled stays as it was, which is said by who tried. */
	if (s->widen_changed && s->owner.widened) {
		s->widen_changed = false;
		(void)!s->owner.widened(s->owner.ctx, &e);
	}
}

/* G1 of granted.h: what a session was granted ends with it, also while somebody else serves. */
static void look_at_session(struct askserve *s)
{
	if (!s->keeps || granted_session_lives(s->dir))
		return;
	s->keeps = false;
	asks_keep(s->asks, 0);
	asks_kept_end(s->asks, asks_clock(), "the session has ended");
}

static void on_tick(struct timer *t)
{
	look_at_session(t->ctx);
	settle(t->ctx);
}

/* ---- Frames. ---- */

static void add_frame(struct buf *out, enum askp_type type, const struct buf *body)
{
	if (!buf_error(body) && body->len <= FRAME_MAX_PAYLOAD)
		frame_add(out, (uint8_t)type, 0, buf_cstr(body), (uint32_t)body->len);
}

static void add_ask(const struct askserve *s, const struct ask *a, struct buf *out)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	struct ask_view v;

	ask_view(s->asks, a, &v);
	ask_json(&v, &j, NULL);
	add_frame(out, ASKP_ASK, &b);
}

static void add_done(struct buf *out)
{
	frame_add(out, ASKP_DONE, 0, "{}", 2);
}

static void add_error(struct buf *out, int r, const struct err *e)
{
	autobuf struct buf b = BUF_INIT, text = BUF_INIT;
	struct json j = JSON_INIT(&b);

	buf_adds(&text, e->msg);
	if (e->hint[0])
		buf_addf(&text, "; %s", e->hint);
	json_obj(&j, NULL);
	json_str(&j, "code", askp_code_name(r));
	json_str(&j, "message", buf_cstr(&text));
	json_end_obj(&j);
	add_frame(out, ASKP_ERROR, &b);
}

static void add_verdict(struct buf *out, const char *id, bool allow, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_obj(&j, NULL);
	json_str(&j, "id", id);
	json_bool(&j, "allow", allow);
	json_str(&j, "why", why);
	json_end_obj(&j);
	add_frame(out, ASKP_VERDICT, &b);
}

static bool is_open(const struct ask_view *v)
{
	return v->state == ASK_PENDING || v->state == ASK_PARKED || v->state == ASK_GRANTED;
}

static void do_list(const struct askserve *s, bool all, struct buf *out)
{
	const struct ask *a = NULL;

	while ((a = asks_next(s->asks, a)) != NULL) {
		struct ask_view v;

		ask_view(s->asks, a, &v);
		if (all || is_open(&v))
			add_ask(s, a, out);
	}
	add_done(out);
}

static void reply(const struct askserve *s, const char *id, int r, const struct err *e, struct buf *out)
{
	const struct ask *a = asks_find(s->asks, id);

	if (r < 0 || !a) {
		add_error(out, r < 0 ? r : -ENOENT, e);
		return;
	}
	add_ask(s, a, out);
	add_done(out);
}

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
	settle(s);
	return r;
}

static int do_revoke(struct askserve *s, const struct askp_request *q, struct err *e)
{
	int r = asks_revoke(s->asks, asks_clock(), q->id, &q->answer.who, e);

	if (r == 0 && s->widen_changed && s->owner.widened) {
		s->widen_changed = false;
		r = s->owner.widened(s->owner.ctx, e);
	}
	askserve_store(s);
	settle(s);
	return r;
}

/* A rule in its one spelling, which *canon keeps; 0 for any other question. It belongs to no generation: it is checked against
 * the policy when it is granted. */
static int check_widen(struct askserve *s, struct ask_question *q, struct buf *canon, struct err *e)
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

static void do_submit(struct askserve *s, struct askserve_client *c, const struct askp_request *q,
		      struct buf *out)
{
	autobuf struct buf canon = BUF_INIT;
	struct ask_question asked = q->q;
	struct err e = ERR_INIT;
	char id[ASK_ID_MAX];
	const struct ask *a;
	int r = check_widen(s, &asked, &canon, &e);

	if (r < 0) {
		add_error(out, -EINVAL, &e);
		return;
	}
	c->waiter = ASKSERVE_WAITER | ++s->serial;
	c->is_asking = true;
	asks_put(s->asks, asks_clock(), &asked, c->waiter, q->seconds, id);
	c->is_asking = false;
	a = asks_find(s->asks, id);
	if (a) {
		add_ask(s, a, out);
		buf_add(out, buf_cstr(&c->early), c->early.len);
	} else {
		err_set(&e, -EBUSY, "%s", c->why);
		add_error(out, -EBUSY, &e);
	}
	buf_release(&c->early);
	settle(s);
}

void askserve_frame(struct askserve *s, struct askserve_client *c, const struct frame *f, struct buf *out)
{
	struct askp_request q;
	struct err e = ERR_INIT;
	int r = askp_request_parse(f, &q, &e);

	if (r < 0 || c->waiter || c->follows) {
		if (r == 0)
			askp_request_release(&q);
		add_error(out, -EPROTO, (r < 0 ? 0 : err_set(&e, -EPROTO, "an answer is still to come"), &e));
		c->closing = true;
		return;
	}
	look_at_session(s);
	q.answer.who.uid = c->uid;
	switch (q.type) {
	case ASKP_FOLLOW:
		c->follows = true;
		c->all = q.all;
		do_list(s, q.all, out);
		break;
	case ASKP_LIST:
		do_list(s, q.all, out);
		break;
	case ASKP_SHOW:
		err_set(&e, -ENOENT, "there is no question %s", q.id);
		reply(s, q.id, 0, &e, out);
		break;
	case ASKP_ANSWER:
		r = askserve_answer(s, q.id, q.digest, &q.answer, &e);
		reply(s, q.id, r, &e, out);
		break;
	case ASKP_REVOKE:
		r = do_revoke(s, &q, &e);
		reply(s, q.id, r, &e, out);
		break;
	default:
		do_submit(s, c, &q, out);
		break;
	}
	askp_request_release(&q);
}

/* ---- Clients. ---- */

static void client_free(struct askserve_client *c)
{
	struct askserve *s = c->s;
	struct askserve_client **p = &s->clients;
	uint64_t waiter = c->waiter;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	s->n_clients--;
	loop_unwatch(s->loop, &c->w);
	conn_release(&c->conn);
	fd_close(c->w.fd);
	free(c);
	if (waiter)
		asks_drop(s->asks, asks_clock(), waiter);
}

/* False when it is gone. */
static bool client_flush(struct askserve_client *c)
{
	int r = conn_flush(&c->conn);

	if (r < 0 || conn_pending(&c->conn) > ASKSERVE_OWED_MAX || (r == 0 && c->closing)) {
		client_free(c);
		return false;
	}
	if (loop_watch(c->s->loop, &c->w, (uint32_t)(EPOLLIN | (r ? EPOLLOUT : 0))) < 0) {
		client_free(c);
		return false;
	}
	return true;
}

static void on_client(struct watch *w, uint32_t events)
{
	struct askserve_client *c = w->ctx;
	int r = 0, n;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = conn_fill(&c->conn);
	while (!c->closing) {
		struct frame f;

		n = conn_next(&c->conn, &f);
		if (n == 0)
			break;
		if (n < 0) {
			r = n;
			break;
		}
		askserve_frame(c->s, c, &f, &c->conn.out);
	}
	if (r < 0)
		client_free(c);
	else
		(void)client_flush(c);
}

static int client_add(struct askserve *s, int fd)
{
	struct ucred u;
	socklen_t len = sizeof(u);
	struct askserve_client *c;

	/* V1 */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &len) < 0 || (u.uid != 0 && u.uid != geteuid()))
		return -EPERM;
	if (s->n_clients >= ASKP_CLIENTS)
		return -EBUSY;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->s = s;
	c->uid = u.uid;
	c->w = (struct watch){ .fd = fd, .fn = on_client, .ctx = c };
	conn_init(&c->conn, fd);
	if (loop_watch(s->loop, &c->w, EPOLLIN) < 0) {
		conn_release(&c->conn);
		free(c);
		return -ENOMEM;
	}
	c->next = s->clients;
	s->clients = c;
	s->n_clients++;
	return 0;
}

static void on_listen(struct watch *w, uint32_t events)
{
	struct askserve *s = w->ctx;
	int fd;

	(void)events;
	while ((fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (client_add(s, fd) < 0)
			fd_close(fd);
	}
}

/* ---- What the list says. ---- */

static int on_event(void *ctx, const char *type, const struct buf *fields)
{
	struct askserve *s = ctx;
	int r = s->owner.event(s->owner.ctx, type, fields);

	if (r >= 0)
		askcount_event(&s->count, type, fields);
	return r;
}

static void tell_client(struct askserve *s, uint64_t waiter, bool allow, const char *id, const char *why)
{
	for (struct askserve_client *c = s->clients; c; c = c->next) {
		if (c->waiter != waiter)
			continue;
		c->waiter = 0;
		snprintf(c->why, sizeof(c->why), "%s", why);
		add_verdict(c->is_asking ? &c->early : &c->conn.out, id, allow, why);
		if (allow)
			asks_taken(s->asks, waiter);
		loop_timer(s->loop, &s->t_again, 0);
		return;
	}
}

static void on_tell(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why)
{
	struct askserve *s = ctx;

	if (waiter & ASKSERVE_WAITER)
		tell_client(s, waiter, allow, id, why);
	else if (s->owner.tell)
		s->owner.tell(s->owner.ctx, waiter, allow, id, why);
}

/* What was queued for clients by others than themselves goes out in a round of its own. */
static void on_again(struct timer *t)
{
	struct askserve *s = t->ctx;
	struct askserve_client *c, *next;

	for (c = s->clients; c; c = next) {
		next = c->next;
		if (conn_pending(&c->conn))
			(void)client_flush(c);
	}
}

static void store_soon(struct askserve *s, uint64_t after)
{
	uint64_t at = clock_nsec(CLOCK_MONOTONIC) + after;

	if (!s->t_store.armed || s->t_store.at > at)
		loop_timer(s->loop, &s->t_store, at);
}

static void on_changed(void *ctx, const struct ask *a)
{
	struct askserve *s = ctx;
	struct ask_view v;

	ask_view(s->asks, a, &v);
	/* One that is granted was put in force with its answer. */
	if (v.q.kind == ASK_WIDEN && v.answered && v.answer.allow && v.state != ASK_GRANTED)
		s->widen_changed = true;
	for (struct askserve_client *c = s->clients; c; c = c->next) {
		if (c->follows && conn_pending(&c->conn) <= ASKSERVE_OWED_MAX) {
			add_ask(s, a, &c->conn.out);
			loop_timer(s->loop, &s->t_again, 0);
		}
	}
	store_soon(s, v.state == ASK_PENDING && v.number <= s->newest ? STORE_LATER : STORE_AFTER);
	s->newest = v.number > s->newest ? v.number : s->newest;
	if (s->owner.changed)
		s->owner.changed(s->owner.ctx, a);
	/* V8: after the owner, which may listen only from its first question on. */
	if (s->owner.st && v.state == ASK_PENDING && v.number > s->told) {
		s->told = v.number;
		asknotify_question(&s->notify, s->loop, s->owner.st, v.run, v.number);
	}
}

static int on_widened(void *ctx, struct err *e)
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

/* ---- From the beginning to the end. ---- */

static int load(struct askserve *s, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(s->dir, ASKS_FILE, FILE_MAX, &b);

	if (r == -ENOENT)
		return 0;
	return r < 0 ? err_sys(e, r, "cannot read the run's questions")
		     : asks_load(s->asks, asks_clock(), buf_cstr(&b), b.len, e);
}

static bool has_rules(const struct askserve *s)
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

/* V7. What cannot be read grants nothing, and is written anew with the next that is granted. */
static void load_session(struct askserve *s)
{
	struct err ignored = ERR_INIT;

	(void)!granted_load(s->dir, s->asks, asks_clock(), &ignored);
	s->keeps = granted_session_lives(s->dir);
	if (s->keeps)
		asks_keep(s->asks, 1u << ASK_TOOL | (s->owner.keeps_rules ? 1u << ASK_WIDEN : 0));
	else
		asks_kept_end(s->asks, asks_clock(), "the session has ended");
	s->widen_changed = s->widen_changed || has_rules(s);
}

static void on_listen_again(struct timer *t)
{
	askserve_listen_soon(t->ctx);
}

int askserve_open(struct askserve *s, struct loop *l, int dir, const char run_id[RUN_ID_LEN + 1],
		  uint64_t timeout_s, const struct askserve_owner *o, struct err *e)
{
	const struct asks_out out = { on_event, on_tell, on_changed, s, on_widened, on_kept };
	struct err ignored = ERR_INIT;

	*s = ASKSERVE_INIT;
	s->loop = l;
	s->dir = dir;
	s->owner = *o;
	s->t_tick = (struct timer){ .fn = on_tick, .ctx = s };
	s->t_store = (struct timer){ .fn = on_store, .ctx = s };
	s->t_again = (struct timer){ .fn = on_again, .ctx = s };
	s->t_listen = (struct timer){ .fn = on_listen_again, .ctx = s };
	s->asks = asks_new(run_id, timeout_s, &out);
	if (!s->asks)
		return err_set(e, -ENOMEM, "out of memory");
	/* History that cannot be read grants nothing, and keeps nobody from asking. */
	(void)!load(s, &ignored);
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
	/* One that a life before this one has left. */
	r = connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
	if (r == 0 || r == -EAGAIN)
		return err_set(e, -EADDRINUSE, "this run's questions are served already");
	/* V5: only where nobody can be there. */
	if (r != -ENOENT && r != -ECONNREFUSED)
		return err_sys(e, r, "cannot tell whether this run's questions are served");
	(void)unlinkat(s->dir, ASKP_SOCK, 0);
	old = umask(0177);
	r = bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
	umask(old);
	if (r == 0 && listen(fd, ASKP_CLIENTS) < 0)
		r = -errno;
	if (r < 0)
		return err_sys(e, r, "cannot serve the run's questions");
	s->w_listen = (struct watch){ .fd = TAKE_FD(fd), .fn = on_listen, .ctx = s };
	return 0;
}

/* V5 */
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
	/* What whoever served before has added. */
	(void)!load(s, &ignored);
	asknumber_open(s, faccessat(s->dir, ASKS_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
	load_session(s);
	if (loop_watch(s->loop, &s->w_listen, EPOLLIN) < 0)
		return err_set(e, -ENOMEM, "cannot serve the run's questions");
	settle(s);
	return 0;
}

void askserve_listen_soon(struct askserve *s)
{
	struct err e = ERR_INIT;

	if (askserve_listen(s, &e) == -EADDRINUSE)
		loop_timer(s->loop, &s->t_listen, clock_nsec(CLOCK_MONOTONIC) + LISTEN_AGAIN);
}

static void let_go(struct askserve *s)
{
	struct askserve_client *c, *next;

	for (c = s->clients; c; c = next) {
		next = c->next;
		(void)!conn_flush(&c->conn);
		client_free(c);
	}
}

static void end(struct askserve *s, bool store)
{
	if (store && asks_next(s->asks, NULL))
		askserve_store(s);
	asknumber_close(s);
	let_go(s);
	if (s->w_listen.fd >= 0) {
		/* First the name, then who answers there: else one that comes between would lose its own. */
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
	end(s, true);
}

void askserve_leave(struct askserve *s, const char *why)
{
	if (!s->asks)
		return;
	let_go(s);
	asks_end_why(s->asks, asks_clock(), why);
	/* Who never served has nothing to add, and the file is another's. */
	end(s, s->w_listen.fd >= 0);
}

void askserve_put(struct askserve *s, const struct ask_question *q, uint64_t waiter, char ret_id[ASK_ID_MAX])
{
	autobuf struct buf canon = BUF_INIT;
	struct ask_question asked = *q;
	struct err e = ERR_INIT;

	look_at_session(s);
	if (check_widen(s, &asked, &canon, &e) < 0) {
		if (ret_id)
			ret_id[0] = '\0';
		on_tell(s, waiter, false, "", e.msg);
		return;
	}
	asks_put(s->asks, asks_clock(), &asked, waiter, 0, ret_id);
	settle(s);
}

void askserve_drop(struct askserve *s, uint64_t waiter)
{
	asks_drop(s->asks, asks_clock(), waiter);
}

void askserve_unused(struct askserve *s, uint64_t waiter)
{
	(void)!asks_unused(s->asks, asks_clock(), waiter);
	settle(s);
}

void askserve_new_policy(struct askserve *s, uint32_t generation)
{
	asks_new_policy(s->asks, asks_clock(), generation);
	settle(s);
}
