/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer logs: what a detached sandbox printed. On a terminal its escape sequences are made harmless; into a pipe or a
 * file it goes as it came.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/ref.h"
#include "cli/say.h"
#include "cli/verb.h"
#include "codec/termsafe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

enum { OPT_FOLLOW = 1, OPT_TAIL, OPT_ENGINE };

#define CHUNK (64u << 10)
#define FOLLOW_PAUSE_NS 100000000L

static const struct opt logs_opts[] = {
	{ "follow", 'f', NULL, "go on until the sandbox ends", OPT_FOLLOW },
	{ "tail", 'n', "LINES", "only the last lines", OPT_TAIL },
	{ "engine", 0, NULL, "what the engine's own programs (runsc) said", OPT_ENGINE },
};

struct logs {
	int fd;
	bool safe; /* towards a terminal */
	struct termsafe filter;
};

static int put(struct logs *l, const char *data, size_t len)
{
	autobuf struct buf out = BUF_INIT;

	if (!l->safe)
		return fd_write_all(1, data, len);
	termsafe_feed(&l->filter, &out, data, len);
	return buf_error(&out) ? buf_error(&out) : fd_write_all(1, out.data, out.len);
}

/* Everything from here to the present end of the file. */
static int copy_rest(struct logs *l)
{
	static char data[CHUNK];

	for (;;) {
		ssize_t n = read(l->fd, data, sizeof(data));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = put(l, data, (size_t)n);
		if (r < 0)
			return r;
	}
}

/* Newlines in data[0, n) from its end: the offset behind the `*left`-th, or -1 with *left less by what there were. */
static ssize_t find_newline(const char *data, ssize_t n, uint64_t *left)
{
	while (n-- > 0) {
		if (data[n] == '\n' && --*left == 0)
			return n + 1;
	}
	return -1;
}

/* Puts the file's offset where the last `lines` lines begin. */
static int seek_tail(int fd, uint64_t lines)
{
	static char data[CHUNK];
	struct stat st;
	off_t pos;

	if (fstat(fd, &st) < 0)
		return -errno;
	pos = st.st_size;
	if (!lines)
		return lseek(fd, pos, SEEK_SET) < 0 ? -errno : 0;
	/* The newline at the very end closes the last line and begins none. */
	if (pos && pread(fd, data, 1, pos - 1) == 1 && data[0] == '\n')
		lines++;
	while (pos > 0) {
		size_t want = pos < (off_t)CHUNK ? (size_t)pos : CHUNK;
		ssize_t n = pread(fd, data, want, pos - (off_t)want), at;

		if (n < 0)
			return -errno;
		at = find_newline(data, n, &lines);
		if (at >= 0) {
			pos = pos - (off_t)want + at;
			break;
		}
		pos -= (off_t)want;
	}
	return lseek(fd, pos, SEEK_SET) < 0 ? -errno : 0;
}

static int follow(struct logs *l, struct ref *ref)
{
	const struct timespec pause = { .tv_nsec = FOLLOW_PAUSE_NS };
	bool alive = true;
	int r = 0;

	while (r == 0 && alive) {
		int fd;

		nanosleep(&pause, NULL);
		/* First whether it lives, then what it wrote: nothing comes behind a last look. */
		fd = state_run_open(&ref->st, ref->id, &alive, NULL);
		alive = fd >= 0 && alive;
		fd_close(fd);
		r = copy_rest(l);
	}
	return r;
}

static int open_log(struct ref *ref, const char *text, bool engine, struct err *e)
{
	int fd = openat(ref->run_fd, engine ? "engine.log" : "output.log", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 && errno == ENOENT && engine)
		return err_set(e, -ENOENT,
			       "the engine of sandbox %s keeps no log: it has no programs of its own", text);
	if (fd < 0 && errno == ENOENT) {
		err_set(e, -ENOENT, "sandbox %s has no log", text);
		return err_hint(e, -ENOENT, "only detached sandboxes (coffer run -d) keep what they print");
	}
	return fd < 0 ? err_sys(e, -errno, "cannot open the log of %s", text) : fd;
}

static int show(const char *text, bool engine, bool want_follow, uint64_t tail, struct err *e)
{
	autoref struct ref ref = REF_INIT;
	autobuf struct buf rest = BUF_INIT;
	struct logs l = { .safe = isatty(1) };
	autoclose int fd = -1;
	int r = ref_open(&ref, text, e);

	if (r == -ENOENT && str_eq(text, "@last") && !engine)
		return err_hint(e, r, "coffer run -d: only a detached sandbox keeps what it prints");
	if (r < 0)
		return r;
	fd = l.fd = open_log(&ref, text, engine, e);
	if (fd < 0)
		return fd;
	if (tail != UINT64_MAX)
		r = seek_tail(fd, tail);
	if (r == 0)
		r = copy_rest(&l);
	if (r == 0 && want_follow)
		r = follow(&l, &ref);
	termsafe_finish(&l.filter, &rest);
	if (r == 0 && rest.len)
		r = fd_write_all(1, rest.data, rest.len);
	return r < 0 ? err_sys(e, r, "cannot show the log of %s", text) : 0;
}

static int cmd_logs(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, logs_opts, ARRAY_SIZE(logs_opts));
	uint64_t tail = UINT64_MAX;
	bool want_follow = false, engine = false;
	struct err e = ERR_INIT;
	const char *value;
	int id, r;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_logs);
		if (id == OPT_FOLLOW)
			want_follow = true;
		else if (id == OPT_ENGINE)
			engine = true;
		else if (!str_eq(value, "all") && str_to_u64(value, &tail) < 0)
			id = err_set(&e, -EINVAL, "'%.100s' is no number of lines", value);
		if (id < 0)
			break;
	}
	if (id == 0 && p.index + 1 != p.argc)
		id = err_set(&e, -EINVAL, "logs needs one sandbox: its name, id or @last");
	if (id < 0)
		return say_usage(&verb_logs, &e);
	signal(SIGPIPE, SIG_IGN);
	r = show(p.argv[p.index], engine, want_follow, tail, &e);
	/* As a program that SIGPIPE ended: whoever read has seen enough. */
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
	.text = "Shows the stdout and stderr of the command that *coffer run -d* started, also after it has ended, until the run "
		"is removed. On a terminal, colours pass and other escape sequences are made visible instead of being obeyed; "
		"into a pipe or file everything goes as it came. The log is capped by the run's *--output-limit*.\n"
		"\n"
		"With *--engine* it is what runsc had to say, on engine gvisor; capped at 1 MiB.",
	.examples = "coffer logs -f web\n"
		    "\t# and what comes\n"
		    "coffer logs -n 20 @last\n"
		    "\t# the last 20 lines\n",
	.args = "sandbox",
};
