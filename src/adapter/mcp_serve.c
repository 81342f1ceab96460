/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's loop: lines in, responses out, one call at a time. It blocks only in poll() and while it
 * reaps a child that has closed its pipe. See mcp_serve.h for the invariants.
 */
#include "adapter/mcp_serve.h"

#include "adapter/mcp_int.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#define READ_STEP (64u << 10)
/*
 * A pipe or socket that polls as writable accepts this many bytes without blocking. O_NONBLOCK need not be
 * set, which would change the open file that the client shares.
 */
#define WRITE_STEP 4096
#define LAST_WORDS_MS 1000

/* --- responses -------------------------------------------------------------------------------------- */

static size_t unsent_bytes(const struct mcp_server *sv)
{
	return sv->answers.len - sv->written;
}

static void add_response_line(struct mcp_server *sv, const struct buf *text)
{
	buf_add(&sv->answers, text->data, text->len);
	buf_addc(&sv->answers, '\n');
}

void mcp_answer(struct mcp_server *sv, struct mcp_batch *b, const struct buf *text)
{
	if (!b) {
		add_response_line(sv, text);
		return;
	}
	buf_addc(&b->out, b->out.len ? ',' : '[');
	buf_add(&b->out, text->data, text->len);
}

void mcp_batch_close(struct mcp_server *sv, struct mcp_batch *b)
{
	if (!b || --b->open)
		return;
	if (b->out.len) {
		buf_addc(&b->out, ']');
		add_response_line(sv, &b->out);
	}
	buf_release(&b->out);
	free(b);
}

/* mcp_serve.S1: a partially written line is completed later. If writing fails, the client is gone. */
static void write_responses(struct mcp_server *sv)
{
	size_t n = unsent_bytes(sv);
	ssize_t done = write(sv->out, sv->answers.data + sv->written, n < WRITE_STEP ? n : WRITE_STEP);

	if (done < 0 && errno != EINTR && errno != EAGAIN) {
		sv->over = true;
		buf_clear(&sv->answers);
		sv->written = 0;
		return;
	}
	sv->written += done > 0 ? (size_t)done : 0;
	if (unsent_bytes(sv) == 0 || sv->written > (1u << 20)) {
		buf_consume(&sv->answers, sv->written);
		sv->written = 0;
	}
}

/* --- calls ------------------------------------------------------------------------------------------------------------ */

void mcp_call_free(struct mcp_call *c)
{
	if (!c)
		return;
	mcp_id_release(&c->id);
	mcp_id_release(&c->token);
	json_decref(c->args);
	free(c);
}

static bool is_id_in_use(const struct mcp_server *sv, const struct mcp_id *id)
{
	for (const struct mcp_call *c = sv->calls; c; c = c->next) {
		if (mcp_id_is(&c->id, id))
			return true;
	}
	return false;
}

enum mcp_code mcp_call_add(struct mcp_server *sv, struct mcp_call *c)
{
	struct mcp_call **at = &sv->calls;

	if (is_id_in_use(sv, &c->id))
		return MCP_INVALID_REQUEST;
	if (sv->n_calls >= MCP_CALLS_MAX || (sv->n_calls && sv->waiting + c->size > MCP_WAITING_MAX))
		return MCP_BUSY;
	while (*at)
		at = &(*at)->next;
	*at = c;
	sv->n_calls++;
	sv->waiting += c->size;
	return 0;
}

/* Removes a call that is over, for whatever reason. */
static void drop_call(struct mcp_server *sv, struct mcp_call **at)
{
	struct mcp_call *c = *at;

	*at = c->next;
	sv->n_calls--;
	sv->waiting -= c->size;
	mcp_batch_close(sv, c->batch);
	mcp_call_free(c);
}

static void answer_call(struct mcp_server *sv, struct mcp_call *c, const struct mcp_report *r)
{
	autobuf struct buf text = BUF_INIT;

	if (c->cancelled || c->answered)
		return;
	c->answered = true;
	mcp_add_report(&text, sv, c, r);
	mcp_answer(sv, c->batch, &text);
}

static void fail_call(struct mcp_server *sv, struct mcp_call *c, const char *why)
{
	answer_call(sv, c, &(struct mcp_report){ MCP_REPORT_ERROR, why, strlen(why), 0 });
}

static void start_next_call(struct mcp_server *sv)
{
	while (!sv->over && sv->calls && sv->proc.pid < 0) {
		struct mcp_call *c = sv->calls;
		struct err e = ERR_INIT;

		if (mcp_proc_start(&sv->proc, c->tool, sv->s->ctx, c->args, c->token.kind != MCP_ID_NONE,
				   &e) == 0)
			return;
		fail_call(sv, c, e.msg);
		drop_call(sv, &sv->calls);
	}
}

static void take_call_report(struct mcp_server *sv, const struct mcp_report *r)
{
	autobuf struct buf text = BUF_INIT;
	struct mcp_call *c = sv->calls;

	if (r->type != MCP_REPORT_PROGRESS) {
		answer_call(sv, c, r);
		return;
	}
	if (c->cancelled || c->answered || unsent_bytes(sv) > MCP_OUT_NO_PROGRESS)
		return;
	mcp_add_progress(&text, c, r);
	add_response_line(sv, &text);
}

static void read_call_reports(struct mcp_server *sv)
{
	int r = mcp_proc_read(&sv->proc);
	struct mcp_report report;

	while (mcp_proc_next(&sv->proc, &report))
		take_call_report(sv, &report);
	if (r == 0)
		return;
	fail_call(sv, sv->calls, "the call failed: its process died");
	mcp_proc_reap(&sv->proc);
	drop_call(sv, &sv->calls);
}

void mcp_cancel(struct mcp_server *sv, const struct mcp_id *id)
{
	struct mcp_call **at = &sv->calls;

	while (*at && !mcp_id_is(&(*at)->id, id))
		at = &(*at)->next;
	if (!*at)
		return;
	(*at)->cancelled = true;
	/* The first call is running: it is told to end, and removed when its process has. */
	if (at == &sv->calls && sv->proc.pid >= 0)
		mcp_proc_end(&sv->proc);
	else
		drop_call(sv, at);
}

/* --- input ------------------------------------------------------------------------------------------------------------ */

static void refuse_long_line(struct mcp_server *sv)
{
	autobuf struct buf text = BUF_INIT;

	mcp_add_error(&text, &(struct mcp_id){ 0 }, MCP_PARSE_ERROR, "the line is longer than 4 MiB", NULL);
	add_response_line(sv, &text);
}

/* Handles the first line of the input; len includes the newline. */
static void take_first_line(struct mcp_server *sv, size_t len)
{
	size_t n = len - 1;

	if (n && sv->line.data[n - 1] == '\r')
		n--;
	if (!sv->skipping && n > MCP_LINE_MAX)
		refuse_long_line(sv);
	else if (!sv->skipping && n)
		mcp_take_line(sv, sv->line.data, n);
	sv->skipping = false;
	buf_consume(&sv->line, len);
	sv->looked = 0;
}

static void take_lines(struct mcp_server *sv)
{
	const char *nl;

	while (!sv->over && sv->line.len > sv->looked &&
	       (nl = memchr(sv->line.data + sv->looked, '\n', sv->line.len - sv->looked)))
		take_first_line(sv, (size_t)(nl - sv->line.data) + 1);
	sv->looked = sv->line.len;
	if (sv->line.len <= MCP_LINE_MAX + 1)
		return;
	if (!sv->skipping)
		refuse_long_line(sv);
	sv->skipping = true;
	buf_clear(&sv->line);
	sv->looked = 0;
}

static void read_client(struct mcp_server *sv)
{
	char *at = buf_reserve(&sv->line, READ_STEP);
	ssize_t n = at ? read(sv->in, at, READ_STEP) : -1;

	if (n < 0 && at && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		sv->over = true;
		return;
	}
	sv->line.len += (size_t)n;
	take_lines(sv);
}

/* --- the loop --------------------------------------------------------------------------------------------------------- */

enum { P_SIG, P_OUT, P_IN, P_CALL, P_COUNT };

static void set_poll_events(const struct mcp_server *sv, struct pollfd p[P_COUNT])
{
	bool listens = !sv->over && unsent_bytes(sv) < MCP_OUT_STOP;

	p[P_SIG] = (struct pollfd){ .fd = sv->over ? -1 : sv->sig, .events = POLLIN };
	p[P_OUT] = (struct pollfd){ .fd = sv->over ? -1 : sv->out, .events = unsent_bytes(sv) ? POLLOUT : 0 };
	p[P_IN] = (struct pollfd){ .fd = listens ? sv->in : -1, .events = POLLIN };
	p[P_CALL] = (struct pollfd){ .fd = listens || sv->over ? sv->proc.pipe : -1, .events = POLLIN };
}

static void serve_once(struct mcp_server *sv)
{
	struct pollfd p[P_COUNT];

	set_poll_events(sv, p);
	if (poll(p, P_COUNT, -1) < 0) {
		sv->over = sv->over || errno != EINTR;
		return;
	}
	if (p[P_SIG].revents)
		sv->over = true;
	if (p[P_OUT].revents & POLLOUT)
		write_responses(sv);
	else if (p[P_OUT].revents)
		sv->over = true;
	if (p[P_CALL].revents)
		read_call_reports(sv);
	if (p[P_IN].revents && !sv->over)
		read_client(sv);
	if (buf_error(&sv->answers) || buf_error(&sv->line))
		sv->over = true;
	start_next_call(sv);
}

/* mcp_serve.S5: ends the running call, drops the waiting ones, and writes what the client still reads. */
static void end_serving(struct mcp_server *sv)
{
	uint64_t until = clock_nsec(CLOCK_MONOTONIC) + LAST_WORDS_MS * NSEC_PER_MSEC;
	struct pollfd p = { .fd = sv->out, .events = POLLOUT };

	mcp_proc_end(&sv->proc);
	while (sv->proc.pid >= 0) {
		struct pollfd call = { .fd = sv->proc.pipe, .events = POLLIN };

		if (poll(&call, 1, -1) > 0)
			read_call_reports(sv);
	}
	while (sv->calls)
		drop_call(sv, &sv->calls);
	while (unsent_bytes(sv) && clock_nsec(CLOCK_MONOTONIC) < until && poll(&p, 1, LAST_WORDS_MS) == 1 &&
	       p.revents == POLLOUT)
		write_responses(sv);
}

static int open_signal_fd(struct err *e)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_sys(e, -errno, "cannot block signals");
	fd = signalfd(-1, &set, SFD_CLOEXEC);
	return fd < 0 ? err_sys(e, -errno, "cannot watch for signals") : fd;
}

int mcp_serve(const struct mcp_service *s, int in, int out, struct err *e)
{
	struct mcp_server sv = {
		.s = s, .in = in, .out = out, .version = MCP_VERSION_NONE, .proc = MCP_PROC_INIT
	};

	sv.sig = open_signal_fd(e);
	if (sv.sig < 0)
		return sv.sig;
	while (!sv.over)
		serve_once(&sv);
	end_serving(&sv);
	fd_close(sv.sig);
	buf_release(&sv.line);
	buf_release(&sv.answers);
	return 0;
}
