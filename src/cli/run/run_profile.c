/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an agent is installed: what is below /usr is seen inside anyway. Of anything else, the directory of npm packages
 * that it is in (or its own directory, where it is none) is shown read-only at AGENT_DIR, and Node.js beside it where that
 * is not below /usr either.
 *
 * Under its own name it is a small script in AGENT_BIN, first in PATH: the profile's `start`, then the program. So it is found
 * by whatever runs inside, by `coffer exec` too, and a command keeps the name that was typed. With a root of its own (--image,
 * --root) the agent is in there: only the script is made, and it finds the agent by the image's PATH.
 */
#include "cli/run/run_profile.h"

#include "base/fd.h"
#include "cli/core/say.h"
#include "cli/run/run_settings.h"
#include "config/profile.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define AGENT_DIR SPEC_FILES_DIR
#define AGENT_BIN AGENT_DIR "/bin"
#define USUAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

void run_profile_release(struct run_profile *p)
{
	free(p->argv);
	free(p->home);
	free(p->program);
	free(p->name);
	spec_files_release(&p->files);
	profile_release(&p->profile);
	*p = (struct run_profile){ 0 };
}

static int out_of_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "out of memory");
}

/* The program that a shell would start, without links. */
static char *find_program(const char *name)
{
	const char *path = getenv("PATH");
	autofree char *copy = strdup(path ? path : "/usr/local/bin:/usr/bin:/bin");
	char *save = NULL;

	for (char *dir = copy ? strtok_r(copy, ":", &save) : NULL; dir; dir = strtok_r(NULL, ":", &save)) {
		autofree char *full = NULL;
		struct stat st;

		if (dir[0] != '/' || asprintf(&full, "%s/%s", dir, name) < 0)
			continue;
		if (stat(full, &st) == 0 && S_ISREG(st.st_mode) && access(full, X_OK) == 0)
			return realpath(full, NULL);
	}
	return NULL;
}

static bool is_seen_inside(const char *path)
{
	return str_starts(path, "/usr/");
}

/* The length of the part of `path` that is shown: up to the outermost node_modules, else its directory. */
static size_t shown_part(const char *path)
{
	const char *modules = strstr(path, "/node_modules/");

	return modules ? (size_t)(modules - path) + strlen("/node_modules")
		       : (size_t)(strrchr(path, '/') - path);
}

/* -v DIR:AGENT_DIR/NAME, and where the program is then. */
static int show(struct run_args *a, const char *path, const char *name, char **ret_inside, struct err *e)
{
	size_t n = shown_part(path);
	autofree char *dir = NULL;
	struct stat st;

	if (n == 0 || strchr(path, ':'))
		return err_set(e, -EINVAL, "%s is in a directory that cannot be shown inside", path);
	if (stat(path, &st) == 0 && st.st_mode & 022)
		return err_set(e, -EPERM, "%s can be written to by others; it is not run", path);
	/* By the name that Node.js looks for: packages find each other below it. */
	if (strstr(path, "/node_modules/"))
		name = asprintf(&dir, "%s/node_modules", name) < 0 ? NULL : dir;
	if (!name || strv_addf(&a->o.volumes, "%.*s:" AGENT_DIR "/%s", (int)n, path, name) < 0 ||
	    asprintf(ret_inside, AGENT_DIR "/%s%s", name, path + n) < 0)
		return out_of_memory(e);
	return 0;
}

static bool has_variable(const struct strv *env, const char *assignment)
{
	size_t n = strcspn(assignment, "=");

	for (size_t i = 0; i < env->n; i++) {
		if (strncmp(env->v[i], assignment, n) == 0 && (env->v[i][n] == '=' || env->v[i][n] == '\0'))
			return true;
	}
	return false;
}

static int add_env(struct strv *env, const char *assignment, struct err *e)
{
	return has_variable(env, assignment) || strv_add(env, assignment) == 0 ? 0 : out_of_memory(e);
}

/* Node.js of another place than the system's comes first in PATH, as it does outside. */
static int set_path(struct run_args *a, struct err *e)
{
	autofree char *node = find_program("node"), *inside = NULL, *path = NULL;
	int r = 0;

	if (node && !is_seen_inside(node))
		r = show(a, node, "node", &inside, e);
	if (r < 0)
		return r;
	if (inside)
		*strrchr(inside, '/') = '\0';
	if (asprintf(&path, "PATH=" AGENT_BIN ":%s%s" USUAL_PATH, inside ? inside : "", inside ? ":" : "") <
	    0)
		return out_of_memory(e);
	return add_env(&a->o.env, path, e);
}

/* Without a command, the agent itself. Where PATH was typed it may not be found by its name. */
static int set_command(struct run_args *a, const struct profile *p, struct run_profile *ret, bool by_path,
		       struct err *e)
{
	int n = a->o.argc ? a->o.argc : 1;

	if (a->o.argc && (!by_path || !str_eq(a->o.argv[0], p->command)))
		return 0;
	if (by_path && asprintf(&ret->program, AGENT_BIN "/%s", p->command) < 0)
		return out_of_memory(e);
	ret->argv = calloc((size_t)n + 1, sizeof(char *));
	if (!ret->argv)
		return out_of_memory(e);
	for (int i = 1; i < n; i++)
		ret->argv[i] = a->o.argv[i];
	ret->argv[0] = by_path ? ret->program : p->command;
	a->o.argv = ret->argv;
	a->o.argc = n;
	return 0;
}

/* As a word of the shell's. */
static void add_quoted(struct buf *b, const char *s)
{
	buf_addc(b, '\'');
	for (; *s; s++) {
		if (*s == '\'')
			buf_adds(b, "'\\''");
		else
			buf_addc(b, *s);
	}
	buf_addc(b, '\'');
}

/* The settings once for each sandbox: what the agent makes of them afterwards is its own. */
static int add_script(const struct run_args *a, const struct profile *p, const char *program,
		      struct run_profile *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	autofree char *path = NULL;

	buf_adds(&b, "#!/bin/sh\n");
	if (a->settings)
		buf_adds(&b, "if mkdir /tmp/.coffer-settings 2>/dev/null; then\n"
			     "(cd " RUN_SETTINGS_DIR " && find . -type f -exec sh -c 'for f; do mkdir -p "
			     "\"$HOME/${f%/*}\" && cat \"$f\" >\"$HOME/$f\"; done' sh {} +)\n"
			     "fi\n");
	if (p->start)
		buf_addf(&b, "%s\n", p->start);
	/* In a root of its own the agent is found by its name, which must not be that of this script. */
	if (!strchr(program, '/'))
		buf_adds(&b, "PATH=${PATH#" AGENT_BIN ":}\n");
	buf_adds(&b, "exec ");
	add_quoted(&b, program);
	buf_adds(&b, " \"$@\"\n");
	if (buf_error(&b) || asprintf(&path, AGENT_BIN "/%s", p->command) < 0)
		return out_of_memory(e);
	return spec_files_add(&ret->files, path, b.data, b.len, e);
}

/* Nothing to do before it: then the image needs no shell. */
static int find_in_root(struct run_args *a, const struct profile *p, struct run_profile *ret, bool by_path,
			struct err *e)
{
	int r;

	if (!p->start && !a->settings)
		return set_command(a, p, ret, false, e);
	r = add_script(a, p, p->command, ret, e);
	r = r < 0 ? r : set_command(a, p, ret, by_path, e);
	a->o.files = &ret->files;
	a->o.first_in_path = AGENT_BIN;
	return r;
}

static int find_agent(struct run_args *a, const struct profile *p, struct run_profile *ret, struct err *e)
{
	autofree char *path = NULL, *inside = NULL;
	const bool by_path = has_variable(&a->o.env, "PATH");
	int r;

	if (!p->command)
		return 0;
	if (a->o.image || a->o.root)
		return find_in_root(a, p, ret, by_path, e);
	path = find_program(p->command);
	if (!path) {
		r = err_set(e, -ENOENT, "%s is not installed: there is no such program in PATH", p->command);
		return p->install ? err_hint(e, r, "%s", p->install) : r;
	}
	r = is_seen_inside(path) ? 0 : show(a, path, "lib", &inside, e);
	r = r < 0 ? r : add_script(a, p, inside ? inside : path, ret, e);
	r = r < 0 ? r : set_path(a, e);
	r = r < 0 ? r : set_command(a, p, ret, by_path, e);
	if (r == 0)
		a->o.files = &ret->files;
	return r;
}

/* Credentials are handed in only when they are named: whoever forgets finds out here and not from an agent's error. */
static void say_keys(const struct run_args *a, const struct profile *p)
{
	for (size_t i = 0; i < p->keys.n; i++) {
		if (has_variable(&a->o.env, p->keys.v[i]))
			return;
	}
	for (size_t i = 0; i < p->keys.n; i++) {
		if (getenv(p->keys.v[i]))
			say_note("%s is not handed in; -e %s does that, and the sandbox then holds it",
				 p->keys.v[i], p->keys.v[i]);
	}
}

/* -e NAME=VALUE, or -e NAME where it has one. */
static bool is_handed_in(const struct strv *env, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < env->n; i++) {
		if (strncmp(env->v[i], name, n) == 0 &&
		    (env->v[i][n] == '=' || (env->v[i][n] == '\0' && getenv(name))))
			return true;
	}
	return false;
}

static const char *handed_in(const struct strv *env, const struct strv *names)
{
	for (size_t i = 0; i < names->n; i++) {
		if (is_handed_in(env, names->v[i]))
			return names->v[i];
	}
	return NULL;
}

static void say_offer(const char *text)
{
	say_note("%s", text);
}

/* Those of the profile but for what was handed in: that was typed, and prevails. */
static void offer_secrets(struct run_args *a, struct run_profile *ret, bool by_path)
{
	const struct profile *p = &ret->profile;
	struct net_offers *l = &ret->offers;

	*l = (struct net_offers){
		.v = ret->offer, .may_bind = !by_path, .has_file = a->o.policy, .say = say_offer
	};
	for (size_t i = 0; i < p->n_secrets; i++) {
		const struct profile_secret *c = &p->secrets[i];

		const char *given = handed_in(&a->o.env, &c->env);

		if (given) {
			say_note(
				"%s is handed in as it is: the sandbox holds it (coffer secret set %s keeps it out)",
				given, c->name);
			l->has_key = true;
			continue;
		}
		l->v[l->n++] = (struct net_offer){ c->name, c->host, &c->env, &c->as };
	}
	for (size_t i = 0; i < p->keys.n; i++)
		l->has_key = l->has_key || is_handed_in(&a->o.env, p->keys.v[i]);
	a->o.offers = l;
}

/* The profile's name as people say it: for a file, its name without directories and ending. */
static int set_name(struct run_args *a, const char *name, struct run_profile *ret, struct err *e)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
	size_t n = strlen(base);

	ret->name = strndup(base, str_ends(base, ".yaml") ? n - 5 : n);
	a->o.profile = ret->name;
	return ret->name ? 0 : out_of_memory(e);
}

int run_profile_apply(struct run_args *a, const char *name, struct run_profile *ret, struct err *e)
{
	const bool has_net = !(a->o.net && str_eq(a->o.net, "none"));
	struct profile *p = &ret->profile;
	int r = profile_load(p, name, e);

	if (r == 0)
		r = find_agent(a, p, ret, e);
	if (r == 0 && a->settings)
		r = run_settings_collect(p, &ret->files, e);
	if (r == 0)
		r = set_name(a, name, ret, e);
	/* Whoever wants no network gets none. */
	if (r == 0 && has_net)
		offer_secrets(a, ret, strchr(name, '/') != NULL);
	for (size_t i = 0; r == 0 && i < p->env.n; i++)
		r = add_env(&a->o.env, p->env.v[i], e);
	for (size_t i = 0; r == 0 && i < p->allow.n && has_net; i++)
		r = strv_add(&a->o.allow, p->allow.v[i]) < 0 ? out_of_memory(e) : 0;
	a->o.n_profile = has_net ? p->allow.n : 0;
	if (r < 0)
		return r;
	if (!a->o.home && p->home)
		a->o.home = ret->home = TAKE_PTR(p->home);
	say_keys(a, p);
	return 0;
}
