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
	{ "name", 0, "NAME", "new: what to know it by (default: the role and a number)", OPT_NAME },
	{ "expires", 0, "SPAN", "new: good for so long: 12h, 30d (default: until it is removed)",
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
	r = look_has_room(st) ? cofferd_web(st, c, &answer, &e) : cofferd_list_tokens(st, &answer, &e);
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
			return err_set(e, -EINVAL, "'%.64s' is no name: letters, digits, _ . -", value);
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

static int cmd_token(int argc, char **argv)
{
	struct optparse p = OPTPARSE_INIT(argc, argv, token_opts, ARRAY_SIZE(token_opts));
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct webctl c = { 0 };
	struct err e = ERR_INIT;
	const char *value, *word = NULL, *what = NULL, *next;
	bool as_json = false;
	int id;

	do {
		while ((id = opt_next(&p, &value, &e)) > 0) {
			if (id == OPT_HELP)
				return verb_print_help(&verb_token);
			as_json = as_json || id == OPT_JSON;
			if (take_token_option(&c, id, value, &e) < 0)
				return say_usage(&verb_token, &e);
		}
		next = id < 0 ? NULL : opt_take(&p);
		if (!word)
			word = next;
		else if (next)
			what = next;
	} while (next);
	if (id < 0 || !word || opt_one_of("token", word, "new ls rm", &e) < 0) {
		if (id >= 0 && !word)
			err_set(&e, -EINVAL, "token needs one of these words: new, ls, rm");
		return say_usage(&verb_token, &e);
	}
	if (state_open(&st, &e) < 0)
		return say_error(&e);
	return str_eq(word, "new")  ? make_token(&st, &c)
	       : str_eq(word, "ls") ? list_tokens(&st, &c, as_json)
				    : revoke_token(&st, &c, what);
}

const struct verb verb_token = {
	.name = "token",
	.group = VERB_MANAGE,
	.synopsis = "new|ls|rm [OPTIONS] [NAME]",
	.help = "who may use the API over a network",
	.opts = token_opts,
	.n_opts = ARRAY_SIZE(token_opts),
	.run = cmd_token,
	.text = "Tokens for the API where it listens on an address (*coffer gateway start --listen*). An _observer_ may read and "
		"ask, an _approver_ also answer, an _operator_ also stop, remove, run commands and roll back. *new* prints the token "
		"once; only its hash is kept. *ls* also shows the sessions of *coffer ui*. *rm* takes effect at once: streams that the "
		"token has open are ended.\n\n"
		"On *api.sock* in the state directory no token is needed: its owner is operator.",
	.examples = "coffer token new --role approver --name phone --expires 30d\n"
		    "coffer token rm phone\n",
};
