/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Issued credentials: from the policy's `capture:` to issuers that are requested from the vault. Without a
 * vault file, a coffer-vault with an empty store under a random key of its own keeps them.
 *
 * The vault seals them into a file that is opened here (vault/serve/keep.h): `vault/issued/HOME` in the state
 * directory. One run at a time writes it, protected by a lock; another run with the same home reads it and
 * stores nothing.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "netd/plan/net_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_PATIENCE_MS 400 /* cofferd's vault releases it a moment after its run has ended */

static int add_issuer_binding(struct vault_grant *g, const struct config_capture *c, const char *text,
			      const char *as, struct err *e)
{
	struct binding b = { 0 };
	int r = binding_parse_host(text, strlen(text), BINDING_ADDRESS, &b, e);

	if (r == 0)
		r = binding_parse_as(as, strlen(as), &b, e);
	if (r < 0)
		return err_wrap(e, r, "the credential captured as '%s'", c->name);
	if (g->n_bindings == GRANTS_BINDINGS_MAX)
		return err_set(e, -E2BIG, "the credential captured as '%s' is for too many hosts", c->name);
	g->bindings[g->n_bindings++] = b;
	return 0;
}

static int add_issuer(struct net_secrets *s, const struct config_capture *c, struct err *e)
{
	autofree char *endpoint = NULL;
	struct vault_grant *g;
	struct issue spec;
	int r = 0;

	if (grants_by_name(&s->ask, c->name))
		return err_set(e, -EINVAL, "'%s' names both a secret and a captured credential", c->name);
	if (issue_parse(c->issue, &spec) < 0)
		return err_set(e, -EINVAL, "the credential captured as '%s' has an invalid form: %s", c->name,
			       c->issue);
	g = grants_add(&s->ask);
	if (!g)
		return err_set(e, -E2BIG, "a sandbox may use %d secrets at most", GRANTS_MAX);
	g->kind = GRANT_ISSUER;
	snprintf(g->name, sizeof(g->name), "%s", c->name);
	snprintf(g->issue, sizeof(g->issue), "%s", c->issue);
	for (size_t i = 0; r == 0 && i < c->hosts.n; i++)
		r = add_issuer_binding(g, c, c->hosts.v[i], c->as, e);
	if (r < 0 || !c->path[0])
		return r;
	if (asprintf(&endpoint, strchr(c->host, ':') ? "[%s]:%u%s" : "%s:%u%s", c->host, c->port, c->path) <
	    0)
		return err_set(e, -ENOMEM, "out of memory");
	return add_issuer_binding(g, c, endpoint, "body", e);
}

int net_issue_ask(struct net_secrets *s, const struct config_policy *cp, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cp->n_captures; i++)
		r = add_issuer(s, &cp->captures[i], e);
	return r;
}

void net_issue_leave_only(struct net_secrets *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->ask.n; i++) {
		if (s->ask.v[i].kind == GRANT_ISSUER)
			s->ask.v[n++] = s->ask.v[i];
	}
	s->ask.n = n;
	s->by_line = s->offered = s->with_host = 0;
}

int net_issue_without_file(struct net_secrets *s, struct err *e)
{
	unsigned char key[32];
	autoclose int fd = memfd_create("key", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "cannot make a memory file");
	randombytes_buf(key, sizeof(key));
	r = fd_write_all(fd, key, sizeof(key));
	explicit_bzero(key, sizeof(key));
	if (r < 0)
		return err_sys(e, r, "cannot fill a memory file");
	s->files = VAULT_FILES_INIT;
	s->files.kind = VAULT_KEY_FILE;
	s->files.key = TAKE_FD(fd);
	s->files.may_reopen = true;
	s->has_no_file = true;
	return 0;
}

/* --- storage -------------------------------------------------------------------------------------------- */

static bool has_issuer(const struct net_secrets *s)
{
	for (size_t i = 0; i < s->ask.n; i++) {
		if (s->ask.v[i].kind == GRANT_ISSUER)
			return true;
	}
	return false;
}

static bool try_lock(int fd)
{
	for (int ms = 0; ms < LOCK_PATIENCE_MS; ms += 20) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = 20 * (long)NSEC_PER_MSEC }, NULL);
	}
	return false;
}

static int open_issued_of_home(const struct net_secrets *s, const char *home, struct err *e)
{
	autoclose int dir = -1, fd = -1;

	if (mkdirat(s->files.dir, VAULT_ISSUED_DIR, 0700) < 0 && errno != EEXIST)
		return err_sys(e, -errno, "cannot make a directory beside the vault");
	dir = openat(s->files.dir, VAULT_ISSUED_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir >= 0)
		fd = openat(dir, home, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && !try_lock(fd)) {
		fd_close(fd);
		fd = openat(dir, home, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	}
	if (fd < 0)
		return err_sys(e, -errno, "cannot open the credentials issued to the home '%s'", home);
	return TAKE_FD(fd);
}

int net_issue_keep(struct net_secrets *s, const struct spec *spec, struct err *e)
{
	const char *slash = spec->home_path ? strrchr(spec->home_path, '/') : NULL;

	if (!has_issuer(s))
		return 0;
	if (slash && !s->has_no_file) {
		s->keep = open_issued_of_home(s, slash + 1, e);
		return s->keep < 0 ? s->keep : 0;
	}
	s->keep = memfd_create("issued", MFD_CLOEXEC);
	return s->keep < 0 ? err_sys(e, -errno, "cannot make a memory file") : 0;
}
