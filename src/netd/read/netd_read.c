/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of coffer-netd (netd_read.h): reads the journals as they grow and sends events, counts and lines for the terminal. It may not
 * write anywhere but to its socket and the table of the report.
 */
#include "netd/read/netd_read.h"

#include "base/clock.h"
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "netd/log/net_fold.h"
#include "netd/read/netd_fence.h"
#include "netd/read/netd_say.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define CHUNK (64u << 10)
#define LOOK_SOON (150 * NSEC_PER_MSEC)
#define LOOK_IDLE (800 * NSEC_PER_MSEC) /* within a second */
#define LOOK_MORE NSEC_PER_MSEC		/* there is more than one turn takes, or it came too fast */
#define ACTIVE (3 * NSEC_PER_SEC)

struct netd {
	int control;
	int error; /* of sending: the guard is gone */
	bool begun, quitting;
	int journal[NET_FROM_COUNT];
	uint64_t off[NET_FROM_COUNT];	  /* folded up to here */
	uint64_t counted[NET_FROM_COUNT]; /* R2: told to the guard */
	uint64_t active;		  /* when a line came last */
	uint64_t caught_up;		  /* when counts were last written for a question */
	struct net_fold *fold;
	struct netd_say say;
	struct netd_report *report;
	char message[NETD_MESSAGE_MAX];
};

static int send_to_guard(struct netd *d, const void *message, size_t len)
{
	if (d->error == 0)
		d->error = fdpass_send(d->control, message, len, NULL, 0);
	return d->error;
}

static int send_head(struct netd *d, enum netd_type type, uint64_t off)
{
	const struct netd_head h = { .type = type, .off = off };

	return send_to_guard(d, &h, sizeof(h));
}

static int on_event(void *ctx, enum net_from from, uint64_t off, const void *packed, size_t len)
{
	const struct netd_head h = { .type = NETD_EVENT, .from = from, .off = off };
	struct netd *d = ctx;

	if (len > NETD_EVENT_MAX)
		return -EBADMSG;
	memcpy(d->message, &h, sizeof(h));
	memcpy(d->message + sizeof(h), packed, len);
	return send_to_guard(d, d->message, sizeof(h) + len);
}

static void on_denied(void *ctx, const struct net_line *l)
{
	struct netd *d = ctx;

	netd_say_line(&d->say, l, clock_nsec(CLOCK_MONOTONIC));
}

static void on_say(void *ctx, const struct netd_said *s)
{
	struct {
		struct netd_head h;
		struct netd_said s;
	} m = { .h = { .type = NETD_SAYS }, .s = *s };

	(void)send_to_guard(ctx, &m, sizeof(m));
}

/* R2: nothing is counted any more that was not sent. */
static int tell_counted(struct netd *d)
{
	struct netd_counted m = { .h = { .type = NETD_COUNTED } };

	if (net_fold_has_counts(d->fold) || memcmp(d->off, d->counted, sizeof(d->off)) == 0)
		return 0;
	memcpy(d->counted, d->off, sizeof(d->off));
	memcpy(m.counted, d->off, sizeof(d->off));
	return send_to_guard(d, &m, sizeof(m));
}

/* Skips a hole at the front without reading it: that is where lines were given back to the disk. */
static void skip_leading_hole(struct netd *d, enum net_from from)
{
	off_t data = lseek(d->journal[from], (off_t)d->off[from], SEEK_DATA);

	if (data > 0 && (uint64_t)data > d->off[from])
		d->off[from] = (uint64_t)data;
}

/* Folds what is there, up to `most` bytes and a chunk. 1: there is more. */
static int fold_journal(struct netd *d, enum net_from from, bool last, uint64_t most)
{
	char chunk[CHUNK];
	const uint64_t begin = d->off[from];
	int r;

	if (d->journal[from] < 0)
		return 0;
	for (;;) {
		const ssize_t n = pread(d->journal[from], chunk, sizeof(chunk), (off_t)d->off[from]);
		size_t taken = 0;

		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = net_fold_feed(d->fold,
				  &(struct net_chunk){ from, d->off[from], chunk, (size_t)n,
						       last && (size_t)n < sizeof(chunk) },
				  clock_nsec(CLOCK_MONOTONIC), &taken);
		d->off[from] += taken;
		if (taken)
			d->active = clock_nsec(CLOCK_MONOTONIC);
		if (r < 0)
			return r;
		if (taken == 0)
			return 0; /* too fast, or a line that is not whole yet */
		if (d->off[from] - begin >= most)
			return 1;
	}
}

static uint64_t bytes_uncounted(const struct netd *d)
{
	uint64_t n = 0;

	for (int i = 0; i < NET_FROM_COUNT; i++)
		n += d->off[i] - d->counted[i];
	return n;
}

/* One turn over both journals. 1: there is more. */
static int take_turn(struct netd *d, bool last, bool counts)
{
	bool more = false;
	int r = 0;

	for (int i = 0; i < NET_FROM_COUNT && r >= 0; i++) {
		r = fold_journal(d, (enum net_from)i, last, last ? NETD_LAST_TURN : NETD_TURN);
		more = more || r > 0;
	}
	if (r >= 0)
		r = net_fold_tick(d->fold, clock_nsec(CLOCK_MONOTONIC),
				  counts || last || bytes_uncounted(d) > NETD_COUNT_WITHIN);
	netd_say_tick(&d->say, clock_nsec(CLOCK_MONOTONIC), last);
	if (r >= 0)
		r = tell_counted(d);
	return r < 0 ? r : more;
}

static int begin_reading(struct netd *d, const struct netd_ask *a)
{
	const struct net_fold_out out = { .event = on_event, .denied = on_denied, .ctx = d };
	const uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	if (d->begun)
		return -EPROTO;
	d->begun = true;
	d->active = now;
	d->say.send = on_say;
	d->say.ctx = d;
	netd_say_begin(&d->say, now);
	d->fold = net_fold_new(now, &out, d->report);
	if (!d->fold)
		return -ENOMEM;
	for (int i = 0; i < NET_FROM_COUNT; i++) {
		d->off[i] = d->counted[i] = a->counted[i];
		net_fold_again(d->fold, (enum net_from)i, a->logged[i]);
		skip_leading_hole(d, (enum net_from)i);
	}
	return send_head(d, NETD_READY, 0);
}

/* Frequent questions must not get more counts into the log. */
static int catch_up(struct netd *d, const struct netd_ask *a)
{
	const uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	const bool counts = a->all && now - d->caught_up >= NSEC_PER_SEC;
	int r = take_turn(d, false, counts);

	if (counts)
		d->caught_up = now;
	return r < 0 ? r : send_head(d, NETD_CAUGHT_UP, a->nonce);
}

static int read_to_the_end(struct netd *d)
{
	int r;

	net_fold_last(d->fold);
	/* In parts, each with its counts: who goes on after a death begins there. */
	do
		r = take_turn(d, true, true);
	while (r > 0);
	d->quitting = true;
	return r < 0 ? r : send_head(d, NETD_DONE, 0);
}

/* 1: there is more to read. -EPIPE: the guard is gone. */
static int take_message(struct netd *d)
{
	struct netd_ask a;
	int r = fdpass_recv(d->control, &a, sizeof(a), NULL, 0);

	if (r < 0)
		return r;
	if (a.type != NETD_BEGIN && !d->begun)
		return -EPROTO;
	switch (a.type) {
	case NETD_BEGIN:
		return begin_reading(d, &a);
	case NETD_LOOK:
		return take_turn(d, false, false);
	case NETD_CATCH_UP:
		return catch_up(d, &a);
	case NETD_QUIT:
		return read_to_the_end(d);
	default:
		return -EPROTO;
	}
}

/* Waits for a message until the next look at the journals. 1: there is one. */
static int wait_for_message(const struct netd *d, bool more)
{
	const uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	const uint64_t wait = more ? LOOK_MORE : now - d->active < ACTIVE ? LOOK_SOON : LOOK_IDLE;
	struct pollfd p = { .fd = d->control, .events = POLLIN };
	const int r = poll(&p, 1, d->begun ? (int)(wait / NSEC_PER_MSEC) : -1);

	return r < 0 && errno != EINTR ? -errno : r > 0;
}

/* jansson would open a device for it with the first line that it parses. */
void netd_prepare(void)
{
	size_t seed = 0;

	BUG_ON(getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed));
	json_object_seed(seed | 1);
}

int netd_serve(int control, const int journal[NET_FROM_COUNT], struct netd_report *report)
{
	static struct netd d;
	int r = 0;

	d = (struct netd){ .control = control, .report = report };
	memcpy(d.journal, journal, sizeof(d.journal));
	while (r >= 0 && !d.quitting) {
		r = wait_for_message(&d, r > 0);
		if (r > 0)
			r = take_message(&d);
		else if (r == 0 && d.begun)
			r = take_turn(&d, false, false);
	}
	net_fold_free(d.fold);
	return r < 0 ? r : 0;
}

static int parse_netd_mask(int argc, char **argv)
{
	const char *want = "78"; /* every descriptor of enum netd_fd */

	return argc == 2 && strcmp(argv[1], want) == 0 ? 0 : -EINVAL;
}

static void tell_failure(const struct err *e)
{
	char m[sizeof(struct netd_head) + NETD_FAIL_MAX];
	const struct netd_head h = { .type = NETD_FAIL };
	const size_t n = strnlen(e->msg, NETD_FAIL_MAX);

	memcpy(m, &h, sizeof(h));
	memcpy(m + sizeof(h), e->msg, n);
	/* A guard that is gone needs no reason. */
	(void)!fdpass_send(NETD_FD_CONTROL, m, sizeof(h) + n, NULL, 0);
}

int netd_main(int argc, char **argv)
{
	static const int journal[NET_FROM_COUNT] = { NETD_FD_EGRESS, NETD_FD_DIAL };
	struct netd_report *report;
	struct err e = ERR_INIT;
	int r;

	if (parse_netd_mask(argc, argv) < 0) {
		fprintf(stderr,
			"coffer-netd: started by coffer when a sandbox uses the network, not by hand\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED, NETD_FD_REPORT, 0);
	r = report == MAP_FAILED ? err_sys(&e, -errno, "cannot map the table of the report") : 0;
	fd_close(NETD_FD_REPORT);
	netd_prepare();
	if (r == 0)
		r = fence_up(&netd_fence, &e);
	if (r < 0) {
		tell_failure(&e);
		return 125;
	}
	r = netd_serve(NETD_FD_CONTROL, journal, report);
	/* The guard closes the socket when the run is over. */
	return r < 0 && r != -EPIPE && r != -ECONNRESET ? 125 : 0;
}
