/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard's side of coffer-vault: cofferd's, or one of the run's own. While it is down, coffer-egress
 * denies whatever needs a secret; it is requested or restarted after a pause, grants the same secrets under
 * the same placeholders, and coffer-egress gets a new channel. When the vault's file changes, the run's own
 * vault is restarted at once; cofferd handles its own, which looks like a short death from here. No value of
 * a secret passes through here.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "netd/serve/net_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKOFF_FIRST (100 * NSEC_PER_MSEC)
#define BACKOFF_MOST (5 * NSEC_PER_SEC)
#define LIVED_LONG (30 * NSEC_PER_SEC) /* after this long a death counts as the first again */

static struct net_secrets *secrets_of(struct net_guard *g)
{
	return &g->c.plan->secrets;
}

static void log_vault_state(struct net_guard *g, const char *type, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (why)
		json_str(&j, "why", why);
	net_audit(g, type, &b);
}

static void on_vault_death(struct watch *w, uint32_t events);

static void watch_vault(struct net_guard *g)
{
	const struct net_secrets *s = secrets_of(g);
	bool kept = s->lease >= 0;

	g->vault_since = clock_nsec(CLOCK_MONOTONIC);
	g->vault_why[0] = '\0';
	g->w_vault = (struct watch){ .fd = kept ? s->vault.control : s->vault.pidfd,
				     .fn = on_vault_death,
				     .ctx = g };
	if (g->w_vault.fd >= 0)
		(void)!loop_watch(&g->loop, &g->w_vault, kept ? LOOP_HANG_UP : EPOLLIN);
}

static void unwatch_vault(struct net_guard *g)
{
	if (g->w_vault.fd >= 0)
		loop_unwatch(&g->loop, &g->w_vault);
	g->w_vault = WATCH_INIT;
}

static void restart_vault_later(struct net_guard *g)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	if (g->vault_since && now - g->vault_since > LIVED_LONG)
		g->vault_backoff = 0;
	g->vault_since = 0;
	g->vault_backoff = !g->vault_backoff			 ? BACKOFF_FIRST
			   : g->vault_backoff * 2 > BACKOFF_MOST ? BACKOFF_MOST
								 : g->vault_backoff * 2;
	loop_timer(&g->loop, &g->t_vault, now + g->vault_backoff);
}

static void on_vault_death(struct watch *w, uint32_t events)
{
	struct net_guard *g = w->ctx;

	(void)events;
	unwatch_vault(g);
	net_secrets_close_vault(secrets_of(g));
	if (g->ending)
		return;
	log_vault_state(g, "vault.down", "it has ended");
	snprintf(g->vault_why, sizeof(g->vault_why), "it has ended");
	net_say(g, NET_LEVEL_WARN,
		"coffer-vault has ended and is being restarted; requests that need a secret "
		"are denied meanwhile");
	restart_vault_later(g);
}

/* An older file was put in place: rotated and removed secrets are back in it. */
void net_vault_check(struct net_guard *g)
{
	const struct net_secrets *s = secrets_of(g);
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (!net_secrets_has_any(s) || s->files.saved <= s->vault.counter)
		return;
	json_u64(&j, "counter", s->vault.counter);
	json_u64(&j, "expected", s->files.saved);
	net_audit(g, "secret.rollback", &b);
	net_say(g, NET_LEVEL_WARN,
		"the vault file is an older one: it was saved %llu times, the latest one %llu times",
		(unsigned long long)s->vault.counter, (unsigned long long)s->files.saved);
}

/* The granted secrets, followed by issued credentials. */
static int collect_grants(const struct net_secrets *s, struct vault_grants *ret)
{
	for (size_t i = 0; i < s->granted.n + s->issued.n; i++) {
		struct vault_grant *g = grants_add(ret);

		if (!g)
			return -ENOMEM;
		*g = i < s->granted.n ? s->granted.v[i] : s->issued.v[i - s->granted.n];
	}
	return 0;
}

static int pack_grants(const struct vault_grants *all, uint64_t by_line, const struct marks *marks,
		       struct err *e)
{
	autobuf struct buf packed = BUF_INIT, b = BUF_INIT;
	struct secrets_head h = { .by_line = by_line };
	int r = grants_pack(all, GRANTS_GRANTED, &packed);

	if (r < 0)
		return err_sys(e, r, "cannot hand over the list of secrets");
	memcpy(h.magic, SECRETS_MAGIC, sizeof(h.magic));
	h.len = (uint32_t)packed.len;
	static_assert(sizeof(h.marks) == sizeof(marks->v), "they are the same");
	memcpy(h.marks, marks->v, sizeof(h.marks));
	buf_add(&b, &h, sizeof(h));
	buf_add(&b, packed.data, packed.len);
	return buf_error(&b) ? err_set(e, -ENOMEM, "out of memory")
			     : memfile_make("secrets", b.data, b.len, true, e);
}

static int pack_egress_list(const struct net_secrets *s, struct err *e)
{
	autogrants struct vault_grants all = GRANTS_INIT;
	int r = collect_grants(s, &all);

	return r < 0 ? err_sys(e, r, "cannot hand over the list of secrets")
		     : pack_grants(&all, s->by_line, &s->marks, e);
}

static void send_vault_channel(struct net_guard *g, struct net_proc *p, int list, int channel)
{
	const int fds[2] = { list, channel };

	if (net_ctl_send(p, CTL_NEW_VAULT, fds, 2) < 0)
		net_down(g, p, "it does not take a new vault");
}

static int make_dial_channel(struct net_guard *g, int *ret_list, int *ret_channel, struct err *e)
{
	autogrants struct vault_grants list = GRANTS_INIT;
	autoclose int channel = -1;
	int r = net_proxy_grant(secrets_of(g), g->c.spec->id, &list, &channel, e), fd;

	if (r < 0)
		return r;
	fd = pack_grants(&list, 0, &(struct marks){ 0 }, e);
	if (fd < 0)
		return fd;
	*ret_list = fd;
	*ret_channel = TAKE_FD(channel);
	return 0;
}

/* For the running coffer-egress and coffer-dial; later ones get their own. */
static int send_vault_channels(struct net_guard *g, struct err *e)
{
	struct net_proc *p = &g->proc[NET_EGRESS], *d = &g->proc[NET_DIAL];
	autoclose int list = -1, channel = -1, dial_list = -1, dial_channel = -1;
	int r = 0;

	if (secrets_of(g)->granted.n && p->pid >= 0) {
		r = net_secrets_grant(secrets_of(g), g->c.spec->id, &channel, e);
		if (r < 0)
			return r;
		list = pack_egress_list(secrets_of(g), e);
		if (list < 0)
			return list;
		send_vault_channel(g, p, list, channel);
	}
	if (secrets_of(g)->proxies.n && d->pid >= 0) {
		r = make_dial_channel(g, &dial_list, &dial_channel, e);
		if (r == 0)
			send_vault_channel(g, d, dial_list, dial_channel);
	}
	return r;
}

/* A new channel for the ssh-agent: the launcher has it. */
static int send_agent_channel(struct net_guard *g, struct err *e)
{
	autoclose int channel = -1;
	int r = secrets_of(g)->sign.n ? net_secrets_agent(secrets_of(g), g->c.spec->id, &channel, e) : 0;

	if (r == 0 && channel >= 0 && net_launcher_send(g, NET_AGENT, 0, "", channel) < 0)
		return err_set(e, -EPIPE, "the launcher does not take a new channel");
	return r;
}

/* The vault is unusable: programs with a channel of it are denied from now on. */
static void deny_secrets(struct net_guard *g, const char *why)
{
	unwatch_vault(g);
	net_secrets_close_vault(secrets_of(g));
	restart_vault_later(g);
	/* Reported once: it may last for days. */
	if (strcmp(why, g->vault_why) == 0)
		return;
	snprintf(g->vault_why, sizeof(g->vault_why), "%.255s", why);
	log_vault_state(g, "vault.down", why);
	net_say(g, NET_LEVEL_WARN, "requests that need a secret are denied: %s", why);
}

static void on_vault_timer(struct timer *t)
{
	struct net_guard *g = t->ctx;
	struct err e = ERR_INIT;
	int r = net_secrets_restart(secrets_of(g), g->c.st, g->c.spec->id, &e);

	if (r == 0)
		r = send_vault_channels(g, &e);
	if (r == 0)
		r = send_agent_channel(g, &e);
	if (r < 0) {
		deny_secrets(g, e.msg);
		return;
	}
	watch_vault(g);
	log_vault_state(g, "vault.up", NULL);
	net_vault_check(g);
	net_say(g, NET_LEVEL_NOTE, "coffer-vault runs again");
}

/* Rotated, unbound or removed secrets take effect from now on. */
static void check_vault_file(struct net_guard *g)
{
	if (g->ending || secrets_of(g)->has_no_file || secrets_of(g)->lease >= 0 ||
	    !vault_files_changed(&secrets_of(g)->files))
		return;
	if (!secrets_of(g)->files.may_reopen) {
		if (net_secrets_is_up(secrets_of(g)))
			deny_secrets(g, "the vault was changed, and its passphrase cannot be asked for here; "
					"coffer secret unlock opens it again");
		return;
	}
	unwatch_vault(g);
	net_secrets_close_vault(secrets_of(g));
	log_vault_state(g, "vault.down", "the vault file was changed");
	net_say(g, NET_LEVEL_NOTE, "the vault was changed, and is read again");
	loop_timer(&g->loop, &g->t_vault, clock_nsec(CLOCK_MONOTONIC));
}

static void on_vault_directory(struct watch *w, uint32_t events)
{
	char buf[4096];

	(void)events;
	while (read(w->fd, buf, sizeof(buf)) > 0)
		;
	check_vault_file(w->ctx);
}

/* Watches the directory, because a new file replaces the old one by rename. */
static void watch_vault_file(struct net_guard *g)
{
	char dir[64];

	g->w_vault_dir = (struct watch){ .fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
					 .fn = on_vault_directory,
					 .ctx = g };
	snprintf(dir, sizeof(dir), "/proc/self/fd/%d", secrets_of(g)->files.dir);
	if (g->w_vault_dir.fd < 0 ||
	    inotify_add_watch(g->w_vault_dir.fd, dir, IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE) < 0 ||
	    loop_watch(&g->loop, &g->w_vault_dir, EPOLLIN) < 0)
		net_say(g, NET_LEVEL_WARN, "changes of the vault will not be seen: %s", strerror(errno));
}

void net_vault_begin(struct net_guard *g)
{
	g->t_vault = (struct timer){ .fn = on_vault_timer, .ctx = g };
	if (!net_secrets_has_any(secrets_of(g)))
		return;
	watch_vault(g);
	if (!secrets_of(g)->has_no_file)
		watch_vault_file(g);
	/* The file may have changed between the start of the run and now. */
	check_vault_file(g);
}

void net_vault_end(struct net_guard *g)
{
	loop_timer_off(&g->loop, &g->t_vault);
	unwatch_vault(g);
	if (g->w_vault_dir.fd >= 0) {
		loop_unwatch(&g->loop, &g->w_vault_dir);
		g->w_vault_dir.fd = fd_close(g->w_vault_dir.fd);
	}
	net_secrets_close_vault(secrets_of(g));
}

/* A channel whose far end is closed. */
static int make_dead_channel(struct err *e)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		return err_sys(e, -errno, "cannot make a socket pair");
	fd_close(sv[1]);
	return sv[0];
}

int net_vault_give(struct net_guard *g, int *ret_list, int *ret_channel, struct err *e)
{
	struct net_secrets *s = secrets_of(g);
	autoclose int channel = -1, list = -1;
	struct err why = ERR_INIT;

	if (!net_secrets_has_any(s)) {
		list = marks_any(&s->marks) ? pack_egress_list(s, e) : -1;
		if (list < 0)
			return marks_any(&s->marks) ? list : 0;
		*ret_list = TAKE_FD(list);
		return 0;
	}
	/* While there is no vault the list says what is denied. */
	if (net_secrets_is_up(s) && net_secrets_grant(s, g->c.spec->id, &channel, &why) < 0)
		deny_secrets(g, why.msg);
	if (channel < 0)
		channel = make_dead_channel(e);
	if (channel < 0)
		return channel;
	list = pack_egress_list(s, e);
	if (list < 0)
		return list;
	*ret_list = TAKE_FD(list);
	*ret_channel = TAKE_FD(channel);
	return 0;
}

int net_vault_give_dial(struct net_guard *g, int *ret_list, int *ret_channel, struct err *e)
{
	struct net_secrets *s = secrets_of(g);
	struct err why = ERR_INIT;
	int r;

	/* While there is no vault every proxy handshake that needs it fails; a new channel is sent when it is
	 * back. */
	if (s->proxies.n == 0 || !net_secrets_is_up(s))
		return 0;
	r = make_dial_channel(g, ret_list, ret_channel, &why);
	if (r < 0)
		deny_secrets(g, why.msg);
	(void)e;
	return 0;
}
