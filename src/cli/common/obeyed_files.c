/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the files that coffer itself obeys: policies, profiles and programs of the last runs and of all
 * kept runs, and the user's configuration. A sandbox must not get a change of one of them applied unnoticed,
 * so an error means deny.
 */
#include "cli/common/obeyed_files.h"

#include "config/notify_file.h"
#include "run/obeys.h"

#include <errno.h>
#include <stdlib.h>

static int add_once(struct strv *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i], path))
			return 0;
	}
	return strv_add(l, path);
}

static int collect_obeys(struct strv *files, struct strv *policies, const struct obeys *o, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < o->policies.n && r == 0; i++)
		r = add_once(policies, o->policies.v[i]);
	for (size_t i = 0; i < o->files.n && r == 0; i++)
		r = add_once(files, o->files.v[i]);
	return r < 0 ? err_set(e, r, "out of memory") : 0;
}

static int collect_run(struct strv *files, struct strv *policies, struct state *st, const char *id,
		       struct err *e)
{
	CLEANUP(obeys_release) struct obeys o = OBEYS_INIT;
	bool alive;
	autoclose int fd = state_run_open(st, id, &alive, e);
	int r;

	if (fd == -ENOENT) /* the run was removed meanwhile */
		return 0;
	r = fd < 0 ? fd : obeys_read(fd, &o, e);
	return r < 0 ? r : collect_obeys(files, policies, &o, e);
}

static int collect_last(struct strv *files, struct strv *policies, struct state *st, struct err *e)
{
	CLEANUP(obeys_release) struct obeys o = OBEYS_INIT;
	int r = obeys_read_last(st, &o, e);

	return r < 0 ? r : collect_obeys(files, policies, &o, e);
}

/* Adds the files that the policy names now, which may be more than when the run began. A policy that cannot
 * be read names no file: it is in force nowhere. */
static int collect_policy(struct strv *files, const char *path)
{
	CLEANUP(obeys_release) struct obeys o = OBEYS_INIT;
	const char *const paths[] = { path };
	const struct config_policy_args a = {
		.files = paths, .n_files = 1, .mode = -1, .for_checking = true
	};
	struct config_policy cp = { 0 };
	struct err why = ERR_INIT;
	int r = add_once(files, path);

	if (r < 0 || config_policy_load(&a, &cp, &why) < 0)
		return r;
	r = obeys_add_policy(&o, &cp);
	config_policy_release(&cp);
	for (size_t i = 0; i < o.files.n && r == 0; i++)
		r = add_once(files, o.files.v[i]);
	return r;
}

/* The directories with the user's profiles, notify.yaml and the vault's key. */
static int collect_configuration(struct strv *files)
{
	const char *config = getenv("XDG_CONFIG_HOME"); // NOLINT(concurrency-mt-unsafe): one thread
	const char *home = getenv("HOME");		// NOLINT(concurrency-mt-unsafe): one thread
	int r = add_once(files, "/etc/cofferdam");

	if (r == 0 && config && *config == '/')
		r = strv_addf(files, "%s/cofferdam", config);
	if (r == 0 && home && *home == '/')
		r = strv_addf(files, "%s/.config/cofferdam", home);
	return r;
}

/* The programs that notify.yaml starts, and the files that it names. */
static int collect_notify(struct strv *files)
{
	struct notify_conf c = NOTIFY_CONF_INIT;
	struct err why = ERR_INIT;
	int r = 0;

	if (!config_notify_is_there() || config_notify_load(&c, NULL, &why) < 0)
		return 0;
	for (size_t i = 0; i < c.n; i++) {
		const struct notify_target *t = &c.targets[i];

		for (size_t k = 0; k < t->argv.n && r == 0; k++)
			r = *t->argv.v[k] == '/' ? add_once(files, t->argv.v[k]) : 0;
		if (r == 0 && t->secret_file)
			r = add_once(files, t->secret_file);
		if (r == 0 && t->ca)
			r = add_once(files, t->ca);
	}
	config_notify_release(&c);
	return r;
}

int cli_obeyed_collect(struct obeyed *ret, struct state *st, struct err *e)
{
	autostrv struct strv ids = STRV_INIT, files = STRV_INIT, policies = STRV_INIT;
	int r = collect_last(&files, &policies, st, e);

	if (r == 0)
		r = state_run_list(st, &ids, e);
	for (size_t i = 0; i < ids.n && r == 0; i++)
		r = collect_run(&files, &policies, st, ids.v[i], e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < policies.n && r == 0; i++)
		r = collect_policy(&files, policies.v[i]);
	if (r == 0)
		r = collect_configuration(&files);
	if (r == 0)
		r = collect_notify(&files);
	if (r < 0)
		return err_set(e, r, "out of memory");
	for (size_t i = 0; i < files.n && r == 0; i++)
		r = obeyed_add(ret, files.v[i], e);
	return r;
}
