/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start, the loop and the end of coffer-dial. Everything that needs a file happens before fence_up(); a
 * policy that does not load denies everything but does not prevent the start (dial.L1).
 */
#include "dial/dial.h"

#include "base/fd.h"
#include "base/str.h"
#include "dial/dial_int.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>

#define RESOLV_CONF_MAX (64u << 10)
#define DIAL_FDS_NEEDED                                                                 \
	(FDS_BIT(DIAL_FD_BUNDLE) | FDS_BIT(DIAL_FD_JOURNAL) | FDS_BIT(DIAL_FD_EGRESS) | \
	 FDS_BIT(DIAL_FD_CONTROL))

int dial_init(struct dial *d, struct err *e)
{
	int r;

	*d = (struct dial){ .loop = LOOP_INIT, .egress = WATCH_INIT, .control = WATCH_INIT };
	d->own = OWN_PROBE_INIT;
	TAILQ_INIT(&d->direct);
	TAILQ_INIT(&d->proxied);
	TAILQ_INIT(&d->replies);
	snprintf(d->why_none, sizeof(d->why_none), "no policy is in force yet");
	journal_init(&d->journal, -1);
	r = seen_init(&d->seen, e);
	if (r == 0)
		r = loop_open(&d->loop, e);
	return r < 0 ? r : resolver_open(&d->resolver, &d->loop, e);
}

void dial_release(struct dial *d)
{
	dial_request_drop_all(d);
	while (!TAILQ_EMPTY(&d->replies)) {
		struct dial_reply *y = TAILQ_FIRST(&d->replies);

		TAILQ_REMOVE(&d->replies, y, link);
		fd_close(y->fd);
		free(y);
	}
	own_probe_release(&d->own);
	proxy_sets_free(d->proxy_sets);
	dial_vault_release(&d->vault);
	resolver_free(d->resolver);
	policy_free(d->policy);
	journal_release(&d->journal);
	seen_release(&d->seen);
	loop_close(&d->loop);
}

static int read_resolv_conf(struct dial *d, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = dial_read(DIAL_FD_RESOLV, RESOLV_CONF_MAX, &b);

	if (r < 0)
		return err_sys(e, r, "cannot read the resolvers");
	d->n_conf = resolver_read_conf(buf_cstr(&b), b.len, d->conf);
	return 0;
}

/*
 * A policy that does not load does not prevent the start: it denies everything, and the reason is reported
 * (dial.L1).
 */
static void load_at_start(struct dial *d, uint32_t mask)
{
	struct err e = ERR_INIT;

	if (dial_load(d, DIAL_FD_BUNDLE, mask & FDS_BIT(DIAL_FD_PROXY_SETS) ? DIAL_FD_PROXY_SETS : -1, &e) <
	    0)
		dial_ctl_say(d, CTL_ERROR, e.msg, strlen(e.msg));
	fd_close(DIAL_FD_BUNDLE);
	fd_close(DIAL_FD_PROXY_SETS);
	if (!(mask & FDS_BIT(DIAL_FD_VAULT)))
		return;
	if (dial_new_vault(d, DIAL_FD_SECRETS, DIAL_FD_VAULT, &e) < 0)
		dial_ctl_say(d, CTL_ERROR, e.msg, strlen(e.msg));
	fd_close(DIAL_FD_SECRETS);
}

static int dial_start(struct dial *d, uint32_t mask, struct err *e)
{
	int r = dial_init(d, e);

	if (r < 0)
		return r;
	journal_init(&d->journal, DIAL_FD_JOURNAL);
	d->control.fd = DIAL_FD_CONTROL;
	if (mask & FDS_BIT(DIAL_FD_RESOLV))
		r = read_resolv_conf(d, e);
	if (r == 0)
		r = own_probe_open(&d->own, e);
	/* The fence forbids changing a descriptor's flags. */
	if (r == 0 && fd_set_nonblock(DIAL_FD_EGRESS, true) < 0)
		r = err_sys(e, -errno, "cannot use the link to coffer-egress");
	if (r == 0)
		r = fence_up(&dial_fence, e);
	if (r == 0)
		r = dial_ctl_open(d, DIAL_FD_CONTROL, e);
	if (r == 0)
		r = dial_serve_open(d, DIAL_FD_EGRESS, e);
	return r;
}

static int dial_run_loop(struct dial *d, struct err *e)
{
	int r = 0;

	d->loop.stopped = false;
	while (r == 0 && !d->loop.stopped) {
		r = loop_round(&d->loop, e);
		dial_settle(d);
	}
	if (r == 0 && d->is_broken)
		r = err_set(e, -EPROTO, "coffer-egress broke the protocol");
	return r;
}

static int parse_fd_mask(int argc, char **argv, uint32_t *ret)
{
	char *end = NULL;
	unsigned long v;

	if (argc != 2)
		return -EINVAL;
	errno = 0;
	v = strtoul(argv[1], &end, 16);
	if (errno || end == argv[1] || *end || v > UINT32_MAX || (v & DIAL_FDS_NEEDED) != DIAL_FDS_NEEDED)
		return -EINVAL;
	*ret = (uint32_t)v;
	return 0;
}

int dial_main(int argc, char **argv)
{
	static struct dial d;
	struct err e = ERR_INIT;
	uint32_t mask = 0;
	int r;

	if (parse_fd_mask(argc, argv, &mask) < 0) {
		fprintf(stderr,
			"coffer-dial: started by coffer when a sandbox uses the network, not by hand\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (sodium_init() < 0)
		return 125;
	r = dial_start(&d, mask, &e);
	if (r == 0) {
		load_at_start(&d, mask);
		dial_ctl_say(&d, CTL_READY, "", 0);
		r = dial_run_loop(&d, &e);
	}
	if (r < 0)
		dial_ctl_say(&d, CTL_FAIL, e.msg, strlen(e.msg));
	dial_release(&d);
	return r < 0 ? 125 : 0;
}
