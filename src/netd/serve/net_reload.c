/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reloads the policy when its files change. Each file, and each link on the way, is watched by its directory,
 * because editors replace files. That misses a replaced parent directory and writes by other machines to a
 * shared file system, so the state of the paths is also compared every few seconds. A file that is broken or
 * missing after a change grants nothing new: the old policy stays in force, and that is reported. Nothing here opens
 * or parses such a file: a child does (net_compile.h).
 */
#include "base/clock.h"
#include "base/fd.h"
#include "netd/serve/net_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define SETTLE (200 * NSEC_PER_MSEC) /* an editor writes in several steps */
#define LOOK (3 * NSEC_PER_SEC)
#define LOOKS_BROKEN 5 /* one of this many checks reads a broken policy again */
#define EVENTS (IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_ATTRIB)

static void log_policy_change(struct net_guard *g, const char *type, const char *before, const struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_str(&j, "digest", g->c.plan->digest);
	if (before)
		json_str(&j, "before", before);
	/* Of the files alone: granted rules change the full digest too. */
	if (g->c.plan->base[0])
		json_str(&j, "base", g->c.plan->base);
	json_u64(&j, "generation", g->c.plan->generation);
	if (e)
		json_str(&j, "error", e->msg);
	net_audit(g, type, &b);
}

/* Reported once for each broken state of the file, of which there may be several in a row. */
static void refuse_broken_policy(struct net_guard *g, const struct err *e)
{
	if (g->broken && str_eq(g->broken, e->msg))
		return;
	free(g->broken);
	g->broken = strdup(e->msg[0] ? e->msg : "unknown");
	log_policy_change(g, "policy.broken", NULL, e);
	net_say(g, NET_LEVEL_WARN, "the policy was NOT changed, the old one stays in force: %s", e->msg);
}

/* Sends the bundle to both, and to dial the credentials of proxies. */
static void send_bundle(struct net_guard *g)
{
	const int fds[] = { g->bundle, g->proxy_sets };

	/* coffer-dial first: it is asked for what coffer-egress lets through next. */
	for (int i = NET_PARTS - 1; i >= 0; i--) {
		struct net_proc *p = &g->proc[i];

		/* A program that is not ready reads the bundle it was started with; it gets the new one in
		 * any case. */
		if (p->pid >= 0 &&
		    net_ctl_send(p, CTL_NEW_BUNDLE, fds, i == NET_DIAL && g->proxy_sets >= 0 ? 2 : 1) < 0)
			net_down(g, p, "it does not take the new policy");
	}
}

static int make_new_bundle(struct net_guard *g, int *credentials, struct err *e)
{
	int r = net_give_bundle(g, e);

	if (r < 0 || !policy_needs_proxies(g->c.plan->cp.policy))
		return r;
	if (credentials) {
		fd_close(g->proxy_sets);
		g->proxy_sets = TAKE_FD(*credentials);
	}
	if (!g->t_stats.armed && g->started)
		loop_timer(&g->loop, &g->t_stats, clock_nsec(CLOCK_MONOTONIC) + NSEC_PER_SEC);
	return 0;
}

int net_policy_changed(struct net_guard *g, const char *before, int *credentials, struct err *e)
{
	int r = make_new_bundle(g, credentials, e);

	if (r < 0)
		return r;
	/* Logged before it takes effect. */
	log_policy_change(g, "policy.change", before, NULL);
	net_ask_new_policy(g);
	send_bundle(g);
	/* Programs inside read their trust store before they send the first packet: the certificate must be
	 * there by then. */
	if (g->c.plan->needs_ca && !g->ca_told)
		net_start_now(g);
	return 0;
}

/* A checksum of the state of the paths: it changes with another file, other bytes, or none. */
static uint64_t checksum_files(const struct strv *files)
{
	uint64_t sum = 1469598103934665603u; /* FNV-1a */

	for (size_t i = 0; i < files->n; i++) {
		struct stat st = { 0 };
		uint64_t seen[7] = { 0 };

		if (stat(files->v[i], &st) < 0)
			seen[0] = (uint64_t)errno;
		else
			memcpy(seen,
			       (uint64_t[7]){ st.st_dev, st.st_ino, (uint64_t)st.st_size,
					      (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec,
					      (uint64_t)st.st_ctim.tv_sec, (uint64_t)st.st_ctim.tv_nsec },
			       sizeof(seen));
		for (size_t k = 0; k < sizeof(seen); k++)
			sum = (sum ^ ((const unsigned char *)seen)[k]) * 1099511628211u;
	}
	return sum;
}

/* A broken policy may wait for a file that is on no list yet, because only the new policy names it. */
static void on_files_timer(struct timer *t)
{
	struct net_guard *g = t->ctx;
	bool again = g->broken && !g->compiler && ++g->looks % LOOKS_BROKEN == 0;

	if (again || checksum_files(&g->c.plan->cp.files) != g->files_seen)
		loop_timer(&g->loop, &g->t_reload, clock_nsec(CLOCK_MONOTONIC) + SETTLE);
	loop_timer(&g->loop, t, clock_nsec(CLOCK_MONOTONIC) + LOOK);
}

static void on_reload_timer(struct timer *t)
{
	struct net_guard *g = t->ctx;

	g->files_seen = checksum_files(&g->c.plan->cp.files);
	net_compile_start(g);
}

/* If the set of files has changed, or one changed meanwhile, the next check finds a difference and reads
 * everything again. */
static int adopt_and_remember(struct net_guard *g, struct net_compiled *result, struct err *e)
{
	int r = result ? net_plan_adopt(g->c.plan, result, e) : e->code;

	if (checksum_files(&g->c.plan->cp.files) != g->files_seen)
		g->files_seen = 0;
	return r;
}

static void put_result_in_force(struct net_guard *g, struct net_compiled *result, int *credentials,
				struct err *e)
{
	struct net_plan *p = g->c.plan;
	char before[sizeof(p->digest)];
	int r;

	memcpy(before, p->digest, sizeof(before));
	r = adopt_and_remember(g, result, e);
	if (r < 0) {
		refuse_broken_policy(g, e);
		return;
	}
	if (g->broken && r == 0)
		net_say(g, NET_LEVEL_NOTE, "the policy file is valid again and unchanged");
	free(g->broken);
	g->broken = NULL;
	if (r == 0) {
		net_reload_watch(g); /* the same rules may come from other files */
		return;
	}
	r = net_policy_changed(g, before, credentials, e);
	if (r < 0) {
		/* Both programs still have the old policy: the next change is compared with that. */
		memcpy(p->digest, before, sizeof(before));
		p->base[0] = '\0';
		refuse_broken_policy(g, e);
		return;
	}
	net_say(g, NET_LEVEL_NOTE, "the policy was changed");
	net_reload_watch(g);
}

void net_reload_compiled(struct net_guard *g, struct net_compiled *result, int *credentials, struct err *e)
{
	put_result_in_force(g, result, credentials, e);
	net_ask_release(g);
}

static bool is_policy_file_name(const struct net_plan *p, const char *name)
{
	for (size_t i = 0; i < p->cp.files.n; i++) {
		const char *slash = strrchr(p->cp.files.v[i], '/');

		if (slash && str_eq(slash + 1, name))
			return true;
	}
	return false;
}

static void on_policy_directory(struct watch *w, uint32_t events)
{
	struct net_guard *g = w->ctx;
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n = read(w->fd, buf, sizeof(buf));
	bool changed = false;

	(void)events;
	for (ssize_t at = 0; n > 0 && at < n;) {
		const struct inotify_event *ev = (const void *)(buf + at);

		changed = changed || (ev->mask & IN_Q_OVERFLOW) ||
			  (ev->len && is_policy_file_name(g->c.plan, ev->name));
		at += (ssize_t)(sizeof(*ev) + ev->len);
	}
	if (changed)
		loop_timer(&g->loop, &g->t_reload, clock_nsec(CLOCK_MONOTONIC) + SETTLE);
}

static void watch_policy_directory(struct net_guard *g, const char *file)
{
	autofree char *dir = strdup(file);
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (!slash)
		return;
	slash[slash == dir] = '\0';
	if (inotify_add_watch(g->w_notify.fd, dir, EVENTS) < 0)
		net_say(g, NET_LEVEL_WARN, "changes of %s will not be seen: %s", file, strerror(errno));
}

void net_reload_watch(struct net_guard *g)
{
	const struct strv *files = &g->c.plan->cp.files;

	if (!files->n)
		return;
	g->t_reload.fn = on_reload_timer;
	g->t_reload.ctx = g;
	if (g->w_notify.fd < 0) {
		g->w_notify = (struct watch){ .fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK),
					      .fn = on_policy_directory,
					      .ctx = g };
		if (g->w_notify.fd < 0 || loop_watch(&g->loop, &g->w_notify, EPOLLIN) < 0) {
			net_say(g, NET_LEVEL_WARN, "changes of the policy file will not be seen: %s",
				strerror(errno));
			return;
		}
		/* The file may have changed between the start of the run and now. */
		loop_timer(&g->loop, &g->t_reload, clock_nsec(CLOCK_MONOTONIC) + SETTLE);
	}
	for (size_t i = 0; i < files->n; i++)
		watch_policy_directory(g, files->v[i]);
	g->t_look.fn = on_files_timer;
	g->t_look.ctx = g;
	if (!g->t_look.armed)
		loop_timer(&g->loop, &g->t_look, clock_nsec(CLOCK_MONOTONIC) + LOOK);
}

bool net_reload_now(struct net_guard *g)
{
	if (g->w_notify.fd < 0)
		return false;
	loop_timer_off(&g->loop, &g->t_reload);
	on_reload_timer(&g->t_reload);
	return true;
}
