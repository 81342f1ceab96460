/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gVisor engine, from outside: the namespaces of engine ns, with runsc in them and coffer-init in that.
 *
 * runsc is handed over to once it runs: when this returns success coffer-init has greeted us from inside gVisor's
 * kernel. A runsc that dies first, or that does nothing for too long, is an error with its own words.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/engine/engine.h"
#include "sandbox/engine/gv_config.h"
#include "sandbox/engine/gv_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PATIENCE 60 /* one that is known to work, on a machine that does many other things */
#define LOG_KEEP 8192

/* What runsc has said so far; only its beginning matters. */
static void read_log(int fd, struct buf *log)
{
	char chunk[4096];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		if (log->len < LOG_KEEP)
			buf_add(log, chunk, (size_t)n);
	}
}

/* The message in a line of its log, which is JSON or has the time and a place in the source before it. */
static const char *skip_prefix(const char *line, const char **end)
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

/* Its first line: what went wrong first; the others are about what came of that. */
static void first_words(const struct buf *log, char *out, size_t cap)
{
	const char *line = log->data, *end;

	snprintf(out, cap, "it said nothing");
	if (!log->len)
		return;
	end = memchr(line, '\n', log->len);
	end = end ? end : line + log->len;
	line = skip_prefix(line, &end);
	if (end > line) {
		autofree char *copy = strndup(line, end - line < 400 ? (size_t)(end - line) : 400);

		if (copy)
			str_safe(copy, out, cap);
	}
}

/* Waits for coffer-init's greeting, which stays in the stream. */
static int wait_greeting(const struct engine_run *run, unsigned seconds, struct err *e)
{
	autobuf struct buf log = BUF_INIT;
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + seconds * NSEC_PER_SEC;
	struct pollfd p[] = { { .fd = run->stream, .events = POLLIN },
			      { .fd = run->pidfd, .events = POLLIN },
			      { .fd = run->log, .events = POLLIN } };
	char words[256], c;

	for (;;) {
		uint64_t now = clock_nsec(CLOCK_MONOTONIC);
		int n = now >= end ? 0 : poll(p, ARRAY_SIZE(p), (int)((end - now) / NSEC_PER_MSEC) + 1);

		if (n < 0 && errno != EINTR)
			return err_sys(e, -errno, "cannot wait for runsc");
		if (p[2].revents)
			read_log(run->log, &log);
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
	read_log(run->log, &log);
	first_words(&log, words, sizeof(words));
	return err_set(e, -EIO, "runsc could not start the sandbox: %s", words);
}

static void fill_layers(const struct spec *s, struct layers *l)
{
	*l = (struct layers){ .engine = "gvisor" };
	l->userns = l->pidns = l->mountns = l->netns = l->ipcns = l->utsns = true;
	l->seccomp = l->no_new_privs = l->caps_dropped = true;
	l->outside_uid = ids_outside_uid(&s->ids);
	l->mapped_ids = s->ids.range ? IDS_BLOCK : 1;
	l->rlimit_pids = "gvisor";
	l->landlock_off = l->cgroupns_off = l->timens_off = "gVisor's kernel stands before the host's";
}

static void end_run(struct engine_run *run)
{
	kill(run->pid, SIGKILL);
	while (waitpid(run->pid, NULL, 0) < 0 && errno == EINTR)
		;
	fd_close(run->stream);
	fd_close(run->pidfd);
	fd_close(run->log);
	wall_release(&run->wall);
	fd_close(run->ca_later[0]);
	fd_close(run->ca_later[1]);
}

static int gvisor_start(const struct spec *s, struct cgroup *cg, const struct engine_meanwhile *m,
			struct engine_run *ret, struct err *e)
{
	struct engine_run run = ENGINE_RUN_INIT;
	struct gv_start gv = { .runsc_fd = s->runsc_fd };
	bool idmapped;
	int log[2], r;

	if (!s->ids.range && s->uid != 0) {
		r = err_set(e, -EINVAL, "engine gvisor needs a range of ids to run a command as user %u",
			    s->uid);
		return err_hint(e, r,
				"--map-ids uses your subordinate ids, or --user 0 is your own user outside");
	}
	/* Without it runsc wants a user of its own for gVisor's kernel. */
	if (!s->ids.range && !gv_directfs(s)) {
		r = err_set(e, -E2BIG,
			    "engine gvisor cannot hide %zu files of the workspace with a single id",
			    s->n_masks);
		return err_hint(e, r,
				"--map-ids uses your subordinate ids; or --engine ns, or another directory");
	}
	if (pipe2(log, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	/* runsc opens it once more, by its number, as a user who is nobody here: for what Go says when it gives up. */
	if (fchmod(log[1], 0602) < 0) {
		r = err_sys(e, -errno, "cannot prepare a pipe");
		fd_close(log[0]);
		fd_close(log[1]);
		return r;
	}
	gv.log_fd = log[1];
	r = ns_start_with(s, cg, m, &gv, &run, e);
	fd_close(log[1]);
	if (r < 0) {
		fd_close(log[0]);
		return r;
	}
	run.log = log[0];
	idmapped = run.layers.idmapped;
	r = fd_set_nonblock(run.log, true);
	if (r == 0)
		r = wait_greeting(&run, s->patience ? s->patience : PATIENCE, e);
	if (r < 0) {
		end_run(&run);
		return r;
	}
	fill_layers(s, &run.layers);
	run.layers.idmapped = idmapped;
	*ret = run;
	return 0;
}

const struct engine engine_gvisor = { .name = "gvisor", .start = gvisor_start };
