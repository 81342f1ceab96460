/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that work for API requests: executes `coffer` and returns its output. Decides which job
 * starts when, and translates how it ended. It must not read the output of a command in a sandbox.
 */
#include "audit/query.h"
#include "base/fd.h"
#include "base/str.h"
#include "daemon/broker/webd_int.h"
#include "daemon/child/child_coffer.h"
#include "sys/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAID_MAX 2048
#define FEED_PAST 512 /* events */
#define FEED_PAUSE (NSEC_PER_SEC / 2)
#define EXIT_SAYS 3 /* exit code of `coffer web-work`: code, message and hint are three lines on stderr */

void webd_refuse(struct webd *d, uint64_t id, unsigned status, const char *code, const char *message,
		 const char *hint)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_ERROR, .id = id, .status = status };

	snprintf(a.code, sizeof(a.code), "%s", code);
	snprintf(a.message, sizeof(a.message), "%.590s", message);
	snprintf(a.hint, sizeof(a.hint), "%.590s", hint ? hint : "");
	webd_send(d, &a, NULL, 0);
}

void webd_reply(struct webd *d, uint64_t id, int fd, unsigned flags)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_REPLY, .id = id, .flags = flags };

	webd_send(d, &a, &fd, fd >= 0 ? 1 : 0);
}

/* --- jobs ----------------------------------------------------------------------------------------------- */

/* webd.W3: slow work must not delay fast work. For each class the number of workers that it may occupy, and
 * the number of jobs that may wait; together the slow classes leave a worker for answers and other short
 * work. */
static const struct {
	unsigned workers, waiting;
} lane_limits[] = {
	[WEBD_QUICK] = { WEBD_WORKERS, WEBD_WAITING },
	[WEBD_LOG] = { 3, 256 },
	[WEBD_WHOLE_LOG] = { 1, 64 },
	[WEBD_SLOW] = { 3, 64 },
};
static_assert(ARRAY_SIZE(lane_limits) == WEBD_LANE_COUNT, "a row for each");

static enum webd_lane lane_for_op(enum web_op op)
{
	switch (op) {
	case WEB_AUDIT:
	case WEB_EGRESS:
	case WEB_TIMELINE:
	case WEB_SERIES:
	case WEB_BACKLOG:
		return WEBD_LOG;
	case WEB_VERIFY:
		return WEBD_WHOLE_LOG;
	case WEB_STOP:
	case WEB_REMOVE:
	case WEB_CHECKPOINT:
	case WEB_ROLLBACK:
		return WEBD_SLOW;
	default:
		return WEBD_QUICK;
	}
}

bool webd_has_room(const struct webd *d, enum web_op op)
{
	enum webd_lane l = lane_for_op(op);

	return d->n_jobs - d->n_streams < WEBD_WAITING &&
	       d->lane[l].open < lane_limits[l].waiting + lane_limits[l].workers;
}

/* Pages of the log are fetched with one credential, but serve many streams, so they are not counted. */
static bool counts_for_credential(enum web_cred kind, enum web_op op)
{
	return kind != WEB_CRED_OWNER && op != WEB_BACKLOG;
}

static unsigned count_jobs_of(const struct webd *d, const unsigned char key[HASH_LEN], bool running)
{
	unsigned n = 0;

	for (const struct job *x = d->jobs; x; x = x->next)
		n += x->state == WEBP_ST_WORK && counts_for_credential(x->kind, x->op) &&
		     (x->pid || !running) && memcmp(x->key, key, HASH_LEN) == 0;
	return n;
}

bool webd_has_share(const struct webd *d, const struct webp_req *q)
{
	return !counts_for_credential(q->cred, q->op) ||
	       count_jobs_of(d, q->key, false) < WEBD_WORKERS_EACH + WEBD_WAITING_EACH;
}

static struct job *find_job(struct webd *d, uint64_t id)
{
	struct job *x = d->jobs;

	/* Ids start again with each coffer-web; jobs that continue for an earlier one have no client. */
	while (x && (x->id != id || x->is_gone))
		x = x->next;
	return x;
}

static void stop_event_feed(struct webd *d)
{
	loop_timer_off(d->w.loop, &d->feed_again);
	if (d->feed > 0)
		kill(d->feed, SIGKILL);
	d->feed = 0;
}

void webd_free_job(struct webd *d, struct job *x)
{
	struct job **p = &d->jobs;

	while (*p != x)
		p = &(*p)->next;
	*p = x->next;
	d->n_jobs--;
	d->lane[x->lane].open -= x->state == WEBP_ST_WORK;
	if (x->state == WEBP_ST_STREAM && --d->n_streams == 0)
		stop_event_feed(d);
	strv_release(&x->argv);
	fd_close(x->in);
	fd_close(x->out);
	fd_close(x->err);
	free(x);
}

struct job *webd_add_job(struct webd *d, const struct webp_req *q, enum webp_state s)
{
	struct job *x = calloc(1, sizeof(*x)), **p = &d->jobs;

	if (!x)
		return NULL;
	*x = (struct job){ .id = q->id,
			   .state = s,
			   .op = q->op,
			   .kind = q->cred,
			   .lane = lane_for_op(q->op),
			   .in = -1,
			   .out = -1,
			   .err = -1 };
	memcpy(x->key, q->key, HASH_LEN);
	while (*p)
		p = &(*p)->next;
	*p = x;
	d->n_jobs++;
	d->lane[x->lane].open += s == WEBP_ST_WORK;
	return x;
}

/* Starts `coffer` with three descriptors, and the environment that it needs to find the same state and
 * configuration. Work that changes something continues if cofferd dies (`outlives`). Returns 0 if it could not
 * be started. */
static pid_t start_coffer(const struct webd *d, const struct strv *argv, const int fds[3], bool outlives)
{
	/* To find the owner's configuration and the vault's key. */
	static const char *const places[] = { "HOME", "XDG_CONFIG_HOME", "CREDENTIALS_DIRECTORY" };
	autostrv struct strv env = STRV_INIT;
	const struct child_coffer c = { .exe = d->w.coffer_fd,
					.state = d->w.st->path,
					.argv = argv->v,
					.fds = fds,
					.n_fds = 3,
					.outlives = outlives };
	pid_t pid = 0;

	if (strv_add(&env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") < 0 ||
	    spawn_env_copy(&env, places, ARRAY_SIZE(places)) < 0)
		return 0;
	return child_start_coffer(&c, &env, &pid, NULL) < 0 ? 0 : pid;
}

static int spawn_job(struct webd *d, struct job *x)
{
	x->out = memfd_create("answer", MFD_CLOEXEC);
	x->err = memfd_create("said", MFD_CLOEXEC);
	if (x->out < 0 || x->err < 0)
		return -EAGAIN;
	x->pid = start_coffer(d, &x->argv, (int[]){ SPAWN_NULL, x->out, x->err }, web_route(x->op)->changes);
	if (!x->pid)
		return -EAGAIN;
	d->n_running++;
	d->lane[x->lane].running++;
	return 0;
}

void webd_start_more(struct webd *d)
{
	struct job *next;

	for (struct job *x = d->jobs; x && d->n_running < WEBD_WORKERS; x = next) {
		next = x->next;
		if (x->state != WEBP_ST_WORK || x->pid || x->with ||
		    d->lane[x->lane].running >= lane_limits[x->lane].workers)
			continue;
		if (counts_for_credential(x->kind, x->op) &&
		    count_jobs_of(d, x->key, true) >= WEBD_WORKERS_EACH)
			continue;
		if (!webd_may_start_job(d, x))
			continue;
		if (spawn_job(d, x) < 0) {
			webd_refuse(d, x->id, 503, "unavailable", "no process can be started", NULL);
			webd_free_job(d, x);
			continue;
		}
		webd_job_started(d, x);
	}
}

/* A command's output goes to coffer-web only, over pipes. */
int webd_start_exec(struct webd *d, struct job *x)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_OUT, .id = x->id };
	int out[2], err[2];

	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(err, O_CLOEXEC) < 0) {
		fd_close(out[0]);
		fd_close(out[1]);
		return -errno;
	}
	x->pid = start_coffer(d, &x->argv, (int[]){ x->in, out[1], err[1] }, false);
	x->in = fd_close(x->in);
	fd_close(out[1]);
	fd_close(err[1]);
	if (!x->pid) {
		fd_close(out[0]);
		fd_close(err[0]);
		return -EAGAIN;
	}
	(void)!fd_set_nonblock(out[0], true);
	(void)!fd_set_nonblock(err[0], true);
	webd_send(d, &a, (int[]){ out[0], err[0] }, 2);
	return 0;
}

/* Starts the event feed some way before the end of the log, so that streams that reconnect find what they
 * missed. It thus never starts after the position that a stream is told (WEBP_OPEN). */
static int start_event_feed(struct webd *d, uint64_t last)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_FEED };
	autostrv struct strv argv = STRV_INIT;
	int fds[2];

	if (d->feed > 0)
		return 0;
	if (strv_add(&argv, "coffer") < 0 || strv_add(&argv, "web-work") < 0 || strv_add(&argv, "feed") < 0 ||
	    strv_addf(&argv, "after=%llu", (unsigned long long)(last > FEED_PAST ? last - FEED_PAST : 0)) <
		    0 ||
	    pipe2(fds, O_CLOEXEC) < 0)
		return -EAGAIN;
	d->feed = start_coffer(d, &argv, (int[]){ SPAWN_NULL, fds[1], SPAWN_NULL }, false);
	fd_close(fds[1]);
	if (!d->feed) {
		fd_close(fds[0]);
		return -EAGAIN;
	}
	(void)!fd_set_nonblock(fds[0], true);
	webd_send(d, &a, fds, 1);
	return 0;
}

/* Work that changes something is not killed; a command, or a read without a client, is. */
static void kill_if_unwanted(struct webd *d, const struct job *x)
{
	bool may = x->state == WEBP_ST_EXEC || !web_route(x->op)->changes;

	if (x->is_gone && x->pid > 0 && may && !webd_next_sharer(d, x))
		kill(x->pid, SIGKILL);
}

static void cancel_job(struct webd *d, struct job *x)
{
	struct job *with = x->with;

	x->is_gone = true;
	kill_if_unwanted(d, x);
	if (!x->pid)
		webd_free_job(d, x);
	if (with)
		kill_if_unwanted(d, with);
}

void webd_cancel(struct webd *d, uint64_t id)
{
	struct job *x = find_job(d, id);

	if (x)
		cancel_job(d, x);
}

/* Not by id: ids start again with each coffer-web, and an abandoned job may have the id of another. */
void webd_end_jobs(struct webd *d)
{
	for (struct job *x = d->jobs, *next; x; x = next) {
		next = x->next;
		if (!x->is_gone)
			cancel_job(d, x);
	}
	stop_event_feed(d);
}

void webd_end_streams_of(struct webd *d, const unsigned char hash[HASH_LEN])
{
	for (struct job *x = d->jobs, *next; x; x = next) {
		struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_END, .id = x->id };

		next = x->next;
		if (x->is_gone || memcmp(x->key, hash, HASH_LEN) != 0 ||
		    (x->state != WEBP_ST_STREAM && x->state != WEBP_ST_EXEC))
			continue;
		webd_send(d, &a, NULL, 0);
		cancel_job(d, x);
	}
}

/* --- results -------------------------------------------------------------------------------------------- */

static unsigned http_status_of(const char *code)
{
	static const struct {
		const char *code;
		unsigned status;
	} known[] = { { "bad_request", 400 }, { "forbidden", 403 }, { "not_found", 404 },
		      { "conflict", 409 },    { "stale", 409 },	    { "answered", 409 },
		      { "expired", 410 },     { "gone", 410 },	    { "unavailable", 503 } };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (str_eq(known[i].code, code))
			return known[i].status;
	}
	return 500;
}

/* Parses "code\nmessage\nhint\n" of our own `coffer web-work`. */
static void refuse_with_web_error(struct webd *d, const struct job *x, char *text)
{
	char *save = NULL, *code = strtok_r(text, "\n", &save),
	     *message = code ? strtok_r(NULL, "\n", &save) : NULL;

	webd_refuse(d, x->id, http_status_of(code ? code : ""),
		    code && http_status_of(code) != 500 ? code : "failed",
		    message ? message : "it failed without a message",
		    message ? strtok_r(NULL, "\n", &save) : NULL);
}

/* Parses "coffer: message\n  try: hint\n", as printed for a person. */
static void refuse_with_cli_error(struct webd *d, const struct job *x, char *text)
{
	char *save = NULL, *line = strtok_r(text, "\n", &save),
	     *hint = line ? strtok_r(NULL, "\n", &save) : NULL;

	if (line && str_starts(line, "coffer: "))
		line += strlen("coffer: ");
	hint = hint && str_starts(hint, "  try: ") ? hint + strlen("  try: ") : NULL;
	webd_refuse(d, x->id, 409, "conflict", line ? line : "it failed without a message", hint);
}

static void answer_job(struct webd *d, struct job *x, int status)
{
	autobuf struct buf said = BUF_INIT;
	char text[SAID_MAX];
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	/* A broken log is a result, not a failure. */
	bool good = code == 0 || (x->op == WEB_VERIFY && code == 1);

	if (x->state == WEBP_ST_EXEC) {
		struct webp_answer a = {
			.magic = WEBP_MAGIC, .type = WEBP_EXIT, .id = x->id, .status = (uint32_t)code
		};

		webd_send(d, &a, NULL, 0);
		return;
	}
	if (good && web_route(x->op)->status == 204) {
		webd_reply(d, x->id, -1, 0);
		return;
	}
	if (good && lseek(x->out, 0, SEEK_SET) == 0) {
		webd_reply(d, x->id, TAKE_FD(x->out), 0);
		return;
	}
	if (lseek(x->err, 0, SEEK_SET) == 0)
		(void)!fd_read_all(x->err, SAID_MAX - 1, &said);
	snprintf(text, sizeof(text), "%s", buf_cstr(&said));
	if (code == EXIT_SAYS)
		refuse_with_web_error(d, x, text);
	else
		refuse_with_cli_error(d, x, text);
}

/* Opens the file anew, at its start: duplicates of a descriptor share one position. */
static int reopen_at_start(int fd)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
}

static void answer_sharers(struct webd *d, const struct job *x, int status)
{
	struct job *y;

	while ((y = webd_next_sharer(d, x))) {
		y->with = NULL;
		/* webd.W6: while coffer-web does not read, it is not sent a hundred more. These wait for the
		 * next run. */
		if (d->queue)
			continue;
		y->out = reopen_at_start(x->out);
		y->err = reopen_at_start(x->err);
		if (y->out < 0 || y->err < 0)
			webd_refuse(d, y->id, 503, "unavailable", "no file can be opened", NULL);
		else
			answer_job(d, y, status);
		webd_free_job(d, y);
	}
}

static void on_feed_restart(struct timer *t)
{
	struct webd *d = t->ctx;
	uint64_t last;

	if (d->n_streams && (audit_last_seq(d->w.st->fd, &last, NULL) < 0 || start_event_feed(d, last) < 0))
		loop_timer(d->w.loop, t, clock_nsec(CLOCK_MONOTONIC) + FEED_PAUSE);
}

void webd_jobs_open(struct webd *d)
{
	d->feed_again = (struct timer){ .fn = on_feed_restart, .ctx = d };
}

bool webd_job_reaped(struct webd *d, pid_t pid, int status)
{
	struct job *x = d->jobs;

	if (pid == d->feed) {
		/* With a pause: a feed that cannot read the log would be restarted in a tight loop. */
		d->feed = 0;
		loop_timer(d->w.loop, &d->feed_again, clock_nsec(CLOCK_MONOTONIC) + FEED_PAUSE);
		return true;
	}
	while (x && x->pid != pid)
		x = x->next;
	if (!x)
		return false;
	answer_sharers(d, x, status);
	if (!x->is_gone)
		answer_job(d, x, status);
	webd_job_ended(d, x);
	if (x->state == WEBP_ST_WORK) {
		d->n_running--;
		d->lane[x->lane].running--;
	}
	webd_free_job(d, x);
	webd_start_more(d);
	return true;
}

void webd_open_stream(struct webd *d, const struct webp_req *q)
{
	struct webp_answer a = { .magic = WEBP_MAGIC, .type = WEBP_OPEN, .id = q->id };
	struct job *x = webd_add_job(d, q, WEBP_ST_STREAM);

	if (x)
		d->n_streams++;
	if (!x || audit_last_seq(d->w.st->fd, &a.seq, NULL) < 0 || start_event_feed(d, a.seq) < 0) {
		webd_refuse(d, q->id, 503, "unavailable", "the log cannot be followed now", NULL);
		if (x)
			webd_free_job(d, x);
		return;
	}
	webd_send(d, &a, NULL, 0);
}
