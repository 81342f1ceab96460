/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer notify: lists the notification targets of notify.yaml, and sends a test message to them. It must not
 * show the value of a secret.
 */
#include "notify/notify.h"

#include "base/cleanup.h"
#include "cli/core/docs.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/core/verb.h"
#include "sandbox/state/state.h"

#include <errno.h>
#include <stdio.h>

#define EXIT_FAILED 1
#define TRIES_MAX 20

enum { OPT_CONFIG = 1, OPT_TO, OPT_TRIES, OPT_TITLE };

static const struct opt notify_opts[] = {
	{ "config", 0, "FILE", "read this file instead of the usual one", OPT_CONFIG, "file" },
	{ "to", 0, "NAME", "test: only this target", OPT_TO },
	{ "tries", 0, "N", "test: number of attempts for each, with growing pauses (default: 1)", OPT_TRIES },
	{ "title", 0, "TEXT", "test: title of the message", OPT_TITLE },
};

#define WORDS "test ls"

struct notify_args {
	const char *config, *to, *title;
	uint64_t tries;
	int act; /* -1: none given */
};

struct testing {
	struct loop loop;
	size_t failed;
};

static void print_outcome(void *ctx, const struct notify_target *t, enum notify_outcome o, unsigned status,
			  const char *why)
{
	struct testing *x = ctx;
	char shown[COURIER_WHY_LEN + 96];

	(void)status;
	str_safe(why, shown, sizeof(shown));
	if (o == NOTIFY_DONE)
		printf("%s: sent\n", t->name);
	else
		printf("%s: %s: %s\n", t->name, o == NOTIFY_AGAIN ? "failed, is tried again" : "failed",
		       shown);
	fflush(stdout);
	x->failed += o == NOTIFY_GIVEN_UP;
}

static bool has_target(const struct notify_conf *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++) {
		if (str_eq(c->targets[i].name, name))
			return true;
	}
	return false;
}

static int send_test_messages(struct testing *x, const struct notify_conf *conf, const struct notify_args *a,
			      struct err *e)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(audit_freep) struct audit *audit = NULL;
	CLEANUP(notify_freep) struct notify *n = NULL;
	static const char *const lines[] = { "If you read this, notifications work." };
	struct notify_opts opts = {
		.tries = (unsigned)a->tries, .only = a->to, .told = print_outcome, .ctx = x
	};
	struct notify_event ev = { .type = "test",
				   .title = a->title ? a->title : "Cofferdam: a test of notifications",
				   .lines = lines,
				   .n_lines = 1 };
	int r = state_open(&st, e);

	r = r < 0 ? r : audit_open(&audit, st.fd, e);
	r = r < 0 ? r : loop_open(&x->loop, e);
	r = r < 0 ? r : notify_new(&n, &x->loop, conf, st.fd, audit, &opts, e);
	if (r == 0 && notify_post(n, &ev) < 0)
		r = err_set(e, -ENOMEM, "out of memory");
	while (r == 0 && notify_waiting(n))
		r = loop_round(&x->loop, e);
	return r;
}

static int test_targets(const struct notify_conf *conf, const struct notify_args *a, struct err *e)
{
	struct testing x = { .loop = LOOP_INIT };
	int r;

	if (conf->n == 0)
		return say_error((err_set(e, -ENOENT, "there is no target to notify"), e));
	if (a->to && !has_target(conf, a->to)) {
		err_set(e, -ENOENT, "there is no target '%.60s'", a->to);
		err_hint(e, -ENOENT, "coffer notify ls");
		return say_error(e);
	}
	r = send_test_messages(&x, conf, a, e);
	loop_close(&x.loop);
	return r < 0 ? say_error(e) : x.failed ? EXIT_FAILED : 0;
}

static int add_target_row(struct table *t, const struct notify_target *x)
{
	autobuf struct buf where = BUF_INIT;
	int r;

	if (x->kind == NOTIFY_COMMAND) {
		buf_adds(&where, x->argv.v[0]);
	} else {
		buf_adds(&where, "https://");
		host_add(&where, &x->host, x->port == 443 ? 0 : x->port);
		buf_adds(&where, x->kind == NOTIFY_MATRIX ? " " : x->path);
		buf_adds(&where, x->room);
	}
	r = buf_error(&where) ? -ENOMEM : table_add(t, x->name, 0);
	r = r < 0 ? r : table_add(t, config_notify_kind_name(x->kind), 0);
	r = r < 0 ? r : table_add(t, x->secret_file ? x->secret_file : *x->secret ? x->secret : "-", 40);
	return r < 0 ? r : table_add(t, buf_cstr(&where), 80);
}

static int list_targets(const struct notify_conf *conf, struct err *e)
{
	static const char *const heads[] = { "NAME", "KIND", "SECRET", "WHERE" };
	autotable struct table t = TABLE_INIT(ARRAY_SIZE(heads));
	autobuf struct buf out = BUF_INIT;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(heads); i++)
		r = table_add(&t, heads[i], 0);
	for (size_t i = 0; r == 0 && i < conf->n; i++)
		r = add_target_row(&t, &conf->targets[i]);
	table_format(&t, &out);
	if (r < 0 || buf_error(&out))
		return say_error((err_set(e, -ENOMEM, "out of memory"), e));
	return say_out(&out);
}

static int take_notify_option(struct notify_args *a, int id, const char *value, struct err *e)
{
	a->config = id == OPT_CONFIG ? value : a->config;
	a->to = id == OPT_TO ? value : a->to;
	a->title = id == OPT_TITLE ? value : a->title;
	if (id == OPT_TRIES && (str_to_u64(value, &a->tries) < 0 || a->tries < 1 || a->tries > TRIES_MAX))
		return err_set(e, -EINVAL, "--tries takes a number from 1 to %d, not '%.32s'", TRIES_MAX,
			       value);
	return 0;
}

static int parse_notify_args(int argc, char **argv, struct notify_args *a, struct err *e)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, notify_opts, ARRAY_SIZE(notify_opts));
	const char *value, *word;
	int id, r = 0;

	while (r == 0 && (id = opt_next(&p, &value, e)) != 0) {
		if (id < 0 || id == OPT_HELP)
			return id;
		r = take_notify_option(a, id, value, e);
	}
	if (r < 0)
		return r;
	word = opt_take(&p);
	if (!word)
		return err_set(e, -EINVAL, "notify needs one of these words: %s", WORDS);
	a->act = opt_action("notify", word, WORDS, e);
	if (a->act < 0)
		return a->act;
	word = opt_take(&p);
	return word ? err_set(e, -EINVAL, "'%.64s' is one argument too many", word) : 0;
}

static int cmd_notify(int argc, char **argv)
{
	CLEANUP(config_notify_release) struct notify_conf conf = NOTIFY_CONF_INIT;
	struct notify_args a = { .tries = 1, .act = -1 };
	struct err e = ERR_INIT;
	int r = parse_notify_args(argc, argv, &a, &e);

	if (r == OPT_HELP)
		return verb_print_help(&verb_notify);
	if (r < 0)
		return say_usage(&verb_notify, &e);
	r = config_notify_load(&conf, a.config, &e);
	if (r < 0) {
		if (r == -ENOENT && !a.config)
			err_hint(&e, r, "%s describes the file", DOCS_NOTIFY);
		say_error(&e);
		return EXIT_USAGE;
	}
	return a.act == 0 ? test_targets(&conf, &a, &e) : list_targets(&conf, &e);
}

const struct verb verb_notify = {
	.name = "notify",
	.group = VERB_HOST,
	.synopsis = "test|ls [OPTIONS]",
	.help = "list and test notification targets",
	.opts = notify_opts,
	.n_opts = ARRAY_SIZE(notify_opts),
	.run = cmd_notify,
	.text = "coffer notifies people of questions and of other events that need a person. The "
		"targets (commands, webhooks and Matrix rooms) are in _/etc/cofferdam/notify.yaml_ for "
		"root, otherwise in _cofferdam/notify.yaml_ of the user's configuration directory. "
		"*test* sends a message to each target and prints the result; *ls* lists the targets. " DOCS_NOTIFY
		" describes the messages, and how a receiver verifies them.\n"
		"\n"
		"The file is read when a sandbox asks its first question, and before each other "
		"message. A sandbox that has already asked keeps the targets that it has read until it "
		"is started again (*coffer restart*).\n"
		"\n"
		"*coffer-courier* makes each call: a process that sees only that call and accepts only "
		"verified TLS. It gets secrets from the vault, or from a file that nobody else may "
		"read. It connects to a private address, or to an address of this host, only if the "
		"file names that address in *to*.\n"
		"\n"
		"The exit code is 0 if all messages were sent, 1 if one was not, 2 if the command line "
		"or the file is wrong.",
	.examples = "coffer notify test\n"
		    "coffer notify test --to ops --tries 3\n",
};
