/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores and reads the command line of a run, for restarts. The file is a list of NUL-terminated texts:
 * version, directory, name, home, then the counted lists of variables and arguments. It may contain values of
 * -e, so it is never printed.
 */
#include "cli/run/run_start.h"

#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define START_MAX (8u << 20)
#define VERSION "1"

/* Variables of the caller that a sandbox gets without -e, and the certificates that its network processes
 * trust. A restart must not see the values of the process that restarts it, so those that were not stored are
 * unset. */
static const char *const inherited_variables[] = { "LANG", "TZ", "TERM", "SSL_CERT_FILE" };
/* Variables by which programs, profiles and the engine are found. If they were not stored, the current values
 * are used. */
static const char *const lookup_variables[] = { "PATH", "HOME", "XDG_CONFIG_HOME", "COFFER_ENGINE",
						"COFFER_RUNSC" };

void cli_run_start_release(struct run_start *s)
{
	strv_release(&s->argv);
	strv_release(&s->env);
	free(s->cwd);
	free(s->name);
	free(s->home);
	*s = (struct run_start){ 0 };
}

static void add_start_text(struct buf *out, const char *s)
{
	buf_add(out, s, strlen(s) + 1);
}

static int add_caller_variable(struct strv *l, const char *name)
{
	const char *v = getenv(name); // NOLINT(concurrency-mt-unsafe): one thread

	return v ? strv_addf(l, "%s=%s", name, v) : 0;
}

static void add_start_list(struct buf *out, size_t n, char *const *v)
{
	buf_addf(out, "%zu", n);
	buf_addc(out, '\0');
	for (size_t i = 0; i < n; i++)
		add_start_text(out, v[i]);
}

int cli_run_start_format(struct buf *out, const struct strv *argv, const struct strv *env, const char *name,
			 const char *home, struct err *e)
{
	autofree char *cwd = getcwd(NULL, 0);
	autostrv struct strv vars = STRV_INIT;
	int r = 0;

	if (!cwd)
		return err_sys(e, -errno, "cannot determine the current directory");
	for (size_t i = 0; i < ARRAY_SIZE(inherited_variables) && r == 0; i++)
		r = add_caller_variable(&vars, inherited_variables[i]);
	for (size_t i = 0; i < ARRAY_SIZE(lookup_variables) && r == 0; i++)
		r = add_caller_variable(&vars, lookup_variables[i]);
	for (size_t i = 0; i < env->n && r == 0; i++)
		r = strchr(env->v[i], '=') || !*env->v[i] ? 0 : add_caller_variable(&vars, env->v[i]);
	add_start_text(out, VERSION);
	add_start_text(out, cwd);
	add_start_text(out, name ? name : "");
	add_start_text(out, home ? home : "");
	add_start_list(out, vars.n, vars.v);
	add_start_list(out, argv->n, argv->v);
	return r < 0 || buf_error(out) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

/* Takes the next NUL-terminated text; NULL at the end. */
static const char *take_start_text(const char **p, const char *end)
{
	const char *s = *p, *nul = s < end ? memchr(s, 0, (size_t)(end - s)) : NULL;

	if (!nul)
		return NULL;
	*p = nul + 1;
	return s;
}

static int take_start_list(const char **p, const char *end, struct strv *ret)
{
	const char *count = take_start_text(p, end);
	uint64_t n;

	if (!count || str_to_u64(count, &n) < 0 || n > START_MAX)
		return -EBADMSG;
	while (n--) {
		const char *s = take_start_text(p, end);

		if (!s)
			return -EBADMSG;
		if (strv_add(ret, s) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int parse_start(const struct buf *b, struct run_start *ret)
{
	const char *p = buf_cstr(b), *end = p + b->len, *version = take_start_text(&p, end);
	char **texts[] = { &ret->cwd, &ret->name, &ret->home };
	int r;

	if (!version || !str_eq(version, VERSION))
		return -EBADMSG;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *s = take_start_text(&p, end);

		if (!s)
			return -EBADMSG;
		*texts[i] = strdup(s);
		if (!*texts[i])
			return -ENOMEM;
	}
	r = take_start_list(&p, end, &ret->env);
	if (r == 0)
		r = take_start_list(&p, end, &ret->argv);
	return r == 0 && (p != end || ret->argv.n == 0) ? -EBADMSG : r;
}

int cli_run_start_read(int run_fd, struct run_start *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct run_start s = { 0 };
	int r = fd_read_file(run_fd, "start", START_MAX, &b);

	if (r == -ENOENT) {
		err_set(e, r,
			"its command line was not stored, because it was started without --name and -d");
		return err_hint(e, r, "coffer run -d --name NAME starts one that can be started again");
	}
	if (r == 0)
		r = parse_start(&b, &s);
	if (r < 0) {
		cli_run_start_release(&s);
		return err_sys(e, r, "cannot read its stored command line");
	}
	*ret = s;
	return 0;
}

int cli_run_start_enter(const struct run_start *s, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(inherited_variables); i++)
		unsetenv(inherited_variables[i]); // NOLINT(concurrency-mt-unsafe): one thread
	for (size_t i = 0; i < s->env.n; i++) {
		autofree char *name = strdup(s->env.v[i]);
		char *eq = name ? strchr(name, '=') : NULL;

		if (!eq)
			return err_set(e, name ? -EBADMSG : -ENOMEM, "cannot set a stored variable");
		*eq = '\0';
		if (setenv(name, eq + 1, 1) < 0) // NOLINT(concurrency-mt-unsafe): one thread
			return err_sys(e, -errno, "cannot set a stored variable");
	}
	return chdir(s->cwd) < 0
		       ? err_sys(e, -errno, "cannot enter %s, the directory that it was started in", s->cwd)
		       : 0;
}
