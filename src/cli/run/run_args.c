/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the options that describe a sandbox into struct run_args, for every verb that starts one. Only the
 * form of a value is checked here; run_spec.c decides whether it is acceptable.
 */
#include "cli/run/run_args.h"

#include "approval/list/asks.h"
#include "base/clock.h"

#include "cli/common/ask_show.h"
#include "cli/common/run_env.h"
#include "cli/core/say.h"
#include "cli/run/run_profile.h"
#include "cli/run/run_prompt.h"
#include "daemon/child/restart.h"
#include "sys/fence/caps.h"

#include <errno.h>
#include <stdlib.h>

static int add_capabilities(uint64_t *caps, const char *text, struct err *e)
{
	autofree char *copy = strdup(text);
	char *save = NULL;

	if (!copy)
		return err_set(e, -ENOMEM, "out of memory");
	for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		uint64_t mask;
		int r = caps_parse(p, &mask, e);

		if (r < 0)
			return r;
		*caps |= mask;
	}
	return 0;
}

static int add_list_value(struct strv *l, const char *s, struct err *e)
{
	return strv_add(l, s) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static const char *option_name_of(const struct opt *table, size_t n, int id)
{
	for (size_t i = 0; i < n; i++) {
		if (table[i].id == id)
			return table[i].name;
	}
	BUG("an option that is not in the table");
}

static int set_keep(struct run_opts *o, const char *value, struct err *e)
{
	if (str_to_u64(value, &o->keep) < 0 || o->keep == 0 || o->keep > 1000000)
		return err_set(e, -EINVAL, "--keep %s: expected a number of checkpoints, from 1 on", value);
	return 0;
}

static int set_checkpoint(struct run_opts *o, const char *value, struct err *e)
{
	int r = opt_one_of("--checkpoint", value, "each off", e);

	o->each = r == 0;
	o->each_named = true;
	return r < 0 ? r : 0;
}

static int take_ask_prompt(struct run_opts *o, const char *value, struct err *e)
{
	int r = opt_one_of("--ask-prompt", value, RUN_PROMPT_NAMES, e);

	o->no_prompt = r == 1;
	return r < 0 ? r : 0;
}

static int take_net_option(struct run_opts *o, int id, const char *value, struct err *e)
{
	switch (id) {
	case O_NET:
		o->net = value;
		return opt_one_of("--net", value, o->has_net ? NET_NAMES : "none", e) < 0 ? -EINVAL : 0;
	case O_ALLOW:
		return add_list_value(&o->allow, value, e);
	case O_SECRET:
		return add_list_value(&o->secret, value, e);
	case O_RESOLVER:
		return add_list_value(&o->resolvers, value, e);
	case O_ASK_TIMEOUT:
		return cli_ask_timeout_parse(value, &o->ask_timeout, e);
	case O_ASK_PROMPT:
		return take_ask_prompt(o, value, e);
	case O_PUBLISH:
		return add_list_value(&o->publish, value, e);
	default:
		o->policy = value;
		return 0;
	}
}

/* Stores the value of an option that is kept as typed. Returns false if the option is not one of these. */
static bool store_text_option(struct run_args *a, int id, const char *value)
{
	const struct {
		int id;
		const char **to;
	} places[] = {
		{ O_WORKDIR, &a->o.workdir }, { O_WORKSPACE, &a->o.workspace },
		{ O_HOME, &a->o.home },	      { O_ROOT, &a->o.root },
		{ O_IMAGE, &a->o.image },     { O_ENTRYPOINT, &a->o.entrypoint },
		{ O_USER, &a->o.user },	      { O_NAME, &a->o.name },
		{ O_PROFILE, &a->profile },   { O_RUNSC, &a->runsc },
		{ O_REPORT, &a->report },
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (places[i].id == id) {
			*places[i].to = value;
			return true;
		}
	}
	return false;
}

int cli_run_args_take(struct run_args *a, const struct opt *table, size_t n, int id, const char *value,
		      struct err *e)
{
	struct run_opts *o = &a->o;

	if (store_text_option(a, id, value))
		return 0;
	if (id >= O_LIMIT)
		return limits_set(&o->limits, option_name_of(table, n, id), value, e);
	switch (id) {
	case O_ENV:
		return cli_run_env_check(value, e) < 0 ? -EINVAL : add_list_value(&o->env, value, e);
	case O_ENV_FILE:
		return cli_run_env_file(&o->env, value, e);
	case O_VOLUME:
		return add_list_value(&o->volumes, value, e);
	case O_SHOW:
		return add_list_value(&o->show, value, e);
	case O_CAP:
		return add_capabilities(&o->caps, value, e);
	case O_ENGINE:
		return opt_one_of("--engine", value, ENGINE_NAMES, e) < 0 ? -EINVAL : (a->engine = value, 0);
	case O_NET:
	case O_ALLOW:
	case O_SECRET:
	case O_ASK_TIMEOUT:
	case O_ASK_PROMPT:
	case O_RESOLVER:
	case O_PUBLISH:
	case O_POLICY:
		return take_net_option(o, id, value, e);
	case O_LIMITS:
		return limits_preset(&o->limits, value, e);
	case O_CHECKPOINT:
		return set_checkpoint(o, value, e);
	case O_KEEP:
		return set_keep(o, value, e);
	case O_RESTART:
		o->restart = value;
		return restart_parse(value, &(struct restart){ 0 }, e);
	default:
		break;
	}
	o->ephemeral = o->ephemeral || id == O_EPHEMERAL;
	o->map_ids = o->map_ids || id == O_MAP_IDS;
	o->nested = o->nested || id == O_NESTED;
	o->public = o->public || id == O_PUBLIC;
	o->detach = o->detach || id == O_DETACH;
	a->rm = a->rm || id == O_RM;
	o->i_know = o->i_know || id == O_I_KNOW;
	a->settings = a->settings || id == O_SETTINGS;
	a->tty = id == O_TTY ? 1 : id == O_NO_TTY ? 0 : a->tty;
	if (id == O_QUIET)
		say_quiet(true);
	return 0;
}

int cli_run_args_begin(struct run_args *a, struct err *e)
{
	limits_defaults(&a->o.limits);
	a->engine = getenv("COFFER_ENGINE");
	return a->engine && opt_one_of("COFFER_ENGINE", a->engine, ENGINE_NAMES, e) < 0 ? -EINVAL : 0;
}

void cli_run_args_release(struct run_args *a)
{
	strv_release(&a->o.env);
	strv_release(&a->o.volumes);
	strv_release(&a->o.allow);
	strv_release(&a->o.secret);
	strv_release(&a->o.resolvers);
	strv_release(&a->o.publish);
	strv_release(&a->o.show);
	cli_run_profile_release(&a->added);
}
