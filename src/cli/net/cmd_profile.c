/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer profile: lists the agents that coffer knows, and shows what running one of them adds. It must not
 * run anything of a profile.
 */
#include "config/profile.h"

#include "cli/core/docs.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/core/verb.h"
#include "netd/plan/net_offer.h"

#include <errno.h>
#include <stdlib.h>

static int list_profiles(struct err *e)
{
	autostrv struct strv names = STRV_INIT;
	autotable struct table t = TABLE_INIT(3);
	autobuf struct buf out = BUF_INIT;
	int r = profile_list(&names, e);

	if (r == 0 && (table_add(&t, "NAME", 0) < 0 || table_add(&t, "COMMAND", 0) < 0 ||
		       table_add(&t, "ABOUT", 0) < 0))
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		CLEANUP(profile_release) struct profile p = PROFILE_INIT;
		struct err why = ERR_INIT;
		bool good = profile_load(&p, names.v[i], &why) == 0;

		if (table_add(&t, names.v[i], 0) < 0 ||
		    table_add(&t, good && p.command ? p.command : "-", 0) < 0 ||
		    table_add(&t, good ? (p.about ? p.about : "-") : why.msg, 0) < 0)
			r = -ENOMEM;
	}
	if (r < 0)
		return e->code ? r : err_set(e, r, "out of memory");
	table_format(&t, &out);
	return say_out(&out) ? -EIO : 0;
}

static int show_profile(const char *name, struct err *e)
{
	CLEANUP(profile_release) struct profile p = PROFILE_INIT;
	autobuf struct buf text = BUF_INIT, out = BUF_INIT;
	autofree char *from = NULL;
	int r = profile_read(name, &text, &from, e);

	/* A faulty profile is shown all the same, followed by its error. */
	if (r < 0)
		return r;
	str_add_safe(&out, buf_cstr(&text), text.len, true);
	if (say_out(&out))
		return -EIO;
	r = profile_parse(&p, name, from, buf_cstr(&text), text.len, e);
	for (size_t i = 0; r == 0 && i < p.n_secrets; i++) {
		const struct profile_secret *c = &p.secrets[i];

		r = net_offer_check(&(struct net_offer){ c->name, c->host, &c->env, &c->as }, e);
	}
	return r;
}

static int cmd_profile(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, NULL, 0);
	const char *value, *act, *name;
	struct err e = ERR_INIT;
	int r = opt_next(&p, &value, &e), k = 0;

	if (r == OPT_HELP)
		return verb_print_help(&verb_profile);
	act = r == 0 ? opt_take(&p) : NULL;
	name = opt_take(&p);
	if (r == 0 && act)
		r = k = opt_action("profile", act, "ls show", &e);
	if (r >= 0 && k == 1 && !name)
		r = err_set(&e, -EINVAL, "profile show needs a name");
	if (r >= 0 && (opt_take(&p) || (k == 0 && name)))
		r = err_set(&e, -EINVAL, "that is one argument too many");
	if (r < 0)
		return say_usage(&verb_profile, &e);
	r = k == 1 ? show_profile(name, &e) : list_profiles(&e);
	return r < 0 && e.code ? say_error(&e) : r < 0 ? EXIT_OURS : 0;
}

const struct verb verb_profile = {
	.name = "profile",
	.group = VERB_HOST,
	.synopsis = "[ls | show NAME]",
	.help = "show known agents, and what each needs",
	.run = cmd_profile,
	.text = "*coffer run --profile NAME* adds what an agent needs to work behind the wall: its "
		"program is shown inside, and it gets a persistent home, variables, the hosts that it "
		"has to reach, and a checkpoint after every command that is started in it "
		"(*--checkpoint off* turns that off). Options on the command line take precedence.\n"
		"\n"
		"Inside, the agent's name refers to a script in _/opt/agent/bin_, which is first in "
		"PATH: it runs the lines of the profile's *start*, which answer the questions of the "
		"agent's first start, and then the agent. With *--image* and *--root* the script runs "
		"the agent of the image; the image needs _/bin/sh_, and for *--settings* also find, "
		"mkdir and cat. An agent that is started by its path in the image runs without the "
		"script. *--settings* copies your own settings of the agent (the profile's "
		"*settings*), without credentials: " DOCS_SECRETS ".\n"
		"\n"
		"A profile is a file, which *show* prints. A copy in "
		"_/etc/cofferdam/profiles/NAME.yaml_ (root) or "
		"_~/.config/cofferdam/profiles/NAME.yaml_ replaces the built-in one; any other file is "
		"named with a slash: *--profile ./mine.yaml*. It is read when a run starts, so a "
		"change is in force after the next start (*coffer restart*); only a policy file is "
		"read again while a sandbox runs.\n"
		"\n"
		"The *secrets* of a profile are used if they are in the vault (*coffer secret set "
		"anthropic*) and a rule allows their server: the agent finds a placeholder in its "
		"variable, and the key itself is inserted in requests to the hosts that it is bound "
		"to. A secret without a binding is sent to the host that the profile names, unless the "
		"profile was given by its path. If the key is not in the vault, *-e NAME* passes it as "
		"it is, and the sandbox holds it.",
	.examples = "coffer profile ls\n"
		    "coffer secret set anthropic\n"
		    "coffer run --profile claude -- claude -p 'fix the tests'\n"
		    "coffer profile show claude > mine.yaml\n",
};
