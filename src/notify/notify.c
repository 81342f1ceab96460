/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of notifications (notify.h): one process per attempt, retries with growing pauses, and a log
 * entry for each outcome. Nothing here blocks on a target.
 */
#include "notify/notify.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "crypto/hash.h"
#include "notify/courier_start.h"
#include "sys/memfile.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define GRACE (30 * NSEC_PER_SEC) /* added to a target's time limit before its process is killed */

struct notify_item {
	struct notify_made made;
	unsigned tries;
	struct notify_item *next;
};

/* The queue of one target. */
struct notify_queue {
	struct notify *n;
	const struct notify_target *target;
	struct notify_item *first, **end;
	size_t len;
	uint64_t dropped;   /* since the last log entry */
	struct timer timer; /* armed: pause before the next attempt, or time limit of the current one */
	struct watch proc;  /* the attempt's pidfd; -1: no attempt under way */
	pid_t pid;
	int result; /* socket on which the attempt reports */
};

struct notify {
	struct loop *loop;
	int state_fd;
	struct audit *audit;
	struct notify_opts opts;
	struct notify_queue queues[NOTIFY_TARGETS_MAX];
	size_t n;
};

static void notify_item_free(struct notify_item *i)
{
	notify_made_release(&i->made);
	free(i);
}

static void drop_first_item(struct notify_queue *q)
{
	struct notify_item *i = q->first;

	q->first = i->next;
	if (!q->first)
		q->end = &q->first;
	q->len--;
	notify_item_free(i);
}

/* A failure to log is ignored: a notification grants nothing. */
static void log_outcome(struct notify_queue *q, const char *type, const struct notify_item *i,
			unsigned status, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (!q->n->audit)
		return;
	json_str(&j, "target", q->target->name);
	json_str(&j, "kind", config_notify_kind_name(q->target->kind));
	if (i) {
		json_str(&j, "id", i->made.id);
		json_str(&j, "event", i->made.type);
		json_u64(&j, "tries", i->tries);
	}
	if (status)
		json_u64(&j, "status", status);
	if (why && *why)
		json_str(&j, "why", why);
	if (q->dropped) {
		json_u64(&j, "dropped", q->dropped);
		q->dropped = 0;
	}
	if (!buf_error(&b))
		(void)!audit_append(q->n->audit, type, i && *i->made.sandbox ? i->made.sandbox : NULL, &b,
				    NULL);
}

/* --- the process of one attempt ------------------------------------------------------------------------- */

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* notify.N1: the attempt keeps only the descriptors it needs. */
static void close_other_fds(int *keep, size_t n)
{
	unsigned from = 3;

	qsort(keep, n, sizeof(*keep), compare_fds);
	for (size_t i = 0; i < n; i++) {
		if (keep[i] < (int)from)
			continue;
		if ((unsigned)keep[i] > from)
			syscall(SYS_close_range, from, (unsigned)keep[i] - 1, 0);
		from = (unsigned)keep[i] + 1;
	}
	syscall(SYS_close_range, from, ~0U, 0);
}

_Noreturn static void run_courier_attempt(const struct notify_queue *q, const struct notify_item *i,
					  int result)
{
	struct courier_call call = { .secret = q->target->secret,
				     .key_file = q->target->secret_file,
				     .ca = q->target->ca };
	int keep[] = { result, q->n->state_fd };
	struct courier_result res = { 0 };
	struct buf mem = BUF_INIT;
	struct err e = ERR_INIT;
	int r;

	close_other_fds(keep, ARRAY_SIZE(keep));
	r = notify_job(q->target, &i->made, &call.job, &mem);
	r = r < 0 ? r : notify_courier_carry(q->n->state_fd, &call, &res, &e);
	if (r < 0) {
		res = (struct courier_result){ .magic = COURIER_RESULT_MAGIC, .error = r };
		str_safe(e.code ? e.msg : strerror(-r), res.why, sizeof(res.why));
	}
	(void)!send(result, &res, sizeof(res), MSG_NOSIGNAL);
	_exit(0);
}

/* Starts the operator's own program, with the environment it would have on a terminal but without the
 * terminal. The event is on its standard input. It gets the same from a guard's notifier as from `coffer
 * notify test`. */
static int start_command(struct notify_queue *q, int input, struct err *e)
{
	const int fds[] = { input, SPAWN_NULL, SPAWN_NULL };
	const struct spawn s = { .path = q->target->argv.v[0],
				 .argv = q->target->argv.v,
				 .env = environ,
				 .fds = fds,
				 .n_fds = ARRAY_SIZE(fds),
				 .flags = SPAWN_SAME_ID | SPAWN_NO_CAPS | SPAWN_KEEP_CWD | SPAWN_KEEP_UMASK |
					  SPAWN_GROUP };
	struct spawned got = SPAWNED_INIT;
	enum spawn_step step;
	int r = spawn_start_step(&s, &got, &step, e);

	if (r == -ENOENT && step == SPAWN_STEP_EXEC)
		return err_set(e, r, "there is no such program");
	if (r < 0)
		return r;
	q->pid = got.pid;
	q->proc.fd = got.pidfd;
	return 0;
}

/* Forks a process that runs one coffer-courier, waits for it and reports its result. It executes nothing
 * itself. */
static int start_courier(struct notify_queue *q, const struct notify_item *i, struct err *e)
{
	autoclose int theirs = -1;
	pid_t parent = getpid();
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, -errno, "cannot begin");
	q->result = pair[0];
	theirs = pair[1];
	q->pid = fork();
	if (q->pid == 0) {
		spawn_plain_signals(0);
		/* A process group, so that killing the attempt kills everything it started. */
		if (setpgid(0, 0) < 0)
			_exit(126);
		spawn_die_with(parent);
		run_courier_attempt(q, i, theirs);
	}
	if (q->pid < 0)
		return err_sys(e, -errno, "cannot fork");
	q->proc.fd = (int)syscall(SYS_pidfd_open, q->pid, 0);
	return q->proc.fd < 0 ? err_sys(e, -errno, "cannot watch a process") : 0;
}

static void on_attempt_end(struct watch *w, uint32_t events);
static void start_next_attempt(struct notify_queue *q);

static int begin_attempt(struct notify_queue *q, struct err *e)
{
	const struct notify_item *i = q->first;
	autoclose int input = -1;
	int r;

	q->proc = (struct watch){ .fd = -1, .fn = on_attempt_end, .ctx = q };
	if (q->target->kind == NOTIFY_COMMAND) {
		input = memfile_make("event", i->made.json.data, i->made.json.len, false, e);
		r = input < 0 ? input : start_command(q, input, e);
	} else {
		r = start_courier(q, i, e);
	}
	return r < 0 ? r : loop_watch(q->n->loop, &q->proc, EPOLLIN);
}

/* Kills the attempt if it still runs, and returns its exit code as a shell would. */
static int reap_attempt(struct notify_queue *q)
{
	siginfo_t si = { 0 };

	if (q->proc.fd >= 0)
		loop_unwatch(q->n->loop, &q->proc);
	if (q->pid > 0) {
		/* The whole group. The pid cannot have been reused, because we have not waited for it yet. */
		kill(-q->pid, SIGKILL);
		kill(q->pid, SIGKILL);
		while (waitid(P_PID, (id_t)q->pid, &si, WEXITED) < 0 && errno == EINTR)
			;
	}
	q->pid = -1;
	q->proc.fd = fd_close(q->proc.fd);
	return si.si_code == CLD_EXITED ? si.si_status : 128 + si.si_status;
}

static void read_attempt_result(struct notify_queue *q, int code, struct courier_result *ret)
{
	char in[sizeof(*ret) + 1];
	ssize_t n = q->result >= 0 ? recv(q->result, in, sizeof(in), MSG_DONTWAIT) : -1;

	q->result = fd_close(q->result);
	if (q->target->kind != NOTIFY_COMMAND) {
		if (n > 0 && courier_result_check(in, (size_t)n, ret) == 0)
			return;
		*ret = (struct courier_result){ .error = -EPIPE };
		snprintf(ret->why, sizeof(ret->why), "it ended without a result");
		return;
	}
	*ret = (struct courier_result){ .error = code ? -EIO : 0, .status = code ? 0 : 200 };
	if (code)
		snprintf(ret->why, sizeof(ret->why), "the command ended with %d", code);
}

static void finish_attempt(struct notify_queue *q, const struct courier_result *res)
{
	struct notify_item *i = q->first;
	unsigned most = q->n->opts.tries ? q->n->opts.tries : NOTIFY_TRIES;
	enum notify_outcome o = notify_judge(res);
	const char *said = res->error ? res->why : res->text;
	char why[COURIER_WHY_LEN + 64];

	if (o == NOTIFY_DONE)
		why[0] = '\0';
	else if (res->status / 100 == 3)
		snprintf(why, sizeof(why), "it responded with a redirect (%u), which is not followed",
			 res->status);
	else if (res->status)
		snprintf(why, sizeof(why), "it responded %u%s%s", res->status, *said ? ": " : "", said);
	else
		snprintf(why, sizeof(why), "%s", said);
	if (o == NOTIFY_AGAIN && i->tries >= most)
		o = NOTIFY_GIVEN_UP;
	log_outcome(q,
		    o == NOTIFY_DONE	? "notify.sent"
		    : o == NOTIFY_AGAIN ? "notify.retry"
					: "notify.failed",
		    i, res->error ? 0 : res->status, why);
	if (q->n->opts.told)
		q->n->opts.told(q->n->opts.ctx, q->target, o, res->error ? 0 : res->status, why);
	if (o == NOTIFY_AGAIN)
		loop_timer(q->n->loop, &q->timer,
			   clock_nsec(CLOCK_MONOTONIC) +
				   notify_pause(i->tries, q->n->opts.first_pause, res->retry_after));
	else
		drop_first_item(q);
}

static void on_attempt_end(struct watch *w, uint32_t events)
{
	struct notify_queue *q = w->ctx;
	struct courier_result res;

	(void)events;
	loop_timer_off(q->n->loop, &q->timer);
	read_attempt_result(q, reap_attempt(q), &res);
	finish_attempt(q, &res);
	start_next_attempt(q);
}

static void on_queue_timer(struct timer *t)
{
	struct notify_queue *q = t->ctx;
	struct courier_result res = { .error = -ETIMEDOUT };

	if (q->pid < 0) {
		start_next_attempt(q);
		return;
	}
	reap_attempt(q);
	q->result = fd_close(q->result);
	snprintf(res.why, sizeof(res.why), "it did not end in time");
	finish_attempt(q, &res);
	start_next_attempt(q);
}

static void start_next_attempt(struct notify_queue *q)
{
	while (q->first && q->pid < 0 && !q->timer.armed) {
		struct courier_result res = { .error = -EAGAIN };
		struct err e = ERR_INIT;

		q->first->tries++;
		if (begin_attempt(q, &e) == 0) {
			loop_timer(q->n->loop, &q->timer,
				   clock_nsec(CLOCK_MONOTONIC) + q->target->timeout * NSEC_PER_SEC + GRACE);
			return;
		}
		reap_attempt(q);
		q->result = fd_close(q->result);
		str_safe(e.msg, res.why, sizeof(res.why));
		finish_attempt(q, &res);
	}
}

/* --- public functions ----------------------------------------------------------------------------------- */

int notify_new(struct notify **ret, struct loop *loop, const struct notify_conf *conf, int state_fd,
	       struct audit *audit, const struct notify_opts *opts, struct err *e)
{
	struct notify *n = calloc(1, sizeof(*n));

	if (!n)
		return err_set(e, -ENOMEM, "out of memory");
	n->loop = loop;
	n->state_fd = state_fd;
	n->audit = audit;
	n->opts = opts ? *opts : (struct notify_opts){ 0 };
	for (size_t i = 0; i < conf->n; i++) {
		struct notify_queue *q = &n->queues[n->n];

		if (n->opts.only && !str_eq(n->opts.only, conf->targets[i].name))
			continue;
		*q = (struct notify_queue){
			.n = n, .target = &conf->targets[i], .end = &q->first, .proc = WATCH_INIT
		};
		q->pid = q->result = -1;
		q->timer = (struct timer){ .fn = on_queue_timer, .ctx = q };
		n->n++;
	}
	*ret = n;
	return 0;
}

void notify_free(struct notify *n)
{
	if (!n)
		return;
	for (size_t k = 0; k < n->n; k++) {
		struct notify_queue *q = &n->queues[k];

		loop_timer_off(n->loop, &q->timer);
		if (q->pid >= 0)
			reap_attempt(q);
		q->result = fd_close(q->result);
		while (q->first) {
			log_outcome(q, "notify.failed", q->first, 0, "the process that sends it ended first");
			drop_first_item(q);
		}
	}
	free(n);
}

static int enqueue_event(struct notify_queue *q, const struct notify_event *ev, const char *id, uint64_t now)
{
	struct notify_item *i;

	if (q->len >= NOTIFY_QUEUE_MAX) {
		/* Logged when dropping begins; the count is logged with the next outcome. */
		if (q->dropped++ == 0)
			log_outcome(q, "notify.dropped", NULL, 0, "too many wait already");
		return 0;
	}
	i = calloc(1, sizeof(*i));
	if (!i || notify_make(&i->made, ev, id, now) < 0) {
		free(i);
		return -ENOMEM;
	}
	*q->end = i;
	q->end = &i->next;
	q->len++;
	start_next_attempt(q);
	return 0;
}

int notify_post(struct notify *n, const struct notify_event *ev)
{
	unsigned char raw[NOTIFY_ID_LEN / 2];
	char id[NOTIFY_ID_LEN + 1] = "";
	int r = 0;

	if (getrandom(raw, sizeof(raw), 0) != sizeof(raw))
		return -EIO;
	hash_hex(raw, sizeof(raw), id);
	for (size_t k = 0; k < n->n; k++) {
		int one = enqueue_event(&n->queues[k], ev, id, clock_nsec(CLOCK_REALTIME));

		r = one < 0 ? one : r;
	}
	return r;
}

size_t notify_waiting(const struct notify *n)
{
	size_t sum = 0;

	for (size_t k = 0; k < n->n; k++)
		sum += n->queues[k].len;
	return sum;
}
