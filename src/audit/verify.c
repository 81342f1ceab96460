/* SPDX-License-Identifier: Apache-2.0 */
/* Verifies the real files: opens all of them at one moment under the lock, then reads them without it. The
 * check itself is audit_walk.c's. */
#include "audit/verify.h"

#include "audit/audit_int.h"
#include "audit/audit_walk.h"
#include "audit/heads.h"
#include "audit/segment.h"
#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* The log at one moment. Writers may continue: files are read only up to the size they had. */
struct snapshot {
	struct snapshot_file {
		uint32_t number; /* 0: log.jsonl */
		int fd;
		uint64_t size;
	} files[SEGMENT_MAX + 1];
	size_t n;
	int heads_fd;
	uint64_t heads_size;
	struct buf anchor, pub;
	char key_pub[HEADS_PUB_HEX + 1]; /* empty: no usable key */
	bool has_anchor, has_key, has_pub;
};

static void snapshot_release(struct snapshot *s)
{
	for (size_t i = 0; i < s->n; i++)
		fd_close(s->files[i].fd);
	fd_close(s->heads_fd);
	buf_release(&s->anchor);
	buf_release(&s->pub);
}

/* Opens one segment; a missing one is left to the walk to notice. */
static int snapshot_add_file(struct snapshot *s, int dir_fd, uint32_t number, struct err *e)
{
	struct snapshot_file *f = &s->files[s->n];
	char name[SEGMENT_NAME_LEN] = SEGMENT_CURRENT;

	if (number)
		segment_name(number, name);
	f->number = number;
	f->fd = segment_open(dir_fd, name, O_RDONLY, &f->size);
	if (f->fd == -ENOENT)
		return 0;
	if (f->fd < 0)
		return err_sys(e, f->fd, "cannot read %s of the audit log", name);
	s->n++;
	return 0;
}

/* Reads a small file: 1 if it was read, 0 if there is none. */
static int read_small_file(int dir_fd, const char *name, struct buf *b, struct err *e)
{
	int r = fd_read_file(dir_fd, name, 4096, b);

	if (r == -ENOENT)
		return 0;
	if (r < 0 && r != -EFBIG && r != -ELOOP) /* the walk reports these two as damaged */
		return err_sys(e, r, "cannot read %s of the audit log", name);
	return 1;
}

/* Opens all files of the log at one moment. */
static int snapshot_take(struct snapshot *s, int dir_fd, struct err *e)
{
	struct segment_list old;
	struct stat st;
	int r = segment_list(dir_fd, &old, e);

	for (size_t i = 0; r == 0 && i < old.count; i++)
		r = snapshot_add_file(s, dir_fd, old.n[i], e);
	if (r == 0)
		r = snapshot_add_file(s, dir_fd, 0, e);
	if (r < 0)
		return r;
	r = read_small_file(dir_fd, ANCHOR_NAME, &s->anchor, e);
	if (r < 0)
		return r;
	s->has_anchor = r > 0;
	r = read_small_file(dir_fd, HEADS_PUB, &s->pub, e);
	if (r < 0)
		return r;
	s->has_pub = r > 0;
	if (heads_key_pub(dir_fd, s->key_pub) < 0)
		s->key_pub[0] = '\0';
	s->has_key = fstatat(dir_fd, HEADS_KEY, &st, AT_SYMLINK_NOFOLLOW) == 0;
	s->heads_fd = segment_open(dir_fd, HEADS_NAME, O_RDONLY, &s->heads_size);
	if (s->heads_fd < 0 && s->heads_fd != -ENOENT)
		return err_sys(e, s->heads_fd, "cannot read the audit log's signed heads");
	return 0;
}

/* Feeds all opened files to the walk. */
static int walk_snapshot_files(struct walk *w, struct snapshot *s)
{
	int r = 0;

	if (s->heads_fd >= 0) {
		autolines struct lines in = LINES_FD(s->heads_fd, s->heads_size);

		r = walk_read_heads(w, &in);
	}
	for (size_t i = 0; r == 0 && i < s->n; i++) {
		autolines struct lines in = LINES_FD(s->files[i].fd, s->files[i].size);

		r = walk_segment(w, s->files[i].number, &in);
	}
	return r;
}

/* Verifies the opened files; no lock is needed any more. */
static int check_snapshot(struct snapshot *s, struct audit_verdict *v, struct err *e)
{
	CLEANUP(walk_release) struct walk w;
	autobuf struct buf boot_id = BUF_INIT;
	int r;

	walk_init(&w, v);
	if (fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &boot_id) < 0)
		buf_clear(&boot_id);
	if (boot_id.len > LINE_BOOT_ID_LEN)
		boot_id.data[LINE_BOOT_ID_LEN] = '\0';
	if (s->has_anchor)
		walk_set_anchor(&w, buf_cstr(&s->anchor), s->anchor.len);
	if (s->pub.len == HEADS_PUB_HEX + 1 && s->pub.data[HEADS_PUB_HEX] == '\n') {
		s->pub.data[HEADS_PUB_HEX] = '\0';
		w.pub = s->pub.data;
	}
	w.check_key = true;
	w.key_pub = s->key_pub[0] ? s->key_pub : NULL;
	w.touched = s->has_key || s->has_pub || s->heads_fd >= 0 || s->n > 1;
	r = walk_snapshot_files(&w, s);
	if (r == 0)
		r = walk_end(&w, boot_id.len ? boot_id.data : NULL);
	return r < 0 ? err_sys(e, r, "cannot read the audit log") : 0;
}

int audit_verify_locked(int dir_fd, struct audit_verdict *v, struct err *e)
{
	CLEANUP(snapshot_release) struct snapshot s = { .heads_fd = -1 };
	int r = snapshot_take(&s, dir_fd, e);

	return r < 0 ? r : check_snapshot(&s, v, e);
}

/* Waits for a moment without writers. Without a lock file nothing was written yet, and *ret_fd stays -1. */
static int lock_for_reading(int dir_fd, int *ret_fd, struct err *e)
{
	struct flock fl = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	autoclose int fd = segment_open(dir_fd, AUDIT_LOCK, O_RDONLY, NULL);

	if (fd < 0)
		return fd == -ENOENT ? 0 : err_sys(e, fd, "cannot open the lock of the audit log");
	while (fcntl(fd, F_SETLKW, &fl) < 0) {
		if (errno != EINTR)
			return err_sys(e, -errno, "cannot lock the audit log");
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int audit_verify(int state_fd, struct audit_verdict *v, struct err *e)
{
	CLEANUP(snapshot_release) struct snapshot s = { .heads_fd = -1 };
	autoclose int dir_fd = openat(state_fd, AUDIT_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autoclose int lock_fd = -1;
	int r;

	if (dir_fd < 0 && errno == ENOENT) {
		v->ok = true;
		snprintf(v->note, sizeof(v->note), "nothing has been logged yet");
		return 0;
	}
	if (dir_fd < 0)
		return err_sys(e, -errno, "cannot open the audit log");
	r = lock_for_reading(dir_fd, &lock_fd, e);
	if (r < 0)
		return r;
	r = snapshot_take(&s, dir_fd, e);
	lock_fd = fd_close(lock_fd);
	return r < 0 ? r : check_snapshot(&s, v, e);
}

int audit_verify_bytes(const struct audit_bytes *in, struct audit_verdict *v, struct err *e)
{
	CLEANUP(walk_release) struct walk w;
	autolines struct lines log = LINES_MEM(in->log, in->log_len);
	autolines struct lines heads = LINES_MEM(in->heads, in->heads_len);
	int r;

	walk_init(&w, v);
	walk_set_anchor(&w, in->anchor, in->anchor_len);
	r = walk_read_heads(&w, &heads);
	if (r == 0)
		r = walk_segment(&w, 0, &log);
	if (r == 0)
		r = walk_end(&w, NULL);
	return r < 0 ? err_sys(e, r, "cannot read the audit log") : 0;
}

void audit_verdict_release(struct audit_verdict *v)
{
	free(v->findings);
	*v = AUDIT_VERDICT_INIT;
}
