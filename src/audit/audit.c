/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the log, appends events, and repairs what a crash left. Never appends to a log that does not fit its
 * anchor (audit.A4). */
#include "audit/audit.h"

#include "audit/audit_int.h"
#include "audit/heads.h"
#include "audit/segment.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#define LINE_OVERHEAD 512 /* an upper bound of all outer members together */

static int report_cannot_open(struct err *e, int r, const char *what)
{
	err_sys(e, r, "cannot open the audit log (%s in the state directory)", what);
	if (r == -EROFS || r == -EACCES || r == -EPERM)
		err_hint(
			e, r,
			"name a state directory that you can write with COFFER_STATE; nothing runs unlogged");
	return r;
}

static int read_current_boot_id(char ret[LINE_BOOT_ID_LEN + 1], struct err *e)
{
	autoclose int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, LINE_BOOT_ID_LEN);

	if (n != LINE_BOOT_ID_LEN)
		return err_sys(e, n < 0 ? -errno : -EIO, "cannot read this boot's id from /proc");
	ret[LINE_BOOT_ID_LEN] = '\0';
	return 0;
}

int audit_open_dir(struct audit **ret, int state_fd, struct err *e)
{
	static const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	CLEANUP(audit_freep) struct audit *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return err_sys(e, -ENOMEM, "cannot open the audit log");
	a->lock_fd = a->anchor_fd = a->log_fd = -1;
	a->set = AUDIT_SETTINGS_DEFAULT;
	a->dir_fd = openat(state_fd, AUDIT_DIR, flags);
	if (a->dir_fd < 0 && errno == ENOENT) {
		if (mkdirat(state_fd, AUDIT_DIR, 0700) < 0 && errno != EEXIST)
			return report_cannot_open(e, -errno, "audit");
		a->dir_fd = openat(state_fd, AUDIT_DIR, flags);
	}
	if (a->dir_fd < 0)
		return report_cannot_open(e, -errno, "audit");
	a->lock_fd = openat(a->dir_fd, AUDIT_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (a->lock_fd < 0)
		return report_cannot_open(e, -errno, "audit/lock");
	r = read_current_boot_id(a->boot_id, e);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(a);
	return 0;
}

/* A new log has no anchor yet. A log without an anchor whose other files exist has lost it. */
static bool is_untouched(const struct audit *a)
{
	static const char *const traces[] = { HEADS_NAME, HEADS_KEY, HEADS_PUB };
	struct segment_list old;
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(traces); i++) {
		if (fstatat(a->dir_fd, traces[i], &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
			return false;
	}
	if (segment_list(a->dir_fd, &old, NULL) < 0 || old.count)
		return false;
	return fstatat(a->dir_fd, SEGMENT_CURRENT, &st, AT_SYMLINK_NOFOLLOW) < 0 ? errno == ENOENT
										 : st.st_size == 0;
}

/* audit.A4: refuses to append, and tells the operator what to do. */
static int refuse_misfit(struct err *e, const char *why)
{
	err_set(e, -EUCLEAN, "the audit log does not match its anchor: %s; nothing runs unlogged", why);
	return err_hint(e, -EUCLEAN,
			"'coffer audit verify' shows the break; after you have checked it, "
			"'coffer audit accept --reason TEXT' records it and logging continues");
}

/* Creates an empty log with a random id. Never if traces of an older log exist. */
static int create_new_log(struct audit *a, struct err *e)
{
	struct anchor an = { .hash = LINE_HASH_NONE, .segment = 1 };
	unsigned char id[ANCHOR_LOG_LEN / 2];
	char text[ANCHOR_SIZE + 1];
	int r;

	if (!is_untouched(a))
		return refuse_misfit(e, "the anchor is missing");
	if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return err_sys(e, -EIO, "cannot get random numbers");
	hash_hex(id, sizeof(id), an.log);
	autoclose int fd = segment_open(a->dir_fd, SEGMENT_CURRENT, O_RDWR | O_APPEND | O_CREAT, NULL);
	if (fd < 0)
		return report_cannot_open(e, fd, "audit/log.jsonl");
	anchor_format(&an, text);
	r = fd_replace_file(a->dir_fd, ANCHOR_NAME, text, ANCHOR_SIZE, 0600);
	return r < 0 ? report_cannot_open(e, r, "audit/anchor") : 0;
}

static int reopen_anchor(struct audit *a)
{
	fd_close(a->anchor_fd);
	a->anchor_fd = segment_open(a->dir_fd, ANCHOR_NAME, O_RDWR, NULL);
	return a->anchor_fd < 0 ? a->anchor_fd : 0;
}

/* Opens the anchor; creates the log on first use, under the lock. */
static int open_or_create(struct audit *a, struct err *e)
{
	int r = reopen_anchor(a);

	if (r != -ENOENT)
		return r < 0 ? report_cannot_open(e, r, "audit/anchor") : 0;
	r = audit_lock(a, e);
	if (r < 0)
		return r;
	r = reopen_anchor(a); /* another process may have been first */
	if (r == -ENOENT) {
		r = create_new_log(a, e);
		if (r == 0)
			r = reopen_anchor(a) < 0 ? report_cannot_open(e, a->anchor_fd, "audit/anchor") : 0;
	} else if (r < 0) {
		report_cannot_open(e, r, "audit/anchor");
	}
	audit_unlock(a);
	return r;
}

/* The reserve is created if it is missing or too small: a process killed between the two calls below leaves
 * an empty file. If the disk has no room now, it is created later; that is no error. */
static void make_reserve(const struct audit *a)
{
	struct stat st;

	if (fstatat(a->dir_fd, RESERVE_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size >= AUDIT_RESERVE)
		return;
	autoclose int fd = openat(a->dir_fd, RESERVE_NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && fallocate(fd, 0, 0, AUDIT_RESERVE) < 0)
		(void)unlinkat(a->dir_fd, RESERVE_NAME, 0);
}

int audit_open(struct audit **ret, int state_fd, struct err *e)
{
	CLEANUP(audit_freep) struct audit *a = NULL;
	int r = audit_open_dir(&a, state_fd, e);

	if (r < 0 || !a)
		return r;
	r = open_or_create(a, e);
	if (r < 0)
		return r;
	make_reserve(a);
	*ret = TAKE_PTR(a);
	return 0;
}

void audit_frees_space(struct audit *a)
{
	a->frees = true;
}

void audit_free(struct audit *a)
{
	if (!a)
		return;
	fd_close(a->log_fd);
	fd_close(a->anchor_fd);
	fd_close(a->lock_fd);
	fd_close(a->dir_fd);
	buf_release(&a->line);
	free(a);
}

void audit_configure(struct audit *a, const struct audit_settings *s)
{
	a->set = *s;
	a->set.keep = a->set.keep < 2 ? 2 : a->set.keep > 200 ? 200 : a->set.keep;
	a->set.head_every = a->set.head_every ? a->set.head_every : 1;
}

int audit_lock(struct audit *a, struct err *e)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	while (fcntl(a->lock_fd, F_SETLKW, &fl) < 0) {
		if (errno != EINTR)
			return err_sys(e, -errno, "cannot lock the audit log");
	}
	return 0;
}

void audit_unlock(struct audit *a)
{
	struct flock fl = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	if (fcntl(a->lock_fd, F_SETLK, &fl) < 0)
		BUG("cannot unlock the audit log");
}

static int report_cannot_write(struct err *e, int r)
{
	err_sys(e, r, "cannot write to the audit log");
	if (r == -ENOSPC || r == -EDQUOT)
		return err_hint(
			e, r, "make room where the state directory is (coffer prune); nothing runs unlogged");
	return r;
}

/* Removes a partly written line again. If that fails, too, the log is as a crash would have left it
 * (audit.A2), and the next writer repairs it. */
static void truncate_to_anchor(struct audit *a, const struct anchor *an)
{
	int r = ftruncate(a->log_fd, (off_t)an->size);

	(void)r;
}

int audit_write_line(struct audit *a, const struct anchor *an, const struct audit_event *ev,
		     struct anchor *ret, struct err *e)
{
	struct line_head h = { .seq = an->seq + 1,
			       .time = clock_nsec(CLOCK_REALTIME),
			       .boot = clock_nsec(CLOCK_BOOTTIME),
			       .boot_id = a->boot_id,
			       .type = ev->type,
			       .sandbox = ev->sandbox,
			       .prev = an->hash };
	struct anchor next = *an;
	int r;

	line_format(&h, ev->fields, &a->line);
	if (buf_error(&a->line))
		return report_cannot_write(e, buf_error(&a->line));
	if (a->line.len > LINE_MAX_LEN || next.seq >= LINE_SEQ_MAX)
		return err_set(e, -E2BIG, "an event of type %s is too large for the audit log", ev->type);
	next.seq++;
	next.size += a->line.len;
	hash_sha256_hex(a->line.data, a->line.len - 1, next.hash);
	r = fd_write_all(a->log_fd, a->line.data, a->line.len);
	if ((r == -ENOSPC || r == -EDQUOT) && a->frees && unlinkat(a->dir_fd, RESERVE_NAME, 0) == 0) {
		truncate_to_anchor(a, an);
		r = fd_write_all(a->log_fd, a->line.data, a->line.len);
	}
	if (r < 0) {
		truncate_to_anchor(a, an);
		return report_cannot_write(e, r);
	}
	*ret = next;
	return 0;
}

int audit_emit(struct audit *a, struct anchor *an, const struct audit_event *ev, struct err *e)
{
	struct anchor next;
	int r = audit_write_line(a, an, ev, &next, e);

	if (r < 0)
		return r;
	r = anchor_write(a->anchor_fd, &next);
	if (r < 0) {
		truncate_to_anchor(a, an);
		(void)!anchor_write(a->anchor_fd, an); /* the first error is the one to report */
		return report_cannot_write(e, r);
	}
	*an = next;
	return 0;
}

/* Does the log end where the anchor says? 1: yes; 0: no, and *ret_size is its size. */
static int log_fits_anchor(struct audit *a, struct anchor *an, uint64_t *ret_size)
{
	struct stat st;
	int r = anchor_read(a->anchor_fd, an);

	if (r < 0)
		return r;
	if (fstat(a->anchor_fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0) /* audit_accept() or another program replaced it */
		return 0;
	if (a->segment != an->segment) {
		fd_close(a->log_fd);
		a->segment = 0;
		a->log_fd = segment_open(a->dir_fd, SEGMENT_CURRENT, O_RDWR | O_APPEND, NULL);
		if (a->log_fd < 0)
			return a->log_fd;
		a->segment = an->segment;
	}
	if (fstat(a->log_fd, &st) < 0)
		return -errno;
	*ret_size = (uint64_t)st.st_size;
	return *ret_size == an->size && st.st_nlink > 0;
}

/* Was a rotating process killed halfway? Then the full segment has its new name already. */
static bool is_rotation_unfinished(const struct audit *a, const struct anchor *an, uint64_t size)
{
	char name[SEGMENT_NAME_LEN];
	struct stat st;

	segment_name(an->segment, name);
	return size == 0 && an->size > 0 && fstatat(a->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) && (uint64_t)st.st_size == an->size;
}

/* audit.A3: reports a repair in an event of its own. */
static int log_repair(struct audit *a, struct anchor *an, const char *what, uint64_t bytes, struct err *e)
{
	autobuf struct buf fields = BUF_INIT;
	struct json j = JSON_INIT(&fields);

	json_str(&j, "what", what);
	json_u64(&j, "bytes", bytes);
	return audit_emit(a, an, &(struct audit_event){ "audit.repair", NULL, &fields }, e);
}

/* The log is longer than the anchor says: what a crash leaves (audit.A2) is repaired, anything else is
 * refused. */
static int repair_tail(struct audit *a, struct anchor *an, uint64_t size, struct err *e)
{
	autobuf struct buf tail = BUF_INIT;
	uint64_t extra = size - an->size;
	struct line l;
	ssize_t n;
	char *p;
	int r;

	if (extra > LINE_MAX_LEN)
		return refuse_misfit(e, "the log goes on after it");
	p = buf_reserve(&tail, (size_t)extra);
	n = p ? pread(a->log_fd, p, (size_t)extra, (off_t)an->size) : -1;
	if (n != (ssize_t)extra)
		return err_sys(e, n < 0 ? -errno : -EIO, "cannot read the end of the audit log");
	if (!memchr(p, '\n', (size_t)extra)) {
		if (ftruncate(a->log_fd, (off_t)an->size) < 0)
			return err_sys(e, -errno, "cannot take a torn line off the audit log");
		return log_repair(a, an, "a crash left a torn line, which was taken off", extra, e);
	}
	if (memchr(p, '\n', (size_t)extra) != p + extra - 1 || line_parse(p, (size_t)extra - 1, &l) < 0 ||
	    l.seq != an->seq + 1 || memcmp(l.prev, an->hash, HASH_HEX_LEN) != 0)
		return refuse_misfit(e, "the log goes on after it");
	an->seq++;
	an->size = size;
	hash_sha256_hex(p, (size_t)extra - 1, an->hash);
	r = anchor_write(a->anchor_fd, an);
	if (r < 0)
		return report_cannot_write(e, r);
	return log_repair(a, an, "a crash left a whole line ahead of the anchor, which was kept", extra, e);
}

/* The log does not end where the anchor says: repairs what a crash can leave, and refuses everything else. */
static int repair_log(struct audit *a, struct anchor *an, uint64_t size, struct err *e)
{
	char why[128];

	if (is_rotation_unfinished(a, an, size))
		return audit_rotate_finish(a, an, e);
	if (a->log_fd < 0)
		return refuse_misfit(e, "log.jsonl is missing");
	if (size > an->size)
		return repair_tail(a, an, size, e);
	snprintf(why, sizeof(why), "log.jsonl is %llu bytes shorter than it should be",
		 (unsigned long long)(an->size - size));
	return refuse_misfit(e, why);
}

/* Reads the anchor and brings the log into the state that the anchor describes. */
static int load_anchor(struct audit *a, struct anchor *an, struct err *e)
{
	uint64_t size = 0;
	int r = log_fits_anchor(a, an, &size);

	if (r == 1)
		return 0;
	/* The files may have been replaced under this handle; open them again. */
	fd_close(a->log_fd);
	a->log_fd = -1;
	a->segment = 0;
	size = 0;
	r = reopen_anchor(a);
	if (r == 0)
		r = log_fits_anchor(a, an, &size);
	if (r == 1)
		return 0;
	if (a->anchor_fd < 0)
		return r == -ENOENT ? refuse_misfit(e, "the anchor is missing")
				    : report_cannot_open(e, r, "audit/anchor");
	if (r == -ENODATA || r == -EBADMSG)
		return refuse_misfit(e, "the anchor is not one that coffer wrote");
	if (r < 0 && r != -ENOENT)
		return err_sys(e, r, "cannot read the audit log");
	return repair_log(a, an, size, e);
}

/* Appends one event: signs a head if one is due, rotates if the segment is full, then writes. */
static int append_under_lock(struct audit *a, const struct audit_event *ev, uint64_t *ret_seq, struct err *e)
{
	uint64_t need = LINE_OVERHEAD + (ev->fields ? ev->fields->len : 0);
	struct anchor an;
	int r = load_anchor(a, &an, e);

	if (r < 0)
		return r;
	/* Before the event, so that the event is refused if the head cannot be signed. */
	if (an.seq - an.head >= a->set.head_every && an.seq > 0) {
		r = heads_sign(a->dir_fd, &an, e);
		if (r < 0)
			return r;
		an.head = an.seq;
	}
	if (an.size > 0 && an.size + need > a->set.segment_size) {
		r = audit_rotate(a, &an, e);
		if (r < 0)
			return r;
	}
	if (an.size == 0) {
		r = audit_begin_segment(a, &an, e);
		if (r < 0)
			return r;
	}
	r = audit_emit(a, &an, ev, e);
	if (r == 0)
		*ret_seq = an.seq;
	return r;
}

int audit_append_seq(struct audit *a, const char *type, const char *sandbox, const struct buf *fields,
		     uint64_t *ret_seq, struct err *e)
{
	int r;

	if (!line_type_is_valid(type) || str_starts(type, "audit."))
		return err_set(e, -EINVAL, "the audit log takes no event of the type '%.64s'", type);
	if (sandbox && !str_is_name(sandbox))
		return err_set(e, -EINVAL, "the audit log takes no sandbox of the name '%.64s'", sandbox);
	if (fields && (buf_error(fields) || (fields->len && memchr(fields->data, '\n', fields->len))))
		return err_set(e, -EINVAL, "the fields of an event of type %s are not one line", type);
	r = audit_lock(a, e);
	if (r < 0)
		return r;
	r = append_under_lock(a, &(struct audit_event){ type, sandbox, fields }, ret_seq, e);
	audit_unlock(a);
	return r;
}

int audit_append(struct audit *a, const char *type, const char *sandbox, const struct buf *fields,
		 struct err *e)
{
	uint64_t seq;

	return audit_append_seq(a, type, sandbox, fields, &seq, e);
}
