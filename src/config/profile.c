/* SPDX-License-Identifier: Apache-2.0 */
#include "config/profile.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "config/embed.h"
#include "config/yaml.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

void profile_release(struct profile *p)
{
	free(p->name);
	free(p->about);
	free(p->command);
	free(p->install);
	free(p->home);
	strv_release(&p->env);
	strv_release(&p->allow);
	strv_release(&p->keys);
	*p = PROFILE_INIT;
}

static int out_of_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "out of memory");
}

static int take_version(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e)
{
	uint64_t version;

	(void)ctx;
	return yaml_u64(y, v, "version", 1, 1, &version, e);
}

static int take_string(char **to, const struct yaml *y, const struct yaml_node *v, const char *what,
		       struct err *e)
{
	const char *s;
	int r = yaml_text(y, v, what, &s, e);

	if (r < 0)
		return r;
	*to = strdup(s);
	return *to ? 0 : out_of_memory(e);
}

static int take_about(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e)
{
	return take_string(&((struct profile *)ctx)->about, y, v, "about", e);
}

static int take_install(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e)
{
	return take_string(&((struct profile *)ctx)->install, y, v, "install", e);
}

static int take_command(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e)
{
	struct profile *p = ctx;
	int r = take_string(&p->command, y, v, "command", e);

	if (r == 0 && !str_is_name(p->command))
		return yaml_wrong(y, v, e, "command must be the name of a program, not a path or a line");
	return r;
}

static int take_home(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e)
{
	struct profile *p = ctx;
	int r = take_string(&p->home, y, v, "home", e);

	if (r == 0 && !str_is_name(p->home))
		return yaml_wrong(y, v, e, "home must be a name: letters, digits, - _ and .");
	return r;
}

static bool is_variable(const char *s)
{
	return *s && !(*s >= '0' && *s <= '9') &&
	       s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static int take_env(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e)
{
	struct profile *p = ctx;

	if (v->kind != YAML_MAP)
		return yaml_wrong(y, v, e, "env must be variables with values (NAME: VALUE)");
	for (size_t i = 0; i < v->n; i++) {
		const struct yaml_node *key = v->items[2 * i], *value = v->items[2 * i + 1];

		if (!is_variable(key->text))
			return yaml_wrong(y, key, e, "that is no name of a variable");
		if (value->kind != YAML_TEXT)
			return yaml_wrong(y, value, e, "the value of a variable must be a text");
		if (strv_addf(&p->env, "%s=%s", key->text, value->text) < 0)
			return out_of_memory(e);
	}
	return 0;
}

static int take_allowed(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e)
{
	const char *s;
	int r = yaml_text(y, v, "what is allowed", &s, e);

	return r < 0 ? r : strv_add(&((struct profile *)ctx)->allow, s) < 0 ? out_of_memory(e) : 0;
}

static int take_allow(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e)
{
	return yaml_each(y, v, "allow", false, take_allowed, ctx, e);
}

static int take_key(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e)
{
	const char *s;
	int r = yaml_text(y, v, "a key", &s, e);

	if (r == 0 && !is_variable(s))
		return yaml_wrong(y, v, e, "that is no name of a variable");
	return r < 0 ? r : strv_add(&((struct profile *)ctx)->keys, s) < 0 ? out_of_memory(e) : 0;
}

static int take_keys(void *ctx, const struct yaml *y, const struct yaml_node *v, struct err *e)
{
	return yaml_each(y, v, "keys", false, take_key, ctx, e);
}

static const struct yaml_key keys[] = {
	{ "version", take_version }, { "about", take_about }, { "command", take_command },
	{ "install", take_install }, { "home", take_home },   { "env", take_env },
	{ "allow", take_allow },     { "keys", take_keys },
};

int profile_parse(struct profile *ret, const char *name, const char *from, const char *text, size_t len,
		  struct err *e)
{
	CLEANUP(yaml_release) struct yaml y = YAML_INIT;
	CLEANUP(profile_release) struct profile p = PROFILE_INIT;
	int r = yaml_parse(&y, from, text, len, e);

	if (r == 0)
		r = yaml_take(&y, y.root, "a profile", keys, ARRAY_SIZE(keys), &p, e);
	if (r == 0 && !yaml_get(y.root, "version"))
		r = yaml_wrong(&y, NULL, e, "a profile begins with 'version: 1'");
	if (r < 0)
		return r;
	p.name = strdup(name);
	if (!p.name)
		return out_of_memory(e);
	*ret = p;
	p = PROFILE_INIT;
	return 0;
}

/* Where the user's own are: NULL when that cannot be told. */
static char *own_dir(void)
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

/* A file that somebody else may write to would let that somebody choose what is allowed. */
static int read_file(const char *path, struct buf *ret, struct err *e)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	char *at;
	ssize_t n;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : err_sys(e, -errno, "cannot open the profile %s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, -EINVAL, "the profile %s is not a file", path);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & 022)
		return err_set(e, -EPERM,
			       "the profile %s can be written to by others: chmod go-w, and own it", path);
	at = buf_reserve(ret, PROFILE_FILE_MAX + 1);
	n = at ? read(fd, at, PROFILE_FILE_MAX + 1) : -1;
	if (n < 0)
		return err_sys(e, at ? -errno : -ENOMEM, "cannot read the profile %s", path);
	if (n > (ssize_t)PROFILE_FILE_MAX)
		return err_set(e, -E2BIG, "the profile %s has more than 64 KiB", path);
	ret->len += (size_t)n;
	return 0;
}

static int unknown(const char *name, struct err *e)
{
	const char *names[32], *near;
	size_t n = embed_profiles_n < 32 ? embed_profiles_n : 32;
	char shown[80];
	int r;

	for (size_t i = 0; i < n; i++)
		names[i] = embed_profiles[i].name;
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
	autofree char *dir = own_dir(), *path = NULL;
	int r = -ENOENT;

	if (strchr(name, '/')) {
		r = read_file(name, ret, e);
		if (r == -ENOENT)
			return err_set(e, r, "there is no profile %s", name);
		*ret_from = r == 0 ? strdup(name) : NULL;
		return r;
	}
	if (!str_is_name(name))
		return unknown(name, e);
	if (dir && asprintf(&path, "%s/%s.yaml", dir, name) < 0)
		return out_of_memory(e);
	if (path)
		r = read_file(path, ret, e);
	if (r != -ENOENT) {
		*ret_from = r == 0 ? TAKE_PTR(path) : NULL;
		return r;
	}
	for (size_t i = 0; i < embed_profiles_n; i++) {
		if (!str_eq(embed_profiles[i].name, name))
			continue;
		buf_adds(ret, embed_profiles[i].text);
		return asprintf(ret_from, "profile %s", name) < 0 || buf_error(ret) ? out_of_memory(e) : 0;
	}
	return unknown(name, e);
}

int profile_load(struct profile *ret, const char *name, struct err *e)
{
	autobuf struct buf text = BUF_INIT;
	autofree char *from = NULL;
	int r = profile_read(name, &text, &from, e);

	return r < 0 ? r : profile_parse(ret, name, from, buf_cstr(&text), text.len, e);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has(const struct strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i], s))
			return true;
	}
	return false;
}

static int add_own(struct strv *ret)
{
	autofree char *dir = own_dir();
	autoclosedir DIR *d = dir ? opendir(dir) : NULL;
	const struct dirent *de;
	int r = 0;

	while (r == 0 && d && (de = readdir(d))) {
		autofree char *name =
			str_ends(de->d_name, ".yaml") ? strndup(de->d_name, strlen(de->d_name) - 5) : NULL;

		if (name && str_is_name(name) && !has(ret, name))
			r = strv_add(ret, name);
	}
	return r;
}

int profile_list(struct strv *ret, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < embed_profiles_n; i++)
		r = strv_add(ret, embed_profiles[i].name);
	if (r == 0)
		r = add_own(ret);
	if (r < 0)
		return out_of_memory(e);
	qsort(ret->v, ret->n, sizeof(*ret->v), compare);
	return 0;
}
