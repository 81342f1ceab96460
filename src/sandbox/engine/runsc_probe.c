/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trying a runsc: its version, and a sandbox that is ended as soon as it is ready. See runsc_probe.h. The
 * sandbox must leave no files, and a runsc that hangs is not tried a second time.
 */
#include "sandbox/engine/runsc_probe.h"

#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/engine/engine.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define VERSION_MSEC 15000 /* a large program, on a machine that is busy */
#define PROBE_SECONDS 30   /* two hundred times what it takes; every run that names no engine waits for it */

/* Starts `runsc --version` with an empty environment and no descriptor of ours. Returns the reading end of its output. */
static int spawn_version_query(const struct runsc *r, struct spawned *ret, struct err *e)
{
	char *argv[] = { (char *)"runsc", (char *)"--version", NULL };
	int p[2], fds[] = { SPAWN_NULL, SPAWN_NULL, SPAWN_NULL }, got;
	const struct spawn s = { .name = r->path,
				 .exe = r->fd,
				 .argv = argv,
				 .fds = fds,
				 .n_fds = ARRAY_SIZE(fds),
				 .flags = SPAWN_SAME_ID };

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot start %s", r->path);
	fds[1] = p[1];
	got = spawn_start(&s, ret, e);
	fd_close(p[1]);
	if (got < 0)
		fd_close(p[0]);
	return got < 0 ? got : p[0];
}

/* The word after "runsc version", which is shown to the user: other characters than these are not accepted. */
static int parse_version(struct runsc *r, const char *text)
{
	static const char lead[] = "runsc version ";
	size_t n;

	if (!str_starts(text, lead))
		return -EPROTO;
	text += sizeof(lead) - 1;
	n = strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.~+-_");
	if (n == 0 || n >= sizeof(r->version))
		return -EPROTO;
	memcpy(r->version, text, n);
	r->version[n] = '\0';
	return 0;
}

static int query_version(struct runsc *r, struct err *e)
{
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + VERSION_MSEC * NSEC_PER_MSEC;
	char text[256] = "";
	size_t len = 0;
	struct spawned runsc = SPAWNED_INIT;
	autoclose int fd = spawn_version_query(r, &runsc, e);
	ssize_t n = -1;

	if (fd < 0)
		return fd;
	while (len < sizeof(text) - 1) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_nsec(CLOCK_MONOTONIC);

		if (now >= end || (poll(&p, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) < 0 && errno != EINTR))
			break;
		if (!p.revents)
			continue;
		n = read(fd, text + len, sizeof(text) - 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	kill(runsc.pid, SIGKILL);
	(void)spawn_wait(&runsc);
	if (len == 0 && n != 0)
		return err_set(e, -ETIMEDOUT, "%s --version does not respond", r->path);
	text[len] = '\0';
	return parse_version(r, text) < 0
		       ? err_set(e, -EPROTO, "%s --version does not print a version of runsc", r->path)
		       : 0;
}

/* A sandbox with an empty read-only workspace, as root inside: it needs no range of ids and leaves no files. */
static int fill_probe_spec(struct spec *s, const struct runsc *r, struct state *st, enum net_mode net,
			   bool hostnet, struct err *e)
{
	int ret = state_new_id(s->id, e);

	if (ret < 0)
		return ret;
	limits_defaults(&s->limits);
	s->hostname = strdup("probe");
	s->ws_mode = WS_RO;
	s->patience = PROBE_SECONDS;
	s->net = net;
	s->gv_hostnet = hostnet;
	if (asprintf(&s->ws_path, "%s/empty", st->path) < 0)
		s->ws_path = NULL;
	if (!s->hostname || !s->ws_path)
		return err_set(e, -ENOMEM, "out of memory");
	ret = fd_mkdir_p(st->fd, "empty", 0755);
	if (ret == 0)
		ret = s->ws_fd = openat(st->fd, "empty", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ret < 0)
		return err_sys(e, ret == -1 ? -errno : ret, "cannot make %s", s->ws_path);
	s->runsc_fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 3);
	if (s->runsc_fd < 0)
		return err_sys(e, -errno, "cannot keep %s open", r->path);
	return ids_plan(&s->ids, st, s->id, 0, 0, false, e);
}

/* Starts a whole sandbox with it, and ends that as soon as it is ready. */
static int start_and_drop(const struct runsc *r, struct state *st, enum net_mode net, bool hostnet,
			  struct err *e)
{
	CLEANUP(spec_release) struct spec s = SPEC_INIT;
	struct engine_run run = ENGINE_RUN_INIT;
	struct cgroup cg = CGROUP_INIT;
	int ret = fill_probe_spec(&s, r, st, net, hostnet, e);

	if (ret == 0)
		ret = engine_gvisor.spawn(&s, &cg, &run, e);
	if (ret == 0)
		ret = engine_gvisor.release(&s, &cg, &run, e);
	if (ret == 0)
		ret = engine_gvisor.wait_ready(&s, &run, e);
	engine_drop(&run);
	return ret;
}

/*
 * Tries it with its own network stack, else with the kernel's. Where neither works the reason may be the network as such: then
 * it only has to work without one, and a run with a network gets the error. A hang is not tried again: every run waits for it.
 */
static int try_networks(struct runsc *r, struct state *st, struct err *e)
{
	struct err again = ERR_INIT;
	int ret = start_and_drop(r, st, NET_ENFORCE, false, e);

	if (ret == 0 || ret == -ETIMEDOUT)
		return ret;
	if (start_and_drop(r, st, NET_ENFORCE, true, &again) < 0)
		return start_and_drop(r, st, NET_NONE, false, &again) < 0 ? ret : 0;
	snprintf(r->hostnet, sizeof(r->hostnet), "%.255s", e->msg);
	return 0;
}

int runsc_probe(struct runsc *r, struct state *st, struct err *e)
{
	int ret = query_version(r, e);

	if (ret == 0)
		ret = try_networks(r, st, e);
	if (ret < 0)
		return r->version[0] ? err_wrap(e, ret, "%s, version %s", r->path, r->version) : ret;
	*e = ERR_INIT;
	return 0;
}
