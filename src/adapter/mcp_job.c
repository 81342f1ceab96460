/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a tool call in its own process: the child, which is detached from the client, runs the tool
 * and reports over a pipe; and the server's side, which starts it, reads the reports, ends it and reaps it.
 * The child's reports are trusted: it is a fork of the server, and the sandbox cannot write to the pipe.
 */
#include "adapter/mcp_job.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define READ_STEP (64u << 10)
#define PROGRESS_TEXT 4096 /* bytes of output in one progress report; of a longer text, the last ones */

struct head {
	uint32_t type, len;
};

/* --- the child ------------------------------------------------------------------------------------------------------ */

/*
 * Only this process writes to the pipe, so a header and its data cannot be interleaved with others. If the
 * server is gone, nothing is left to do.
 */
static void send_report(int fd, enum mcp_report_type type, const void *data, size_t len)
{
	const struct head h = { (uint32_t)type, (uint32_t)len };

	if (fd_write_all(fd, &h, sizeof(h)) < 0 || fd_write_all(fd, data, len) < 0)
		_exit(1);
}

void mcp_job_progress(const struct mcp_job *job, uint64_t bytes, const char *text, size_t len)
{
	autobuf struct buf b = BUF_INIT;

	if (!job->progress)
		return;
	if (len > PROGRESS_TEXT) {
		text += len - PROGRESS_TEXT;
		len = PROGRESS_TEXT;
	}
	buf_add(&b, &bytes, sizeof(bytes));
	buf_add(&b, text, len);
	if (buf_error(&b) == 0)
		send_report(job->out, MCP_REPORT_PROGRESS, b.data, b.len);
}

/*
 * Resets signals as a shell would, and removes every way to the client: stdin is /dev/null, stdout is
 * stderr.
 */
static int detach_from_server(void)
{
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	sigemptyset(&none);
	signal(SIGPIPE, SIG_DFL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0 || sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return -errno;
	return 0;
}

static _Noreturn void job_main(const struct mcp_tool *t, void *ctx, const json_t *args,
			       const struct mcp_job *job)
{
	struct buf result = BUF_INIT, text = BUF_INIT;
	struct err e = ERR_INIT;
	int r = detach_from_server();

	if (r < 0)
		err_sys(&e, r, "cannot begin the call");
	if (r == 0 && t->gate)
		r = t->gate(ctx, t, args, job, &e);
	if (r == 0)
		r = t->run(ctx, args, job, &result, &e);
	if (r >= 0 && buf_error(&result))
		r = err_set(&e, -ENOMEM, "out of memory");
	if (r < 0) {
		buf_adds(&text, e.msg[0] ? e.msg : "the call failed");
		if (e.hint[0])
			buf_addf(&text, "\ntry: %s", e.hint);
		send_report(job->out, MCP_REPORT_ERROR, buf_cstr(&text), text.len);
	} else {
		send_report(job->out, r ? MCP_REPORT_FAILED : MCP_REPORT_RESULT, buf_cstr(&result),
			    result.len);
	}
	_exit(0);
}

/* --- the server ----------------------------------------------------------------------------------------------------- */

int mcp_proc_start(struct mcp_proc *p, const struct mcp_tool *t, void *ctx, const json_t *args, bool progress,
		   struct err *e)
{
	int out[2] = { -1, -1 }, alive[2] = { -1, -1 };
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(alive, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		int r = err_sys(e, -errno, "cannot start a process");

		for (int i = 0; i < 2; i++) {
			fd_close(out[i]);
			fd_close(alive[i]);
		}
		return r;
	}
	if (pid == 0) {
		fd_close(out[0]);
		fd_close(alive[1]);
		job_main(t, ctx, args, &(struct mcp_job){ out[1], alive[0], progress });
	}
	fd_close(out[1]);
	fd_close(alive[0]);
	*p = (struct mcp_proc){ .pid = pid, .pipe = out[0], .alive = alive[1] };
	return 0;
}

int mcp_proc_read(struct mcp_proc *p)
{
	char *at = buf_reserve(&p->in, READ_STEP);
	ssize_t n;

	if (!at)
		return -ENOMEM;
	n = read(p->pipe, at, READ_STEP);
	if (n > 0)
		p->in.len += (size_t)n;
	else if (n == 0 || errno != EINTR)
		return -EPIPE;
	return 0;
}

int mcp_proc_next(struct mcp_proc *p, struct mcp_report *ret)
{
	struct head h;

	buf_consume(&p->in, p->taken);
	p->taken = 0;
	if (p->in.len < sizeof(h))
		return 0;
	memcpy(&h, p->in.data, sizeof(h));
	BUG_ON(h.type >= MCP_REPORT_COUNT);
	if (p->in.len - sizeof(h) < h.len)
		return 0;
	p->taken = sizeof(h) + h.len;
	*ret = (struct mcp_report){ (enum mcp_report_type)h.type, p->in.data + sizeof(h), h.len, 0 };
	if (h.type == MCP_REPORT_PROGRESS) {
		BUG_ON(h.len < sizeof(ret->bytes));
		memcpy(&ret->bytes, ret->data, sizeof(ret->bytes));
		ret->data += sizeof(ret->bytes);
		ret->len -= sizeof(ret->bytes);
	}
	return 1;
}

void mcp_proc_end(struct mcp_proc *p)
{
	p->alive = fd_close(p->alive);
}

void mcp_proc_reap(struct mcp_proc *p)
{
	mcp_proc_end(p);
	fd_close(p->pipe);
	while (p->pid > 0 && waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
		;
	buf_release(&p->in);
	*p = MCP_PROC_INIT;
}
