/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads policy files and --allow texts as layers of one policy (policy_file.h), and checks who may write to
 * the files. An unknown key, or a file that cannot be read as a whole, is refused: no part of a policy is
 * ignored.
 */

#include "config/policy_file.h"

#include "base/cleanup.h"
#include "config/acts_read.h"
#include "config/config_lint.h"
#include "config/config_owner.h"
#include "config/conflict.h"
#include "config/read.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int config_no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "out of memory");
}

void config_policy_release(struct config_policy *c)
{
	policy_free(c->policy);
	strv_release(&c->warnings);
	strv_release(&c->conflicts);
	strv_release(&c->files);
	for (size_t i = 0; i < c->n_proxy_secrets; i++)
		free(c->proxy_secrets[i].file);
	free(c->proxy_secrets);
	free(c->secrets);
	for (size_t i = 0; i < c->n_captures; i++) {
		free(c->captures[i].issue);
		strv_release(&c->captures[i].hosts);
	}
	free(c->captures);
	acts_release(&c->acts);
	*c = (struct config_policy){ 0 };
}

/* A file on its way to a layer; the layer's options are set once they are known. */
struct layer_draft {
	struct policy_layer_opts opts;
	struct ynode *root;
	char *path;  /* absolute; NULL: standard input */
	char *dir;   /* base of relative file names */
	char *shown; /* as the user named it, made harmless */
};

static void layer_draft_release(struct layer_draft *d)
{
	ynode_free(d->root);
	free(d->path);
	free(d->dir);
	free(d->shown);
}

/* Finds the absolute path of the file, and the directory that its own file names are relative to. */
static int locate_policy_file(const char *file, struct layer_draft *d, struct err *e)
{
	autofree char *copy = NULL;
	char shown[POLICY_SOURCE_MAX + 1];
	bool input = str_eq(file, "-");

	d->shown = strdup(input ? "standard input" : str_safe(file, shown, sizeof(shown)));
	if (!d->shown)
		return config_no_memory(e);
	d->path = input ? NULL : realpath(file, NULL);
	if (!input && !d->path)
		return err_sys(e, -errno, "cannot open the policy %s", d->shown);
	copy = input ? getcwd(NULL, 0) : strdup(d->path);
	if (!copy)
		return input ? err_sys(e, -errno, "cannot determine the current directory")
			     : config_no_memory(e);
	d->dir = strdup(input ? copy : dirname(copy));
	return d->dir ? 0 : config_no_memory(e);
}

/* Reads and parses one file, and records it and the links that lead to it for reloading. */
static int open_policy_file(const struct config_policy_args *a, const char *file, struct layer_draft *d,
			    struct config_policy *out, struct err *e)
{
	autobuf struct buf text = BUF_INIT;
	autofree char *warning = NULL;
	int r = locate_policy_file(file, d, e);

	r = r < 0 ? r
		  : owner_read(d->path ? d->path : "-", CONFIG_FILE_MAX, !a->for_checking, &text, &warning,
			       e);
	if (r < 0)
		return r;
	if (warning && strv_addf(&out->warnings, "%s:1:1: %s", d->shown, warning) < 0)
		return config_no_memory(e);
	if (d->path && strv_add(&out->files, d->path) < 0)
		return config_no_memory(e);
	r = d->path ? owner_links(file, !a->for_checking, &out->files, e) : 0;
	if (r < 0)
		return r;
	if (a->text && file == a->files[0])
		return ytree_parse(d->shown, a->text, a->text_len, &d->root, e);
	return ytree_parse(d->shown, buf_cstr(&text), text.len, &d->root, e);
}

#define POLICY_NO_MODE (-2) /* of a file that has no rules on the network */

/* Adds one file as a layer of the policy. */
static int load_policy_file(const struct config_policy_args *a, const char *file, struct config_policy *out,
			    int *mode, struct err *e)
{
	CLEANUP(layer_draft_release) struct layer_draft d = { 0 };
	struct source s = { .policy = out->policy, .out = out, .opts = &d.opts, .mode = -1, .e = e };
	int r = open_policy_file(a, file, &d, out, e);
	bool is_layer = r == 0 && !acts_are_all(d.root);

	if (is_layer)
		r = policy_add_layer(out->policy, &d.opts, &s.layer, e);
	if (r < 0)
		return r;
	s.name = d.shown;
	s.dir = d.dir;
	s.check_owner = !a->for_checking;
	r = read_policy(&s, d.root);
	if (r < 0 || !is_layer) {
		*mode = POLICY_NO_MODE;
		return r;
	}
	out->says_egress = true;
	policy_set_layer_opts(out->policy, s.layer, &d.opts);
	*mode = s.mode;
	return config_lint_layer(out->policy, s.layer, s.mode == POLICY_OBSERVE, &out->warnings, e);
}

/* "@policy": the hosts and ports of the files' rules. Their other terms apply through the files' own
 * layers. */
static int allow_hosts_of_files(struct policy *p, unsigned layer, struct err *e)
{
	const size_t n = policy_rule_count(p);
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct policy_rule *f = policy_rule_at(p, i);
		struct policy_rule one = POLICY_RULE_INIT;

		if (f->layer == layer || f->action == POLICY_DENY)
			continue;
		one.action = POLICY_ALLOW;
		one.by_addr = f->by_addr;
		one.host = f->host;
		one.range = f->range;
		memcpy(one.ports, f->ports, sizeof(one.ports));
		one.n_ports = f->n_ports;
		one.port_given = f->port_given;
		one.depth = (int)policy_rule_depth(f);
		snprintf(one.source, sizeof(one.source), "--allow @policy");
		r = policy_add_rule(p, layer, &one, e);
		policy_rule_release(&one);
	}
	return r;
}

/* Adds all --allow texts, of the command line and of the profile, as one layer. */
static int load_allow_layer(const struct config_policy_args *a, struct config_policy *out, struct err *e)
{
	struct policy_layer_opts opts = { 0 };
	struct source s = {
		.name = "--allow", .policy = out->policy, .out = out, .opts = &opts, .mode = -1, .e = e
	};
	char profile[POLICY_SOURCE_MAX + 1];
	int r = policy_add_layer(out->policy, &opts, &s.layer, e);

	snprintf(profile, sizeof(profile), "profile %.80s", a->profile ? a->profile : "");
	out->says_egress = true;
	for (size_t i = 0; r == 0 && i < a->n_allow; i++) {
		if (a->profile && i >= a->n_allow - a->n_profile)
			s.name = profile;
		if (str_eq(a->allow[i], "@policy")) {
			r = allow_hosts_of_files(out->policy, s.layer, e);
		} else if (a->allow[i][0] == '@') {
			r = read_preset_text(&s, a->allow[i]);
			r = r < 0 ? err_wrap(e, r, "--allow") : 0;
		} else {
			r = read_rule_text(&s, NULL, a->allow[i], POLICY_ALLOW);
		}
	}
	return r;
}

/* The stricter mode: enforce, unless every file with a mode and the command line want observe. */
static int combine_modes(const struct config_policy_args *a, const int *modes, struct config_policy *out,
			 struct err *e)
{
	bool enforce = a->mode == POLICY_ENFORCE, observe = a->mode == POLICY_OBSERVE;

	for (size_t i = 0; i < a->n_files; i++) {
		enforce = enforce || modes[i] == POLICY_ENFORCE;
		observe = observe || modes[i] == POLICY_OBSERVE;
		if (a->mode == POLICY_OBSERVE && modes[i] == POLICY_ENFORCE &&
		    strv_addf(&out->conflicts,
			      "--net observe: %s says 'mode: enforce', and the stricter wins",
			      a->files[i]) < 0)
			return config_no_memory(e);
	}
	/* A file without a mode means enforce, unless the command line says observe. */
	for (size_t i = 0; i < a->n_files && a->mode < 0; i++)
		enforce = enforce || modes[i] == -1;
	policy_set_mode(out->policy, observe && !enforce ? POLICY_OBSERVE : POLICY_ENFORCE);
	return 0;
}

/* Loads everything, combines the modes, and seals the policy. */
static int load_layers(const struct config_policy_args *a, struct config_policy *out, struct err *e)
{
	int modes[CONFIG_LAYERS_MAX] = { 0 };
	int r = policy_new(POLICY_ENFORCE, &out->policy, e);

	if (r == 0 && a->n_files > CONFIG_LAYERS_MAX - 1)
		return err_set(e, -E2BIG, "at most %d policy files can be combined", CONFIG_LAYERS_MAX - 1);
	for (size_t i = 0; r == 0 && i < a->n_files; i++)
		r = load_policy_file(a, a->files[i], out, &modes[i], e);
	if (r == 0 && a->n_allow)
		r = load_allow_layer(a, out, e);
	r = r < 0 ? r : combine_modes(a, modes, out, e);
	r = r < 0 ? r : conflict_resolvers(a, out, e);
	return r < 0 ? r : policy_seal(out->policy, e);
}

int config_policy_load(const struct config_policy_args *a, struct config_policy *ret, struct err *e)
{
	struct config_policy out = { 0 };
	struct err own = ERR_INIT;
	int r = load_layers(a, &out, e ? e : &own);

	if (r < 0) {
		config_policy_release(&out);
		return r;
	}
	*ret = out;
	return 0;
}

/* Parses one text as a whole policy. */
static int parse_single_policy(const char *name, const char *text, size_t len, struct config_policy *out,
			       struct err *e)
{
	CLEANUP(layer_draft_release) struct layer_draft d = { 0 };
	struct source s = { .name = name, .out = out, .opts = &d.opts, .mode = -1, .e = e };
	int r = len > CONFIG_FILE_MAX
			? err_set(e, -EFBIG, "%s is larger than %u KiB", name, CONFIG_FILE_MAX / 1024)
			: ytree_parse(name, text, len, &d.root, e);

	r = r < 0 ? r : policy_new(POLICY_ENFORCE, &out->policy, e);
	r = r < 0 ? r : policy_add_layer(out->policy, &d.opts, &s.layer, e);
	if (r < 0)
		return r;
	s.policy = out->policy;
	r = read_policy(&s, d.root);
	if (r < 0)
		return r;
	out->says_egress = !acts_are_all(d.root);
	policy_set_layer_opts(out->policy, s.layer, &d.opts);
	policy_set_mode(out->policy, s.mode == POLICY_OBSERVE ? POLICY_OBSERVE : POLICY_ENFORCE);
	r = config_lint_layer(out->policy, s.layer, s.mode == POLICY_OBSERVE, &out->warnings, e);
	return r < 0 ? r : policy_seal(out->policy, e);
}

int config_policy_parse(const char *name, const char *text, size_t len, struct config_policy *ret,
			struct err *e)
{
	struct config_policy out = { 0 };
	struct err own = ERR_INIT;
	int r = parse_single_policy(name, text, len, &out, e ? e : &own);

	if (r < 0)
		config_policy_release(&out);
	else
		*ret = out;
	return r;
}
