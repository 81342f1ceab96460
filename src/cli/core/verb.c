/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of all verbs, and the layout of `coffer VERB --help`. The texts are in the verbs' own files. A
 * verb that is not in the list cannot be called.
 */
#include "cli/core/verb.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/core/say.h"
#include "cli/core/table.h"

#include <assert.h>

/* In the order in which they are shown, groups together. */
const struct verb *const verbs[] = {
	&verb_run,	&verb_call,    &verb_mcp,     &verb_exec,	&verb_shell,   &verb_cp,
	&verb_ps,	&verb_stats,   &verb_inspect, &verb_logs,	&verb_wait,    &verb_pool,
	&verb_gateway,	&verb_token,   &verb_ui,      &verb_net,	&verb_why,     &verb_replay,
	&verb_ask,	&verb_approve, &verb_deny,    &verb_stop,	&verb_start,   &verb_restart,
	&verb_rm,	&verb_prune,   &verb_diff,    &verb_apply,	&verb_discard, &verb_checkpoint,
	&verb_rollback, &verb_fork,    &verb_image,   &verb_secret,	&verb_policy,  &verb_notify,
	&verb_audit,	&verb_doctor,  &verb_profile, &verb_completion, &verb_version, &verb_help,
};
const size_t n_verbs = ARRAY_SIZE(verbs);

const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; i < n_verbs; i++) {
		if (str_eq(verbs[i]->name, name))
			return verbs[i];
	}
	return NULL;
}

const char *verb_group_title(enum verb_group g)
{
	static const char *const titles[] = {
		[VERB_RUN] = "Run something behind the wall",
		[VERB_MANAGE] = "Manage sandboxes",
		[VERB_WORKSPACE] = "Changes of a run",
		[VERB_HOST] = "This machine",
	};

	static_assert(ARRAY_SIZE(titles) == VERB_GROUP_COUNT, "a title for each group");
	return titles[g];
}

/* "-e, --env NAME[=VALUE]" */
static void format_option_name(struct buf *out, const struct opt *o)
{
	if (o->short_name)
		buf_addf(out, "  -%c, ", o->short_name);
	else
		buf_adds(out, "      ");
	buf_addf(out, "--%s", o->name);
	if (o->arg)
		buf_addf(out, " %s", o->arg);
}

static size_t option_name_width(const struct opt *o)
{
	return 8 + strlen(o->name) + (o->arg ? 1 + table_width(o->arg) : 0);
}

#define HELP_COLUMN_MAX 34 /* a longer option gets its help on the next line */

static void format_option(struct buf *out, const struct opt *o, size_t column)
{
	size_t at;

	if (!o->name) {
		buf_addf(out, "%s:\n", o->help);
		return;
	}
	format_option_name(out, o);
	at = option_name_width(o);
	if (at + 2 > column) {
		buf_addc(out, '\n');
		at = 0;
	}
	buf_addf(out, "%*s%s\n", (int)(column - at), "", o->help);
}

#define LINE_MAX_COLUMNS 100

/* The text has lines of "command", each of which may be followed by a line "\t# what it does". The two are
 * joined where they fit on one line. */
static void format_examples(struct buf *out, const char *text)
{
	size_t widest = 0;

	for (const char *p = text; *(p += strspn(p, " ")); p += strcspn(p, "\n"), p += *p == '\n') {
		size_t n = strcspn(p, "\n");

		if (*p != '\t' && n > widest && n < LINE_MAX_COLUMNS / 2)
			widest = n;
	}
	buf_adds(out, "\nExamples:\n");
	while (*(text += strspn(text, " "))) {
		size_t n = strcspn(text, "\n"), next = n + (text[n] == '\n');
		const char *what = text[next] == '\t' ? text + next + 1 : NULL;
		size_t what_len = what ? strcspn(what, "\n") : 0;

		buf_addf(out, "  %.*s", (int)n, text);
		if (what && n <= widest && widest + what_len + 4 <= LINE_MAX_COLUMNS)
			buf_addf(out, "%*s%.*s", (int)(widest - n + 2), "", (int)what_len, what);
		else if (what)
			buf_addf(out, "\n      %.*s", (int)what_len, what);
		buf_addc(out, '\n');
		text += next;
		if (what)
			text += 1 + what_len + (what[what_len] == '\n');
	}
}

void verb_format_help(const struct verb *v, struct buf *out)
{
	static const struct opt help = { "help", 'h', NULL, "show this help", OPT_HELP };
	size_t column = option_name_width(&help) + 2;

	buf_addf(out, "usage: coffer %s %s\n\n%c%s.\n", v->name, v->synopsis, v->help[0] & ~0x20,
		 v->help + 1);
	for (size_t i = 0; i < v->n_opts; i++) {
		size_t w = v->opts[i].name ? option_name_width(&v->opts[i]) + 2 : 0;

		if (w > column && w <= HELP_COLUMN_MAX)
			column = w;
	}
	if (v->n_opts == 0 || v->opts[0].name)
		buf_adds(out, "\nOptions:\n");
	else
		buf_addc(out, '\n');
	for (size_t i = 0; i < v->n_opts; i++)
		format_option(out, &v->opts[i], column);
	format_option(out, &help, column);
	if (v->examples)
		format_examples(out, v->examples);
}

int verb_print_help(const struct verb *v)
{
	autobuf struct buf out = BUF_INIT;

	verb_format_help(v, &out);
	return say_out(&out);
}
