/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of `coffer ask ls`: queries the ask servers of all sandboxes at once, and prints their
 * questions as a table or as JSON lines. A sandbox whose server has exited is read from its files; one that
 * does not respond in time is named in a warning. Nothing here answers or changes a question.
 */
#include "cli/ask/ask_list.h"

#include "approval/list/granted.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/ask/ask_past.h"
#include "cli/common/ask_show.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "codec/term/termrows.h"
#include "policy/shorten.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AT_ONCE 200		      /* sandboxes queried at the same time */
#define LIST_WAIT (10 * NSEC_PER_SEC) /* deadline for one such batch */
#define FLUSH_AT (64u << 10)	      /* bytes of JSON collected before they are written */
#define SILENT_MAX 8		      /* sandboxes named in the warning */
#define WHAT_MAX 100		      /* bytes of a path or text, on a terminal wide enough for them */

/*
 * Bytes of an act to print. Without a terminal (cols 0) a program reads the line, and nothing is cut for
 * width.
 */
static size_t max_act_bytes(unsigned cols)
{
	return cols ? WHAT_MAX : ASK_PATH_MAX;
}

struct listing {
	const struct ask_list_opts *o;
	struct table t;
	struct buf out, silent;
	size_t n, n_silent;
	bool told; /* the run being read has sent its whole list */
};

static bool is_open_question(const json_t *ask)
{
	const char *s = jsonget_text(ask, "state");

	return str_eq(s, "pending") || str_eq(s, "granted") || str_eq(s, "parked");
}

void cli_ask_add_json(const json_t *ask, struct buf *out)
{
	char *text = json_dumps(ask, JSON_COMPACT | JSON_ENSURE_ASCII);

	buf_adds(out, text ? text : "{}");
	buf_addc(out, '\n');
	free(text);
}

static const char *time_of_day(const char *time)
{
	return strlen(time) > 19 ? time + 11 : "";
}

static int add_question_row(struct listing *l, const json_t *ask)
{
	autobuf struct buf act = BUF_INIT;
	char when[24];
	int r;

	cli_ask_act(ask, max_act_bytes((unsigned)l->t.width), &act);
	snprintf(when, sizeof(when), "%.8s", time_of_day(jsonget_text(ask, "asked")));
	r = table_add(&l->t, jsonget_text(ask, "id"), 0);
	r = r < 0 ? r : table_add(&l->t, jsonget_text(ask, "state"), 0);
	r = r < 0 ? r : table_add(&l->t, when, 0);
	r = r < 0 ? r : table_add(&l->t, jsonget_text(ask, "kind"), 0);
	return r < 0 ? r : table_add(&l->t, buf_cstr(&act), 0);
}

static int take_listed(void *ctx, json_t *ask)
{
	struct listing *l = ctx;
	int r = 0;

	if (!ask) {
		l->told = true;
		return 0;
	}
	if (!l->o->all && !is_open_question(ask))
		return 0;
	l->n++;
	if (!l->o->json)
		return add_question_row(l, ask);
	cli_ask_add_json(ask, &l->out);
	if (l->out.len >= FLUSH_AT) {
		r = say_out(&l->out) ? -EPIPE : 0;
		buf_clear(&l->out);
	}
	return r;
}

/*
 * Reads the list of one run. Returns 1 when its ask server exited before it sent anything: the grants that
 * remain in force are then in the run's files.
 */
static int read_run_questions(struct listing *l, struct askc *c, uint64_t end)
{
	struct err e = ERR_INIT;
	size_t before = l->n;
	int r = 0;

	l->told = false;
	while (r == 0 && !l->told) {
		uint64_t now = clock_nsec(CLOCK_MONOTONIC);
		struct pollfd p = { .fd = c->fd, .events = POLLIN };

		r = askc_follow_read(c, take_listed, l, &e);
		if (r < 0 || l->told)
			break;
		/* Data that has already arrived is read even after the deadline. */
		if (poll(&p, 1, end > now ? (int)((end - now) / NSEC_PER_MSEC) + 1 : 0) == 0)
			return -ETIMEDOUT;
	}
	if (r == -EPIPE || r == -ECONNRESET)
		return !l->told && l->n == before;
	return r;
}

static void note_silent(struct listing *l, const char *id)
{
	if (l->n_silent++ < SILENT_MAX)
		buf_addf(&l->silent, "%s%s", l->silent.len ? ", " : "", id);
}

struct asked {
	int fd; /* the run's directory */
	struct askc c;
};

static int list_batch_of_runs(struct state *st, struct listing *l, char *const *ids, size_t n, struct err *e)
{
	static struct asked v[AT_ONCE];
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + LIST_WAIT;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		struct err none = ERR_INIT;

		v[i] = (struct asked){ .c = ASKC_INIT };
		v[i].fd = openat(st->runs_fd, ids[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (v[i].fd >= 0 && askc_open(&v[i].c, v[i].fd, &none) == 0 &&
		    askc_follow_begin(&v[i].c, l->o->all, &none) < 0)
			askc_close(&v[i].c);
	}
	for (size_t i = 0; i < n; i++) {
		struct err none = ERR_INIT;
		int one = 1;

		if (r == 0 && v[i].c.fd >= 0)
			one = read_run_questions(l, &v[i].c, end);
		if (r == 0 && one == 1 && v[i].fd >= 0 && (l->o->all || granted_exists(v[i].fd)))
			one = askc_read_file(v[i].fd, ids[i], take_listed, l, &none);
		if (one == -ENOMEM || one == -EPIPE)
			r = err_sys(e, one, "cannot list the questions");
		else if (one < 0)
			note_silent(l, ids[i]);
		askc_close(&v[i].c);
		fd_close(v[i].fd);
	}
	return r;
}

static int list_all_runs(struct state *st, struct listing *l, struct err *e)
{
	static const char *const head[] = { "ID", "STATE", "ASKED", "KIND", "WHAT" };
	autostrv struct strv runs = STRV_INIT;
	bool more = false;
	int r = state_run_list(st, &runs, e);

	for (size_t i = 0; r == 0 && !l->o->json && i < ARRAY_SIZE(head); i++)
		r = table_add(&l->t, head[i], 0);
	/* Past questions first, so that the current ones are printed nearest to the prompt. */
	if (r == 0 && l->o->all)
		r = cli_ask_past(st, take_listed, l, &more, e);
	for (size_t i = 0; r == 0 && i < runs.n; i += AT_ONCE)
		r = list_batch_of_runs(st, l, runs.v + i, runs.n - i < AT_ONCE ? runs.n - i : AT_ONCE, e);
	if (r == 0 && !l->o->json && l->n)
		table_format(&l->t, &l->out);
	else if (r == 0 && !l->o->json && !l->n_silent)
		buf_adds(&l->out, l->o->all ? "nothing was asked\n" : "nothing waits for an answer\n");
	r = r < 0 ? r : say_out(&l->out);
	if (more)
		say_note("older questions of removed sandboxes are in the log: coffer audit --type ask");
	if (l->n_silent)
		say_warn("%zu sandbox%s did not respond and may have questions that wait: %s%s", l->n_silent,
			 l->n_silent == 1 ? "" : "es", buf_cstr(&l->silent),
			 l->n_silent > SILENT_MAX ? ", …" : "");
	return r;
}

int cli_ask_list(struct state *st, const struct ask_list_opts *o, struct err *e)
{
	struct listing l = { .o = o, .t = TABLE_INIT(5) };
	int r;

	/*
	 * Only the last column holds an agent's text; the width keeps it from running on into another row.
	 */
	l.t.width = cli_ask_line_cols(STDOUT_FILENO);
	r = list_all_runs(st, &l, e);

	table_release(&l.t);
	buf_release(&l.out);
	buf_release(&l.silent);
	return r;
}

/* --- one line for each change (ask ls --follow) ---------------------------------------------------- */

static enum say_color color_of_state(const char *state)
{
	if (str_eq(state, "pending"))
		return SAY_YELLOW;
	if (str_eq(state, "granted") || str_eq(state, "parked") || str_eq(state, "spent") ||
	    str_eq(state, "allowed"))
		return SAY_GREEN;
	return str_eq(state, "denied") ? SAY_RED : SAY_DIM;
}

void cli_ask_line(const json_t *ask, const char *state, bool color, unsigned cols, struct buf *out)
{
	const json_t *n = json_object_get(ask, "answer");
	const char *by = jsonget_text(n, "name");
	bool answered = json_is_object(n);
	autobuf struct buf head = BUF_INIT, who = BUF_INIT, act = BUF_INIT;
	char cell[24];
	size_t used;

	/* The agent's text comes last, so that it cannot imitate any of our own columns after it. */
	buf_addf(&head, "%.8s  %-10s ",
		 time_of_day(jsonget_text(answered ? n : ask, answered ? "at" : "asked")),
		 jsonget_text(ask, "id"));
	snprintf(cell, sizeof(cell), "%-8s", state);
	if (answered && *by) {
		buf_adds(&who, " by ");
		termrows_plain(&who, by, strlen(by) < 64 ? strlen(by) : 64);
	}
	buf_addf(&who, " %-8s ", jsonget_text(ask, "kind"));
	used = head.len + strlen(cell) + who.len;
	buf_add(out, buf_cstr(&head), head.len);
	say_add(out, color, color_of_state(state), cell);
	buf_add(out, buf_cstr(&who), who.len);
	cli_ask_act(ask, max_act_bytes(cols), &act);
	if (cols)
		shorten_text(buf_cstr(&act), used + 1 < cols ? cols - 1 - used : 0, "…", out);
	else
		buf_add(out, buf_cstr(&act), act.len);
	buf_addc(out, '\n');
}
