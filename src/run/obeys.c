/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files runs/ID/obeys and STATE/obeyed, and comparing the files that one run obeys with the directories that another may
 * write to. See obeys.h. A sandbox must not write to a file that another one, or the next, obeys.
 */
#include "run/obeys.h"

#include "base/fd.h"
#include "workspace/tree/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define OBEYS_FILE "obeys"
#define LAST_FILE "obeyed"
#define OBEYS_FILE_MAX (4u << 20)
#define OBEYS_FRESH 64 /* so many of the newest keep their places when they are named again */

void obeys_release(struct obeys *o)
{
	strv_release(&o->policies);
	strv_release(&o->files);
	strv_release(&o->writes);
}

int obeys_add(struct strv *l, const char *typed)
{
	autofree char *cwd = *typed == '/' ? NULL : getcwd(NULL, 0);

	if (*typed == '/')
		return strv_add(l, typed);
	return cwd ? strv_addf(l, "%s/%s", cwd, typed) : -errno;
}

int obeys_add_policy(struct obeys *o, const struct config_policy *cp)
{
	int r = 0;

	for (size_t i = 0; i < cp->files.n && r == 0; i++)
		r = strv_add(&o->files, cp->files.v[i]);
	for (size_t i = 0; i < cp->n_proxy_secrets && r == 0; i++)
		r = strv_add(&o->files, cp->proxy_secrets[i].file);
	return r;
}

int obeys_add_spec(struct obeys *o, const struct spec *s)
{
	int r = s->ws_mode == WS_RW && s->ws_path ? strv_add(&o->writes, s->ws_path) : 0;

	for (size_t i = 0; i < s->n_binds && r == 0; i++)
		r = s->binds[i].writable ? strv_add(&o->writes, s->binds[i].src) : 0;
	return r;
}

static void obeys_format(struct buf *out, char kind, const struct strv *l)
{
	for (size_t i = 0; i < l->n; i++) {
		buf_addc(out, kind);
		buf_add(out, l->v[i], strlen(l->v[i]) + 1);
	}
}

/* Each entry is a letter, a path and NUL, since paths may have any other byte. */
static int obeys_parse(int dir, const char *name, struct obeys *o, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(dir, name, OBEYS_FILE_MAX, &b);

	if (r == -ENOENT)
		return 0;
	if (r == 0 && b.len && b.data[b.len - 1] != '\0')
		r = -EBADMSG;
	for (size_t at = 0; r == 0 && at < b.len; at += strlen(b.data + at) + 1) {
		char kind = b.data[at];
		struct strv *l = kind == 'p'   ? &o->policies
				 : kind == 'f' ? &o->files
				 : kind == 'w' ? &o->writes
					       : NULL;

		r = l ? strv_add(l, b.data + at + 1) : -EBADMSG;
	}
	return r < 0 ? err_sys(e, r, "cannot read which files a run obeys") : 0;
}

int obeys_read(int run_fd, struct obeys *o, struct err *e)
{
	return obeys_parse(run_fd, OBEYS_FILE, o, e);
}

int obeys_read_last(struct state *st, struct obeys *o, struct err *e)
{
	return obeys_parse(st->fd, LAST_FILE, o, e);
}

static bool list_has(const struct strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++) {
		if (str_eq(l->v[i], s))
			return true;
	}
	return false;
}

/* Are all of them among the newest entries? Only then the list need not be written again: an entry further down would be
 * dropped early. */
static bool are_newest(const struct strv *l, const struct strv *of)
{
	const struct strv newest = { .v = l->v, .n = l->n < OBEYS_FRESH ? l->n : OBEYS_FRESH };

	for (size_t i = 0; i < of->n; i++) {
		if (!list_has(&newest, of->v[i]))
			return false;
	}
	return true;
}

/* The entries of this run first, then as many of the earlier ones as there is room for. */
static void obeys_format_last(struct buf *out, char kind, const struct strv *now, const struct strv *before)
{
	size_t n = now->n;

	obeys_format(out, kind, now);
	for (size_t i = 0; i < before->n && n < OBEYS_LAST_MAX / 2; i++) {
		if (list_has(now, before->v[i]))
			continue;
		buf_addc(out, kind);
		buf_add(out, before->v[i], strlen(before->v[i]) + 1);
		n++;
	}
}

int obeys_note(const struct obeys *o, struct state *st, struct err *e)
{
	CLEANUP(obeys_release) struct obeys before = OBEYS_INIT;
	autobuf struct buf b = BUF_INIT;
	autoclose int lock = -1;
	int r;

	if (!o->policies.n && !o->files.n)
		return 0;
	lock = openat(st->fd, LAST_FILE ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = lock < 0 || flock(lock, LOCK_EX) < 0 ? -errno : 0;
	if (r < 0)
		return err_sys(e, r, "cannot record which files the run obeys");
	r = obeys_read_last(st, &before, e);
	if (r < 0 || (are_newest(&before.policies, &o->policies) && are_newest(&before.files, &o->files)))
		return r;
	obeys_format_last(&b, 'p', &o->policies, &before.policies);
	obeys_format_last(&b, 'f', &o->files, &before.files);
	r = buf_error(&b)	     ? -ENOMEM
	    : b.len > OBEYS_FILE_MAX ? -E2BIG
				     : fd_replace_file(st->fd, LAST_FILE, b.data, b.len, 0600);
	return r < 0 ? err_sys(e, r, "cannot record which files the run obeys") : 0;
}

/* By the paths as given, by the real ones, and by the directories that a symbolic link on the way leads through. */
static bool file_is_in(const char *file, const char *dir)
{
	autofree char *real_file = realpath(file, NULL), *real_dir = realpath(dir, NULL);

	return path_covers(dir, file) || (real_file && path_covers(dir, real_file)) ||
	       (real_file && real_dir && path_covers(real_dir, real_file)) ||
	       fd_path_leads_through(file, dir) || (real_file && fd_path_leads_through(real_file, dir));
}

/* The first of the files that is in one of the directories. */
static const char *find_file_in(const struct strv *files, const struct strv *dirs)
{
	for (size_t i = 0; i < files->n; i++) {
		for (size_t k = 0; k < dirs->n; k++) {
			if (file_is_in(files->v[i], dirs->v[k]))
				return files->v[i];
		}
	}
	return NULL;
}

static const char *find_obeyed_in(const struct obeys *of, const struct obeys *by)
{
	const char *file = find_file_in(&of->policies, &by->writes);

	return file ? file : find_file_in(&of->files, &by->writes);
}

static int obeys_deny(const char *file, const char *other, bool theirs, struct err *e)
{
	int r;

	if (!other)
		r = err_set(e, -EPERM, "coffer obeys %s, which the sandbox could write to", file);
	else if (theirs)
		r = err_set(e, -EPERM, "%s obeys %s, which this sandbox could write to", other, file);
	else
		r = err_set(e, -EPERM, "this sandbox would obey %s, which %s can write to", file, other);
	return err_hint(e, r,
			"keep the file outside, or give the directory without :rw; --i-know runs it anyway");
}

static int check_other_run(const struct obeys *o, struct state *st, const char *id, struct err *e)
{
	CLEANUP(obeys_release) struct obeys other = OBEYS_INIT;
	bool alive = false;
	autoclose int fd = state_run_open(st, id, &alive, e);
	const char *file;
	int r;

	/* It was removed meanwhile, or does not run. */
	if (fd == -ENOENT || (fd >= 0 && !alive))
		return 0;
	if (fd < 0)
		return fd;
	r = obeys_read(fd, &other, e);
	if (r < 0)
		return r;
	file = find_obeyed_in(&other, o);
	if (file)
		return obeys_deny(file, id, true, e);
	file = find_obeyed_in(o, &other);
	return file ? obeys_deny(file, id, false, e) : 0;
}

/* Each run stores its own entries before it reads those of others: of two that start at once, the later one finds those of
 * the other. */
int obeys_keep(const struct obeys *o, struct state *st, int run_fd, const char *id, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	autostrv struct strv ids = STRV_INIT;
	const char *own = find_file_in(&o->files, &o->writes);
	int r;

	obeys_format(&b, 'p', &o->policies);
	obeys_format(&b, 'f', &o->files);
	obeys_format(&b, 'w', &o->writes);
	if (!b.len)
		return 0;
	r = buf_error(&b)	     ? -ENOMEM
	    : b.len > OBEYS_FILE_MAX ? -E2BIG
				     : fd_replace_file(run_fd, OBEYS_FILE, b.data, b.len, 0600);
	if (r < 0)
		return err_sys(e, r, "cannot store which files the run obeys");
	if (o->i_know)
		return 0;
	if (own)
		return obeys_deny(own, NULL, false, e);
	r = state_run_list(st, &ids, e);
	for (size_t i = 0; i < ids.n && r == 0; i++)
		r = str_eq(ids.v[i], id) ? 0 : check_other_run(o, st, ids.v[i], e);
	return r;
}
