/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's sockets, and coffer-web: started with the first connection, restarted when it dies; messages
 * from it are hostile.
 */
#include "daemon/broker/webd.h"

#include "base/fd.h"
#include "base/str.h"
#include "codec/net/host.h"
#include "daemon/broker/webd_int.h"
#include "ipc/fdpass.h"
#include "sandbox/engine/helper.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define OWN_ID 65531 /* coffer-web's uid if started by the host's root; no user has this id */
#define QUEUE_MAX 4096
#define CHANNEL_BUFFER (4 << 20)
#define LISTEN_FILE_MAX 8192
#define CLIENT_BUFFER (128 << 10) /* send buffer of a client connection in bytes; the kernel doubles it */

static void on_owner_connection(struct watch *w, uint32_t events);
static void on_listener_knock(struct watch *w, uint32_t events);

/* --- coffer-web ----------------------------------------------------------------------------------------- */

static void drop_message_queue(struct webd *d)
{
	while (d->queue) {
		struct outgoing *o = d->queue;

		d->queue = o->next;
		for (size_t i = 0; i < o->n; i++)
			fd_close(o->fds[i]);
		free(o);
	}
	d->queue_end = &d->queue;
	d->n_queue = d->n_queue_fds = 0;
}

static void on_listen_again_timer(struct timer *t);

static void add_stats(struct web_stats *sum, const struct web_stats *s)
{
	for (unsigned i = 0; i <= WEB_STATUS_COUNT; i++)
		sum->responses[i] += s->responses[i];
	sum->dropped += s->dropped;
}

/* The counters of each coffer-web start at 0; keep the sum of earlier ones. */
static void save_web_stats(struct webd *d)
{
	add_stats(&d->before, &d->stats);
	d->stats = (struct web_stats){ 0 };
}

/* All its connections die with it; the next connection, or the timer, starts another one. */
void webd_kill(struct webd *d, const char *why)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC), wait;

	if (d->channel.fd < 0)
		return;
	if (d->pid > 0)
		kill(d->pid, SIGKILL);
	loop_unwatch(d->w.loop, &d->channel);
	loop_timer_off(d->w.loop, &d->drown);
	d->channel.fd = fd_close(d->channel.fd);
	drop_message_queue(d);
	webd_end_jobs(d);
	save_web_stats(d);
	wait = helper_died(d->w.helpers, &d->helper, now, why);
	for (size_t i = 0; i < d->n_listeners; i++)
		loop_unwatch(d->w.loop, &d->listeners[i].w);
	loop_unwatch(d->w.loop, &d->api);
	loop_timer(d->w.loop, &d->again, now + wait);
}

static int send_message(struct webd *d, const struct webp_answer *a, const int *fds, size_t n)
{
	return fdpass_send(d->channel.fd, a, sizeof(*a), fds, n);
}

/* webd.W6: while messages are queued for it, coffer-web is not read from. If even that fails it is killed,
 * but from a timer: callers are iterating over the jobs. */
static void arm_channel(struct webd *d)
{
	if (loop_watch(d->w.loop, &d->channel, d->queue ? EPOLLOUT : EPOLLIN) < 0)
		loop_timer(d->w.loop, &d->drown, clock_nsec(CLOCK_MONOTONIC));
}

static void flush_queue(struct webd *d)
{
	while (d->queue) {
		struct outgoing *o = d->queue;
		int r = send_message(d, &o->a, o->fds, o->n);

		if (r == -EAGAIN)
			break;
		d->queue = o->next;
		if (!d->queue)
			d->queue_end = &d->queue;
		d->n_queue--;
		d->n_queue_fds -= o->n;
		for (size_t i = 0; i < o->n; i++)
			fd_close(o->fds[i]);
		free(o);
	}
}

static void on_queue_full(struct timer *t)
{
	webd_kill(t->ctx, "it does not read");
}

void webd_send(struct webd *d, const struct webp_answer *a, const int *fds, size_t n)
{
	bool room = d->n_queue < QUEUE_MAX && d->n_queue_fds + n <= WEBD_QUEUE_FDS;
	struct outgoing *o = d->channel.fd >= 0 && room ? calloc(1, sizeof(*o)) : NULL;

	if (!o) {
		for (size_t i = 0; i < n; i++)
			fd_close(fds[i]);
		/* A response is lost, so this coffer-web cannot continue. */
		if (d->channel.fd >= 0)
			loop_timer(d->w.loop, &d->drown, clock_nsec(CLOCK_MONOTONIC));
		return;
	}
	o->a = *a;
	o->n = n;
	for (size_t i = 0; i < n; i++)
		o->fds[i] = fds[i];
	*d->queue_end = o;
	d->queue_end = &o->next;
	d->n_queue++;
	d->n_queue_fds += n;
	flush_queue(d);
	if (d->queue)
		arm_channel(d);
}

/* webproto.P1: ids and message types by the table; anything else is fatal for coffer-web. */
static bool obey_web_message(struct webd *d, const struct webp_msg *m)
{
	bool known = m->req.id <= d->last_id;

	if (m->type == WEBP_STATS) {
		d->stats = m->stats;
		return true;
	}
	if (!webp_legal(known ? WEBP_ST_OVER : WEBP_ST_NEW, m->type))
		return false;
	if (m->type == WEBP_CANCEL) {
		webd_cancel(d, m->req.id);
		return true;
	}
	d->last_id = m->req.id;
	webd_request(d, &m->req);
	return true;
}

static void on_web_channel(struct watch *w, uint32_t events)
{
	static char data[WEBP_MAX + 1];
	struct webd *d = w->ctx;
	struct webp_msg m;
	int none[1];
	size_t len;
	int r;

	if (events & EPOLLOUT) {
		flush_queue(d);
		arm_channel(d);
		return;
	}
	r = fdpass_recv_some(w->fd, data, sizeof(data), &len, none, 0);
	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r < 0)
		webd_kill(d, "it ended");
	else if (webp_parse(data, len, &m) < 0 || !obey_web_message(d, &m))
		webd_kill(d, "it sent a malformed message");
	else
		helper_is_up(d->w.helpers, &d->helper, clock_nsec(CLOCK_MONOTONIC));
}

/* coffer-web would also notice the end of its channel, but must not run a moment without its judge: it dies
 * with cofferd. */
static int start_coffer_web(int program, int sock, pid_t *ret, struct err *e)
{
	char *argv[] = { (char *)"coffer-web", NULL };
	const int fds[] = { SPAWN_NULL, SPAWN_NULL, SPAWN_NULL, sock };
	const struct spawn s = { .exe = program,
				 .argv = argv,
				 .fds = fds,
				 .n_fds = ARRAY_SIZE(fds),
				 .id = OWN_ID,
				 .flags = SPAWN_SESSION };
	struct spawned got = SPAWNED_INIT;
	int r = spawn_start(&s, &got, e);

	if (r < 0)
		return r;
	fd_close(got.pidfd);
	*ret = got.pid;
	return 0;
}

static void send_listener(struct webd *d, const struct webd_listener *l)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_LISTEN, .status = l->port };
	int fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 3);

	snprintf(a.message, sizeof(a.message), "%s", l->hosts);
	if (fd >= 0)
		webd_send(d, &a, &fd, 1);
}

static int ensure_coffer_web(struct webd *d, struct err *e)
{
	autoclose int program = -1;
	const int size = CHANNEL_BUFFER;
	int sv[2], r;

	if (d->channel.fd >= 0)
		return 0;
	program = helper_open("coffer-web", e);
	if (program < 0)
		return program;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		return err_sys(e, -errno, "cannot make a socket");
	for (int i = 0; i < 2; i++)
		(void)!setsockopt(sv[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	r = start_coffer_web(program, sv[1], &d->pid, e);
	fd_close(sv[1]);
	d->channel = (struct watch){ .fd = sv[0], .fn = on_web_channel, .ctx = d };
	if (r == 0 && loop_watch(d->w.loop, &d->channel, EPOLLIN) < 0)
		r = err_set(e, -EAGAIN, "cannot watch coffer-web");
	if (r < 0) {
		d->channel.fd = fd_close(d->channel.fd);
		return r;
	}
	d->last_id = 0;
	randombytes_buf(d->owner, sizeof(d->owner));
	for (size_t i = 0; i < d->n_listeners; i++) {
		loop_unwatch(d->w.loop, &d->listeners[i].w);
		send_listener(d, &d->listeners[i]);
	}
	return 0;
}

/* While there is no coffer-web, cofferd watches the sockets itself. */
static void watch_sockets(struct webd *d)
{
	(void)!loop_watch(d->w.loop, &d->api, EPOLLIN);
	for (size_t i = 0; i < d->n_listeners && d->channel.fd < 0; i++)
		(void)!loop_watch(d->w.loop, &d->listeners[i].w, EPOLLIN);
}

static void on_listen_again_timer(struct timer *t)
{
	watch_sockets(t->ctx);
}

static void start_web_or_wait(struct webd *d)
{
	struct err e = ERR_INIT;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	if (ensure_coffer_web(d, &e) == 0)
		return;
	for (size_t i = 0; i < d->n_listeners; i++)
		loop_unwatch(d->w.loop, &d->listeners[i].w);
	loop_unwatch(d->w.loop, &d->api);
	loop_timer(d->w.loop, &d->again, now + helper_died(d->w.helpers, &d->helper, now, e.msg));
}

static void on_listener_knock(struct watch *w, uint32_t events)
{
	(void)events;
	start_web_or_wait(((struct webd_listener *)w->ctx)->d);
}

/* The owner's connections are accepted and checked here, so that coffer-web cannot claim one (webproto.P3). */
static void on_owner_connection(struct watch *w, uint32_t events)
{
	struct webd *d = w->ctx;
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_CONN };
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int fd;

	(void)events;
	start_web_or_wait(d);
	if (d->channel.fd < 0)
		return;
	fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	/* Root could impersonate the owner anyway. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
	    (cred.uid != geteuid() && cred.uid != 0)) {
		fd_close(fd);
		return;
	}
	memcpy(a.key, d->owner, HASH_LEN);
	webd_send(d, &a, &fd, 1);
}

/* --- listening ------------------------------------------------------------------------------------------ */

static int open_api_socket(struct webd *d, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t old;
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "cannot make a socket");
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" WEBD_SOCKET, d->w.st->fd);
	(void)unlinkat(d->w.st->fd, WEBD_SOCKET, 0);
	old = umask(0177);
	r = bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, SOMAXCONN) < 0 ? -errno : 0;
	umask(old);
	if (r < 0)
		return err_sys(e, r, "cannot listen on %s/" WEBD_SOCKET, d->w.st->path);
	d->api = (struct watch){ .fd = TAKE_FD(fd), .fn = on_owner_connection, .ctx = d };
	return loop_watch(d->w.loop, &d->api, EPOLLIN);
}

/* webd.W5: refuses public addresses without "public". */
static int check_listen_address(const struct host *h, bool is_public, struct err *e)
{
	enum addr_class c = h->kind == HOST_ADDR ? addr_special(&h->addr) : ADDR_GLOBAL;

	if (h->kind != HOST_ADDR) {
		err_set(e, -EINVAL, "'%s' is not a valid address", h->text);
		return err_hint(e, -EINVAL, "127.0.0.1:8787, 10.0.0.5:8787, [::1]:8787");
	}
	/* An IPv6 link-local address needs a scope (fe80::1%eth0), which cannot be given here. */
	if (c == ADDR_LINK_LOCAL && !addr_is_v4(&h->addr)) {
		err_set(e, -EINVAL, "%s is a link-local address, whose link cannot be named here", h->text);
		return err_hint(e, -EINVAL, "127.0.0.1:8787, 10.0.0.5:8787, [::1]:8787");
	}
	if (c == ADDR_LOOPBACK || c == ADDR_PRIVATE || c == ADDR_ULA || c == ADDR_CGNAT ||
	    c == ADDR_LINK_LOCAL || is_public)
		return 0;
	err_set(e, -EPERM,
		"%s can be reached by the whole network, where tokens travel unencrypted and anyone who has one controls "
		"your sandboxes",
		h->text);
	return err_hint(e, -EPERM,
			"listen on 127.0.0.1 and put a TLS proxy or SSH in front; or add --public");
}

static int log_control_change(struct webd *d, const char *type, const struct webctl *c, struct err *e);

/* is_new: requested now. It is logged once it is known to be possible, and before any client is accepted. */
static int listen_on_address(struct webd *d, const struct webctl *c, bool is_new, struct err *e)
{
	struct webd_listener *l = &d->listeners[d->n_listeners];
	_Alignas(struct sockaddr_in6) uint8_t sa[ADDR_SOCKADDR_LEN];
	autoclose int fd = -1;
	const int one = 1, room = CLIENT_BUFFER;
	socklen_t sa_len;
	autobuf struct buf text = BUF_INIT;
	struct host h;
	uint16_t port;
	int r = host_port_parse(c->listen, strlen(c->listen), 8787, &h, &port, e);

	if (r == 0)
		r = check_listen_address(&h, c->is_public, e);
	if (r < 0)
		return r;
	if (d->n_listeners == WEBD_LISTENERS)
		return err_set(e, -ENOSPC, "there are %d addresses already", WEBD_LISTENERS);
	sa_len = (socklen_t)addr_to_sockaddr(&h.addr, port, sa);
	fd = socket(((struct sockaddr *)sa)->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    /* Inherited by each connection: no megabytes in the kernel for a client that does not read, and
	     * no delay of events by Nagle's algorithm. */
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) < 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)sa, sa_len) < 0 || listen(fd, SOMAXCONN) < 0)
		return err_sys(e, -errno, "cannot listen on %s", c->listen);
	r = is_new ? log_control_change(d, "api.listen", c, e) : 0;
	if (r < 0)
		return r;
	host_add(&text, &h, port);
	*l = (struct webd_listener){ .fd = TAKE_FD(fd), .port = port, .is_public = c->is_public, .d = d };
	snprintf(l->text, sizeof(l->text), "%s", buf_cstr(&text));
	snprintf(l->hosts, sizeof(l->hosts), "%s", c->hosts);
	l->w = (struct watch){ .fd = l->fd, .fn = on_listener_knock, .ctx = l };
	d->n_listeners++;
	if (d->channel.fd >= 0) {
		send_listener(d, l);
		return 0;
	}
	return loop_watch(d->w.loop, &l->w, EPOLLIN);
}

/* One address per line, followed by "public" and host names: the next cofferd listens there too. */
static int save_listeners(struct webd *d, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r;

	for (size_t i = 0; i < d->n_listeners; i++)
		buf_addf(&b, "%s %s %s\n", d->listeners[i].text, d->listeners[i].is_public ? "public" : "-",
			 d->listeners[i].hosts[0] ? d->listeners[i].hosts : "-");
	r = buf_error(&b) ? -ENOMEM : fd_replace_file(d->w.st->fd, WEBD_FILE, buf_cstr(&b), b.len, 0600);
	return r < 0 ? err_sys(e, r, "cannot write %s/" WEBD_FILE, d->w.st->path) : 0;
}

static void restore_listeners(struct webd *d)
{
	autobuf struct buf b = BUF_INIT;
	char *save = NULL;

	if (fd_read_file(d->w.st->fd, WEBD_FILE, LISTEN_FILE_MAX, &b) < 0 || !b.data)
		return;
	for (char *line = strtok_r(b.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct webctl c = { 0 };
		struct err e = ERR_INIT;
		char how[8];

		if (sscanf(line, "%71s %7s %255s", c.listen, how, c.hosts) != 3)
			continue;
		c.is_public = str_eq(how, "public");
		if (str_eq(c.hosts, "-"))
			c.hosts[0] = '\0';
		if (listen_on_address(d, &c, false, &e) < 0)
			(void)helper_died(d->w.helpers, &d->helper, clock_nsec(CLOCK_MONOTONIC), e.msg);
	}
}

/* --- control -------------------------------------------------------------------------------------------- */

/* webd.W2: logged before the change is made. */
static int log_control_change(struct webd *d, const char *type, const struct webctl *c, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	struct err why = ERR_INIT;

	if (c->name[0])
		json_str(&j, "name", c->name);
	if (c->op == WEBCTL_TOKEN || c->op == WEBCTL_LOGIN)
		json_str(&j, "role", web_role_name((enum web_role)c->role));
	if (c->listen[0])
		json_str(&j, "listen", c->listen);
	if (c->hosts[0])
		json_str(&j, "hosts", c->hosts);
	if (c->is_public)
		json_bool(&j, "public", true);
	if (buf_error(&b) == 0 && audit_append(d->w.audit, type, NULL, &b, &why) == 0)
		return 0;
	err_set(e, -EIO, "this cannot be written to the audit log, so it is not done");
	return err_hint(e, -EIO, "coffer audit verify shows what is wrong with it");
}

static int add_token(struct webd *d, const struct webctl *c, struct err *e)
{
	struct db_cred row = { .made = clock_nsec(CLOCK_REALTIME), .expires = c->expires };
	int r;

	if (c->role == WEB_NOBODY || !str_is_name(c->name))
		return err_set(e, -EINVAL, "a token needs a role and a name");
	if (c->op == WEBCTL_LOGIN)
		row.expires = row.made + WEBD_LOGIN_FOR * NSEC_PER_SEC;
	hash_hex(c->hash, HASH_LEN, row.hash);
	snprintf(row.kind, sizeof(row.kind), "%s", c->op == WEBCTL_LOGIN ? "login" : "token");
	snprintf(row.role, sizeof(row.role), "%s", web_role_name((enum web_role)c->role));
	snprintf(row.name, sizeof(row.name), "%s", c->name);
	r = webd_check_cred(d, &row, e);
	r = r < 0 ? r : log_control_change(d, "api.token", c, e);
	return r < 0 ? r : webd_add_cred(d, &row, e);
}

static int remove_token(struct webd *d, const struct webctl *c, struct err *e)
{
	int r = webd_has_cred(d, c->name, e);

	r = r < 0 ? r : log_control_change(d, "api.revoke", c, e);
	return r < 0 ? r : webd_remove_cred(d, c->name, e);
}

static int start_listening(struct webd *d, const struct webctl *c, struct err *e)
{
	int r;

	for (size_t i = 0; i < d->n_listeners; i++) {
		if (str_eq(d->listeners[i].text, c->listen))
			return 0;
	}
	r = listen_on_address(d, c, true, e);
	return r < 0 ? r : save_listeners(d, e);
}

static int apply_control(struct webd *d, const struct webctl *c, struct err *e)
{
	switch (c->op) {
	case WEBCTL_LISTEN:
		return start_listening(d, c, e);
	case WEBCTL_TOKEN:
	case WEBCTL_LOGIN:
		return add_token(d, c, e);
	case WEBCTL_RM:
		return remove_token(d, c, e);
	default:
		return webd_load_creds(d, e);
	}
}

int webd_control(struct webd *d, const struct webctl *c, int *ret_fd, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	autoclose int fd = memfd_create("webctl", MFD_CLOEXEC);
	int r = apply_control(d, c, e);

	if (r < 0)
		return r;
	json_obj(&j, NULL);
	json_arr(&j, "listen");
	for (size_t i = 0; i < d->n_listeners; i++)
		json_str(&j, NULL, d->listeners[i].text);
	json_end_arr(&j);
	if (c->op == WEBCTL_LS)
		webd_creds_json(d, &j, "tokens");
	json_end_obj(&j);
	buf_addc(&b, '\n');
	if (fd < 0 || buf_error(&b) || fd_write_all(fd, b.data, b.len) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* --- opening and closing -------------------------------------------------------------------------------- */

static void on_rest_over(struct timer *t)
{
	webd_start_more(t->ctx);
}

int webd_open(struct webd **ret, const struct webd_with *w, struct err *e)
{
	struct webd *d = calloc(1, sizeof(*d));
	int r;

	if (!d || sodium_init() < 0) {
		free(d);
		return err_set(e, -ENOMEM, "out of memory");
	}
	d->w = *w;
	d->channel = WATCH_INIT;
	d->api = WATCH_INIT;
	d->queue_end = &d->queue;
	d->drown = (struct timer){ .fn = on_queue_full, .ctx = d };
	d->rest = (struct timer){ .fn = on_rest_over, .ctx = d };
	d->again = (struct timer){ .fn = on_listen_again_timer, .ctx = d };
	webd_jobs_open(d);
	d->refusals = webd_refusals_new(d);
	helpers_add(w->helpers, &d->helper, "coffer-web");
	r = d->refusals ? open_api_socket(d, e) : err_set(e, -ENOMEM, "out of memory");
	if (r < 0) {
		webd_close(d);
		return r;
	}
	restore_listeners(d);
	*ret = d;
	return 0;
}

void webd_close(struct webd *d)
{
	if (!d)
		return;
	loop_timer_off(d->w.loop, &d->again);
	loop_timer_off(d->w.loop, &d->drown);
	loop_timer_off(d->w.loop, &d->rest);
	webd_refusals_free(d->refusals);
	webd_end_jobs(d);
	/* coffer-web exits when its channel closes. */
	loop_unwatch(d->w.loop, &d->channel);
	fd_close(d->channel.fd);
	drop_message_queue(d);
	for (size_t i = 0; i < d->n_listeners; i++) {
		loop_unwatch(d->w.loop, &d->listeners[i].w);
		fd_close(d->listeners[i].fd);
	}
	if (d->api.fd >= 0) {
		loop_unwatch(d->w.loop, &d->api);
		(void)unlinkat(d->w.st->fd, WEBD_SOCKET, 0);
		fd_close(d->api.fd);
	}
	helpers_remove(d->w.helpers, &d->helper);
	webd_release_creds(d);
	while (d->jobs) {
		struct job *x = d->jobs;

		d->jobs = x->next;
		strv_release(&x->argv);
		fd_close(x->in);
		fd_close(x->out);
		fd_close(x->err);
		free(x);
	}
	free(d);
}

void webd_count(const struct webd *d, struct web_stats *ret, uint64_t *ret_deaths)
{
	*ret = d->stats;
	add_stats(ret, &d->before);
	*ret_deaths = d->helper.deaths;
}

bool webd_is_busy(const struct webd *d)
{
	return d && (d->n_listeners || d->jobs);
}

bool webd_reaped(struct webd *d, pid_t pid, int status)
{
	if (!d)
		return false;
	if (pid == d->pid) {
		d->pid = 0;
		webd_kill(d, "it ended");
		return true;
	}
	return webd_job_reaped(d, pid, status);
}
