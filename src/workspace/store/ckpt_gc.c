/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage collection of checkpoint content: removes objects that no checkpoint of any run names, and homes that a crash left
 * half made. It must not remove anything while one manifest cannot be read, because that manifest may name any object.
 */
#include "base/fd.h"
#include "base/str.h"
#include "workspace/store/ckpt_list.h"
#include "workspace/wipe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define TIDY_WAIT_MS 1000u

static int mark_run_objects(struct state *st, const char *id, struct hashes *keep, struct err *e)
{
	CLEANUP(ckpts_release) struct ckpts l = { 0 };
	bool alive;
	autoclose int run_fd = state_run_open(st, id, &alive, e), dir = -1;
	int ret;

	if (run_fd < 0)
		return run_fd == -ENOENT ? 0 : run_fd;
	dir = openat(run_fd, "checkpoints", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(e, -errno, "cannot open the checkpoints of %s", id);
	ret = ckpt_list(dir, &l, e);
	for (size_t i = 0; i < l.n && ret == 0; i++) {
		autobuf struct buf b = BUF_INIT;

		ret = ckpt_list_read(dir, &l.v[i], &b, e);
		if (ret == 0) {
			ret = tree_store_hashes(b.data, b.len, keep);
			if (ret == -ENOMEM)
				err_set(e, ret, "out of memory");
			else if (ret < 0)
				ret = err_set(e, -EBADMSG,
					      "checkpoint c%u is damaged: it is not a valid manifest",
					      l.v[i].number);
		}
	}
	if (ret == -EBADMSG)
		return err_hint(e, err_wrap(e, ret, "%s", id),
				"coffer checkpoint rm %s cN removes a checkpoint that is damaged", id);
	return ret;
}

/* Removes homes ".new-RUN…" whose maker died. */
static void drop_half_made_homes(struct state *st)
{
	int fd = openat(st->fd, "homes", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	autoclosedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;

	if (!d) {
		fd_close(fd);
		return;
	}
	while ((de = readdir(d))) {
		char id[RUN_ID_LEN + 1] = "";
		autoclose int run = -1;

		if (!str_starts(de->d_name, ".new-") || strlen(de->d_name) < 5 + RUN_ID_LEN)
			continue;
		memcpy(id, de->d_name + 5, RUN_ID_LEN);
		/* The maker of a run that is locked may be alive. One with a rollback journal is completed by its next user. */
		run = state_run_claim(st, id, NULL);
		if (run == -EBUSY || (run >= 0 && faccessat(run, "rollback", F_OK, AT_SYMLINK_NOFOLLOW) == 0))
			continue;
		(void)!workspace_wipe(fd, de->d_name, -1, NULL, NULL); /* the next call retries */
	}
}

int ckpt_gc(struct state *st, unsigned wait_ms, struct objects_use *ret_gone, struct objects_use *ret_left,
	    struct err *e)
{
	CLEANUP(objects_release) struct objects s = OBJECTS_INIT;
	CLEANUP(hashes_release) struct hashes keep = { 0 };
	autostrv struct strv runs = STRV_INIT;
	int r = objects_open(&s, st->fd, e);

	if (r == 0)
		r = objects_lock_alone(&s, wait_ms, e);
	if (r == 0)
		r = state_run_list(st, &runs, e);
	/* A manifest that cannot be read may name anything: then nothing is removed. */
	for (size_t i = 0; i < runs.n && r == 0; i++)
		r = mark_run_objects(st, runs.v[i], &keep, e);
	if (r < 0)
		return err_wrap(e, r, "nothing was removed");
	hashes_sort(&keep);
	drop_half_made_homes(st);
	return objects_sweep(&s, &keep, ret_gone, ret_left, e);
}

void ckpt_tidy(struct state *st)
{
	struct objects_use gone = { 0 }, left = { 0 };

	(void)!ckpt_gc(st, TIDY_WAIT_MS, &gone, &left, NULL);
}
