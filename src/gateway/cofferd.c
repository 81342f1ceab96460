/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/cofferd.h"

#include "base/clock.h"
#include "base/fd.h"
#include "gateway/cofferd_int.h"
#include "gateway/standby.h"
#include "ipc/fdpass.h"
#include "ipc/loop.h"
#include "sandbox/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#define TICK (1 * NSEC_PER_SEC)
/* A call that has just been handed its sandbox gets the processors first: the next ones are made once nobody has asked for
 * so long, unless less than half of what is wanted stands ready. */
#define LET_RUN (20 * NSEC_PER_MSEC)
#define LINGER (10 * NSEC_PER_SEC) /* without anything to keep ready, until we leave */
#define FAILED_FOR \
	(10 * NSEC_PER_SEC) /* a template whose sandbox could not be made is tried again after so long */
#define CLIENTS_MAX 256
#define TEMPLATES_MAX 32
/* Where a sandbox's memory cannot be asked for. */
#define GUESS_GVISOR (48ULL << 20)
#define GUESS_NS (3ULL << 20)

struct daemon;
struct template;

/* One sandbox that is being made or stands ready. */
struct ready {
	struct ready *next;
	struct template *t;
	struct watch w; /* its socket */
	bool is_ready;
	char id[RUN_ID_LEN + 1];
};

struct template
{
	struct template *next;
	struct daemon *d;
	struct buf key;	  /* the options with their NULs */
	struct strv args; /* the same as a list */
	struct pool_demand demand;
	struct ready *list; /* oldest first */
	unsigned n_ready, n_starting;
	uint64_t each; /* bytes, of one */
	uint64_t not_before;
};

struct client {
	struct client *next;
	struct daemon *d;
	struct watch w;
};

struct daemon {
	struct state *st;
	struct loop loop;
	struct watch w_listen;
	struct timer tick, refill;
	uint64_t taken_at; /* ns: when one was handed out last */
	int coffer_fd, lock_fd;
	struct cofferd_build build;
	struct template *templates;
	unsigned n_templates;
	struct client *clients;
	unsigned n_clients;
	uint64_t budget;
	unsigned builders; /* made at the same time, at most */
	uint64_t busy_at;  /* ns: when there was something to do last */
	bool leaving;
	struct err *err;
};

static void drop_ready(struct daemon *d, struct ready *x)
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
	/* Its launcher sees the end of file, and ends the sandbox. */
	fd_close(x->w.fd);
	free(x);
}

static void drop_template(struct daemon *d, struct template *t)
{
	struct template **p = &d->templates;

	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	d->n_templates--;
	while (t->list)
		drop_ready(d, t->list);
	buf_release(&t->key);
	strv_release(&t->args);
	free(t);
}

static void drop_client(struct client *c)
{
	struct daemon *d = c->d;
	struct client **p = &d->clients;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	d->n_clients--;
	loop_unwatch(&d->loop, &c->w);
	fd_close(c->w.fd);
	free(c);
}

static uint64_t held(const struct daemon *d)
{
	uint64_t n = 0;

	for (const struct template *t = d->templates; t; t = t->next)
		n += (t->n_ready + t->n_starting) * t->each;
	return n;
}

static unsigned starting(const struct daemon *d)
{
	unsigned n = 0;

	for (const struct template *t = d->templates; t; t = t->next)
		n += t->n_starting;
	return n;
}

static void balance(struct daemon *d);

/* What a launcher that is made ahead says: it is ready, it failed, or it is gone. */
static void on_ready(struct watch *w, uint32_t events)
{
	struct ready *x = w->ctx;
	struct template *t = x->t;
	struct standby_ready m;
	int r = standby_recv_ready(w->fd, &m);

	(void)events;
	if (r == 0 && m.kind == STANDBY_READY && !x->is_ready) {
		x->is_ready = true;
		t->n_starting--;
		t->n_ready++;
		if (m.memory)
			t->each = m.memory;
		memcpy(x->id, m.id, sizeof(x->id));
		balance(t->d);
		return;
	}
	/* Whoever asks next makes one itself, and is told what is wrong. */
	if (!x->is_ready)
		t->not_before = clock_nsec(CLOCK_MONOTONIC) + FAILED_FOR;
	drop_ready(t->d, x);
}

/* In the child: nothing of ours but the socket, on descriptor 3. */
_Noreturn static void become_standby(const struct daemon *d, const struct template *t, int sock)
{
	autostrv struct strv argv = STRV_INIT;
	char state[4200], *envp[] = { state, NULL };
	int program = fcntl(d->coffer_fd, F_DUPFD_CLOEXEC, 16);
	sigset_t none;
	int r = strv_add(&argv, "coffer");

	if (r == 0)
		r = strv_add(&argv, "call");
	if (r == 0)
		r = strv_add(&argv, "--standby=3");
	for (size_t i = 0; r == 0 && i < t->args.n; i++)
		r = strv_add(&argv, t->args.v[i]);
	if (r < 0 || program < 0 || (sock != 3 && dup2(sock, 3) < 0) ||
	    (sock == 3 && fcntl(3, F_SETFD, 0) < 0))
		_exit(1);
	if ((size_t)snprintf(state, sizeof(state), "COFFER_STATE=%s", d->st->path) >= sizeof(state))
		_exit(1);
	syscall(SYS_close_range, 4, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGCHLD, SIG_DFL);
	setsid();
	syscall(SYS_execveat, program, "", argv.v, envp, AT_EMPTY_PATH);
	_exit(1);
}

static int make_one(struct daemon *d, struct template *t)
{
	struct ready *x = calloc(1, sizeof(*x)), **p;
	int sv[2];
	pid_t pid;

	if (!x)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0) {
		free(x);
		return -errno;
	}
	pid = fork();
	if (pid == 0)
		become_standby(d, t, sv[1]);
	fd_close(sv[1]);
	*x = (struct ready){ .t = t, .w = { .fd = sv[0], .fn = on_ready, .ctx = x } };
	if (pid < 0 || loop_watch(&d->loop, &x->w, EPOLLIN) < 0) {
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

static void on_refill(struct timer *timer)
{
	balance(timer->ctx);
}

static void make_more(struct daemon *d, struct template *t, unsigned want, uint64_t now)
{
	if (t->n_ready * 2 >= want && now < d->taken_at + LET_RUN) {
		loop_timer(&d->loop, &d->refill, d->taken_at + LET_RUN);
		return;
	}
	while (t->n_ready + t->n_starting < want && now >= t->not_before && starting(d) < d->builders &&
	       pool_may_add(held(d), t->each, d->budget)) {
		if (make_one(d, t) < 0)
			break;
	}
}

/* Makes what is missing and lets go of what is too much; a little at a time, for others want the processors too. */
static void balance(struct daemon *d)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	for (struct template *t = d->templates; t; t = t->next) {
		unsigned want = d->leaving ? 0 : pool_want(&t->demand, now);

		if (t->n_ready + t->n_starting < want)
			make_more(d, t, want, now);
		while (t->n_ready > want) {
			struct ready *x = t->list;

			while (!x->is_ready)
				x = x->next;
			drop_ready(d, x);
		}
		if (t->n_ready || t->n_starting || want)
			d->busy_at = now;
	}
}

static void on_tick(struct timer *timer)
{
	struct daemon *d = timer->ctx;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	struct template *next;

	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	balance(d);
	for (struct template *t = d->templates; t; t = next) {
		next = t->next;
		if (!t->list && pool_want(&t->demand, now) == 0)
			drop_template(d, t);
	}
	if (!d->clients && !d->templates && now - d->busy_at > LINGER)
		loop_stop(&d->loop);
	else
		loop_timer(&d->loop, timer, now + TICK);
}

static struct template *find_template(struct daemon *d, const char *key, size_t len)
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
	t->each = memmem(key, len, "gvisor", 6) ? GUESS_GVISOR : GUESS_NS;
	buf_add(&t->key, key, len);
	t->next = d->templates;
	d->templates = t;
	d->n_templates++;
	for (size_t i = 0; i < len; i += strlen(key + i) + 1) {
		if (buf_error(&t->key) || strv_add(&t->args, key + i) < 0) {
			drop_template(d, t);
			return NULL;
		}
	}
	return t;
}

/* D1: the descriptor goes out and is closed here. */
static void hand_out(struct daemon *d, struct client *c, struct template *t)
{
	struct cofferd_reply reply = { .magic = COFFERD_MAGIC };

	for (struct ready *x = t ? t->list : NULL, *next; x; x = next) {
		next = x->next;
		if (!x->is_ready)
			continue;
		reply.has = true;
		memcpy(reply.id, x->id, sizeof(reply.id));
		(void)!fdpass_send(c->w.fd, &reply, sizeof(reply), &x->w.fd, 1);
		drop_ready(d, x);
		return;
	}
	(void)!fdpass_send(c->w.fd, &reply, sizeof(reply), NULL, 0);
}

static void tell_stat(struct daemon *d, struct client *c)
{
	struct cofferd_reply reply = { .magic = COFFERD_MAGIC, .templates = d->n_templates, .held = held(d) };

	for (const struct template *t = d->templates; t; t = t->next) {
		reply.ready += t->n_ready;
		reply.starting += t->n_starting;
	}
	(void)!fdpass_send(c->w.fd, &reply, sizeof(reply), NULL, 0);
}

static void leave(struct daemon *d)
{
	d->leaving = true;
	while (d->templates)
		drop_template(d, d->templates);
	loop_stop(&d->loop);
}

/* Returns false when the client said something that is not a question. */
static bool answer(struct daemon *d, struct client *c, const char *data, size_t len)
{
	struct cofferd_ask head;
	struct template *t;

	if (len < sizeof(head))
		return false;
	memcpy(&head, data, sizeof(head));
	if (head.magic != COFFERD_MAGIC)
		return false;
	/* D3: coffer was replaced since we were started, or the client is in another container. */
	if (memcmp(&head.build, &d->build, sizeof(head.build)) != 0) {
		hand_out(d, c, NULL);
		leave(d);
		return true;
	}
	switch (head.want) {
	case COFFERD_TAKE:
		t = find_template(d, data + sizeof(head), len - sizeof(head));
		hand_out(d, c, t);
		d->taken_at = clock_nsec(CLOCK_MONOTONIC);
		if (t)
			pool_note(&t->demand, d->taken_at);
		balance(d);
		return true;
	case COFFERD_STAT:
		tell_stat(d, c);
		return true;
	case COFFERD_STOP:
		tell_stat(d, c);
		leave(d);
		return true;
	default:
		return false;
	}
}

static void on_client(struct watch *w, uint32_t events)
{
	static char data[sizeof(struct cofferd_ask) + COFFERD_TEMPLATE_MAX];
	struct client *c = w->ctx;
	int none[1];
	size_t len;

	(void)events;
	if (fdpass_recv_some(w->fd, data, sizeof(data), &len, none, 0) < 0 || !answer(c->d, c, data, len))
		drop_client(c);
}

/* Only the owner of the state directory can reach the socket; this says so again. */
static bool is_own(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.uid == geteuid();
}

static void on_listen(struct watch *w, uint32_t events)
{
	struct daemon *d = w->ctx;
	struct client *c;
	int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0)
		return;
	c = is_own(fd) && d->n_clients < CLIENTS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		fd_close(fd);
		return;
	}
	*c = (struct client){ .next = d->clients, .d = d, .w = { .fd = fd, .fn = on_client, .ctx = c } };
	d->clients = c;
	d->n_clients++;
	if (loop_watch(&d->loop, &c->w, EPOLLIN) < 0)
		drop_client(c);
}

static void on_signal(void *ctx, const struct signalfd_siginfo *si)
{
	struct daemon *d = ctx;

	if (si->ssi_signo == SIGCHLD) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		balance(d);
		return;
	}
	leave(d);
}

/* D2. -EEXIST: there is one. */
static int take_lock(struct daemon *d, struct err *e)
{
	d->lock_fd = openat(d->st->fd, "cofferd.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->lock_fd < 0)
		return err_sys(e, -errno, "cannot open %s/cofferd.lock", d->st->path);
	if (flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(e, -EEXIST, "there is a cofferd already");
	return 0;
}

static int open_socket(struct daemon *d, struct err *e)
{
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;

	if (fd < 0)
		return err_sys(e, -errno, "cannot make a socket");
	cofferd_address(d->st, &a);
	/* Left by one that was killed: we have the lock. */
	(void)unlinkat(d->st->fd, "cofferd.sock", 0);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0)
		return err_sys(e, -errno, "cannot make %s/cofferd.sock", d->st->path);
	d->w_listen = (struct watch){ .fd = TAKE_FD(fd), .fn = on_listen, .ctx = d };
	return loop_watch(&d->loop, &d->w_listen, EPOLLIN);
}

/* A thirty-second part of the memory, within reason; COFFER_POOL_MEMORY has the last word. */
static uint64_t memory_budget(void)
{
	const char *text = getenv("COFFER_POOL_MEMORY");
	struct sysinfo si;
	uint64_t v;

	if (text && str_to_size(text, &v) == 0)
		return v;
	v = sysinfo(&si) == 0 ? (uint64_t)si.totalram * si.mem_unit / 32 : 0;
	return v > (1ULL << 30) ? 1ULL << 30 : v < (128ULL << 20) ? 128ULL << 20 : v;
}

static int set_up(struct daemon *d, const struct strv *first, struct err *e)
{
	autobuf struct buf key = BUF_INIT;
	sigset_t set;
	int r = take_lock(d, e);

	if (r == 0)
		r = loop_open(&d->loop, e);
	if (r == 0)
		r = open_socket(d, e);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	if (r == 0)
		r = loop_signals(&d->loop, &set, on_signal, d, e);
	if (r < 0)
		return r;
	if (first->n && cofferd_pack(first, &key) == 0) {
		struct template *t = find_template(d, key.data, key.len);

		if (t)
			pool_note(&t->demand, clock_nsec(CLOCK_MONOTONIC));
	}
	d->refill = (struct timer){ .fn = on_refill, .ctx = d };
	balance(d);
	d->tick = (struct timer){ .fn = on_tick, .ctx = d };
	loop_timer(&d->loop, &d->tick, clock_nsec(CLOCK_MONOTONIC) + TICK);
	return 0;
}

int cofferd_serve(struct state *st, int coffer_fd, const struct strv *first, struct err *e)
{
	struct daemon d = { .st = st, .coffer_fd = coffer_fd, .lock_fd = -1, .loop = LOOP_INIT, .err = e };
	int r = cofferd_build(coffer_fd, &d.build);

	if (r < 0)
		return err_sys(e, r, "cannot look at the coffer program");
	prctl(PR_SET_DUMPABLE, 0);
	d.w_listen = WATCH_INIT;
	d.busy_at = clock_nsec(CLOCK_MONOTONIC);
	d.budget = memory_budget();
	d.builders = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	r = set_up(&d, first, e);
	if (r == 0)
		r = loop_run(&d.loop, e);
	while (d.clients)
		drop_client(d.clients);
	while (d.templates)
		drop_template(&d, d.templates);
	if (d.w_listen.fd >= 0) {
		(void)unlinkat(st->fd, "cofferd.sock", 0);
		fd_close(d.w_listen.fd);
	}
	loop_close(&d.loop);
	fd_close(d.lock_fd);
	return r;
}
