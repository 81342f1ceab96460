/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --profile: adds an agent's program, environment, hosts and offers of secrets to the options. Options that
 * were typed are never overridden.
 *
 * The program: an agent below /usr is visible inside anyway. For any other place, the directory of npm
 * packages that contains it (or its own directory) is shown read-only at AGENT_DIR, and so is Node.js if that
 * is not below /usr either.
 *
 * Its name inside: a small script in AGENT_BIN, which is first in PATH, runs the profile's `start` and then
 * the program. So every process inside finds the agent by its name, `coffer exec` as well, and a command
 * keeps the name that was typed. With another root (--image, --root) the agent is part of that root: only the
 * script is made, and it finds the agent by the image's PATH.
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

void cli_run_profile_release(struct run_profile *p)
{
	free(p->argv);
	free(p->home);
	free(p->program);
	free(p->name);
	spec_files_release(&p->files);
	profile_release(&p->profile);
	*p = (struct run_profile){ 0 };
}

static int profile_no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "out of memory");
}

/* The path of the program that a shell would start, with symbolic links resolved; NULL if there is none. */
static char *find_program_in_path(const char *name)
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

/* The length of the directory in `path` that is shown inside: up to the outermost node_modules, else that of
 * the program. */
static size_t shown_directory_len(const char *path)
{
	const char *modules = strstr(path, "/node_modules/");

	return modules ? (size_t)(modules - path) + strlen("/node_modules")
		       : (size_t)(strrchr(path, '/') - path);
}

/* Adds a volume DIR:AGENT_DIR/NAME, and returns the program's path inside. */
static int show_directory_inside(struct run_args *a, const char *path, const char *name, char **ret_inside,
				 struct err *e)
{
	size_t n = shown_directory_len(path);
	autofree char *dir = NULL;
	struct stat st;

	if (n == 0 || strchr(path, ':'))
		return err_set(e, -EINVAL, "%s is in a directory that cannot be shown inside", path);
	if (stat(path, &st) == 0 && st.st_mode & 022)
		return err_set(e, -EPERM, "%s can be written to by others; it is not run", path);
	/* Node.js looks for packages below directories of this name. */
	if (strstr(path, "/node_modules/"))
		name = asprintf(&dir, "%s/node_modules", name) < 0 ? NULL : dir;
	if (!name || strv_addf(&a->o.volumes, "%.*s:" AGENT_DIR "/%s", (int)n, path, name) < 0 ||
	    asprintf(ret_inside, AGENT_DIR "/%s%s", name, path + n) < 0)
		return profile_no_memory(e);
	return 0;
}

static bool env_has_variable(const struct strv *env, const char *assignment)
{
	size_t n = strcspn(assignment, "=");

	for (size_t i = 0; i < env->n; i++) {
		if (strncmp(env->v[i], assignment, n) == 0 && (env->v[i][n] == '=' || env->v[i][n] == '\0'))
			return true;
	}
	return false;
}

static int add_env_unless_set(struct strv *env, const char *assignment, struct err *e)
{
	return env_has_variable(env, assignment) || strv_add(env, assignment) == 0 ? 0 : profile_no_memory(e);
}

/* A Node.js that is not the system's comes first in PATH, as it does outside. */
static int set_agent_path(struct run_args *a, struct err *e)
{
	autofree char *node = find_program_in_path("node"), *inside = NULL, *path = NULL;
	int r = 0;

	if (node && !is_seen_inside(node))
		r = show_directory_inside(a, node, "node", &inside, e);
	if (r < 0)
		return r;
	if (inside)
		*strrchr(inside, '/') = '\0';
	if (asprintf(&path, "PATH=" AGENT_BIN ":%s%s" USUAL_PATH, inside ? inside : "", inside ? ":" : "") <
	    0)
		return profile_no_memory(e);
	return add_env_unless_set(&a->o.env, path, e);
}

/* Sets the agent as the command if none was typed. With `by_path` (PATH was typed) it is named by its full
 * path, because it may not be found by its name. */
static int set_agent_command(struct run_args *a, const struct profile *p, struct run_profile *ret,
			     bool by_path, struct err *e)
{
	int n = a->o.argc ? a->o.argc : 1;

	if (a->o.argc && (!by_path || !str_eq(a->o.argv[0], p->command)))
		return 0;
	if (by_path && asprintf(&ret->program, AGENT_BIN "/%s", p->command) < 0)
		return profile_no_memory(e);
	ret->argv = calloc((size_t)n + 1, sizeof(char *));
	if (!ret->argv)
		return profile_no_memory(e);
	for (int i = 1; i < n; i++)
		ret->argv[i] = a->o.argv[i];
	ret->argv[0] = by_path ? ret->program : p->command;
	a->o.argv = ret->argv;
	a->o.argc = n;
	return 0;
}

/* Quotes a word for a shell script. */
static void add_single_quoted(struct buf *b, const char *s)
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

/* The script copies the settings only once in each sandbox, so that the agent's own changes to them stay. */
static int add_agent_script(const struct run_args *a, const struct profile *p, const char *program,
			    struct run_profile *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	autofree char *path = NULL;

	buf_adds(&b, "#!/bin/sh\n");
	if (a->settings)
		buf_adds(&b,
			 "if [ -d " RUN_SETTINGS_DIR " ] && mkdir /tmp/.coffer-settings 2>/dev/null; then\n"
			 "(cd " RUN_SETTINGS_DIR " && find . -type f -exec sh -c 'for f; do mkdir -p "
			 "\"$HOME/${f%/*}\" && cat \"$f\" >\"$HOME/$f\"; done' sh {} +)\n"
			 "fi\n");
	if (p->start)
		buf_addf(&b, "%s\n", p->start);
	/* In another root the agent is found by its name in PATH; without this line, that would be this
	 * script. */
	if (!strchr(program, '/'))
		buf_adds(&b, "PATH=${PATH#" AGENT_BIN ":}\n");
	buf_adds(&b, "exec ");
	add_single_quoted(&b, program);
	buf_adds(&b, " \"$@\"\n");
	if (buf_error(&b) || asprintf(&path, AGENT_BIN "/%s", p->command) < 0)
		return profile_no_memory(e);
	return spec_files_add(&ret->files, path, b.data, b.len, e);
}

/* Without `start` and settings there is no script, so the image needs no shell. */
static int set_agent_in_root(struct run_args *a, const struct profile *p, struct run_profile *ret,
			     bool by_path, struct err *e)
{
	int r;

	if (!p->start && !a->settings)
		return set_agent_command(a, p, ret, false, e);
	r = add_agent_script(a, p, p->command, ret, e);
	r = r < 0 ? r : set_agent_command(a, p, ret, by_path, e);
	a->o.files = &ret->files;
	a->o.first_in_path = AGENT_BIN;
	return r;
}

static int set_agent(struct run_args *a, const struct profile *p, struct run_profile *ret, struct err *e)
{
	autofree char *path = NULL, *inside = NULL;
	const bool by_path = env_has_variable(&a->o.env, "PATH");
	int r;

	if (!p->command)
		return 0;
	if (a->o.image || a->o.root)
		return set_agent_in_root(a, p, ret, by_path, e);
	path = find_program_in_path(p->command);
	if (!path) {
		r = err_set(e, -ENOENT, "%s is not installed: there is no such program in PATH", p->command);
		return p->install ? err_hint(e, r, "%s", p->install) : r;
	}
	r = is_seen_inside(path) ? 0 : show_directory_inside(a, path, "lib", &inside, e);
	r = r < 0 ? r : add_agent_script(a, p, inside ? inside : path, ret, e);
	r = r < 0 ? r : set_agent_path(a, e);
	r = r < 0 ? r : set_agent_command(a, p, ret, by_path, e);
	if (r == 0)
		a->o.files = &ret->files;
	return r;
}

/* Credentials of the caller's environment are passed only if -e names them. A person who forgot that learns
 * it here, and not from an error of the agent. */
static void note_missing_keys(const struct run_args *a, const struct profile *p)
{
	for (size_t i = 0; i < p->keys.n; i++) {
		if (env_has_variable(&a->o.env, p->keys.v[i]))
			return;
	}
	for (size_t i = 0; i < p->keys.n; i++) {
		if (getenv(p->keys.v[i]))
			say_note("%s is not handed in; -e %s does that, and the sandbox then holds it",
				 p->keys.v[i], p->keys.v[i]);
	}
}

/* Is the variable passed with a value: by -e NAME=VALUE, or by -e NAME where the caller has one? */
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

static const char *find_handed_in(const struct strv *env, const struct strv *names)
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

/* Offers the profile's secrets, except those whose variable was typed with -e: the typed value prevails. */
static void offer_secrets(struct run_args *a, struct run_profile *ret, bool by_path)
{
	const struct profile *p = &ret->profile;
	struct net_offers *l = &ret->offers;

	*l = (struct net_offers){
		.v = ret->offer, .may_bind = !by_path, .has_file = a->o.policy, .say = say_offer
	};
	for (size_t i = 0; i < p->n_secrets; i++) {
		const struct profile_secret *c = &p->secrets[i];

		const char *given = find_handed_in(&a->o.env, &c->env);

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

/* The profile's name for display: for a file, its name without directory and ".yaml". */
static int set_profile_name(struct run_args *a, const char *name, struct run_profile *ret, struct err *e)
{
	const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
	size_t n = strlen(base);

	ret->name = strndup(base, str_ends(base, ".yaml") ? n - 5 : n);
	a->o.profile = ret->name;
	return ret->name ? 0 : profile_no_memory(e);
}

int cli_run_profile_apply(struct run_args *a, const char *name, struct run_profile *ret, struct err *e)
{
	const bool has_net = !(a->o.net && str_eq(a->o.net, "none"));
	struct profile *p = &ret->profile;
	int r = profile_load(p, name, e);

	if (r == 0)
		r = set_agent(a, p, ret, e);
	if (r == 0 && a->settings)
		r = cli_run_settings_collect(p, &ret->files, e);
	if (r == 0)
		r = set_profile_name(a, name, ret, e);
	/* With --net none there is no network, so the profile's secrets and hosts are of no use. */
	if (r == 0 && has_net)
		offer_secrets(a, ret, strchr(name, '/') != NULL);
	for (size_t i = 0; r == 0 && i < p->env.n; i++)
		r = add_env_unless_set(&a->o.env, p->env.v[i], e);
	for (size_t i = 0; r == 0 && i < p->allow.n && has_net; i++)
		r = strv_add(&a->o.allow, p->allow.v[i]) < 0 ? profile_no_memory(e) : 0;
	a->o.n_profile = has_net ? p->allow.n : 0;
	if (r < 0)
		return r;
	if (!a->o.home && p->home)
		a->o.home = ret->home = TAKE_PTR(p->home);
	note_missing_keys(a, p);
	return 0;
}
