/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a call from start to end: passes its input, reads its output to the last byte so that the command
 * never blocks on us, and keeps the beginning and the end of each stream. Reports progress to the client
 * meanwhile.
 */
#include "cli/mcp/mcp_pump.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#define PROGRESS_NS (100 * NSEC_PER_MSEC)
#define FRESH_MAX (64u << 10)

static void keep_output(struct mcp_stream *s, const char *data, size_t len)
{
	size_t room = s->head.len < s->keep_head ? s->keep_head - s->head.len : 0;
	size_t n = len < room ? len : room;

	buf_add(&s->head, data, n);
	for (size_t i = n; i < len; i++)
		s->tail[(s->bytes + i - s->keep_head) % MCP_KEEP_TAIL] = data[i];
	s->bytes += len;
}

uint64_t cli_mcp_stream_add(const struct mcp_stream *s, struct buf *out)
{
	uint64_t behind = s->bytes > s->keep_head ? s->bytes - s->keep_head : 0;
	uint64_t omitted = behind > MCP_KEEP_TAIL ? behind - MCP_KEEP_TAIL : 0;

	buf_add(out, s->head.data, s->head.len);
	if (omitted)
		buf_addf(out, "\n[... %llu bytes left out ...]\n", (unsigned long long)omitted);
	for (uint64_t i = omitted; i < behind; i++)
		buf_addc(out, s->tail[i % MCP_KEEP_TAIL]);
	return omitted;
}

static void report_progress(struct mcp_pump *p, bool now)
{
	uint64_t bytes = p->out.bytes + p->err.bytes, t = clock_nsec(CLOCK_MONOTONIC);

	if (!p->job || bytes == p->told || (!now && t - p->told_at < PROGRESS_NS))
		return;
	mcp_job_progress(p->job, bytes, buf_cstr(&p->fresh), p->fresh.len);
	buf_clear(&p->fresh);
	p->told = bytes;
	p->told_at = t;
}

static void read_output_stream(struct mcp_pump *p, struct mcp_stream *s)
{
	char chunk[64u << 10];
	ssize_t n = read(s->fd, chunk, sizeof(chunk));

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		s->fd = fd_close(s->fd);
		return;
	}
	keep_output(s, chunk, (size_t)n);
	if (p->job && p->job->progress) {
		buf_add(&p->fresh, chunk, (size_t)n);
		if (p->fresh.len > FRESH_MAX)
			buf_consume(&p->fresh, p->fresh.len - FRESH_MAX);
	}
}

static void write_command_input(struct mcp_pump *p)
{
	ssize_t n = p->left ? write(p->in, p->input, p->left) : 0;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0) {
		p->input += n;
		p->left -= (size_t)n;
	}
	/* A command that does not read all of its input is no error. */
	if (n < 0 || p->left == 0)
		p->in = fd_close(p->in);
}

static void pump_until_end(struct mcp_pump *p)
{
	while (p->out.fd >= 0 || p->err.fd >= 0) {
		struct pollfd f[3] = { { .fd = p->out.fd, .events = POLLIN },
				       { .fd = p->err.fd, .events = POLLIN },
				       { .fd = p->in, .events = POLLOUT } };

		if (poll(f, 3, -1) < 0)
			continue;
		if (f[0].revents)
			read_output_stream(p, &p->out);
		if (f[1].revents)
			read_output_stream(p, &p->err);
		if (f[2].revents)
			write_command_input(p);
		report_progress(p, false);
	}
	report_progress(p, true);
}

/* Creates the pipes and starts the call. The launcher's ends are closed here once it has them. */
static int start_piped_call(const struct mcp_box *b, struct mcp_box_cmd *c, struct mcp_pump *p,
			    struct mcp_box_run *run, struct err *e)
{
	int out[2] = { -1, -1 }, err[2] = { -1, -1 }, in[2] = { -1, -1 }, r = 0;

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 ||
	    (p->input && pipe2(in, O_CLOEXEC) < 0) || (p->input && fd_set_nonblock(in[1], true) < 0))
		r = err_sys(e, -errno, "cannot make a pipe");
	c->out = out[1];
	c->err = err[1];
	c->in = in[0];
	c->ours[0] = in[1];
	c->ours[1] = out[0];
	c->ours[2] = err[0];
	/* Writing to a command that has ended must fail with EPIPE, not kill this process. */
	signal(SIGPIPE, SIG_IGN);
	if (r == 0)
		r = cli_mcp_box_start(b, c, false, run, e);
	fd_close(out[1]);
	fd_close(err[1]);
	fd_close(in[0]);
	p->out.fd = out[0];
	p->err.fd = err[0];
	p->in = in[1];
	return r;
}

int cli_mcp_pump_run(struct mcp_pump *p, const struct mcp_box *b, struct mcp_box_cmd *c,
		     struct mcp_box_end *ret, struct err *e)
{
	struct mcp_box_run run = { -1, -1 };
	int r = start_piped_call(b, c, p, &run, e);

	if (r == 0)
		pump_until_end(p);
	p->in = fd_close(p->in);
	p->out.fd = fd_close(p->out.fd);
	p->err.fd = fd_close(p->err.fd);
	return r < 0 ? r : cli_mcp_box_wait(&run, ret, e);
}
