/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads profiles of agents: shipped ones and those of the user (profile.h). The keys are read by tables;
 * values are checked where they are used. A file that others may write is refused.
 */

#include "config/profile.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "config/config_owner.h"
#include "config/read.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* As shipped; in src/config/profiles. */
static const struct {
	const char *name, *text;
} shipped[] = {
#include "config/profiles.inc"
};

void profile_release(struct profile *p)
{
	free(p->name);
	free(p->about);
	free(p->command);
	free(p->install);
	free(p->home);
	free(p->start);
	strv_release(&p->settings);
	strv_release(&p->env);
	strv_release(&p->allow);
	strv_release(&p->keys);
	for (size_t i = 0; i < p->n_secrets; i++) {
		free(p->secrets[i].name);
		strv_release(&p->secrets[i].env);
		free(p->secrets[i].host);
		strv_release(&p->secrets[i].as);
	}
	*p = PROFILE_INIT;
}

static int profile_no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "out of memory");
}

/* `to` is the struct profile. */
static int profile_key_version(struct source *s, const struct ynode *v, void *to)
{
	uint32_t version;

	(void)to;
	return read_u32(s, v, 1, 1, &version);
}

static int profile_set_string(struct source *s, const struct ynode *v, const char *expected, char **to)
{
	const char *text;
	int r = read_text(s, v, expected, &text);

	if (r < 0)
		return r;
	*to = strdup(text);
	return *to ? 0 : profile_no_memory(s->e);
}

static int profile_key_about(struct source *s, const struct ynode *v, void *to)
{
	return profile_set_string(s, v, "a line about the agent", &((struct profile *)to)->about);
}

static int profile_key_install(struct source *s, const struct ynode *v, void *to)
{
	return profile_set_string(s, v, "the command that installs the agent",
				  &((struct profile *)to)->install);
}

static int profile_key_command(struct source *s, const struct ynode *v, void *to)
{
	struct profile *p = to;
	int r = profile_set_string(s, v, "the name of a program", &p->command);

	if (r == 0 && !str_is_name(p->command))
		return read_fail(s, v, "command must be the name of a program, not a path or a line");
	return r;
}

static int profile_key_home(struct source *s, const struct ynode *v, void *to)
{
	struct profile *p = to;
	int r = profile_set_string(s, v, "a name", &p->home);

	if (r == 0 && !str_is_name(p->home))
		return read_fail(s, v, "home must be a name: letters, digits, - _ and .");
	return r;
}

static int profile_key_start(struct source *s, const struct ynode *v, void *to)
{
	return profile_set_string(s, v, "lines for /bin/sh", &((struct profile *)to)->start);
}

/* Only below the home: no component is empty, "." or "..". */
static bool is_below_home(const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += n;
		path += *path == '/';
	}
	return true;
}

static int add_profile_setting(struct source *s, const struct ynode *v, void *to)
{
	const char *text;
	int r = read_text(s, v, "a file or directory of the home", &text);

	if (r == 0 && (!*text || !is_below_home(text)))
		return read_fail(
			s, v,
			"settings must be paths below the home: .agent/settings.json, .agent/commands/");
	return r < 0						       ? r
	       : strv_add(&((struct profile *)to)->settings, text) < 0 ? profile_no_memory(s->e)
								       : 0;
}

static int profile_key_settings(struct source *s, const struct ynode *v, void *to)
{
	return read_each(s, v, add_profile_setting, to);
}

static bool is_variable_name(const char *s)
{
	return *s && !(*s >= '0' && *s <= '9') &&
	       s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

/* `env:`, variables with their values. */
static int profile_key_env(struct source *s, const struct ynode *v, void *to)
{
	struct profile *p = to;

	if (v->kind != YNODE_MAP)
		return read_fail(s, v, "env must be variables with values (NAME: VALUE)");
	for (size_t i = 0; i < v->n; i++) {
		if (!is_variable_name(v->keys[i]->text))
			return read_fail(s, v->keys[i], "expected the name of a variable");
		if (v->items[i]->kind != YNODE_TEXT)
			return read_fail(s, v->items[i], "the value of a variable must be a text");
		if (strv_addf(&p->env, "%s=%s", v->keys[i]->text, v->items[i]->text) < 0)
			return profile_no_memory(s->e);
	}
	return 0;
}

static int add_profile_allow(struct source *s, const struct ynode *v, void *to)
{
	const char *text;
	int r = read_text(s, v, "a value of --allow", &text);

	return r < 0 ? r : strv_add(&((struct profile *)to)->allow, text) < 0 ? profile_no_memory(s->e) : 0;
}

static int profile_key_allow(struct source *s, const struct ynode *v, void *to)
{
	return read_each(s, v, add_profile_allow, to);
}

static int add_profile_variable(struct source *s, const struct ynode *v, void *to)
{
	const char *text;
	int r = read_text(s, v, "the name of a variable", &text);

	if (r == 0 && !is_variable_name(text))
		return read_fail(s, v, "expected the name of a variable");
	return r < 0 ? r : strv_add(&((struct profile *)to)->keys, text) < 0 ? profile_no_memory(s->e) : 0;
}

static int profile_key_keys(struct source *s, const struct ynode *v, void *to)
{
	return read_each(s, v, add_profile_variable, to);
}

static int secret_key_name(struct source *s, const struct ynode *v, void *to)
{
	struct profile_secret *c = to;
	int r = profile_set_string(s, v, "the name of a secret", &c->name);

	if (r == 0 && !str_is_name(c->name))
		return read_fail(s, v, "name must be that of a secret: letters, digits, - _ and .");
	return r;
}

static int add_secret_variable(struct source *s, const struct ynode *v, void *to)
{
	const char *text;
	int r = read_text(s, v, "the name of a variable", &text);

	if (r == 0 && !is_variable_name(text))
		return read_fail(s, v, "expected the name of a variable");
	return r < 0							 ? r
	       : strv_add(&((struct profile_secret *)to)->env, text) < 0 ? profile_no_memory(s->e)
									 : 0;
}

static int secret_key_env(struct source *s, const struct ynode *v, void *to)
{
	return read_each(s, v, add_secret_variable, to);
}

static int secret_key_host(struct source *s, const struct ynode *v, void *to)
{
	return profile_set_string(s, v, "HOST[:PORT][/path]", &((struct profile_secret *)to)->host);
}

static int add_secret_way(struct source *s, const struct ynode *v, void *to)
{
	const char *text;
	int r = read_text(s, v, "bearer, basic, header:NAME and so on", &text);

	return r < 0							? r
	       : strv_add(&((struct profile_secret *)to)->as, text) < 0 ? profile_no_memory(s->e)
									: 0;
}

static int secret_key_as(struct source *s, const struct ynode *v, void *to)
{
	return read_each(s, v, add_secret_way, to);
}

static const struct key secret_keys[] = {
	{ "name", secret_key_name },
	{ "env", secret_key_env },
	{ "host", secret_key_host },
	{ "as", secret_key_as },
};

/* One element of `secrets:`. */
static int add_profile_secret(struct source *s, const struct ynode *v, void *to)
{
	struct profile *p = to;
	struct profile_secret *c;
	int r;

	if (p->n_secrets == PROFILE_SECRETS_MAX)
		return read_fail(s, v, "a profile has at most %d secrets", PROFILE_SECRETS_MAX);
	c = &p->secrets[p->n_secrets++];
	/* As in a rule, the name alone suffices. */
	if (v->kind == YNODE_TEXT)
		return secret_key_name(s, v, c);
	r = read_map(s, v, "a secret", secret_keys, ARRAY_SIZE(secret_keys), c);
	if (r == 0 && !c->name)
		return read_fail(s, v, "a secret has a name");
	if (r == 0 && c->as.n && !c->host)
		return read_fail(s, v, "'as' needs a 'host'");
	for (size_t i = 0; r == 0 && i + 1 < p->n_secrets; i++) {
		if (str_eq(p->secrets[i].name, c->name))
			return read_fail(s, v, "the secret '%s' is named twice", c->name);
	}
	return r;
}

static int profile_key_secrets(struct source *s, const struct ynode *v, void *to)
{
	return read_each(s, v, add_profile_secret, to);
}

static const struct key keys[] = {
	{ "version", profile_key_version },   { "about", profile_key_about },
	{ "command", profile_key_command },   { "install", profile_key_install },
	{ "home", profile_key_home },	      { "env", profile_key_env },
	{ "allow", profile_key_allow },	      { "keys", profile_key_keys },
	{ "secrets", profile_key_secrets },   { "start", profile_key_start },
	{ "settings", profile_key_settings },
};

int profile_parse(struct profile *ret, const char *name, const char *from, const char *text, size_t len,
		  struct err *e)
{
	CLEANUP(ynode_freep) struct ynode *root = NULL;
	CLEANUP(profile_release) struct profile p = PROFILE_INIT;
	struct source s = { .name = from, .e = e };
	int r = ytree_parse(from, text, len, &root, e);

	if (r == 0)
		r = read_map(&s, root, "a profile", keys, ARRAY_SIZE(keys), &p);
	if (r == 0 && !ynode_get(root, "version"))
		r = err_set(e, -EINVAL, "%s: a profile must begin with 'version: 1'", from);
	if (r < 0)
		return r;
	p.name = strdup(name);
	if (!p.name)
		return profile_no_memory(e);
	*ret = p;
	p = PROFILE_INIT;
	return 0;
}

/* The directory of the user's own profiles; NULL if it cannot be determined. */
static char *user_profile_dir(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *dir = NULL;
	int r = -1;

	if (geteuid() == 0)
		return strdup("/etc/cofferdam/profiles");
	if (config && config[0] == '/')
		r = asprintf(&dir, "%s/cofferdam/profiles", config);
	else if (home && home[0] == '/')
		r = asprintf(&dir, "%s/.config/cofferdam/profiles", home);
	return r < 0 ? NULL : dir;
}

/* A profile that others may write to would let them choose what is allowed. */
static int read_user_profile(const char *path, struct buf *ret, struct err *e)
{
	int r;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		return -ENOENT;
	r = owner_read(path, PROFILE_FILE_MAX, true, ret, NULL, e);
	return r == -ENOENT ? err_sys(e, -EIO, "cannot read the profile %s", path) : r;
}

/* An error with the nearest name. */
static int refuse_unknown_profile(const char *name, struct err *e)
{
	const char *names[32], *near;
	size_t n = ARRAY_SIZE(shipped) < 32 ? ARRAY_SIZE(shipped) : 32;
	char shown[80];
	int r;

	for (size_t i = 0; i < n; i++)
		names[i] = shipped[i].name;
	near = str_nearest(name, names, n);
	r = err_set(e, -ENOENT, "there is no profile '%s'", str_safe(name, shown, sizeof(shown)));
	return near ? err_hint(e, r, "did you mean '%s'? 'coffer profile ls' shows all", near)
		    : err_hint(
			      e, r,
			      "'coffer profile ls' shows all; a file of your own is named with a slash: ./%s.yaml",
			      str_is_name(name) ? name : "mine");
}

int profile_read(const char *name, struct buf *ret, char **ret_from, struct err *e)
{
	autofree char *dir = user_profile_dir(), *path = NULL;
	int r = -ENOENT;

	if (strchr(name, '/')) {
		r = read_user_profile(name, ret, e);
		if (r == -ENOENT)
			return err_set(e, r, "there is no profile %s", name);
		*ret_from = r == 0 ? strdup(name) : NULL;
		return r;
	}
	if (!str_is_name(name))
		return refuse_unknown_profile(name, e);
	if (dir && asprintf(&path, "%s/%s.yaml", dir, name) < 0)
		return profile_no_memory(e);
	if (path)
		r = read_user_profile(path, ret, e);
	if (r != -ENOENT) {
		*ret_from = r == 0 ? TAKE_PTR(path) : NULL;
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(shipped); i++) {
		if (!str_eq(shipped[i].name, name))
			continue;
		buf_adds(ret, shipped[i].text);
		return asprintf(ret_from, "profile %s", name) < 0 || buf_error(ret) ? profile_no_memory(e)
										    : 0;
	}
	return refuse_unknown_profile(name, e);
}

int profile_load(struct profile *ret, const char *name, struct err *e)
{
	autobuf struct buf text = BUF_INIT;
	autofree char *from = NULL;
	int r = profile_read(name, &text, &from, e);

	return r < 0 ? r : profile_parse(ret, name, from, buf_cstr(&text), text.len, e);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool list_has(const struct strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i], s))
			return true;
	}
	return false;
}

/* Adds the names of the files in the user's directory. */
static int add_user_profiles(struct strv *ret)
{
	autofree char *dir = user_profile_dir();
	autoclosedir DIR *d = dir ? opendir(dir) : NULL;
	const struct dirent *de;
	int r = 0;

	while (r == 0 && d && (de = readdir(d))) {
		autofree char *name =
			str_ends(de->d_name, ".yaml") ? strndup(de->d_name, strlen(de->d_name) - 5) : NULL;

		if (name && str_is_name(name) && !list_has(ret, name))
			r = strv_add(ret, name);
	}
	return r;
}

int profile_list(struct strv *ret, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(shipped); i++)
		r = strv_add(ret, shipped[i].name);
	if (r == 0)
		r = add_user_profiles(ret);
	if (r < 0)
		return profile_no_memory(e);
	qsort(ret->v, ret->n, sizeof(*ret->v), compare_names);
	return 0;
}
