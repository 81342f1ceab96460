/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer logs: shows the output of a detached sandbox. On a terminal, escape sequences in it are made visible
 * instead of being obeyed; into a pipe or a file the bytes are written unchanged. No sequence but a colour
 * may reach a terminal as it is.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/box/logs_part.h"
#include "cli/core/ref.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "codec/term/termsafe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { OPT_FOLLOW = 1, OPT_TAIL, OPT_SINCE, OPT_UNTIL, OPT_TIMESTAMPS, OPT_ENGINE };

#define CHUNK (64u << 10)
#define FOLLOW_PAUSE_NS 100000000L

static const struct opt logs_opts[] = {
	{ "follow", 'f', NULL, "keep printing until the sandbox ends", OPT_FOLLOW },
	{ "tail", 'n', "LINES", "print only the last lines", OPT_TAIL },
	{ "since", 0, "TIME", "only lines since this time or age", OPT_SINCE },
	{ "until", 0, "TIME", "only lines until this time or age", OPT_UNTIL },
	{ "timestamps", 't', NULL, "print the time before each line", OPT_TIMESTAMPS },
	{ "engine", 0, NULL, "show the output of the engine's own programs (runsc)", OPT_ENGINE },
};

struct logs {
	int fd, run_fd;
	bool safe; /* escape the output, because it goes to a terminal */
	struct termsafe filter;
	bool stamp;  /* print the time before each line */
	bool inside; /* the last byte written was not the end of a line */
	uint64_t pos, to;
	struct logtimes_list times;
	uint64_t covered; /* bytes of the log whose records are in `times` */
};

static void logs_release(struct logs *l)
{
	logtimes_list_release(&l->times);
	fd_close(l->fd);
}

/* The launcher writes the time record of a line before the line itself, so all bytes that are there now have
 * one. */
static int load_line_times(struct logs *l, struct err *e)
{
	struct stat st;

	if (fstat(l->fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at the log");
	l->covered = (uint64_t)st.st_size;
	return logtimes_read(&l->times, l->run_fd, e);
}

static void add_log_text(struct logs *l, struct buf *out, const char *data, size_t len)
{
	if (l->safe)
		termsafe_feed(&l->filter, out, data, len);
	else
		buf_add(out, data, len);
}

static void add_line_time(const struct logs *l, struct buf *out)
{
	const struct logtime *t = logtimes_of(&l->times, l->pos);
	char text[CLOCK_TEXT_LEN];

	buf_addf(out, "%s ", t ? clock_format(t->time, text) : "-");
}

static int write_log_part(struct logs *l, const char *data, size_t len)
{
	autobuf struct buf out = BUF_INIT;

	if (!l->safe && !l->stamp) {
		l->pos += len;
		return fd_write_all(1, data, len);
	}
	while (len) {
		const char *nl = l->stamp ? memchr(data, '\n', len) : NULL;
		size_t n = nl ? (size_t)(nl - data) + 1 : len;

		if (l->stamp && !l->inside)
			add_line_time(l, &out);
		l->inside = !nl;
		add_log_text(l, &out, data, n);
		l->pos += n;
		data += n;
		len -= n;
	}
	return buf_error(&out) ? buf_error(&out) : fd_write_all(1, out.data, out.len);
}

/* Writes everything up to the present end of the file, or to the end of the wanted part. */
static int copy_to_end(struct logs *l)
{
	static char data[CHUNK];
	struct err e = ERR_INIT;

	for (;;) {
		size_t want = l->to - l->pos < sizeof(data) ? (size_t)(l->to - l->pos) : sizeof(data);
		ssize_t n = want ? pread(l->fd, data, want, (off_t)l->pos) : 0;
		int r = 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		if (l->stamp && l->pos + (uint64_t)n > l->covered)
			r = load_line_times(l, &e);
		r = r < 0 ? r : write_log_part(l, data, (size_t)n);
		if (r < 0)
			return r;
	}
}

static int follow_log(struct logs *l, struct ref *ref)
{
	const struct timespec pause = { .tv_nsec = FOLLOW_PAUSE_NS };
	bool alive = true;
	int r = 0;

	while (r == 0 && alive) {
		int fd;

		nanosleep(&pause, NULL);
		/* Check first whether the sandbox is alive, then copy: nothing is written after it has
		 * ended. */
		fd = state_run_open(&ref->st, ref->id, &alive, NULL);
		alive = fd >= 0 && alive;
		fd_close(fd);
		r = copy_to_end(l);
	}
	return r;
}

static int open_run_log(struct ref *ref, const char *text, bool engine, struct err *e)
{
	int fd = openat(ref->run_fd, engine ? "engine.log" : "output.log", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 && errno == ENOENT && engine)
		return err_set(
			e, -ENOENT,
			"sandbox %s has no engine log: only engine gvisor runs a program that writes one",
			text);
	if (fd < 0 && errno == ENOENT) {
		err_set(e, -ENOENT, "sandbox %s has no log", text);
		return err_hint(e, -ENOENT, "only detached sandboxes (coffer run -d) keep what they print");
	}
	return fd < 0 ? err_sys(e, -errno, "cannot open the log of %s", text) : fd;
}

struct logs_want {
	bool follow, engine, stamp;
	struct logs_part part;
};

/* Sets the begin and the end of the part to show. */
static int find_wanted_part(struct logs *l, const struct logs_want *w, const char *text, struct err *e)
{
	bool unknown = false;
	int r = 0;

	if (w->stamp || w->part.has_since || w->part.has_until)
		r = load_line_times(l, e);
	if (r < 0)
		return r;
	r = cli_logs_part_find(l->fd, &l->times, &w->part, &l->pos, &l->to, &unknown);
	if (r < 0)
		return err_sys(e, r, "cannot read the log of %s", text);
	if (unknown)
		say_warn(
			"for a part of the log of %s no times were kept: lines of that part are shown whatever their time",
			text);
	return 0;
}

static int show_log(const char *text, const struct logs_want *w, struct err *e)
{
	autoref struct ref ref = REF_INIT;
	autobuf struct buf rest = BUF_INIT;
	CLEANUP(logs_release) struct logs l = { .fd = -1, .safe = isatty(1), .stamp = w->stamp };
	int r = ref_open(&ref, text, e);

	if (r == -ENOENT && str_eq(text, "@last") && !w->engine)
		return err_hint(e, r, "coffer run -d: only a detached sandbox keeps what it prints");
	if (r < 0)
		return r;
	l.run_fd = ref.run_fd;
	l.fd = open_run_log(&ref, text, w->engine, e);
	if (l.fd < 0)
		return l.fd;
	r = find_wanted_part(&l, w, text, e);
	if (r < 0)
		return r;
	r = copy_to_end(&l);
	if (r == 0 && w->follow)
		r = follow_log(&l, &ref);
	termsafe_finish(&l.filter, &rest);
	if (r == 0 && rest.len)
		r = fd_write_all(1, rest.data, rest.len);
	return r < 0 ? err_sys(e, r, "cannot show the log of %s", text) : 0;
}

static int take_time_option(const char *option, const char *value, bool *has, uint64_t *ret, struct err *e)
{
	*has = true;
	return opt_time(option, value, ret, e);
}

static int take_logs_option(struct logs_want *w, int id, const char *value, struct err *e)
{
	switch (id) {
	case OPT_FOLLOW:
		w->follow = true;
		return 0;
	case OPT_ENGINE:
		w->engine = true;
		return 0;
	case OPT_TIMESTAMPS:
		w->stamp = true;
		return 0;
	case OPT_SINCE:
		return take_time_option("--since", value, &w->part.has_since, &w->part.since, e);
	case OPT_UNTIL:
		return take_time_option("--until", value, &w->part.has_until, &w->part.until, e);
	default:
		if (!str_eq(value, "all") && str_to_u64(value, &w->part.tail) < 0)
			return err_set(e, -EINVAL, "'%.100s' is not a number of lines", value);
		return 0;
	}
}

static int check_logs_want(const struct logs_want *w, struct err *e)
{
	if (w->engine && (w->stamp || w->part.has_since || w->part.has_until)) {
		err_set(e, -EINVAL, "coffer stores no times for the engine's log");
		return err_hint(e, -EINVAL,
				"leave out --timestamps, --since and --until: runsc writes times of its own");
	}
	if (w->follow && w->part.has_until)
		return err_set(
			e, -EINVAL,
			"--until and --follow exclude each other: --follow shows what is printed from now on");
	return 0;
}

static int cmd_logs(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, logs_opts, ARRAY_SIZE(logs_opts));
	struct logs_want w = { .part.tail = UINT64_MAX };
	struct err e = ERR_INIT;
	const char *value;
	int id, r;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_logs);
		r = take_logs_option(&w, id, value, &e);
		if (r < 0)
			return say_usage(&verb_logs, &e);
	}
	if (id == 0 && p.index + 1 != p.argc)
		id = err_set(&e, -EINVAL, "logs needs one sandbox: its name, id or @last");
	if (id == 0)
		id = check_logs_want(&w, &e);
	if (id < 0)
		return say_usage(&verb_logs, &e);
	signal(SIGPIPE, SIG_IGN);
	r = show_log(p.argv[p.index], &w, &e);
	/* The reader closed the pipe: exit like a program that SIGPIPE ended. */
	if (r == -EPIPE)
		return 128 + SIGPIPE;
	return r < 0 ? say_error(&e) : 0;
}

const struct verb verb_logs = {
	.name = "logs",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS] REF",
	.help = "show what a detached sandbox printed",
	.opts = logs_opts,
	.n_opts = ARRAY_SIZE(logs_opts),
	.run = cmd_logs,
	.text = "Shows the stdout and stderr of the command that *coffer run -d* started, also after "
		"it has ended, until the run is removed. On a terminal, colours are kept and other "
		"escape sequences are shown as text; a pipe or file gets the output unchanged. The "
		"size of the log is limited by the run's *--output-limit*.\n"
		"\n"
		"*--since* and *--until* take a time (2026-01-31T12:00:00Z, or a date, in UTC) or an "
		"age (*90s*, *2h*, *3d*). *-t* prints the time, in UTC, before each line. The time of "
		"a line is when its first byte arrived, in milliseconds. In a log with very many lines "
		"the times of older lines are coarser: an older line has the time of a line before it. "
		"Lines without a recorded time have *-*, and *--since* and *--until* always show them. "
		"The output of *coffer exec* is not in the log.\n"
		"\n"
		"*--engine* shows the output of runsc, on engine gvisor, up to 1 MiB.",
	.examples = "coffer logs -f web\n"
		    "\t# and follow new output\n"
		    "coffer logs -n 20 web\n"
		    "\t# the last 20 lines\n"
		    "coffer logs -t --since 10m web\n"
		    "\t# the output of the last ten minutes, with times\n",
	.args = "sandbox",
};
