/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer ask: lists and follows the questions of all sandboxes (ls), shows one in full (show), and submits
 * one (new). It reads only: answers are given by `coffer approve` and `coffer deny`.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/ask/ask_list.h"
#include "cli/ask/ask_new.h"
#include "cli/ask/ask_past.h"
#include "cli/ask/ask_seen.h"
#include "cli/common/ask_show.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { OPT_FOLLOW = 1, OPT_JSON, OPT_ALL, OPT_SANDBOX, OPT_REASON, OPT_DETAIL, OPT_ASK_TIMEOUT };

#define LOOK_MS 500 /* how often to look for new sandboxes */
#define FOLLOW_MAX 1000

static const struct opt ask_opts[] = {
	{ "follow", 'f', NULL, "continue with new questions and changes", OPT_FOLLOW },
	{ "json", 0, NULL, "print one JSON object per line", OPT_JSON },
	{ "all", 'a', NULL, "also closed questions; those of removed sandboxes from the log", OPT_ALL },
	{ "sandbox", 0, "REF", "new: the sandbox that it is about", OPT_SANDBOX, "sandbox" },
	{ "reason", 0, "TEXT", "new: why you ask", OPT_REASON },
	{ "detail", 0, "TEXT", "new: the details (- for standard input), at most 2048 bytes", OPT_DETAIL },
	{ "ask-timeout", 0, "TIME", "new: how long to wait (default: 5m)", OPT_ASK_TIMEOUT },
};

struct ask_args {
	bool follow, json, all;
	struct ask_new new; /* options of `ask new` */
};

static int open_run_dir(struct state *st, const char *id)
{
	return openat(st->runs_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Lists the questions of one run: from its ask server, or from its file if no server runs. */
static int list_run_questions(struct state *st, const char *id, bool all, askc_fn *fn, void *ctx,
			      struct err *e)
{
	autoclose int fd = open_run_dir(st, id);
	autoaskc struct askc c = ASKC_INIT;
	struct err none = ERR_INIT;

	if (fd < 0)
		return 0;
	if (askc_open(&c, fd, &none) == 0)
		return askc_list(&c, all, fn, ctx, e);
	return all ? askc_read_file(fd, id, fn, ctx, e) : 0;
}

/* ---- ask ls --follow ---- */

struct followed {
	char id[RUN_ID_LEN + 1];
	struct askc c;
	struct ask_seen seen;
};

struct follower {
	const struct ask_args *a;
	struct followed v[FOLLOW_MAX];
	size_t n;
	bool color, full; /* full: the warning about FOLLOW_MAX was printed */
	size_t now;	  /* index of the run being read */
};

/*
 * Prints a line for each change of state. JSON output also reports changes of how often it was asked or
 * used, and of the number of waiters.
 */
static int print_followed_ask(void *ctx, json_t *ask)
{
	struct follower *f = ctx;
	unsigned cols = cli_ask_line_cols(STDOUT_FILENO);
	autobuf struct buf out = BUF_INIT;
	struct ask_news news;

	if (!ask)
		return 0;
	cli_ask_seen_note(&f->v[f->now].seen, ask, &news);
	if (f->a->json) {
		if (news.any)
			cli_ask_add_json(ask, &out);
	} else if (news.state || news.answered) {
		/*
		 * An answer that is used at once goes straight to "spent": print the "allowed" that was
		 * skipped.
		 */
		if (news.answered && str_eq(jsonget_text(ask, "state"), "spent"))
			cli_ask_line(ask, "allowed", f->color, cols, &out);
		cli_ask_line(ask, jsonget_text(ask, "state"), f->color, cols, &out);
	}
	return out.len ? say_out(&out) : 0;
}

static void follow_new_sandboxes(struct state *st, struct follower *f)
{
	autostrv struct strv runs = STRV_INIT;
	struct err e = ERR_INIT;

	if (state_run_list(st, &runs, &e) < 0)
		return;
	for (size_t i = 0; i < runs.n; i++) {
		autoclose int fd = -1;
		bool known = false;

		if (f->n == FOLLOW_MAX) {
			if (!f->full)
				say_warn("more than %d sandboxes run; the others are followed as these end",
					 FOLLOW_MAX);
			f->full = true;
			return;
		}

		for (size_t k = 0; k < f->n; k++)
			known = known || str_eq(f->v[k].id, runs.v[i]);
		fd = known ? -1 : open_run_dir(st, runs.v[i]);
		if (fd < 0 || askc_open(&f->v[f->n].c, fd, &e) < 0)
			continue;
		f->v[f->n].seen = ASK_SEEN_INIT;
		snprintf(f->v[f->n].id, sizeof(f->v[f->n].id), "%s", runs.v[i]);
		if (askc_follow_begin(&f->v[f->n].c, f->a->all, &e) < 0)
			askc_close(&f->v[f->n].c);
		else
			f->n++;
	}
}

/* Following needs one descriptor for each sandbox. */
static void raise_fd_limit(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &l);
	}
}

static int follow_all_questions(struct state *st, const struct ask_args *a, struct err *e)
{
	static struct follower f;
	struct pollfd p[FOLLOW_MAX];
	int r = 0;

	(void)e;
	f = (struct follower){ .a = a, .color = say_colors(STDOUT_FILENO) };
	raise_fd_limit();
	while (r == 0) {
		struct err ended = ERR_INIT;

		follow_new_sandboxes(st, &f);
		for (size_t i = 0; i < f.n; i++)
			p[i] = (struct pollfd){ .fd = f.v[i].c.fd, .events = POLLIN };
		if (poll(p, f.n, LOOK_MS) <= 0)
			continue;
		for (size_t i = f.n; i-- > 0 && r == 0;) {
			if (!p[i].revents)
				continue;
			f.now = i;
			r = askc_follow_read(&f.v[i].c, print_followed_ask, &f, &ended);
			if (r < 0) {
				askc_close(&f.v[i].c);
				cli_ask_seen_release(&f.v[i].seen);
				f.v[i] = f.v[--f.n];
				r = 0;
			}
		}
	}
	return r;
}

/* ---- ask show ---- */

struct one {
	const char *id;
	bool whole; /* match the whole id as shown, not the number alone */
	json_t *found;
};

static int match_ask(void *ctx, json_t *ask)
{
	struct one *o = ctx;
	const char *dash = strchr(o->id, '-');
	uint64_t n = 0;

	if (o->whole && !str_eq(jsonget_text(ask, "id"), o->id))
		return 0;
	if (str_to_u64(dash ? dash + 1 : o->id, &n) == 0 &&
	    (uint64_t)json_integer_value(json_object_get(ask, "number")) == n) {
		json_decref(o->found);
		o->found = json_incref(ask);
	}
	return 0;
}

/* Finds a question of a removed sandbox in the log, by its whole id. */
static int find_past_ask(struct state *st, struct one *o)
{
	struct err ignored = ERR_INIT;
	bool more;

	o->whole = true;
	return cli_ask_past(st, match_ask, o, &more, &ignored);
}

static int show_question(struct state *st, const char *id, const struct ask_args *a, struct err *e)
{
	struct one o = { .id = id };
	autobuf struct buf out = BUF_INIT;
	autoclose int fd = -1;
	char run[RUN_ID_LEN + 1];
	int r = askc_resolve(st, id, run, &fd, e);

	r = r < 0 ? r : list_run_questions(st, run, true, match_ask, &o, e);
	if (r == -ENOENT && find_past_ask(st, &o) == 0 && o.found)
		r = 0;
	if (r == 0 && !o.found)
		r = err_set(e, -ENOENT, "there is no question %s", id);
	if (r == 0 && a->json)
		cli_ask_add_json(o.found, &out);
	else if (r == 0)
		cli_ask_show(o.found, st, cli_ask_cols(STDOUT_FILENO), &out);
	json_decref(o.found);
	return r < 0 ? r : say_out(&out);
}

static int take_ask_option(struct ask_args *a, int id, const char *value, struct err *e)
{
	a->follow = a->follow || id == OPT_FOLLOW;
	a->json = a->json || id == OPT_JSON;
	a->all = a->all || id == OPT_ALL;
	a->new.sandbox = id == OPT_SANDBOX ? value : a->new.sandbox;
	a->new.reason = id == OPT_REASON ? value : a->new.reason;
	a->new.detail = id == OPT_DETAIL ? value : a->new.detail;
	a->new.named = a->new.named || id >= OPT_SANDBOX;
	return id == OPT_ASK_TIMEOUT ? cli_ask_timeout_parse(value, &a->new.timeout_s, e) : 0;
}

/* Options and words may come in any order. Returns the number of words, OPT_HELP, or a negative errno. */
static int parse_ask_args(int argc, char **argv, struct ask_args *a, const char *word[3], struct err *e)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, ask_opts, ARRAY_SIZE(ask_opts));
	const char *value;
	int id, n = 0;

	while ((id = opt_next(&p, &value, e)) > 0) {
		if (id == OPT_HELP)
			return OPT_HELP;
		id = take_ask_option(a, id, value, e);
		if (id < 0)
			return id;
	}
	for (; id == 0 && (value = opt_take(&p)) != NULL; n++)
		word[n < 2 ? n : 2] = value;
	return id < 0 ? id : n;
}

static int cmd_ask(int argc, char **argv)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct err e = ERR_INIT;
	struct ask_args a = { 0 };
	const char *word[3] = { 0 };
	int n = parse_ask_args(argc, argv, &a, word, &e), k, r;

	if (n == OPT_HELP)
		return verb_print_help(&verb_ask);
	k = n < 0 ? n : n ? opt_action("ask", word[0], "ls show new", &e) : 0;
	if (k == 2 && (n != 2 || !a.new.sandbox))
		k = err_set(&e, -EINVAL, "ask new needs --sandbox REF and one question");
	if (k >= 0 && k < 2 && a.new.named)
		k = err_set(&e, -EINVAL,
			    "--sandbox, --reason, --detail and --ask-timeout are only valid with ask new");
	if (k == 1 && n != 2)
		k = err_set(&e, -EINVAL, "ask show needs the id of a question");
	if (k == 0 && n > 1)
		k = err_set(&e, -EINVAL, "ask ls takes no arguments");
	if (k < 0)
		return say_usage(&verb_ask, &e);
	r = state_open(&st, &e);
	if (r == 0 && k == 2) {
		a.new.what = word[1];
		return cli_ask_new(&st, &a.new);
	}
	if (r == 0)
		r = k == 1     ? show_question(&st, word[1], &a, &e)
		    : a.follow ? follow_all_questions(&st, &a, &e)
			       : cli_ask_list(&st, &(struct ask_list_opts){ a.json, a.all }, &e);
	return r < 0 ? say_error(&e) : r;
}

const struct verb verb_ask = {
	.name = "ask",
	.group = VERB_MANAGE,
	.synopsis = "[ls [--follow] [--all] [--json] | show [--json] ID | new --sandbox REF QUESTION]",
	.help = "show questions that wait for a person's answer",
	.opts = ask_opts,
	.n_opts = ARRAY_SIZE(ask_opts),
	.run = cmd_ask,
	.text = "An act that a rule under _ask_ covers is held until a person answers with *coffer "
		"approve* or *coffer deny*; without an answer in time it is denied. *ls* lists pending "
		"questions and grants of all sandboxes. *show* prints one question in full: which "
		"sandbox asks, for what exactly, by which rule, and what the sandbox did just before.\n"
		"\n"
		"*new* asks a question of your own, about a sandbox that runs or has ended, and waits "
		"for the answer. The exit code is 0 if it was allowed, 1 if it was denied or nobody "
		"answered in time, 130 if you withdrew it with Ctrl-C.\n"
		"\n"
		"If the same question is asked again while it waits, it is still one entry. An id is "
		"the beginning of the sandbox's id and a number. *coffer ask show* also accepts the "
		"number alone if it is unambiguous; *coffer approve* and *coffer deny* accept it only "
		"on a terminal.",
	.examples =
		"coffer ask ls --follow\n"
		"coffer ask show 3f9a2c-1\n"
		"coffer ask new --sandbox agent --reason 'all tests pass' 'Deploy to production?' && ./deploy\n",
};
