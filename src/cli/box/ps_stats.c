/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer ps --stats: the resource usage of live runs. On a terminal it is redrawn every second until a signal
 * comes. The changes to the terminal (hidden cursor, no line wrap) are undone on every way out, and before
 * the process stops for job control.
 */
#include "cli/box/ps_stats.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/common/look.h"
#include "cli/common/run_json.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "run/run.h"
#include "run/supervise/tty.h"
#include "run/supervise/usage.h"
#include "sandbox/state/state.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS 10
#define NAME_WIDTH 24
#define COMMAND_WIDTH 48

#define TERM_BEGIN "\033[?25l\033[?7l\033[2J"
#define TERM_END "\033[?7h\033[?25h"
#define TERM_HOME "\033[H"
#define TERM_LINE_END "\033[K\n"
#define TERM_REST "\033[J"

/* The processor time of a sandbox at the last look, and the time of that look in ns. */
struct seen_usage {
	char id[RUN_ID_LEN + 1];
	uint64_t at, cpu_usec;
};

struct usage_look {
	struct seen_usage *v;
	size_t n, room;
};

struct stats {
	struct state st;
	struct procs procs;
	struct usage_look now, before;
	struct table table;
	struct buf text;
	struct json json;
	const struct ps_stats_want *want;
};

static void stats_release(struct stats *s)
{
	state_release(&s->st);
	procs_release(&s->procs);
	table_release(&s->table);
	buf_release(&s->text);
	free(s->now.v);
	free(s->before.v);
}

static int remember_usage(struct usage_look *l, const char *id, const struct usage *u)
{
	struct seen_usage *x;

	if (VEC_ROOM(l->v, l->n, l->room, VEC_NO_MAX) < 0)
		return -ENOMEM;
	x = &l->v[l->n++];
	*x = (struct seen_usage){ .at = u->at, .cpu_usec = u->cpu_usec };
	snprintf(x->id, sizeof(x->id), "%s", id);
	return 0;
}

/* The processor share since the last look, or over the sandbox's life at the first, in tenths of a percent of
 * one processor; -1 if unknown. */
static int64_t cpu_share(const struct usage_look *before, const char *id, const struct usage *u)
{
	uint64_t cpu = u->cpu_usec, usec = u->uptime_usec;

	if (cpu == USAGE_UNKNOWN || usec == USAGE_UNKNOWN)
		return -1;
	for (size_t i = 0; i < before->n; i++) {
		const struct seen_usage *x = &before->v[i];

		if (!str_eq(x->id, id) || x->cpu_usec == USAGE_UNKNOWN || u->at <= x->at)
			continue;
		/* The sum may fall: a process that dies without being waited for takes its time with it. */
		cpu = cpu > x->cpu_usec ? cpu - x->cpu_usec : 0;
		usec = (u->at - x->at) / 1000;
		break;
	}
	return usec ? (int64_t)(cpu * 1000 / usec) : 0;
}

static void format_memory_cell(const struct usage *u, char out[48])
{
	char used[16], limit[16];

	if (u->memory == USAGE_UNKNOWN)
		snprintf(out, 48, "-");
	else if (u->memory_limit == USAGE_UNKNOWN)
		snprintf(out, 48, "%s", str_from_size(u->memory, used));
	else
		snprintf(out, 48, "%s / %s", str_from_size(u->memory, used),
			 str_from_size(u->memory_limit, limit));
}

static void format_pids_cell(const struct usage *u, char out[48])
{
	if (u->pids == USAGE_UNKNOWN)
		snprintf(out, 48, "-");
	else if (u->pids_limit == USAGE_UNKNOWN)
		snprintf(out, 48, "%llu", (unsigned long long)u->pids);
	else
		snprintf(out, 48, "%llu / %llu", (unsigned long long)u->pids,
			 (unsigned long long)u->pids_limit);
}

static const char *format_usec_span(uint64_t usec, char out[CLOCK_TEXT_LEN])
{
	return usec == USAGE_UNKNOWN ? "-" : clock_span(usec * 1000, out);
}

static int add_stats_row(struct stats *s, const struct run_meta *m, const struct usage *u)
{
	bool whole = s->want->no_trunc;
	char memory[48], pids[48], share[24] = "-", time[CLOCK_TEXT_LEN], up[CLOCK_TEXT_LEN];
	int64_t cpu = cpu_share(&s->before, m->id, u);
	const char *const cells[COLUMNS] = { m->id,
					     m->name ? m->name : "-",
					     m->engine ? m->engine : "-",
					     memory,
					     u->memory_from ? u->memory_from : "-",
					     share,
					     format_usec_span(u->cpu_usec, time),
					     pids,
					     format_usec_span(u->uptime_usec, up),
					     m->command ? m->command : "" };
	int r = 0;

	format_memory_cell(u, memory);
	format_pids_cell(u, pids);
	if (cpu >= 0)
		snprintf(share, sizeof(share), "%lld.%lld%%", (long long)(cpu / 10), (long long)(cpu % 10));
	for (size_t i = 0; r == 0 && i < COLUMNS; i++)
		r = table_add(&s->table, cells[i],
			      whole		 ? 0
			      : i == 1		 ? NAME_WIDTH
			      : i == COLUMNS - 1 ? COMMAND_WIDTH
						 : 0);
	return r;
}

static void add_stats_json(struct stats *s, const struct run_meta *m, const struct usage *u)
{
	struct json *j = &s->json;
	int64_t cpu = cpu_share(&s->before, m->id, u);

	json_obj(j, NULL);
	json_str(j, "id", m->id);
	json_str(j, "name", m->name);
	json_str(j, "engine", m->engine);
	cli_run_json_add_usage(j, u);
	json_str(j, "memory_from", u->memory_from);
	/* 1000 is one whole processor. */
	if (cpu < 0)
		json_none(j, "cpu_permille");
	else
		json_u64(j, "cpu_permille", (uint64_t)cpu);
	json_str(j, "command", m->command);
	json_end_obj(j);
}

static int add_run_stats(struct stats *s, const char *id, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	struct err why = ERR_INIT; /* most failures are tolerated, and must not be reported later */
	struct usage u;
	autoclose int fd = -1;
	bool alive = false;
	int r;

	fd = state_run_open(&s->st, id, &alive, &why);
	if (fd == -ENOENT) /* removed since the list was read */
		return 0;
	r = fd < 0 ? fd : 0;
	if (r == 0 && (!alive || !state_run_has_begun(fd)))
		return 0;
	if (r == 0)
		r = state_meta_read(fd, &m, &why);
	if (r < 0 && r != -ENOENT) {
		*e = why;
		return r;
	}
	snprintf(m.id, sizeof(m.id), "%s", id);
	if (s->want->filter && !cli_ps_filter_fits(s->want->filter, &m, alive))
		return 0;
	/* The run is just starting, just ending or stopped: it is listed without figures. All bits set is
	 * USAGE_UNKNOWN. */
	if (usage_read(fd, &s->procs, &u, &why) < 0) {
		memset(&u, 0xff, sizeof(u));
		u.memory_from = NULL;
	}
	r = remember_usage(&s->now, id, &u);
	if (r == 0 && s->want->json)
		add_stats_json(s, &m, &u);
	else if (r == 0)
		r = add_stats_row(s, &m, &u);
	return r < 0 ? err_set(e, r, "out of memory") : 0;
}

static bool is_named_run(const struct ps_stats_want *want, const char *id)
{
	size_t i = 0;

	if (!want->only)
		return true;
	while (i < want->only->n && !str_eq(want->only->v[i], id))
		i++;
	return i < want->only->n;
}

/* Collects the usage of all wanted runs into s->text, as a table or as JSON. */
static int collect_stats(struct stats *s, struct err *e)
{
	static const char *const heads[COLUMNS] = { "ID",  "NAME", "ENGINE", "MEMORY", "FROM",
						    "CPU", "TIME", "PIDS",   "UPTIME", "COMMAND" };
	autostrv struct strv ids = STRV_INIT;
	struct usage_look old = s->before;
	int r = 0;

	s->before = s->now;
	s->now = (struct usage_look){ .v = old.v, .room = old.room };
	procs_release(&s->procs);
	table_release(&s->table);
	s->table = TABLE_INIT(COLUMNS);
	buf_clear(&s->text);
	s->json = JSON_INIT(&s->text);
	if (s->want->json)
		json_arr(&s->json, NULL);
	for (size_t i = 0; r == 0 && i < COLUMNS; i++)
		r = table_add(&s->table, heads[i], 0);
	if (r == 0)
		r = state_run_list(&s->st, &ids, e);
	for (size_t i = 0; r == 0 && i < ids.n; i++) {
		if (is_named_run(s->want, ids.v[i]))
			r = add_run_stats(s, ids.v[i], e);
	}
	if (r < 0)
		return e->code ? r : err_set(e, r, "out of memory");
	if (s->want->json) {
		json_end_arr(&s->json);
		buf_addc(&s->text, '\n');
	} else {
		table_format(&s->table, &s->text);
	}
	return buf_error(&s->text) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static int write_terminal(const char *text)
{
	return fd_write_all(STDOUT_FILENO, text, strlen(text));
}

/* Draws as many lines as the terminal has rows. Line wrap is off, so the terminal cuts long lines itself. */
static int draw_stats(const struct stats *s)
{
	autobuf struct buf b = BUF_INIT;
	const char *line = s->text.data, *end = line + s->text.len;
	unsigned rows, cols;

	tty_size(STDOUT_FILENO, &rows, &cols);
	buf_adds(&b, TERM_HOME);
	for (unsigned i = 1; line < end && (i < rows || rows == 0); i++) {
		size_t n = strcspn(line, "\n");

		buf_add(&b, line, n);
		buf_adds(&b, TERM_LINE_END);
		line += n + 1;
	}
	buf_adds(&b, TERM_REST);
	return buf_error(&b) ? -ENOMEM : fd_write_all(STDOUT_FILENO, b.data, b.len);
}

/* Waits for a second. Returns the signal that ends the display, or 0. */
static int wait_second_or_signal(const sigset_t *set)
{
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + NSEC_PER_SEC;

	for (;;) {
		uint64_t now = clock_nsec(CLOCK_MONOTONIC), left = end > now ? end - now : 0;
		struct timespec t = { .tv_sec = (time_t)(left / NSEC_PER_SEC),
				      .tv_nsec = (long)(left % NSEC_PER_SEC) };
		int sig = sigtimedwait(set, NULL, &t);

		if (sig < 0 && errno == EINTR)
			continue;
		if (sig < 0 || sig == SIGWINCH)
			return 0;
		if (sig != SIGTSTP)
			return sig;
		(void)!write_terminal(TERM_END);
		raise(SIGSTOP);
		(void)!write_terminal(TERM_BEGIN);
		return 0;
	}
}

static void die_of_signal(int sig)
{
	sigset_t one;

	signal(sig, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
}

/* Redraws until a signal comes, which then has its default effect, or until the terminal is gone. */
static int show_stats_live(struct stats *s)
{
	static const int taken[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH };
	struct err e = ERR_INIT;
	sigset_t set, old;
	int sig = 0, r;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		sigaddset(&set, taken[i]);
	sigprocmask(SIG_BLOCK, &set, &old);
	r = write_terminal(TERM_BEGIN);
	while (r == 0 && sig == 0) {
		r = collect_stats(s, &e);
		if (r == 0)
			r = draw_stats(s);
		if (r == 0)
			sig = wait_second_or_signal(&set);
	}
	(void)!write_terminal(TERM_END);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (sig)
		die_of_signal(sig);
	return e.code ? say_error(&e) : EXIT_OURS;
}

static bool can_draw_live(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && *term && !str_eq(term, "dumb");
}

int cli_ps_stats(const struct ps_stats_want *want)
{
	CLEANUP(stats_release) struct stats s = { .st = STATE_INIT, .want = want };
	struct err e = ERR_INIT;
	int r = cli_look_open(&s.st, &e);

	if (r < 0)
		return say_error(&e);
	if (!want->once && !want->json && can_draw_live())
		return show_stats_live(&s);
	r = collect_stats(&s, &e);
	return r < 0 ? say_error(&e) : say_out(&s.text);
}
