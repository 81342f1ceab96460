/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run's secrets as seen inside: variables with placeholders, git credential helpers that print them, the
 * path of the ssh-agent and its known hosts. Nothing of it is secret (net_secret.S6), and no file of the user
 * is written.
 */
#include "base/fd.h"
#include "netd/plan/net_secret_int.h"
#include "vault/common/envname.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

void net_secret_env(const char *name, char out[GRANTS_NAME_MAX + 1])
{
	const char *known = envname_variable(name);
	size_t n = 0;

	if (known) {
		snprintf(out, GRANTS_NAME_MAX + 1, "%s", known);
		return;
	}
	if (*name >= '0' && *name <= '9')
		out[n++] = '_';
	for (; *name && n < GRANTS_NAME_MAX; name++) {
		char c = *name;

		out[n++] = (char)(c >= 'a' && c <= 'z'				     ? c - 32
				  : (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c
										     : '_');
	}
	out[n] = '\0';
}

static int put_variable(struct spec *s, const char *name, const char *value, struct err *e)
{
	size_t len = strlen(name);
	autofree char *pair = NULL;

	for (size_t i = 0; i < s->env.n; i++) {
		if (strncmp(s->env.v[i], name, len) != 0 || s->env.v[i][len] != '=')
			continue;
		err_set(e, -EINVAL,
			"the variable %s is to hold a secret's placeholder, and has a value already", name);
		return err_hint(e, -EINVAL, "leave out -e %s", name);
	}
	if (asprintf(&pair, "%s=%s", name, value) < 0 || strv_add(&s->env, pair) < 0)
		return OOM(e);
	return 0;
}

static int take_git_config_count(struct spec *s)
{
	for (size_t i = 0; i < s->env.n; i++) {
		if (strncmp(s->env.v[i], "GIT_CONFIG_COUNT=", 17) == 0) {
			long n = strtol(s->env.v[i] + 17, NULL, 10);

			free(s->env.v[i]);
			memmove(&s->env.v[i], &s->env.v[i + 1], (s->env.n - i) * sizeof(s->env.v[0]));
			s->env.n--;
			return n > 0 && n < 1000 ? (int)n : 0;
		}
	}
	return 0;
}

/* A credential helper for one host, as an inline shell function: it prints the placeholder, and nothing is
 * written to a file. */
static int put_git_helper(struct spec *s, const struct vault_grant *g, const struct binding *b, int n,
			  struct err *e)
{
	char key[64], port[8] = "";
	autofree char *name = NULL, *value = NULL;
	int r;

	if (b->port != BINDING_PORT)
		snprintf(port, sizeof(port), ":%u", b->port);
	if (asprintf(&name, "credential.https://%s%s.helper", b->host, port) < 0)
		return OOM(e);
	if (asprintf(&value,
		     "!f() { test \"$1\" = get && printf 'username=%%s\\npassword=%%s\\n' '%s' '%s'; }; f",
		     b->user[0] && !strchr(b->user, '\'') ? b->user : "x-access-token", g->placeholder) < 0)
		return OOM(e);
	snprintf(key, sizeof(key), "GIT_CONFIG_KEY_%d", n);
	r = put_variable(s, key, name, e);
	snprintf(key, sizeof(key), "GIT_CONFIG_VALUE_%d", n);
	return r < 0 ? r : put_variable(s, key, value, e);
}

static int put_git_helpers(struct spec *s, const struct vault_grants *g, struct err *e)
{
	int first = take_git_config_count(s), n = first, r = 0;
	char count[16];

	for (size_t i = 0; i < g->n && r == 0; i++) {
		for (size_t k = 0; k < g->v[i].n_bindings && r == 0 && g->v[i].kind == GRANT_SECRET; k++) {
			if (g->v[i].bindings[k].as == BINDING_AS_BASIC)
				r = put_git_helper(s, &g->v[i], &g->v[i].bindings[k], n++, e);
		}
	}
	if (r < 0 || n == 0)
		return r;
	snprintf(count, sizeof(count), "%d", n);
	return put_variable(s, "GIT_CONFIG_COUNT", count, e);
}

/* The path of the agent, and the host keys that ssh may trust. */
static int put_ssh_agent(struct net_secrets *s, struct spec *spec, struct err *e)
{
	int r = s->sign.n ? net_secrets_agent(s, spec->id, &s->agent, e) : 0;

	if (r < 0 || !s->sign.n)
		return r;
	if (s->known.len) {
		free(spec->known_hosts);
		spec->known_hosts = strdup(buf_cstr(&s->known));
		if (!spec->known_hosts)
			return OOM(e);
	}
	return put_variable(spec, "SSH_AUTH_SOCK", SPEC_AGENT_PATH, e);
}

static int put_placeholder(struct net_secrets *s, struct spec *spec, const struct vault_grant *g,
			   struct err *e)
{
	int r = g->env[0] ? put_variable(spec, g->env, g->placeholder, e) : 0;
	const char *more;

	for (size_t i = 0; r == 0 && (more = net_offer_env(s, g->name, i)); i++)
		r = put_variable(spec, more, g->placeholder, e);
	return r;
}

/* A run without secrets recognises placeholders of others too, if there were any. */
static int read_run_marks(struct net_secrets *s, const struct spec *spec, const struct state *st,
			  struct err *e)
{
	const char *slash = spec->home_path ? strrchr(spec->home_path, '/') : NULL;
	autoclose int dir = -1;

	if (slash && strlen(slash + 1) >= sizeof(s->home))
		return err_set(e, -ENAMETOOLONG, "the home's name is too long");
	snprintf(s->home, sizeof(s->home), "%s", slash ? slash + 1 : "");
	if (s->ask.n && !s->has_no_file)
		return net_marks_read(s->files.dir, true, &s->marks, e);
	dir = openat(st->fd, "vault", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(e, -errno, "cannot open the vault's directory");
	return net_marks_read(dir, false, &s->marks, e);
}

int net_secrets_start(struct net_secrets *s, struct spec *spec, const struct state *st, struct err *e)
{
	int channel = -1, ret = read_run_marks(s, spec, st, e);

	if (ret < 0)
		return err_wrap(e, ret, "the vault");
	if (s->ask.n + s->sign.n + s->proxies.n == 0)
		return 0;
	s->vault.patience = PATIENCE_MS;
	ret = net_issue_keep(s, spec, e);
	if (ret == 0 && s->ask.n)
		ret = net_secrets_grant(s, spec->id, &channel, e);
	if (ret == 0)
		ret = net_proxy_check(s, spec->id, e);
	/* Each coffer-egress gets a channel of its own later. */
	fd_close(channel);
	for (size_t i = 0; ret == 0 && i < s->granted.n; i++) {
		if (s->granted.v[i].kind == GRANT_SECRET)
			ret = put_placeholder(s, spec, &s->granted.v[i], e);
	}
	if (ret == 0)
		ret = put_git_helpers(spec, &s->granted, e);
	if (ret == 0)
		ret = put_ssh_agent(s, spec, e);
	return ret < 0 ? err_wrap(e, ret, "the vault") : 0;
}
