/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/cofferd.h"

#include "base/clock.h"
#include "base/fd.h"
#include "gateway/activate.h"
#include "gateway/cofferd_int.h"
#include "gateway/gate.h"
#include "gateway/metrics.h"
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#define TICK (1 * NSEC_PER_SEC)
/* A call that has just been handed its sandbox gets the processors first: the next ones are made once nobody has asked for
 * so long, unless less than half of what is wanted stands ready. */
#define LET_RUN (20 * NSEC_PER_MSEC)
#define LINGER (10 * NSEC_PER_SEC) /* without anything to keep ready, until we leave */
#define SOCKET "cofferd.sock"
#define LOCK_TRIES 500
#define LOCK_PAUSE (10 * (long)NSEC_PER_MSEC)
#define CLIENTS_MAX 1024 /* of which every sandbox that uses the vault is one */
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
	uint64_t each;	      /* bytes, of one */
	struct helper helper; /* a sandbox that could not be made is not tried again at once */
};

struct client {
	struct client *next;
	struct daemon *d;
	struct watch w;
	struct gate_lease lease;
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
	struct metrics *metrics;
	struct gate gate;
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
	helpers_remove(&d->gate.helpers, &t->helper);
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
	gate_lease_end(&d->gate, &c->lease);
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
		balance(t->d);
		return;
	}
	/* Whoever asks next makes one itself, and is told what is wrong. */
	m.why[sizeof(m.why) - 1] = '\0';
	(void)helper_died(&t->d->gate.helpers, &t->helper, clock_nsec(CLOCK_MONOTONIC),
			  r == 0 && m.kind == STANDBY_FAILED ? m.why : "it died");
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
	while (t->n_ready + t->n_starting < want && helper_may_start(&t->helper, now) &&
	       starting(d) < d->builders && pool_may_add(held(d), t->each, d->budget)) {
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

static void reap(struct daemon *d)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		gate_reaped(&d->gate, pid, status);
}

static void on_tick(struct timer *timer)
{
	struct daemon *d = timer->ctx;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	struct template *next;

	reap(d);
	balance(d);
	for (struct template *t = d->templates; t; t = next) {
		next = t->next;
		if (!t->list && pool_want(&t->demand, now) == 0)
			drop_template(d, t);
	}
	if (gate_is_busy(&d->gate))
		d->busy_at = now;
	if (!d->clients && !d->templates && !metrics_is_wanted(d->metrics, now) && now - d->busy_at > LINGER)
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
	helpers_add(&d->gate.helpers, &t->helper, "standby");
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

static void count_pool(void *ctx, struct gate_pool *ret)
{
	const struct daemon *d = ctx;

	*ret = (struct gate_pool){ .templates = d->n_templates, .held = held(d) };
	for (const struct template *t = d->templates; t; t = t->next) {
		ret->ready += t->n_ready;
		ret->starting += t->n_starting;
	}
}

/* With an error's words when there is one, and a descriptor unless it is -1, which is closed. */
static void tell(struct daemon *d, struct client *c, const struct err *e, int fd)
{
	struct gate_pool p;
	struct cofferd_reply reply = { .magic = COFFERD_MAGIC,
				       .has = fd >= 0,
				       .stays = d->gate.stay,
				       .leaves = d->leaving,
				       .pid = (uint32_t)getpid() };

	count_pool(d, &p);
	reply.ready = p.ready;
	reply.starting = p.starting;
	reply.templates = p.templates;
	reply.held = p.held;
	reply.vault = vaultd_state(&d->gate.vault);
	reply.counter = d->gate.vault.proc.counter;
	if (e && e->code) {
		reply.error = e->code;
		snprintf(reply.why, sizeof(reply.why), "%.319s", e->msg);
		snprintf(reply.hint, sizeof(reply.hint), "%.159s", e->hint);
	}
	(void)!fdpass_send(c->w.fd, &reply, sizeof(reply), &fd, fd >= 0 ? 1 : 0);
	fd_close(fd);
}

static void tell_status(struct daemon *d, struct client *c, bool replaced)
{
	struct gate_pool p;
	struct err e = ERR_INIT;
	int fd;

	count_pool(d, &p);
	fd = gate_status(&d->gate, &p, replaced);
	if (fd < 0)
		err_set(&e, -ENOMEM, "out of memory");
	tell(d, c, &e, fd);
}

static void tell_web(struct daemon *d, struct client *c, const struct cofferd_msg *m)
{
	struct err e = ERR_INIT;
	struct webctl ctl;
	int fd = -1;

	if (webctl_parse(m->body, m->len, &ctl) == 0)
		(void)!webd_control(d->gate.web, &ctl, &fd, &e);
	tell(d, c, &e, fd);
}

static void leave(struct daemon *d)
{
	d->leaving = true;
	while (d->templates)
		drop_template(d, d->templates);
	loop_stop(&d->loop);
}

static void give(struct daemon *d, struct client *c, const struct cofferd_msg *m)
{
	struct template *t = find_template(d, m->body, m->len);

	hand_out(d, c, t);
	d->taken_at = clock_nsec(CLOCK_MONOTONIC);
	if (t)
		pool_note(&t->demand, d->taken_at);
	balance(d);
}

static void obey(struct daemon *d, struct client *c, const struct cofferd_msg *m, bool replaced)
{
	struct err e = ERR_INIT;
	bool stayed = d->gate.stay;
	int fd = -1;

	switch (m->head.want) {
	case COFFERD_STATUS:
		tell_status(d, c, replaced);
		return;
	case COFFERD_WEB:
		tell_web(d, c, m);
		return;
	case COFFERD_KEEP:
		(void)!gate_keep(&d->gate, m->body, &e);
		break;
	case COFFERD_RELOAD:
		if (replaced)
			leave(d);
		else
			(void)!gate_reload(&d->gate, &e);
		break;
	case COFFERD_STAY:
		d->gate.stay = true;
		if (gate_reload(&d->gate, &e) < 0)
			d->gate.stay = stayed;
		break;
	case COFFERD_STOP:
		leave(d);
		break;
	case COFFERD_DROP:
		while (d->templates)
			drop_template(d, d->templates);
		if (!gate_is_busy(&d->gate))
			leave(d);
		break;
	case COFFERD_HOLD:
	case COFFERD_UNLOCK:
	case COFFERD_UNLOCKED:
	case COFFERD_LOCK:
		(void)!gate_vault(&d->gate, &c->lease, m, &fd, &e);
		break;
	default:
		break;
	}
	tell(d, c, &e, fd);
}

/* D3: coffer was replaced since we were started, or the client is in another container. */
static bool is_same_machine(const struct cofferd_build *a, const struct cofferd_build *b)
{
	return a->root_dev == b->root_dev && a->root_ino == b->root_ino && a->usr_dev == b->usr_dev &&
	       a->usr_ino == b->usr_ino;
}

/* Returns false when the client said something that is not a question. */
static bool answer(struct daemon *d, struct client *c, const char *data, size_t len)
{
	struct cofferd_msg m;
	struct err e = ERR_INIT;
	bool same;

	if (cofferd_msg_parse(data, len, &m) < 0)
		return false;
	same = memcmp(&m.head.build, &d->build, sizeof(d->build)) == 0;
	if (!same && !gate_is_busy(&d->gate) && m.head.want != COFFERD_STATUS) {
		leave(d);
		tell(d, c, NULL, -1);
	} else if (m.head.want == COFFERD_TAKE) {
		if (same)
			give(d, c, &m);
		else
			hand_out(d, c, NULL);
	} else if (!is_same_machine(&m.head.build, &d->build)) {
		err_set(&e, -EXDEV,
			"this cofferd sees other files than you: it was started outside of this container");
		tell(d, c, &e, -1);
	} else {
		obey(d, c, &m, !same);
	}
	return true;
}

static void on_client(struct watch *w, uint32_t events)
{
	static char data[COFFERD_ASK_MAX];
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
		reap(d);
		balance(d);
		return;
	}
	if (si->ssi_signo == SIGHUP && gate_is_busy(&d->gate)) {
		(void)!gate_reload(&d->gate, &(struct err){ 0 });
		return;
	}
	leave(d);
}

static bool is_served(const struct daemon *d)
{
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;

	cofferd_address(d->st, &a);
	return fd >= 0 && (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EAGAIN);
}

/* D2. -EEXIST: there is one. Somebody who has the lock and does not serve is about to leave, or was killed with a child
 * that has yet to execute something else. */
static int take_lock(struct daemon *d, bool activated, struct err *e)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE };

	d->lock_fd = openat(d->st->fd, "cofferd.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->lock_fd < 0)
		return err_sys(e, -errno, "cannot open %s/cofferd.lock", d->st->path);
	for (int i = 0; flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, -errno, "cannot lock %s/cofferd.lock", d->st->path);
		/* At a socket of a service manager's anybody is served, some time. */
		if (i >= LOCK_TRIES || (!activated && is_served(d)))
			return err_set(e, -EEXIST, "there is a cofferd for %s already", d->st->path);
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* Left by one that was killed: we have the lock. But somebody may listen there without it, as a service manager does. */
static int clear_socket(const struct daemon *d, struct err *e)
{
	struct stat st;

	if (fstatat(d->st->fd, SOCKET, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, -errno, "cannot look at %s/" SOCKET, d->st->path);
	if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
		return err_set(e, -EEXIST, "%s/" SOCKET " is in the way: it is not a socket of your own",
			       d->st->path);
	if (is_served(d)) {
		err_set(e, -EADDRINUSE, "somebody listens at %s/" SOCKET " already", d->st->path);
		return err_hint(e, -EADDRINUSE,
				"if that is systemd: systemctl --user start cofferd (root: without --user)");
	}
	return unlinkat(d->st->fd, SOCKET, 0) < 0
		       ? err_sys(e, -errno, "cannot remove %s/" SOCKET, d->st->path)
		       : 0;
}

static int make_socket(struct daemon *d, struct err *e)
{
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "cannot make a socket");
	cofferd_address(d->st, &a);
	r = clear_socket(d, e);
	if (r < 0)
		return r;
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0)
		return err_sys(e, -errno, "cannot make %s/" SOCKET, d->st->path);
	return TAKE_FD(fd);
}

static int open_socket(struct daemon *d, int given, struct err *e)
{
	int fd = given >= 0 ? given : make_socket(d, e);

	if (fd < 0)
		return fd;
	d->gate.activated = given >= 0;
	d->w_listen = (struct watch){ .fd = fd, .fn = on_listen, .ctx = d };
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

static int take_signals(struct daemon *d, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	return loop_signals(&d->loop, &set, on_signal, d, e);
}

static int set_up(struct daemon *d, const struct cofferd_how *how, struct err *e)
{
	int r = take_lock(d, how->listen_fd >= 0, e);

	if (r == 0)
		r = loop_open(&d->loop, e);
	if (r == 0)
		r = open_socket(d, how->listen_fd, e);
	if (r == 0)
		r = metrics_open(
			&d->metrics,
			&(struct metrics_env){ .st = d->st, .loop = &d->loop, .pool = count_pool, .ctx = d },
			e);
	if (r == 0)
		r = take_signals(d, e);
	d->gate.metrics = metrics_tell;
	d->gate.metrics_ctx = d->metrics;
	/* Before the sandboxes are looked at, for that may take a while, and who asks may wait. */
	return r < 0 ? r : gate_open(&d->gate, e);
}

static void begin(struct daemon *d, const struct cofferd_how *how)
{
	autobuf struct buf key = BUF_INIT;
	struct template *t = NULL;

	if (how->first->n && cofferd_pack(how->first, &key) == 0)
		t = find_template(d, key.data, key.len);
	if (t)
		pool_note(&t->demand, clock_nsec(CLOCK_MONOTONIC));
	d->refill = (struct timer){ .fn = on_refill, .ctx = d };
	balance(d);
	d->tick = (struct timer){ .fn = on_tick, .ctx = d };
	loop_timer(&d->loop, &d->tick, clock_nsec(CLOCK_MONOTONIC) + TICK);
}

static void tear_down(struct daemon *d)
{
	while (d->clients)
		drop_client(d->clients);
	while (d->templates)
		drop_template(d, d->templates);
	metrics_close(d->metrics);
	gate_close(&d->gate);
	if (d->w_listen.fd >= 0) {
		/* That of a service manager stays, and whoever knocks starts the next one. */
		if (!d->gate.activated)
			(void)unlinkat(d->st->fd, SOCKET, 0);
		fd_close(d->w_listen.fd);
	}
	loop_close(&d->loop);
	fd_close(d->lock_fd);
}

int cofferd_serve(struct state *st, const struct cofferd_how *how, struct err *e)
{
	struct daemon d = {
		.st = st, .coffer_fd = how->coffer_fd, .lock_fd = -1, .loop = LOOP_INIT, .err = e
	};
	int r = cofferd_build(how->coffer_fd, &d.build);

	if (r < 0)
		return err_sys(e, r, "cannot look at the coffer program");
	prctl(PR_SET_DUMPABLE, 0);
	d.w_listen = WATCH_INIT;
	d.busy_at = clock_nsec(CLOCK_MONOTONIC);
	d.budget = memory_budget();
	d.builders = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	d.gate = (struct gate){ .st = st, .loop = &d.loop, .coffer_fd = how->coffer_fd, .stay = how->stay };
	r = set_up(&d, how, e);
	if (r == 0) {
		how->ready();
		begin(&d, how);
		r = loop_run(&d.loop, e);
		activate_notify("STOPPING=1");
	}
	tear_down(&d);
	return r;
}
