/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer diff: shows the changes of a run, also of one that still runs, or the difference between two
 * checkpoints. It only reads, and starts no program: names and contents come from the sandbox and are
 * escaped.
 */
#include "base/json.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "cli/common/changed.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"
#include "workspace/tree/path.h"

#include <errno.h>

enum { OPT_JSON = 1, OPT_STAT, OPT_NUL, OPT_PATCH };

static const struct opt diff_opts[] = {
	{ "patch", 'p', NULL, "show the content of each change", OPT_PATCH },
	{ "stat", 0, NULL, "show sizes, and the number of each kind", OPT_STAT },
	{ "null", 'z', NULL, "print letter NUL path NUL for each change, names unescaped, for programs",
	  OPT_NUL },
	{ "json", 0, NULL, "print one JSON object", OPT_JSON },
};

struct diff_want {
	const char *ref;
	const char *a, *b; /* checkpoints; a NULL: the original, b NULL: the state as it is now */
	struct strv paths;
	bool json, stat, nul, patch;
};

/* Kinds of changes that coffer apply holds back. A change belongs to the first section that matches; the
 * sections are shown in reverse order. */
static const struct {
	unsigned flags;
	const char *title;
} sections[] = {
	{ CHANGE_HELD, "Cannot go out:" },
	{ CHANGE_SPECIAL, "Special, goes out only with --allow-special PATH:" },
	{ CHANGE_TRIGGER | CHANGE_SECRETIVE,
	  "Files the host may execute or load automatically; apply each with --allow PATH:" },
	{ CHANGE_CONFLICT, "Changed on both sides, goes out only with --force PATH:" },
};

static size_t section_of(const struct change *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
		if (c->flags & sections[i].flags)
			return i;
	}
	return ARRAY_SIZE(sections);
}

#define FLUSH_AT (1 << 20) /* bytes: a run may have changed a million files, so output is written in parts */

static int flush_diff(struct buf *out, size_t at)
{
	int code;

	if (out->len < at)
		return 0;
	code = say_out(out);
	buf_clear(out);
	return code;
}

static void add_change_sizes(const struct change *c, struct buf *out)
{
	char before[16], after[16];

	if (change_is_dir(c))
		return;
	str_from_size(c->size_before, before);
	str_from_size(c->size_after, after);
	if (c->kind == CHANGE_ADDED)
		buf_addf(out, " | %s", after);
	else if (c->kind == CHANGE_DELETED)
		buf_addf(out, " | -%s", before);
	else if (c->kind != CHANGE_MODE)
		buf_addf(out, " | %s -> %s", before, after);
}

/* The arguments of show_change_section() besides the list, and its output. */
struct diff_output {
	const struct changed *run;
	const struct diff_want *want;
	const struct compare *cmp; /* the comparison of checkpoints; NULL: against the original */
	struct buf out;
};

static void show_change(struct diff_output *s, const struct change *c)
{
	struct buf *out = &s->out;
	int r;

	cli_change_format(c, out);
	if (s->want->stat)
		add_change_sizes(c, out);
	if (c->flags) {
		buf_adds(out, ": ");
		cli_change_add_reasons(c, out);
	}
	buf_addc(out, '\n');
	/* The content of a file that coffer itself obeys is always shown, because the permission for it is
	 * one for that content. */
	if (!(s->want->patch || c->obeyed) || change_is_dir(c) || c->kind == CHANGE_MODE)
		return;
	r = s->cmp ? tree_store_patch(s->cmp, c, out)
		   : workspace_patch(s->run->upper, changed_base(s->run), c, out);
	if (r < 0)
		buf_addf(out, "(cannot be read: %s)\n", strerror(-r));
	buf_addc(out, '\n');
}

static int show_change_section(struct diff_output *s, const struct changes *l, size_t section)
{
	bool titled = section == ARRAY_SIZE(sections);

	for (size_t i = 0; i < l->n; i++) {
		int code;

		if (section_of(&l->v[i]) != section)
			continue;
		if (!titled) {
			buf_addf(&s->out, "\n%s\n", sections[section].title);
			titled = true;
		}
		show_change(s, &l->v[i]);
		code = flush_diff(&s->out, FLUSH_AT);
		if (code)
			return code;
	}
	return 0;
}

static void add_change_summary(const struct changes *l, struct buf *out)
{
	size_t n[CHANGE_KIND_COUNT] = { 0 };
	const char *sep = "\n";

	for (size_t i = 0; i < l->n; i++)
		n[l->v[i].kind]++;
	for (int k = 0; k < CHANGE_KIND_COUNT; k++) {
		if (!n[k])
			continue;
		buf_addf(out, "%s%zu %s", sep, n[k], change_kind_name((enum change_kind)k));
		sep = ", ";
	}
	buf_adds(out, l->n ? "\n" : "");
}

static int show_changes_text(const struct changed *run, const struct diff_want *want,
			     const struct compare *cmp, const struct changes *l)
{
	struct diff_output s = { .run = run, .want = want, .cmp = cmp };
	/* Plain changes come first, then the sections of those that are held back. */
	int code = show_change_section(&s, l, ARRAY_SIZE(sections));

	for (size_t i = ARRAY_SIZE(sections); i-- > 0 && code == 0;)
		code = show_change_section(&s, l, i);
	if (code == 0 && want->stat)
		add_change_summary(l, &s.out);
	if (code == 0)
		code = flush_diff(&s.out, 1);
	buf_release(&s.out);
	return code;
}

static int show_changes_nul(const struct changes *l)
{
	autobuf struct buf out = BUF_INIT;
	int code = 0;

	for (size_t i = 0; i < l->n && code == 0; i++) {
		buf_addc(&out, cli_change_letter(&l->v[i]));
		buf_addc(&out, '\0');
		buf_add(&out, l->v[i].path, strlen(l->v[i].path) + 1);
		code = flush_diff(&out, FLUSH_AT);
	}
	return code ? code : flush_diff(&out, 1);
}

static void add_json_change(struct json *j, const struct change *c)
{
	static const char *const names[] = { "special", "trigger", "conflict", "secretive", "leak", "held" };

	json_obj(j, NULL);
	json_str(j, "path", c->path);
	/* A path that is not ASCII may not be UTF-8 either, so its exact bytes are added. */
	for (const char *p = c->path; *p; p++) {
		if ((unsigned char)*p >= 0x80) {
			json_bytes(j, "path_bytes", c->path, strlen(c->path));
			break;
		}
	}
	json_str(j, "kind", change_kind_name(c->kind));
	json_bool(j, "dir", change_is_dir(c));
	if (c->mode_before) {
		json_u64(j, "mode_before", c->mode_before & 07777);
		json_u64(j, "size_before", c->size_before);
	}
	if (c->mode_after) {
		json_u64(j, "mode_after", c->mode_after & 07777);
		json_u64(j, "size_after", c->size_after);
	}
	json_obj(j, "flags");
	for (unsigned bit = 0; bit < CHANGE_FLAG_BITS; bit++) {
		if (c->flags & 1u << bit)
			json_str(j, names[bit], c->why[bit]);
	}
	json_end_obj(j);
	json_end_obj(j);
}

static int show_changes_json(const struct changed *run, const struct diff_want *want, const struct changes *l)
{
	autobuf struct buf out = BUF_INIT;
	struct json j = JSON_INIT(&out);
	int code = 0;

	json_obj(&j, NULL);
	json_str(&j, "id", run->id);
	json_str(&j, "workspace", run->meta.workspace);
	json_bool(&j, "running", run->alive);
	if (want->a)
		json_str(&j, "from", want->a);
	if (want->b)
		json_str(&j, "to", want->b);
	json_arr(&j, "changes");
	for (size_t i = 0; i < l->n && code == 0; i++) {
		add_json_change(&j, &l->v[i]);
		code = flush_diff(&out, FLUSH_AT);
	}
	json_end_arr(&j);
	json_end_obj(&j);
	buf_addc(&out, '\n');
	return code ? code : flush_diff(&out, 1);
}

/* Keeps only changes at or below one of the paths. Each path must match a change. */
static int select_paths(struct changes *l, const struct strv *paths, const struct changed *run, struct err *e)
{
	size_t kept = 0;

	if (!paths->n)
		return 0;
	for (size_t i = 0; i < paths->n; i++) {
		bool found = false;

		for (size_t k = 0; k < l->n && !found; k++)
			found = path_covers(paths->v[i], l->v[k].path);
		if (!found)
			return err_set(e, -ENOENT, "%s changed nothing at '%s'", run->id, paths->v[i]);
	}
	for (size_t i = 0; i < l->n; i++) {
		if (path_covered(paths, l->v[i].path))
			l->v[kept++] = l->v[i];
		else
			free(l->v[i].path);
	}
	l->n = kept;
	return 0;
}

static int show_changes(const struct changed *run, const struct diff_want *want, const struct compare *cmp,
			const struct changes *l)
{
	if (want->json)
		return show_changes_json(run, want, l);
	return want->nul ? show_changes_nul(l) : show_changes_text(run, want, cmp, l);
}

/* Reads the manifest of a checkpoint, or makes one of the current state. */
static int read_manifest(struct ckpt_run *r, const char *name, bool content, struct buf *ret, struct err *e)
{
	const struct ckpt *c = NULL;
	int code;

	if (!name)
		return ckpt_scan_now(r, content, ret, e);
	code = ckpt_find(r, name, &c, e);
	return code < 0 ? code : ckpt_read(r, c, ret, e);
}

static int diff_checkpoints(struct diff_want *want)
{
	CLEANUP(cli_changed_release) struct changed run = CHANGED_INIT;
	CLEANUP(changes_release) struct changes l = { 0 };
	CLEANUP(ckpt_release) struct ckpt_run r = CKPT_RUN_INIT;
	autobuf struct buf a = BUF_INIT, b = BUF_INIT;
	struct compare cmp = { .lower = -1, .store = &r.store };
	struct err e = ERR_INIT;

	if (cli_changed_open(&run, want->ref, false, &e) < 0)
		return say_error(&e);
	if (run.meta.over) {
		err_set(&e, -EOPNOTSUPP,
			"%s is a call over the workspace of %s: its checkpoints cannot be compared", run.id,
			run.meta.over);
		return say_error(&e);
	}
	/* A run without an original directory may have checkpoints, too. */
	if (cli_changed_has_layer(&run, NULL) == 0 && cli_changed_open_original(&run, &e) < 0)
		return say_error(&e);
	cmp.lower = run.lower;
	if (cli_changed_paths(&run, &want->paths, NULL, &e) < 0 || ckpt_open(&r, run.id, !want->b, &e) < 0 ||
	    read_manifest(&r, want->a, false, &a, &e) < 0 ||
	    read_manifest(&r, want->b, want->patch, &b, &e) < 0)
		return say_error(&e);
	cmp.a = a.data;
	cmp.a_len = a.len;
	cmp.b = b.data;
	cmp.b_len = b.len;
	if (tree_store_compare(&cmp, &l, &e) < 0 || select_paths(&l, &want->paths, &run, &e) < 0)
		return say_error(&e);
	return show_changes(&run, want, &cmp, &l);
}

static int diff_run(struct diff_want *want)
{
	CLEANUP(cli_changed_release) struct changed run = CHANGED_INIT;
	CLEANUP(changes_release) struct changes l = { 0 };
	struct err e = ERR_INIT;
	int r = cli_changed_open(&run, want->ref, false, &e);

	if (r == -ENOENT && !want->paths.n && cli_changed_nothing(want->ref, run.id))
		return show_changes(&run, want, NULL, &l);
	if (r < 0 || cli_changed_open_trees(&run, &e) < 0 ||
	    cli_changed_paths(&run, &want->paths, NULL, &e) < 0 || cli_changed_list(&run, &l, &e) < 0 ||
	    select_paths(&l, &want->paths, &run, &e) < 0)
		return say_error(&e);
	return show_changes(&run, want, NULL, &l);
}

/* The first words after the run may be checkpoints. A file with such a name is typed as ./c1. */
static int take_diff_word(struct diff_want *want, const char *word, struct err *e)
{
	if (!want->ref)
		want->ref = word;
	else if (ckpt_is_name(word) && !want->paths.n && !want->b)
		*(want->a ? &want->b : &want->a) = word;
	else if (strv_add(&want->paths, word) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	return 0;
}

/* Options may be before, between and after the run and the paths. */
static int parse_diff(struct diff_want *want, int argc, char **argv, bool *ret_help, struct err *e)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, diff_opts, ARRAY_SIZE(diff_opts));
	const char *value, *word;
	int id;

	for (;;) {
		while ((id = opt_next(&p, &value, e)) > 0) {
			*ret_help |= id == OPT_HELP;
			want->json |= id == OPT_JSON;
			want->stat |= id == OPT_STAT;
			want->nul |= id == OPT_NUL;
			want->patch |= id == OPT_PATCH;
		}
		if (id < 0)
			return id;
		word = opt_take(&p);
		if (!word)
			break;
		id = take_diff_word(want, word, e);
		if (id < 0)
			return id;
	}
	if (*ret_help)
		return 0;
	if (want->json + want->nul + (want->stat || want->patch) > 1)
		return err_set(e, -EINVAL, "--json and -z exclude each other, --stat and -p");
	if (want->ref)
		return 0;
	err_set(e, -EINVAL, "diff needs a sandbox: its name, id or @last");
	return err_hint(e, -EINVAL, "coffer diff @last (the last run's), or an id of coffer ps -a");
}

static int cmd_diff(int argc, char **argv)
{
	struct diff_want want = { 0 };
	struct err e = ERR_INIT;
	bool help = false;
	int code;

	if (parse_diff(&want, argc, argv, &help, &e) < 0)
		code = say_usage(&verb_diff, &e);
	else
		code = help	? verb_print_help(&verb_diff)
		       : want.a ? diff_checkpoints(&want)
				: diff_run(&want);
	strv_release(&want.paths);
	return code;
}

const struct verb verb_diff = {
	.name = "diff",
	.group = VERB_WORKSPACE,
	.synopsis = "[OPTIONS] REF [FROM [TO]] [PATH…]",
	.help = "show what a run changed in its workspace",
	.opts = diff_opts,
	.n_opts = ARRAY_SIZE(diff_opts),
	.run = cmd_diff,
	.args = "sandbox",
	.text = "Lists what a run changed in its workspace, one line for each change: A added, M "
		"modified, D deleted, m only the mode, T another type; with PATHs, only changes at or "
		"below them. The original directory stays unchanged until *coffer apply*.\n"
		"\n"
		"Changes that *coffer apply* does not apply by itself are listed separately, each with "
		"the reason: files that the host may run or obey automatically (hooks, editor "
		"settings, CI files, .envrc, instructions to agents), names that usually hold "
		"credentials, special files (setuid, devices, pipes, file capabilities, foreign "
		"owners, symlinks that lead outside), and files that changed in the original too since "
		"the run began.\n"
		"\n"
		"FROM and TO are checkpoints (c1, c2, …): shows the differences between FROM and now, "
		"or between FROM and TO, also in the run's named home (~/…) and in its own root file "
		"system (/…). Write a file that has the name of a checkpoint as ./c1.\n"
		"\n"
		"REF is an id, the beginning of one, a name, or @last. For a run that changed nothing "
		"the list is empty.",
	.examples = "coffer diff @last\n"
		    "\t# what the last run changed\n"
		    "coffer diff -p @last src\n"
		    "\t# the same of src, line by line\n"
		    "coffer diff web c1 c2\n"
		    "\t# the differences between two checkpoints\n",
};
