/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of runs, and the resolution of references that users type. names/NAME is a symlink whose text is an id.
 *
 * A free name is taken by creating the link, which only one process can. A name whose run is gone is taken over, and a name
 * is freed, under a lock on names/ and after a second check: so no process removes a link that was made meanwhile.
 */
#include "base/fd.h"
#include "sandbox/state/state_internal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#define SHOWN_NAMES 8
#define SHOWN_RUNS 5

int state_bad_name(struct err *e, const char *name)
{
	autobuf struct buf b = BUF_INIT;

	str_add_safe(&b, name, strnlen(name, 40), false);
	err_set(e, -EINVAL, "'%s' is not a valid name", buf_cstr(&b));
	return err_hint(
		e, -EINVAL,
		"a name has 1 to 64 letters, digits, dots, dashes and underscores, and starts with a letter or digit");
}

static bool run_exists(const struct state *st, const char *id)
{
	struct stat s;

	return fstatat(st->runs_fd, id, &s, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The id that a name is bound to. -ENOENT when there is no such name, -EBADMSG when the link's text is no id. */
static int read_name_link(int names, const char *name, char id[RUN_ID_LEN + 1])
{
	char text[RUN_ID_LEN + 2] = "";
	ssize_t n = readlinkat(names, name, text, sizeof(text) - 1);

	if (n < 0)
		return -errno;
	if (!state_is_id(text))
		return -EBADMSG;
	memcpy(id, text, RUN_ID_LEN + 1);
	return 0;
}

/* Under the lock: 0 when the name is ours now, -EEXIST when an existing run has it. */
static int take_over_name(const struct state *st, int names, const char *name, const char *id,
			  char other[RUN_ID_LEN + 1])
{
	for (int i = 0; i < 4; i++) {
		int r = read_name_link(names, name, other);

		if (r == 0 && strcmp(other, id) == 0)
			return 0;
		if (r == 0 && run_exists(st, other))
			return -EEXIST;
		if (r == 0 || r == -EBADMSG)
			unlinkat(names, name, 0);
		else if (r != -ENOENT)
			return r;
		if (symlinkat(id, names, name) == 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -EAGAIN;
}

static int name_is_taken(struct err *e, const char *name, const char *other)
{
	err_set(e, -EEXIST, "there is a run called '%s' already (%s)", name, other);
	return err_hint(e, -EEXIST, "choose another name, or remove it with: coffer rm %s", name);
}

int state_name_check(struct state *st, const char *name, struct err *e)
{
	char other[RUN_ID_LEN + 1];
	autoclose int names = openat(st->fd, "names", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (names >= 0 && read_name_link(names, name, other) == 0 && run_exists(st, other))
		return name_is_taken(e, name, other);
	return 0;
}

int state_name_set(struct state *st, const char *name, const char *id, struct err *e)
{
	char other[RUN_ID_LEN + 1] = "";
	autoclose int names = -1;
	int r;

	if (!str_is_name(name))
		return state_bad_name(e, name);
	names = state_subdir(st, "names", e);
	if (names < 0)
		return names;
	if (symlinkat(id, names, name) == 0)
		return 0;
	if (errno != EEXIST)
		return state_cannot(e, -errno, "name a run in the state directory", st->path);
	while (flock(names, LOCK_EX) < 0) {
		if (errno != EINTR)
			return err_sys(e, -errno, "cannot lock %s/names", st->path);
	}
	r = take_over_name(st, names, name, id, other);
	if (r == -EEXIST)
		return name_is_taken(e, name, other);
	return r < 0 ? state_cannot(e, r, "name a run in the state directory", st->path) : 0;
}

void state_name_clear(struct state *st, const char *name, const char *id)
{
	char other[RUN_ID_LEN + 1];
	autoclose int names = openat(st->fd, "names", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (names < 0 || !str_is_name(name))
		return;
	while (flock(names, LOCK_EX) < 0) {
		if (errno != EINTR)
			return;
	}
	if (read_name_link(names, name, other) == 0 && str_eq(other, id))
		unlinkat(names, name, 0);
}

/* Names whose run exists. */
static int list_live_names(const struct state *st, struct strv *ret)
{
	int fd = openat(st->fd, "names", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	autoclosedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	int r = 0;

	if (!d) {
		fd_close(fd);
		return 0;
	}
	while (r == 0 && (de = readdir(d))) {
		char id[RUN_ID_LEN + 1];

		if (str_is_name(de->d_name) && read_name_link(fd, de->d_name, id) == 0 && run_exists(st, id))
			r = strv_add(ret, de->d_name);
	}
	return r;
}

#define SHOWN_COMMAND 32

/* "b69c1f0a2d3e (make test)" */
static void add_unnamed_run(struct state *st, const char *id, struct buf *out)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	bool alive;
	autoclose int fd = state_run_open(st, id, &alive, NULL);

	if (fd < 0 || !state_run_has_begun(fd))
		return;
	buf_addf(out, "%s%s", out->len ? ", " : "", id);
	if (state_meta_read(fd, &m, NULL) < 0 || !m.command)
		return;
	buf_adds(out, " (");
	str_add_safe(out, m.command, strnlen(m.command, SHOWN_COMMAND), false);
	buf_adds(out, strlen(m.command) > SHOWN_COMMAND ? "…)" : ")");
}

/* -ENOENT with a list of the existing runs. */
static int report_no_such_run(struct state *st, const char *ref, struct err *e)
{
	autostrv struct strv names = STRV_INIT, ids = STRV_INIT;
	autobuf struct buf shown = BUF_INIT, there = BUF_INIT;
	const char *near = NULL;

	str_add_safe(&shown, ref, strnlen(ref, 64), false);
	if (list_live_names(st, &names) < 0 || state_run_list(st, &ids, NULL) < 0)
		return err_set(e, -ENOENT, "there is no run '%s'", buf_cstr(&shown));
	for (size_t i = 0; i < names.n && i < SHOWN_NAMES; i++)
		buf_addf(&there, "%s%s", there.len ? ", " : "", names.v[i]);
	if (names.n > SHOWN_NAMES)
		buf_adds(&there, " …");
	/* Runs without a name are listed with their command, since an id alone tells a user nothing. */
	for (size_t i = 0; !names.n && i < ids.n && i < SHOWN_RUNS; i++)
		add_unnamed_run(st, ids.v[i], &there);
	if (!names.n && ids.n > SHOWN_RUNS)
		buf_adds(&there, " …");
	if (names.n)
		near = str_nearest(ref, (const char *const *)names.v, names.n);
	if (!there.len)
		return err_set(e, -ENOENT, "there is no run '%s': no runs are kept", buf_cstr(&shown));
	err_set(e, -ENOENT, "there is no run '%s'; there are: %s", buf_cstr(&shown), buf_cstr(&there));
	return near ? err_hint(e, -ENOENT, "did you mean %s?", near)
		    : err_hint(e, -ENOENT, "coffer ps -a (lists all of them)");
}

static int resolve_last_run(struct state *st, char ret_id[RUN_ID_LEN + 1], struct err *e)
{
	autostrv struct strv ids = STRV_INIT;
	char id[RUN_ID_LEN + 1];
	int r = state_last_id(st, id);

	if (r == 0 && !run_exists(st, id))
		return err_set(e, -ENOENT, "nothing is kept of the last run (%s)", id);
	if (r == -ENOENT) { /* no file `last`, or a damaged one */
		r = state_run_list(st, &ids, e);
		if (r < 0)
			return r;
		if (ids.n == 0)
			return err_set(e, -ENOENT, "there is no last run: nothing was run yet");
		memcpy(id, ids.v[0], sizeof(id));
	}
	if (r < 0)
		return err_sys(e, r, "cannot read %s/last", st->path);
	memcpy(ret_id, id, sizeof(id));
	return 0;
}

static int resolve_id_prefix(struct state *st, const char *ref, char ret_id[RUN_ID_LEN + 1], struct err *e)
{
	autostrv struct strv ids = STRV_INIT;
	autobuf struct buf fits = BUF_INIT;
	const char *found = NULL;
	size_t n = 0;
	int r = state_run_list(st, &ids, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ids.n; i++) {
		if (!str_starts(ids.v[i], ref))
			continue;
		found = ids.v[i];
		if (n++ < SHOWN_RUNS)
			buf_addf(&fits, "%s%s", fits.len ? ", " : "", found);
	}
	if (n == 0)
		return report_no_such_run(st, ref, e);
	if (n > 1) {
		err_set(e, -ENOTUNIQ, "'%s' matches %zu runs: %s%s", ref, n, buf_cstr(&fits),
			n > SHOWN_RUNS ? " …" : "");
		return err_hint(e, -ENOTUNIQ, "write more digits");
	}
	memcpy(ret_id, found, RUN_ID_LEN + 1);
	return 0;
}

int state_resolve(struct state *st, const char *ref, char ret_id[RUN_ID_LEN + 1], struct err *e)
{
	char id[RUN_ID_LEN + 1];

	if (str_eq(ref, "@last"))
		return resolve_last_run(st, ret_id, e);
	if (state_is_id(ref) && run_exists(st, ref)) {
		memcpy(ret_id, ref, RUN_ID_LEN + 1);
		return 0;
	}
	if (str_is_name(ref)) {
		autoclose int names =
			openat(st->fd, "names", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

		if (names >= 0 && read_name_link(names, ref, id) == 0 && run_exists(st, id)) {
			memcpy(ret_id, id, sizeof(id));
			return 0;
		}
	}
	if (*ref && ref[strspn(ref, "0123456789abcdef")] == '\0' && strlen(ref) <= RUN_ID_LEN) {
		if (strlen(ref) >= 2)
			return resolve_id_prefix(st, ref, ret_id, e);
		err_set(e, -ENOENT, "'%s' is too short for the start of an id", ref);
		return err_hint(e, -ENOENT, "write at least two digits");
	}
	return report_no_such_run(st, ref, e);
}
