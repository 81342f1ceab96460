/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine gvisor, the launcher's side: the namespaces of engine ns, with runsc in them and coffer-init in gVisor's kernel.
 *
 * It is ready once coffer-init has sent its greeting from inside gVisor. A runsc that dies first is an error with the
 * first line of its log; one that sends nothing for too long is an error too.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/engine/engine_ns.h"
#include "sandbox/engine/gv_config.h"
#include "sandbox/engine/gv_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define GREETING_SECONDS 60 /* for a runsc that is known to work, on a machine that is busy */
#define LOG_KEEP 8192

/* Reads all of the log that has come so far, and keeps its beginning, which is all that is shown. */
static void drain_runsc_log(int fd, struct buf *log)
{
	char chunk[4096];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		if (log->len < LOG_KEEP)
			buf_add(log, chunk, (size_t)n);
	}
}

/* Where the message begins in a line of the log, which is JSON or has the time and a place in the source first. */
static const char *skip_log_prefix(const char *line, const char **end)
{
	static const char key[] = "{\"msg\":\"";
	size_t n = (size_t)(*end - line);
	const char *p;

	if (n > sizeof(key) && memcmp(line, key, sizeof(key) - 1) == 0) {
		line += sizeof(key) - 1;
		p = memmem(line, (size_t)(*end - line), "\",\"level\":", 10);
		*end = p ? p : *end;
		return line;
	}
	p = memmem(line, n, "] ", 2);
	return p ? p + 2 : line;
}

/* The first line of the log names the first failure; the others are its consequences. */
static void first_log_line(const struct buf *log, char *out, size_t cap)
{
	const char *line = log->data, *end;

	snprintf(out, cap, "it printed nothing");
	if (!log->len)
		return;
	end = memchr(line, '\n', log->len);
	end = end ? end : line + log->len;
	line = skip_log_prefix(line, &end);
	if (end > line) {
		autofree char *copy = strndup(line, end - line < 400 ? (size_t)(end - line) : 400);

		if (copy)
			str_safe(copy, out, cap);
	}
}

/* Waits for coffer-init's greeting, and leaves it in the stream for supervise(). */
static int wait_greeting(const struct engine_run *run, unsigned seconds, struct err *e)
{
	autobuf struct buf log = BUF_INIT;
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + seconds * NSEC_PER_SEC;
	struct pollfd p[] = { { .fd = run->stream, .events = POLLIN },
			      { .fd = run->pidfd, .events = POLLIN },
			      { .fd = run->log, .events = POLLIN } };
	char line[256], c;

	for (;;) {
		uint64_t now = clock_nsec(CLOCK_MONOTONIC);
		int n = now >= end ? 0 : poll(p, ARRAY_SIZE(p), (int)((end - now) / NSEC_PER_MSEC) + 1);

		if (n < 0 && errno != EINTR)
			return err_sys(e, -errno, "cannot wait for runsc");
		if (p[2].revents)
			drain_runsc_log(run->log, &log);
		if (p[2].revents & (POLLHUP | POLLERR))
			p[2].fd = -1;
		if (n == 0)
			return err_set(e, -ETIMEDOUT, "runsc did not start the sandbox within %u seconds",
				       seconds);
		if (p[0].revents & POLLIN && recv(run->stream, &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
			return 0;
		if (p[0].revents || p[1].revents)
			break;
	}
	drain_runsc_log(run->log, &log);
	first_log_line(&log, line, sizeof(line));
	return err_set(e, -EIO, "runsc could not start the sandbox: %s", line);
}

static int gvisor_check(const struct spec *s, struct err *e)
{
	int r;

	if (!s->ids.range && s->uid != 0) {
		r = err_set(e, -EINVAL, "engine gvisor needs a range of ids to run a command as user %u",
			    s->uid);
		return err_hint(e, r,
				"--map-ids uses your subordinate ids, or --user 0 is your own user outside");
	}
	/* Without direct access to files runsc wants a second user id, for gVisor's kernel. */
	if (!s->ids.range && !gv_directfs(s)) {
		r = err_set(e, -E2BIG,
			    "engine gvisor cannot hide %zu files of the workspace with a single id",
			    s->n_masks);
		return err_hint(e, r,
				"--map-ids uses your subordinate ids; or --engine ns, or another directory");
	}
	return 0;
}

static int gvisor_spawn(const struct spec *s, struct cgroup *cg, struct engine_run *run, struct err *e)
{
	struct gv_start gv = { .runsc_fd = s->runsc_fd };
	int log[2], r = gvisor_check(s, e);

	if (r < 0)
		return r;
	if (pipe2(log, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	run->log = log[0];
	gv.log_fd = log[1];
	/* runsc opens the pipe again by its number, as a user that owns nothing here: for the output of a Go panic. */
	r = fchmod(log[1], 0602) < 0 ? err_sys(e, -errno, "cannot prepare a pipe") : 0;
	if (r == 0)
		r = fd_set_nonblock(run->log, true);
	if (r == 0)
		r = ns_spawn_with(s, cg, &gv, run, e);
	fd_close(log[1]);
	return r;
}

static int gvisor_wait_ready(const struct spec *s, struct engine_run *run, struct err *e)
{
	struct layers *l = &run->layers;
	bool idmapped = l->idmapped;
	int r = ns_wait_exec(s, run, e);

	if (r == 0)
		r = wait_greeting(run, s->patience ? s->patience : GREETING_SECONDS, e);
	if (r < 0)
		return r;
	*l = (struct layers){ .engine = "gvisor", .idmapped = idmapped };
	l->userns = l->pidns = l->mountns = l->netns = l->ipcns = l->utsns = true;
	l->seccomp = l->no_new_privs = l->caps_dropped = true;
	l->outside_uid = ids_outside_uid(&s->ids);
	l->mapped_ids = s->ids.range ? IDS_BLOCK : 1;
	l->rlimit_pids = "gvisor";
	l->landlock_off = l->cgroupns_off = l->timens_off =
		"the command runs on gVisor's kernel, not on the host's";
	return 0;
}

const struct engine engine_gvisor = {
	.name = "gvisor", .spawn = gvisor_spawn, .release = ns_release, .wait_ready = gvisor_wait_ready
};
