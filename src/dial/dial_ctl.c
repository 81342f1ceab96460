/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard's control messages: a new policy, a new vault, statistics, the end. A policy also brings the
 * resolvers and the proxy sets.
 *
 * CTL_NEW_BUNDLE carries the bundle, and the proxies' credentials as a second descriptor where they changed.
 * No credential of a proxy may get into a message or a line (proxy.O4).
 */
#include "dial/dial_int.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "ipc/fdpass.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define BUNDLE_MAX (512u << 20)
#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK)

void dial_ctl_say(struct dial *d, uint32_t type, const char *text, size_t len)
{
	struct ctl_head head = { .type = type, .generation = d->policy ? policy_generation(d->policy) : 0 };
	autobuf struct buf b = BUF_INIT;

	buf_add(&b, &head, sizeof(head));
	buf_add(&b, text, len < CTL_TEXT_MAX ? len : CTL_TEXT_MAX);
	/* A guard that no longer reads ends this process by closing the socket. */
	if (buf_error(&b) || fdpass_send(d->control.fd, b.data, b.len, NULL, 0) < 0)
		loop_stop(&d->loop);
}

static int map_dial_bundle(int fd, void **ret, size_t *ret_len, struct err *e)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	void *p;

	/* The policy is used in place: no process may be able to change it. */
	if (seals < 0 || (seals & SEALS) != SEALS)
		return err_set(e, -EINVAL, "the policy is not in a sealed memory file");
	/* The C library's fstat() is another system call, one that can open paths. */
	if (syscall(SYS_fstat, fd, &st) < 0)
		return err_sys(e, -errno, "cannot get the size of the policy");
	if (st.st_size <= 0 || st.st_size > BUNDLE_MAX)
		return err_set(e, -EFBIG, "the policy is empty or too large");
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return err_sys(e, -errno, "cannot map the policy");
	*ret = p;
	*ret_len = (size_t)st.st_size;
	return 0;
}

static void drop_policy(struct dial *d, const char *why)
{
	policy_free(d->policy);
	d->policy = NULL;
	if (d->bundle)
		munmap(d->bundle, d->bundle_len);
	d->bundle = NULL;
	snprintf(d->why_none, sizeof(d->why_none), "no policy is in force: %.120s", why);
}

static int load_dial_policy(struct dial *d, int fd, struct err *e)
{
	struct policy *p = NULL;
	void *data = NULL;
	size_t len = 0;
	int r = map_dial_bundle(fd, &data, &len, e);

	if (r == 0)
		r = policy_unpack(data, len, &p, e);
	drop_policy(d, "it could not be loaded");
	if (r < 0) {
		if (data)
			munmap(data, len);
		return err_wrap(e, r, "loading the policy");
	}
	d->policy = p;
	d->bundle = data;
	d->bundle_len = len;
	return 0;
}

static int load_resolvers(struct dial *d, struct err *e)
{
	struct resolve_server s[RESOLVE_SERVERS_MAX];
	const struct policy_resolver *from = NULL;
	size_t n = policy_resolvers(d->policy, &from);

	if (n == 0)
		return resolver_set_servers(d->resolver, d->conf, d->n_conf, e);
	n = n < RESOLVE_SERVERS_MAX ? n : RESOLVE_SERVERS_MAX;
	for (size_t i = 0; i < n; i++)
		s[i] = (struct resolve_server){ .addr = from[i].addr, .port = from[i].port };
	return resolver_set_servers(d->resolver, s, n, e);
}

static void wipe_buf(struct buf *b)
{
	if (b->data)
		sodium_memzero(b->data, b->cap);
	buf_release(b);
}

static void on_proxy_state(void *ctx, const struct proxy_set *p, size_t member, const char *why)
{
	struct dial *d = ctx;
	struct json *l = journal_begin(&d->journal, "proxy");

	journal_str(l, "pool", p->name, sizeof(p->name));
	journal_str(l, "proxy", p->member[member].label, sizeof(p->member[member].label));
	journal_str(l, "state", score_state_name(p->score[member].state), 32);
	journal_str(l, "why", why, DIAL_WHY_LEN);
	journal_end(&d->journal);
}

int dial_read(int fd, size_t cap, struct buf *b)
{
	char *at = buf_reserve(b, cap + 1);
	ssize_t n;

	if (!at)
		return -ENOMEM;
	do {
		n = pread(fd, at + b->len, cap + 1 - b->len, (off_t)b->len);
		if (n < 0 && errno != EINTR)
			return -errno;
		b->len += n > 0 ? (size_t)n : 0;
	} while (n != 0 && b->len <= cap);
	return b->len <= cap ? 0 : -EFBIG;
}

static int load_proxy_sets(struct dial *d, int fd, struct err *e)
{
	const struct proxy_env env = { .loop = &d->loop,
				       .resolver = d->resolver,
				       .vault = &d->vault,
				       .on_state = on_proxy_state,
				       .ctx = d };
	CLEANUP(wipe_buf) struct buf b = { .wipe = true };
	struct proxy_sets *fresh = NULL;
	int r = 0;

	if (fd >= 0)
		r = dial_read(fd, PROXY_CREDENTIALS_MAX, &b);
	if (r < 0)
		return err_sys(e, r, "cannot read the proxies' credentials");
	r = proxy_sets_new(&fresh, &env, d->policy, fd >= 0 ? buf_cstr(&b) : NULL, b.len, d->proxy_sets, e);
	if (r < 0)
		return r;
	proxy_sets_free(d->proxy_sets);
	d->proxy_sets = fresh;
	return 0;
}

int dial_load(struct dial *d, int bundle, int proxy_sets, struct err *e)
{
	int r = load_dial_policy(d, bundle, e);

	if (r == 0)
		r = load_resolvers(d, e);
	if (r == 0)
		r = load_proxy_sets(d, proxy_sets, e);
	/* dial.L1: half of a policy is none. */
	if (r < 0)
		drop_policy(d, e->msg);
	return r;
}

int dial_new_vault(struct dial *d, int list, int channel, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = dial_read(list, sizeof(struct secrets_head) + GRANTS_PACK_MAX, &b);

	if (r < 0) {
		fd_close(channel);
		return err_sys(e, r, "cannot read the list of the proxies' secrets");
	}
	return dial_vault_open(&d->vault, &d->loop, buf_cstr(&b), b.len, channel, e);
}

void dial_stats(struct dial *d, struct buf *out)
{
	const struct dial_counts *c = &d->counts;
	struct resolver_stats rs = resolver_stats(d->resolver);
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_u64(&j, "generation", d->policy ? policy_generation(d->policy) : 0);
	json_u64(&j, "in_flight", d->n_requests);
	json_u64(&j, "requests", c->requests);
	json_u64(&j, "connected", c->connected);
	json_u64(&j, "resolved", c->resolved);
	json_u64(&j, "refused", c->refused);
	json_u64(&j, "failed", c->failed);
	json_u64(&j, "cancelled", c->cancelled);
	json_u64(&j, "busy", c->busy);
	json_u64(&j, "dns_queries", rs.queries);
	json_u64(&j, "dns_hits", rs.hits);
	json_u64(&j, "dns_kept", rs.kept);
	proxy_sets_add_stats(d->proxy_sets, &j, "proxies", CTL_TEXT_MAX - 1024);
	json_end_obj(&j);
}

static void take_new_bundle(struct dial *d, const int *fds, int n)
{
	struct err e = ERR_INIT;
	int r = n == 1 || n == 2 ? dial_load(d, fds[0], n == 2 ? fds[1] : -1, &e)
				 : err_set(&e, -EPROTO, "a new policy without its descriptor");

	if (n < 1)
		drop_policy(d, e.msg);
	if (r < 0)
		dial_ctl_say(d, CTL_ERROR, e.msg, strlen(e.msg));
	else
		dial_ctl_say(d, CTL_OK, "", 0);
}

static void take_new_vault(struct dial *d, int *fds, int n)
{
	struct err e = ERR_INIT;
	int r = n == 2 ? dial_new_vault(d, fds[0], TAKE_FD(fds[1]), &e)
		       : err_set(&e, -EPROTO, "a new vault without its descriptors");

	dial_ctl_say(d, r < 0 ? CTL_ERROR : CTL_OK, e.msg, r < 0 ? strlen(e.msg) : 0);
}

static void send_stats(struct dial *d)
{
	autobuf struct buf b = BUF_INIT;

	dial_stats(d, &b);
	if (buf_error(&b) || b.len > CTL_TEXT_MAX)
		dial_ctl_say(d, CTL_ERROR, "the snapshot is too large", 25);
	else
		dial_ctl_say(d, CTL_STATS, b.data, b.len);
}

static void on_guard_control(struct watch *w, uint32_t events)
{
	struct dial *d = w->ctx;
	struct ctl_head head;
	int fds[2] = { -1, -1 };
	size_t len = 0;
	int n = fdpass_recv_some(w->fd, &head, sizeof(head), &len, fds, 2);

	(void)events;
	if (n == -EAGAIN)
		return;
	if (n < 0 || len != sizeof(head) || head.type == CTL_QUIT)
		loop_stop(&d->loop);
	else if (head.type == CTL_NEW_BUNDLE)
		take_new_bundle(d, fds, n);
	else if (head.type == CTL_NEW_VAULT)
		take_new_vault(d, fds, n);
	else if (head.type == CTL_STATS)
		send_stats(d);
	else if (head.type == CTL_PING)
		dial_ctl_say(d, CTL_OK, "", 0);
	else
		dial_ctl_say(d, CTL_ERROR, "not for coffer-dial", 19);
	for (int i = 0; i < n; i++)
		fd_close(fds[i]);
}

int dial_ctl_open(struct dial *d, int fd, struct err *e)
{
	int r;

	d->control = (struct watch){ .fd = fd, .fn = on_guard_control, .ctx = d };
	r = loop_watch(&d->loop, &d->control, EPOLLIN);
	return r < 0 ? err_sys(e, r, "cannot use the control socket") : 0;
}
