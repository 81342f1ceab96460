/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of `coffer approve` and `coffer deny` before an answer is sent: the question is found by its id,
 * shown in full on the terminal and confirmed; for --always, the policy file is edited. A text that could not
 * be shown completely is never answered.
 */
#include "cli/common/approve_how.h"

#include "always/always.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/common/ask_show.h"
#include "cli/core/say.h"
#include "codec/term/termrows.h"
#include "run/supervise/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

#define TRIES 5 /* at editing a policy file that another process edits at the same time */
#define IDS_SHOWN 8

bool cli_approve_can_confirm(void)
{
	return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

int cli_approve_confirm(const char *question, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	char answer[16] = "";

	buf_adds(&b, question);
	buf_adds(&b, " [y/N] ");
	tcflush(STDIN_FILENO, TCIFLUSH);
	if (write(STDERR_FILENO, b.data, b.len) < 0 || read(STDIN_FILENO, answer, sizeof(answer) - 1) < 0)
		return err_sys(e, -errno, "cannot ask");
	return answer[0] == 'y' || answer[0] == 'Y' ? 0 : err_set(e, -ECANCELED, "nothing was answered");
}

/* --- showing a question, a screen at a time ----------------------------------------------------------------------- */

#define FOOT 2 /* rows at the bottom of a screen: our prompt, and the row of the cursor after Enter */

static int write_question_rows(const char *rows, size_t len, struct err *e)
{
	if (fd_write_all(STDERR_FILENO, rows, len) < 0)
		return err_set(e, -EIO, "the question could not be shown, so it was not answered");
	return 0;
}

static int wait_for_page_key(struct err *e)
{
	static const char words[] = "-- Enter: go on --";
	char typed[64] = "";

	tcflush(STDIN_FILENO, TCIFLUSH);
	if (write(STDERR_FILENO, words, strlen(words)) < 0 ||
	    read(STDIN_FILENO, typed, sizeof(typed) - 1) < 0)
		return err_sys(e, -errno, "cannot ask");
	return typed[0] == '\n' ? 0 : err_set(e, -ECANCELED, "nothing was answered");
}

int cli_approve_show(const char *all, const char *act, struct err *e)
{
	unsigned rows, cols;
	size_t n = termrows_count(all), page;
	int r = 0;

	tty_size(STDERR_FILENO, &rows, &cols);
	rows = rows ? rows : PROMPT_ROWS;
	page = rows > FOOT ? rows - FOOT : 0;
	if ((cols && cols < TERMROWS_MIN) || termrows_count(act) > page) {
		err_set(e, -EMSGSIZE,
			"this terminal has no room for all of the question, so it was not answered");
		return err_hint(e, -EMSGSIZE,
				"coffer ask show, then coffer approve or deny with the whole id");
	}
	if (n <= page)
		return write_question_rows(all, strlen(all), e);
	while (r == 0 && *all) {
		size_t len = termrows_skip(all, page);

		r = write_question_rows(all, len, e);
		r = r < 0 ? r : wait_for_page_key(e);
		all += len;
	}
	return r < 0 ? r : write_question_rows(act, strlen(act), e);
}

/* --- which question --------------------------------------------------------------------------------------------- */

struct id_candidates {
	uint64_t number;
	struct buf ids;
	size_t n;
};

static int collect_question_id(void *ctx, json_t *ask)
{
	struct id_candidates *c = ctx;

	if (!ask || (uint64_t)json_integer_value(json_object_get(ask, "number")) != c->number ||
	    !str_eq(jsonget_text(ask, "state"), "pending"))
		return 0;
	if (c->n < IDS_SHOWN)
		buf_addf(&c->ids, "%s%s", c->n ? ", " : "", jsonget_text(ask, "id"));
	c->n++;
	return 0;
}

int cli_approve_check_id(struct state *st, const char *id, bool *ret_show, struct err *e)
{
	struct id_candidates c = { .ids = BUF_INIT };
	autostrv struct strv runs = STRV_INIT;

	*ret_show = false;
	/* A text that is neither an id nor a number is refused by the caller's lookup. */
	if (strchr(id, '-') || str_to_u64(id, &c.number) < 0)
		return 0;
	*ret_show = cli_approve_can_confirm();
	if (*ret_show)
		return 0;
	if (state_run_list(st, &runs, e) < 0)
		return e->code;
	for (size_t i = 0; i < runs.n; i++) {
		autoclose int fd =
			openat(st->runs_fd, runs.v[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		autoaskc struct askc a = ASKC_INIT;
		struct err ignored = ERR_INIT;

		if (fd >= 0 && askc_open(&a, fd, &ignored) == 0)
			(void)!askc_list(&a, false, collect_question_id, &c, &ignored);
	}
	err_set(e, -EINVAL, "a number alone may be another question by now; name the whole id%s%s%s",
		c.n ? ": " : "", buf_cstr(&c.ids), c.n > IDS_SHOWN ? ", …" : "");
	buf_release(&c.ids);
	return err_hint(e, -EINVAL, "coffer ask ls");
}

/* --- --always: editing the policy file ---------------------------------------------------------------------------- */

/* On a terminal the diff is broken into rows with a prefix of ours. If the terminal wrapped a long line
 * itself, its rest could look like another line of the diff. */
static int show_policy_diff(const struct always *a)
{
	autobuf struct buf b = BUF_INIT, rows = BUF_INIT;

	buf_adds(&b, "--- ");
	str_add_safe(&b, a->plan.file, strlen(a->plan.file), false);
	buf_adds(&b, "\n+++ ");
	str_add_safe(&b, a->plan.file, strlen(a->plan.file), false);
	buf_addf(&b, "  (%s)\n", a->ask);
	buf_add(&b, a->diff.data, a->diff.len);
	if (!isatty(STDOUT_FILENO) || buf_error(&b))
		return say_out(&b) ? -EPIPE : 0;
	termrows_text(&rows, cli_ask_cols(STDOUT_FILENO), "| ", buf_cstr(&b), b.len);
	return say_out(&rows) ? -EPIPE : 0;
}

/* The question may have expired while the person read the diff. The policy file is not edited for a question
 * that no longer waits. */
static int check_still_pending(struct askc *c, const char *id, struct err *e)
{
	json_t *ask = NULL;
	int r = askc_show(c, id, &ask, e);

	if (r == 0 && !str_eq(jsonget_text(ask, "state"), "pending"))
		r = err_set(e, -ECANCELED, "%s is %s by now, so the policy file was not edited", id,
			    jsonget_text(ask, "state"));
	json_decref(ask);
	return r;
}

static int edit_policy_once(struct askc *c, struct audit *audit, int run_fd, const json_t *ask,
			    const struct ask_who *who, bool yes, struct err *e)
{
	CLEANUP(always_release) struct always a = ALWAYS_INIT;
	int r = always_open(&a, run_fd, ask, e);

	if (r < 0)
		return r;
	if (!a.needed) {
		char shown[256];

		say_note("%s allows it already; nothing was edited",
			 str_safe(a.plan.file, shown, sizeof(shown)));
		return 0;
	}
	if (show_policy_diff(&a) < 0)
		return err_set(e, -EPIPE, "the change could not be shown, so it was not made");
	if (!yes && !cli_approve_can_confirm()) {
		err_set(e, -EINVAL,
			"--always edits the policy file, and there is no terminal to confirm that on");
		return err_hint(e, -EINVAL, "look at the change above, then add --yes");
	}
	r = yes ? 0 : cli_approve_confirm("Edit the policy file like this?", e);
	r = r < 0 ? r : check_still_pending(c, jsonget_text(ask, "id"), e);
	return r < 0 ? r : always_commit(&a, audit, who, e);
}

int cli_approve_always(struct askc *c, struct state *st, int run_fd, const json_t *ask,
		       const struct ask_who *who, bool yes, struct err *e)
{
	CLEANUP(audit_freep) struct audit *audit = NULL;
	int r = check_still_pending(c, jsonget_text(ask, "id"), e);

	r = r < 0 ? r : audit_open(&audit, st->fd, e);
	for (int i = 0; r == 0 || (r == -EAGAIN && i < TRIES); i++) {
		*e = ERR_INIT;
		r = edit_policy_once(c, audit, run_fd, ask, who, yes, e);
		if (r == 0)
			return 0;
	}
	return r;
}
