/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer help and coffer --help: the overview of all verbs. --dump-json prints the whole table of verbs and
 * options; tools/gen-docs makes the man pages and completions from it. No text of a verb is here: each is in the
 * file of its verb.
 */
#include "cli/core/cmd_help.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/core/docs.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"

#include <errno.h>
#include <unistd.h>

static void format_overview(struct buf *out, bool color)
{
	enum verb_group group = VERB_GROUP_COUNT;

	buf_adds(out, "usage: coffer COMMAND [OPTIONS] [ARGUMENTS]\n\n"
		      "Runs untrusted commands and AI agents behind a wall: no network but\n"
		      "what a policy allows, no secrets, and their changes can be inspected first.\n");
	for (size_t i = 0; i < n_verbs; i++) {
		const struct verb *v = verbs[i];

		if (v->group != group) {
			group = v->group;
			buf_addc(out, '\n');
			say_add(out, color, SAY_BOLD, verb_group_title(group));
			buf_addc(out, '\n');
		}
		buf_addf(out, "  %-10s %s\n", v->name, v->help);
	}
	buf_adds(out, "\n'coffer COMMAND --help' says more about one; 'man coffer' says all.\n");
}

int help_overview(int fd)
{
	autobuf struct buf out = BUF_INIT;

	format_overview(&out, say_colors(fd));
	return buf_error(&out) < 0 ? buf_error(&out) : fd_write_all(fd, out.data, out.len);
}

static void dump_option_json(struct json *j, const struct opt *o)
{
	char letter[2] = { o->short_name, '\0' };

	json_obj(j, NULL);
	json_str(j, "name", o->name);
	json_str(j, "short", o->short_name ? letter : NULL);
	json_str(j, "arg", o->arg);
	json_str(j, "help", o->help);
	json_str(j, "values", o->values);
	json_bool(j, "many", o->many);
	json_end_obj(j);
}

static void dump_verb_json(struct json *j, const struct verb *v)
{
	json_obj(j, NULL);
	json_str(j, "name", v->name);
	json_str(j, "group", verb_group_title(v->group));
	json_str(j, "synopsis", v->synopsis);
	json_str(j, "help", v->help);
	json_str(j, "text", v->text);
	json_str(j, "examples", v->examples);
	json_str(j, "args", v->args);
	json_arr(j, "options");
	for (size_t i = 0; i < v->n_opts; i++)
		dump_option_json(j, &v->opts[i]);
	json_end_arr(j);
	json_end_obj(j);
}

static int dump_verbs_json(void)
{
	autobuf struct buf out = BUF_INIT;
	struct json j = JSON_INIT(&out);

	json_obj(&j, NULL);
	json_str(&j, "version", COFFER_VERSION);
	json_str(&j, "docs", DOCS_DIR);
	json_arr(&j, "verbs");
	for (size_t i = 0; i < n_verbs; i++)
		dump_verb_json(&j, verbs[i]);
	json_end_arr(&j);
	json_end_obj(&j);
	buf_addc(&out, '\n');
	return say_out(&out);
}

enum { OPT_DUMP = 1 };

static const struct opt help_opts[] = {
	{ "dump-json", 0, NULL, "print every command and option as JSON", OPT_DUMP },
};

static int help_verb(const char *word)
{
	struct err e = ERR_INIT;
	const struct verb *v = verb_find(word);
	const char *names[64];
	const char *near;
	size_t n = 0;

	if (v)
		return verb_print_help(v);
	for (; n < n_verbs && n < ARRAY_SIZE(names); n++)
		names[n] = verbs[n]->name;
	near = str_nearest(word, names, n);
	err_set(&e, -EINVAL, "there is no command '%.100s' to help with", word);
	if (near)
		err_hint(&e, -EINVAL, "coffer help %s", near);
	return say_usage(&verb_help, &e);
}

static int cmd_help(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, help_opts, ARRAY_SIZE(help_opts));
	struct err e = ERR_INIT;
	bool dump = false, about_help = false;
	const char *value;
	int id;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		dump = dump || id == OPT_DUMP;
		about_help = about_help || id == OPT_HELP;
	}
	if (id == 0 && p.argc - p.index > 1)
		id = err_set(&e, -EINVAL, "help explains one command at a time");
	if (id < 0)
		return say_usage(&verb_help, &e);
	if (dump)
		return dump_verbs_json();
	if (about_help)
		return verb_print_help(&verb_help);
	if (p.index < p.argc)
		return help_verb(p.argv[p.index]);
	return help_overview(STDOUT_FILENO) < 0 ? EXIT_OURS : 0;
}

const struct verb verb_help = {
	.name = "help",
	.group = VERB_HOST,
	.synopsis = "[COMMAND]",
	.help = "explain coffer, or one command",
	.opts = help_opts,
	.n_opts = ARRAY_SIZE(help_opts),
	.run = cmd_help,
	.args = "verb",
	.text = "Without an argument, lists the commands. With one, shows its usage and options, as "
		"*coffer COMMAND --help* does.",
};
