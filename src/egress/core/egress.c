/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-egress as a whole: its start up to confinement, one round of the loop, and the order in which the
 * journal is written and waiting work released (egress.E1). Judges nothing itself.
 */
#include "egress/core/egress.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "egress/account/egress_fold.h"
#include "egress/account/pipes.h"
#include "egress/core/access.h"
#include "egress/core/asking.h"
#include "egress/core/control.h"
#include "egress/core/dns_serve.h"
#include "egress/core/egress_fence.h"
#include "egress/core/flow_int.h"
#include "egress/core/intake.h"
#include "egress/core/nflog.h"
#include "egress/wire/fds.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#define ALERT_TEXT_MAX 800
#define FLOWS_MAX 16384
#define FDS_BESIDE \
	(64 + 2 * PIPES_MAX + 128) /* descriptors that are not connections: our own, pipes, DNS over TCP */

void egress_defer(struct egress *eg, struct defer *d)
{
	d->next = NULL;
	d->link = eg->deferred_end;
	*eg->deferred_end = d;
	eg->deferred_end = &d->next;
	d->eg = eg;
}

void egress_undefer(struct defer *d)
{
	if (!d->link)
		return;
	*d->link = d->next;
	if (d->next)
		d->next->link = d->link;
	else
		d->eg->deferred_end = d->link;
	d->link = NULL;
}

void egress_settle(struct egress *eg)
{
	struct defer *d;
	int r = journal_commit(&eg->journal);

	/* ledger.L1: lines of new keys may be among the lost ones. */
	if (r < 0)
		ledger_forget(&eg->ledger);
	dialc_flush(&eg->dial, r);
	if (journal_is_dirty(&eg->journal))
		r = journal_commit(&eg->journal); /* lines of requests that failed at once */
	if (eg->intake)
		eg->intake->reply(eg, r);
	dns_tcp_flush(eg->dns, r);
	while ((d = eg->deferred) != NULL) {
		egress_undefer(d);
		d->fn(eg, d, r);
		/* Its lines must be written before the next deferred call runs. */
		if (journal_is_dirty(&eg->journal))
			r = journal_commit(&eg->journal);
	}
	if (r < 0)
		ledger_forget(&eg->ledger);
	if (eg->dial.fresh.n)
		dialc_flush(&eg->dial, r);
	journal_settled(&eg->journal);
}

void egress_end_line(struct egress *eg, bool first)
{
	if (first) {
		json_u64(&eg->journal.line, "first", 1);
		ledger_charge(&eg->ledger, journal_end(&eg->journal));
	} else {
		journal_end(&eg->journal);
	}
}

const char *egress_ledger_why(struct egress *eg)
{
	struct ledger *l = &eg->ledger;

	if (*l->used < l->max)
		return "it cannot be logged: out of memory";
	if (!l->told)
		egress_alert(eg, "log_full", NULL,
			     "the log of this run is full (%llu MiB): destinations used before are "
			     "still allowed, new ones are denied until the run is restarted",
			     (unsigned long long)(l->max >> 20));
	l->told = true;
	return LEDGER_WHY_FULL;
}

void egress_alert(struct egress *eg, const char *kind, const char *name, const char *fmt, ...)
{
	autobuf struct buf text = BUF_INIT;
	char what[ALERT_TEXT_MAX + HOST_MAX + 64];
	uint64_t count;
	struct json *l;
	va_list ap;

	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	/* The whole text is the key: two different alerts about one host are both written. */
	snprintf(what, sizeof(what), "%.60s %s %.*s", kind, name ? name : "", ALERT_TEXT_MAX,
		 buf_cstr(&text));
	if (!egress_fold_is_due(eg->fold, FOLD_ALERT, what, strlen(what), 0, eg->now, &count))
		return;
	l = journal_begin(&eg->journal, "alert");
	json_str(l, "kind", kind);
	journal_str(l, "text", buf_cstr(&text), ALERT_TEXT_MAX);
	journal_str(l, "name", name, HOST_MAX);
	if (count)
		json_u64(l, "count", count);
	journal_end(&eg->journal);
}

/* Writes the numbers of events that were only counted; `all`: at the end of the process. */
static void journal_counted(struct egress *eg, bool all)
{
	static const struct {
		const char *ev, *decision;
	} kinds[] = {
		[FOLD_OPEN] = { "open", "deny" },    [FOLD_DNS_ALLOW] = { "dns", "allow" },
		[FOLD_DNS_DENY] = { "dns", "deny" }, [FOLD_DNS_ERROR] = { "dns", "error" },
		[FOLD_ALERT] = { "alert", NULL },    [FOLD_REQUEST] = { "request", "deny" },
	};

	autobuf struct buf top = BUF_INIT;

	static_assert(ARRAY_SIZE(kinds) == FOLD_KIND_COUNT, "a line for each kind");
	for (int i = 0; i < FOLD_KIND_COUNT; i++) {
		uint64_t again,
			n = egress_fold_flush(eg->fold, (enum egress_fold_kind)i, eg->now, all, &again);
		struct json *l;

		if (!n)
			continue;
		l = journal_begin(&eg->journal, kinds[i].ev);
		json_str(l, i == FOLD_ALERT ? "kind" : i == FOLD_REQUEST ? "host" : "name", "*");
		if (kinds[i].decision)
			json_str(l, "decision", kinds[i].decision);
		else
			json_str(l, "text", "more alerts, which were only counted");
		json_u64(l, "count", n);
		/*
		 * A refused request depends on more than its counting key, so `again` would mislead. Each
		 * allowed name has its own line.
		 */
		if (i == FOLD_DNS_ALLOW)
			again = n;
		if (again && kinds[i].decision && i != FOLD_REQUEST)
			json_u64(l, "again", again);
		buf_clear(&top);
		top_format(&eg->fold->top[i], &top);
		eg->fold->top[i] = (struct top){ 0 };
		journal_str(l, "top", buf_cstr(&top), TOP_FORMAT_MAX);
		journal_end(&eg->journal);
	}
}

static void on_egress_tick(struct timer *t)
{
	struct egress *eg = t->ctx;

	wheel_advance(&eg->wheel, eg->now);
	dns_serve_tick(eg->dns);
	egress_nflog_tick(eg);
	journal_counted(eg, false);
	loop_timer(&eg->loop, t, eg->now + NSEC_PER_SEC);
}

static void on_dial_down(struct dialc *d, const char *why)
{
	egress_alert(d->ctx, "dial", NULL, "%s; no connection can be made until it is restarted", why);
}

/* Before confinement: everything that opens, maps or queries the system. */
static int egress_prepare(struct egress *eg, struct err *e)
{
	int r = loop_open(&eg->loop, e);

	if (r < 0)
		return r;
	eg->now = clock_nsec(CLOCK_MONOTONIC);
	eg->loop.clock = &eg->now;
	TAILQ_INIT(&eg->flows);
	TAILQ_INIT(&eg->young);
	TAILQ_INIT(&eg->busy);
	TAILQ_INIT(&eg->paused);
	eg->deferred_end = &eg->deferred;
	eg->spare_fd = -1;
	eg->times = EGRESS_TIMES;
	eg->soon = (struct timer){ .fn = relay_soon, .ctx = eg };
	eg->refill = (struct timer){ .fn = relay_refill, .ctx = eg };
	eg->tick = (struct timer){ .fn = on_egress_tick, .ctx = eg };
	wheel_init(&eg->wheel, eg->now);
	snprintf(eg->why_none, sizeof(eg->why_none), "none was loaded yet");
	eg->fold = calloc(1, sizeof(*eg->fold));
	eg->pipes = calloc(1, sizeof(*eg->pipes));
	eg->scratch = malloc(EGRESS_SCRATCH);
	if (!eg->fold || !eg->pipes || !eg->scratch)
		return err_sys(e, -ENOMEM, "cannot start");
	r = ledger_init(&eg->ledger, &eg->loop, &eg->now, e);
	return r < 0 ? r : dns_serve_new(eg, e);
}

int egress_init(struct egress *eg, int journal, int dial, struct err *e)
{
	int r;

	*eg = (struct egress){ .loop = LOOP_INIT };
	r = egress_prepare(eg, e);
	if (r < 0)
		return r;
	journal_init(&eg->journal, journal);
	r = dialc_init(&eg->dial, &eg->loop, dial, e);
	eg->dial.on_down = on_dial_down;
	eg->dial.ctx = eg;
	eg->max_flows = FLOWS_MAX;
	loop_timer(&eg->loop, &eg->tick, eg->now + NSEC_PER_SEC);
	return r;
}

int egress_init_names(struct egress *eg, int fd, struct err *e)
{
	struct addr_range range = { .base = addr_from_v4(11u << 24), .bits = 96 + 8 };
	uint32_t random = 0;
	int r;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_sys(e, -errno, "cannot choose addresses");
	if (eg->policy)
		(void)policy_synthetic(eg->policy, &range);
	r = egress_names_open(&eg->names, fd, &range, random, e);
	if (r == 0)
		r = limits_init(&eg->limits, &eg->names, e);
	if (r < 0)
		return r;
	eg->ledger.used = egress_names_counter(&eg->names, LEDGER_COUNTER);
	return eg->ledger.used ? 0 : err_set(e, -ENOSPC, "there is no counter for the log");
}

void egress_release(struct egress *eg)
{
	flow_reset_all(eg, "policy");
	if (eg->intake)
		eg->intake->close(eg);
	egress_nflog_close(eg);
	dns_serve_free(eg);
	if (eg->fold)
		journal_counted(eg, true);
	(void)!journal_commit(&eg->journal);
	dialc_release(&eg->dial);
	asking_close(eg);
	access_close(eg);
	control_close(eg);
	limits_release(&eg->limits);
	ledger_release(&eg->ledger);
	if (eg->names.file)
		egress_names_close(&eg->names);
	journal_release(&eg->journal);
	pipes_free(eg->pipes);
	free(eg->pipes);
	free(eg->fold);
	free(eg->scratch);
	loop_close(&eg->loop);
}

void egress_round(struct egress *eg, struct err *e)
{
	if (loop_round(&eg->loop, e) < 0) {
		eg->quitting = true;
		eg->exit_code = 1;
	}
	egress_settle(eg);
}

static bool mask_has(uint32_t mask, int fd)
{
	return mask & FDS_BIT(fd);
}

/* Two descriptors for each connection, and a reserve for the others. */
static void fit_flows_to_descriptors(struct egress *eg)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	if (files.rlim_cur < FDS_BESIDE + 2)
		eg->max_flows = 1;
	else if ((files.rlim_cur - FDS_BESIDE) / 2 < eg->max_flows)
		eg->max_flows = (unsigned)((files.rlim_cur - FDS_BESIDE) / 2);
}

static int egress_start(struct egress *eg, uint32_t mask,
			int (*install_inspector)(struct egress *, struct err *), struct err *e)
{
	struct err why = ERR_INIT;
	int r = control_open(eg, EGRESS_FD_CONTROL, e);

	/*
	 * A policy that cannot be read does not prevent the start: everything is denied, and the reason is
	 * reported.
	 */
	if (r == 0 && control_load(eg, EGRESS_FD_BUNDLE, 0, &why) < 0)
		control_send(eg, CTL_ERROR, why.msg, strlen(why.msg));
	fd_close(EGRESS_FD_BUNDLE);
	if (r == 0)
		r = egress_init_names(eg, mask_has(mask, EGRESS_FD_NAMES) ? EGRESS_FD_NAMES : -1, e);
	if (r == 0)
		limits_load(&eg->limits, eg->policy);
	if (r == 0 && install_inspector)
		r = install_inspector(eg, e);
	if (r == 0)
		r = fence_limits(&egress_fence, e);
	if (r < 0)
		return r;
	fit_flows_to_descriptors(eg);
	r = intake_open(eg, mask, e);
	if (r == 0 && mask_has(mask, EGRESS_FD_NFLOG))
		r = egress_nflog_open(eg, EGRESS_FD_NFLOG, e);
	return r < 0 ? r : fence_up(&egress_fence, e);
}

int egress_main(uint32_t mask, int (*install_inspector)(struct egress *eg, struct err *e))
{
	struct egress eg;
	struct err e = ERR_INIT;
	int r;

	if ((mask & EGRESS_FDS_NEEDED) != EGRESS_FDS_NEEDED)
		return 2;
	signal(SIGPIPE, SIG_IGN); /* splice() has no MSG_NOSIGNAL */
	signal(SIGXFSZ, SIG_IGN); /* a full journal is an error of write(), which denies */
	r = egress_init(&eg, EGRESS_FD_JOURNAL, EGRESS_FD_DIAL, &e);
	if (r == 0)
		r = egress_start(&eg, mask, install_inspector, &e);
	if (r < 0) {
		if (eg.control)
			control_send(&eg, CTL_FAIL, e.msg, strlen(e.msg));
		return 1;
	}
	control_send(&eg, CTL_READY, NULL, 0);
	while (!eg.quitting)
		egress_round(&eg, &e);
	egress_release(&eg);
	return eg.exit_code;
}
