/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer secret check: reports secrets that have expired, are due, unbound or weak, and searches files for
 * values of the vault and for well-known tokens. The comparison with the vault's values happens in
 * coffer-vault; this process only opens the files.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "cli/core/say.h"
#include "cli/secret/cmd_secret.h"
#include "vault/client/leak.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define HITS_MAX 20 /* hits of each kind in one file */
#define DEPTH_MAX 128

struct check {
	struct secret_session *s;
	struct buf path; /* of the file or directory being searched */
	struct buf out;
	uint64_t files, leaks, unread;
};

static void add_leak_path(struct check *c)
{
	str_add_safe(&c->out, buf_cstr(&c->path), c->path.len, false);
}

static int on_leak(const struct leak *l, void *ctx)
{
	struct check *c = ctx;

	c->leaks++;
	add_leak_path(c);
	buf_addf(&c->out, ": byte %llu: ", (unsigned long long)l->at);
	if (l->name)
		buf_addf(&c->out, "the secret '%s', %s\n", l->name, l->what);
	else
		buf_addf(&c->out, "looks like %s\n", l->what);
	return buf_error(&c->out);
}

static int search_open_file(struct check *c, int fd, struct err *e)
{
	c->files++;
	return leak_find(fd, c->s->proc.pid > 0 ? &c->s->proc : NULL, HITS_MAX, on_leak, c, e);
}

/* NOLINTBEGIN(misc-no-recursion): at most DEPTH_MAX levels */
static int search_path(struct check *c, int dirfd, const char *name, unsigned depth, struct err *e);

static int search_directory(struct check *c, int fd, unsigned depth, struct err *e)
{
	size_t len = c->path.len;
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	autoclosedir DIR *d = own < 0 ? NULL : fdopendir(own);
	struct dirent *n;
	int r = 0;

	if (!d) {
		fd_close(own);
		return err_sys(e, -errno, "cannot read %s", buf_cstr(&c->path));
	}
	if (depth == DEPTH_MAX)
		return err_set(e, -ELOOP, "%s has more levels of directories than are searched",
			       buf_cstr(&c->path));
	while (r == 0 && (n = readdir(d))) {
		if (str_eq(n->d_name, ".") || str_eq(n->d_name, ".."))
			continue;
		buf_addf(&c->path, "%s%s", len && c->path.data[len - 1] == '/' ? "" : "/", n->d_name);
		r = search_path(c, dirfd(d), n->d_name, depth + 1, e);
		c->path.len = len;
		c->path.data[len] = '\0';
	}
	return r;
}

/* A file below a directory that cannot be read is counted, and the count is reported at the end. */
static int search_path(struct check *c, int dirfd, const char *name, unsigned depth, struct err *e)
{
	autoclose int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ELOOP && depth > 0)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0) {
		if (depth == 0)
			return err_sys(e, -errno, "cannot open %s", name);
		/* Sockets have nothing to read. */
		if (errno != ENXIO)
			c->unread++;
		return 0;
	}
	if (S_ISDIR(st.st_mode))
		return search_directory(c, fd, depth, e);
	return S_ISREG(st.st_mode) ? search_open_file(c, fd, e) : 0;
}
/* NOLINTEND(misc-no-recursion) */

static int search_paths(struct check *c, const struct secret_args *a, struct err *e)
{
	int r = 0;

	for (int i = 0; i < a->argc && r == 0; i++) {
		buf_clear(&c->path);
		buf_adds(&c->path, a->argv[i]);
		r = search_path(c, AT_FDCWD, a->argv[i], 0, e);
	}
	return r;
}

static void report_item(struct check *c, const struct secret_item *i, uint64_t now, uint64_t *bad)
{
	char when[CLOCK_TEXT_LEN], profile[64];

	clock_format(i->expires * NSEC_PER_SEC, when);
	when[10] = '\0';
	if (cli_secret_item_has_expired(i, now)) {
		buf_addf(&c->out, "%s: expired on %s; coffer secret rotate %s\n", i->name, when, i->name);
		++*bad;
	} else if (cli_secret_item_expires_soon(i, now)) {
		buf_addf(&c->out, "%s: expires on %s\n", i->name, when);
	}
	if (cli_secret_item_is_due(i, now)) {
		buf_addf(&c->out, "%s: is due for rotation; coffer secret rotate --due\n", i->name);
		++*bad;
	}
	if (i->n_bindings == 0 && !cli_secret_find_profile(i->name, profile))
		buf_addf(&c->out, "%s: is bound to no host; coffer secret bind %s --host HOST\n", i->name,
			 i->name);
	if (i->flags & VAULT_SET_WEAK && i->len < VAULT_STRONG_MIN)
		buf_addf(&c->out, "%s: is weak, under %d bytes\n", i->name, VAULT_STRONG_MIN);
}

static int check_vault(struct check *c, uint64_t *bad, struct err *e)
{
	CLEANUP(cli_secret_items_release) struct secret_items l = { 0 };
	uint64_t now = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
	int r = c->s->proc.pid > 0 ? cli_secret_items_get(c->s, &l, e) : 0;

	for (size_t i = 0; r == 0 && i < l.n; i++)
		report_item(c, &l.v[i], now, bad);
	return r;
}

int cli_secret_check(struct secret_session *s, const struct secret_args *a, struct err *e)
{
	struct check c = { .s = s };
	uint64_t bad = 0;
	int r = check_vault(&c, &bad, e);

	if (r == 0)
		r = search_paths(&c, a, e);
	if (r == 0 && buf_error(&c.out))
		r = err_set(e, -ENOMEM, "out of memory");
	if (r == 0 && say_out(&c.out))
		r = -EIO;
	if (r == 0 && c.unread)
		say_warn("%llu files or directories could not be read and were not searched",
			 (unsigned long long)c.unread);
	if (r == 0 && a->argc)
		say_note("%llu file%s searched, %llu credential%s found", (unsigned long long)c.files,
			 c.files == 1 ? "" : "s", (unsigned long long)c.leaks, c.leaks == 1 ? "" : "s");
	buf_release(&c.path);
	buf_release(&c.out);
	return r < 0 ? r : c.leaks || bad || c.unread;
}
