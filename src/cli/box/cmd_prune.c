/* SPDX-License-Identifier: Apache-2.0 */
/* coffer prune: lists the runs that have ended, and removes them after a confirmation. A run that is started
 * again between the list and the confirmation is not removed. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/box/cmd_rm.h"
#include "cli/common/approve_how.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/core/verb.h"

#include <errno.h>
#include <stdio.h>

enum { OPT_OLDER = 1, OPT_YES, OPT_DRY_RUN };

static const struct opt prune_opts[] = {
	{ "older", 0, "TIME", "only sandboxes that ended at least this long ago: 12h, 7d", OPT_OLDER },
	{ "yes", 'y', NULL, "do not ask", OPT_YES },
	{ "dry-run", 'n', NULL, "only show what would be removed", OPT_DRY_RUN },
};

struct prune_want {
	uint64_t older;
	bool yes, dry;
};

#define COLUMNS 6
#define NAME_WIDTH 24
#define COMMAND_WIDTH 40

static int add_found_row(struct table *t, const struct rm_found *x, uint64_t now)
{
	char ago[CLOCK_TEXT_LEN + 8], span[CLOCK_TEXT_LEN], changes[24], size[24];
	const char *const cells[COLUMNS] = {
		x->id,	 x->meta.name ? x->meta.name : "-",   ago,
		changes, cli_run_size_format(&x->size, size), x->meta.command ? x->meta.command : ""
	};
	int r = 0;

	snprintf(ago, sizeof(ago), "%s ago", clock_span(now > x->meta.ended ? now - x->meta.ended : 0, span));
	snprintf(changes, sizeof(changes), "%llu", (unsigned long long)x->meta.changes);
	for (size_t i = 0; r == 0 && i < COLUMNS; i++)
		r = table_add(t, cells[i], i == 1 ? NAME_WIDTH : i == COLUMNS - 1 ? COMMAND_WIDTH : 0);
	return r;
}

static int show_prune_list(const struct rm_list *l)
{
	static const char *const heads[COLUMNS] = { "ID", "NAME", "ENDED", "CHANGES", "SIZE", "COMMAND" };
	autotable struct table t = TABLE_INIT(COLUMNS);
	autobuf struct buf out = BUF_INIT;
	uint64_t now = clock_nsec(CLOCK_REALTIME);
	int r = 0;

	for (size_t i = 0; r == 0 && i < COLUMNS; i++)
		r = table_add(&t, heads[i], 0);
	for (size_t i = 0; r == 0 && i < l->n; i++)
		r = add_found_row(&t, &l->v[i], now);
	if (r < 0)
		return say_error(&(struct err){ .code = r, .msg = "out of memory" });
	table_format(&t, &out);
	return say_out(&out);
}

static struct run_size total_size(const struct rm_list *l)
{
	struct run_size s = { 0 };

	for (size_t i = 0; i < l->n; i++) {
		s.bytes += l->v[i].size.bytes;
		s.is_part = s.is_part || l->v[i].size.is_part;
	}
	return s;
}

/* Changes that were not applied are lost, so without a terminal nothing is removed unless --yes was given. */
static int confirm_prune(const struct prune_want *w, const struct rm_list *l, struct err *e)
{
	struct run_size total = total_size(l);
	char size[24], question[160];

	if (w->yes)
		return 0;
	if (!cli_approve_can_confirm()) {
		err_set(e, -ENOTTY, "nothing was removed, because there is no terminal to ask on");
		return err_hint(e, -ENOTTY, "coffer prune --yes, or --dry-run to see what would go");
	}
	snprintf(question, sizeof(question),
		 "Remove %zu sandbox%s (%s)? Changes that were not applied are lost.", l->n,
		 l->n == 1 ? "" : "es", cli_run_size_format(&total, size));
	return cli_approve_confirm(question, e) < 0 ? err_set(e, -ECANCELED, "nothing was removed") : 0;
}

static int prune_ended(const struct prune_want *w)
{
	CLEANUP(cli_rm_release) struct rm_session s = RM_SESSION_INIT;
	CLEANUP(cli_rm_list_release) struct rm_list l = { 0 };
	struct err e = ERR_INIT;
	struct run_size freed = { 0 };
	size_t n = 0;
	char size[24];
	int code = 0;

	if (cli_rm_open(&s, &e) < 0 || cli_rm_find_ended(&s, w->older, &l, &e) < 0)
		return say_error(&e);
	if (l.kept)
		say_note(
			"%zu with a restart policy may be started again and stay%s: coffer stop ends them for good",
			l.kept, l.kept == 1 ? "s" : "");
	if (l.n == 0) {
		say_note("nothing to remove");
		return 0;
	}
	code = show_prune_list(&l);
	if (code || w->dry)
		return code;
	if (confirm_prune(w, &l, &e) < 0)
		return say_error(&e);
	for (size_t i = 0; i < l.n; i++) {
		e = ERR_INIT;
		if (cli_rm_remove_found(&s, &l.v[i], &e) < 0) {
			code = say_error(&e);
			continue;
		}
		n++;
		freed.bytes += l.v[i].size.bytes;
		freed.is_part = freed.is_part || l.v[i].size.is_part;
	}
	say_note("removed %zu sandbox%s, %s", n, n == 1 ? "" : "es", cli_run_size_format(&freed, size));
	return code;
}

static int cmd_prune(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, prune_opts, ARRAY_SIZE(prune_opts));
	struct prune_want w = { 0 };
	struct err e = ERR_INIT;
	const char *value;
	int id;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_prune);
		w.yes = w.yes || id == OPT_YES;
		w.dry = w.dry || id == OPT_DRY_RUN;
		if (id == OPT_OLDER && str_to_nsec(value, &w.older) < 0) {
			err_set(&e, -EINVAL, "--older cannot read the time '%.64s'", value);
			id = err_hint(&e, -EINVAL, "a number with its unit: 90m, 12h, 7d");
			break;
		}
	}
	if (id == 0 && p.index < p.argc) {
		err_set(&e, -EINVAL, "prune takes no sandbox, but got '%.100s'", p.argv[p.index]);
		id = err_hint(&e, -EINVAL, "coffer rm REF removes one");
	}
	return id < 0 ? say_usage(&verb_prune, &e) : prune_ended(&w);
}

const struct verb verb_prune = {
	.name = "prune",
	.group = VERB_MANAGE,
	.synopsis = "[OPTIONS]",
	.help = "remove what is left of ended sandboxes",
	.opts = prune_opts,
	.n_opts = ARRAY_SIZE(prune_opts),
	.run = cmd_prune,
	.text = "Lists the sandboxes that have ended, with the disk space of their layers, and removes "
		"them after you confirm: layers, output, names and checkpoints. Changes that were not "
		"applied are lost. Running sandboxes stay, and so do sandboxes with a restart policy "
		"that were not stopped. The audit log keeps the record of what the runs did, and of "
		"their removal. Images and named homes are not touched.\n"
		"\n"
		"Without a terminal it removes nothing unless *--yes* is given.",
	.examples = "coffer prune --older 7d\n"
		    "\t# sandboxes that ended a week ago or earlier\n"
		    "coffer prune --yes\n"
		    "\t# all ended sandboxes, without asking: for scripts\n",
};
