/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer token: creates, lists and revokes the tokens for the API over a network. A token is generated here
 * and printed once; cofferd only ever gets its hash.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/common/look.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/core/verb.h"
#include "cofferdc/cofferd_client.h"
#include "daemon/broker/webd.h"

#include <errno.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>

enum { OPT_ROLE = 1, OPT_NAME, OPT_EXPIRES, OPT_JSON };

static const struct opt token_opts[] = {
	{ "role", 0, "ROLE", "new: observer, approver or operator", OPT_ROLE, "observer approver operator" },
	{ "name", 0, "NAME", "new: its name (default: the role and a number)", OPT_NAME },
	{ "expires", 0, "SPAN", "new: lifetime, as in 12h or 30d (default: until it is removed)",
	  OPT_EXPIRES },
	{ "json", 0, NULL, "ls: print one JSON object", OPT_JSON },
};

static int make_token(struct state *st, struct webctl *c)
{
	autobuf struct buf token = { .wipe = true }, answer = BUF_INIT;
	struct err e = ERR_INIT;

	if (c->role == WEB_NOBODY) {
		err_set(&e, -EINVAL, "a token needs a role: --role observer, approver or operator");
		return say_usage(&verb_token, &e);
	}
	if (!c->name[0])
		snprintf(c->name, sizeof(c->name), "%s-%u", web_role_name((enum web_role)c->role),
			 randombytes_uniform(1000000));
	c->op = WEBCTL_TOKEN;
	if (web_secret_new(WEB_TOKEN_PREFIX, &token, c->hash, &e) < 0 || cofferd_web(st, c, &answer, &e) < 0)
		return say_error(&e);
	say_note("token '%s', %s; it is shown this once", c->name, web_role_name((enum web_role)c->role));
	buf_addc(&token, '\n');
	return say_out(&token);
}

static int add_token_row(struct table *t, const json_t *x)
{
	static const char *const keys[] = { "id", "kind", "role", "name", "made", "expires" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(keys); i++) {
		const char *s = jsonget_text_or_null(x, keys[i]);

		r = table_add(t, s ? s : "never", 0);
	}
	return r;
}

static int list_tokens(struct state *st, struct webctl *c, bool as_json)
{
	static const char *const heads[] = { "ID", "KIND", "ROLE", "NAME", "MADE", "EXPIRES" };
	autotable struct table t = TABLE_INIT(ARRAY_SIZE(heads));
	autobuf struct buf answer = BUF_INIT, out = BUF_INIT;
	struct err e = ERR_INIT;
	const json_t *tokens;
	json_t *o;
	int r = 0;

	c->op = WEBCTL_LS;
	r = cli_look_has_room(st) ? cofferd_web(st, c, &answer, &e) : cofferd_list_tokens(st, &answer, &e);
	if (r < 0)
		return say_error(&e);
	if (as_json)
		return say_out(&answer);
	o = json_loadb(buf_cstr(&answer), answer.len, 0, NULL);
	tokens = json_object_get(o, "tokens");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(heads); i++)
		r = table_add(&t, heads[i], 0);
	for (size_t i = 0; r == 0 && i < json_array_size(tokens); i++)
		r = add_token_row(&t, json_array_get(tokens, i));
	json_decref(o);
	if (r < 0)
		return say_error((err_set(&e, r, "out of memory"), &e));
	table_format(&t, &out);
	return say_out(&out);
}

static int revoke_token(struct state *st, struct webctl *c, const char *name)
{
	autobuf struct buf answer = BUF_INIT;
	struct err e = ERR_INIT;

	if (!name || strlen(name) >= sizeof(c->name))
		return say_usage(
			&verb_token,
			(err_set(&e, -EINVAL, "rm takes a name or id; coffer token ls shows them"), &e));
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->op = WEBCTL_RM;
	return cofferd_web(st, c, &answer, &e) < 0 ? say_error(&e) : 0;
}

static int take_token_option(struct webctl *c, int id, const char *value, struct err *e)
{
	uint64_t span;
	int role;

	switch (id) {
	case OPT_ROLE:
		role = web_role_parse(value);
		c->role = role < 0 ? 0 : (uint32_t)role;
		return role < 0 ? err_set(e, -EINVAL,
					  "there is no role '%.40s': observer, approver, operator", value)
				: 0;
	case OPT_NAME:
		if (!str_is_name(value))
			return err_set(e, -EINVAL, "'%.64s' is not a valid name: letters, digits, _ . -",
				       value);
		snprintf(c->name, sizeof(c->name), "%s", value);
		return 0;
	case OPT_EXPIRES:
		if (str_to_nsec(value, &span) < 0 || span == 0)
			return err_set(e, -EINVAL, "--expires cannot read '%.40s': 12h, 30d", value);
		c->expires = clock_nsec(CLOCK_REALTIME) + span;
		return 0;
	default:
		return 0;
	}
}

struct token_args {
	struct webctl c;
	const char *word, *what;
	bool as_json;
};

/* Options may come anywhere. Returns 0, OPT_HELP or negative. */
static int parse_token_args(struct optparse *p, struct token_args *a, struct err *e)
{
	const char *value, *extra;
	int id;

	while ((id = opt_next(p, &value, e)) > 0) {
		if (id == OPT_HELP)
			return OPT_HELP;
		a->as_json = a->as_json || id == OPT_JSON;
		if (take_token_option(&a->c, id, value, e) < 0)
			return e->code;
	}
	if (id < 0)
		return id;
	a->word = opt_take(p);
	a->what = opt_take(p);
	extra = opt_take(p);
	if (!a->word)
		return err_set(e, -EINVAL, "token needs one of these words: new, ls, rm");
	if (extra)
		return err_set(e, -EINVAL, "'%.64s' is one argument too many", extra);
	if (opt_action("token", a->word, "new ls rm", e) < 0)
		return e->code;
	if (a->what && !str_eq(a->word, "rm"))
		return err_set(e, -EINVAL, "token %s takes no argument, but got '%.64s'", a->word, a->what);
	return 0;
}

static int cmd_token(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, token_opts, ARRAY_SIZE(token_opts));
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct token_args a = { 0 };
	struct err e = ERR_INIT;
	int r = parse_token_args(&p, &a, &e);

	if (r == OPT_HELP)
		return verb_print_help(&verb_token);
	if (r < 0 || !a.word)
		return say_usage(&verb_token, &e);
	if (state_open(&st, &e) < 0)
		return say_error(&e);
	return str_eq(a.word, "new")  ? make_token(&st, &a.c)
	       : str_eq(a.word, "ls") ? list_tokens(&st, &a.c, a.as_json)
				      : revoke_token(&st, &a.c, a.what);
}

const struct verb verb_token = {
	.name = "token",
	.group = VERB_MANAGE,
	.synopsis = "new|ls|rm [OPTIONS] [NAME]",
	.help = "manage access tokens for the API",
	.opts = token_opts,
	.n_opts = ARRAY_SIZE(token_opts),
	.run = cmd_token,
	.text = "Manages the tokens for the API on an address (*coffer gateway start --listen*). An "
		"_observer_ may read and ask questions, an _approver_ may also answer them, an "
		"_operator_ may also run commands, stop and remove sandboxes, and roll them back. "
		"*new* prints the token once; only its hash is stored. *ls* also shows the sessions of "
		"*coffer ui*. *rm* takes effect at once: open streams of that token are closed.\n"
		"\n"
		"*api.sock* in the state directory needs no token: its owner has the role operator.",
	.examples = "coffer token new --role approver --name phone --expires 30d\n"
		    "coffer token rm phone\n",
};
