/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two files of a session's grants (granted.h): the lock that shows that the session lives, and the grants
 * with their digest. Used by ask servers and by clients, so it must not depend on the server.
 */
#include "approval/list/granted.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX (32u << 20)

/* The same as asks_clock(), which clients do not link. */
static struct asks_now asks_time_now(void)
{
	return (struct asks_now){ clock_nsec(CLOCK_BOOTTIME), clock_nsec(CLOCK_REALTIME) };
}

/* ---- Is the session alive (granted.G1)? ---- */

static struct flock whole_file_lock(short type)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET };
}

int granted_session_begin(int run_fd, struct err *e)
{
	struct flock l = whole_file_lock(F_WRLCK);
	autoclose int fd = openat(run_fd, GRANTED_SESSION, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(e, -errno, "cannot begin the session");
	if (fcntl(fd, F_SETLK, &l) < 0)
		return err_set(e, -EBUSY, "another process holds this session");
	return TAKE_FD(fd);
}

bool granted_session_is_alive(int run_fd)
{
	struct flock l = whole_file_lock(F_WRLCK);
	autoclose int fd = openat(run_fd, GRANTED_SESSION, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	return fd >= 0 && fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

void granted_session_wait(int run_fd)
{
	struct flock l = whole_file_lock(F_WRLCK);
	autoclose int fd = openat(run_fd, GRANTED_SESSION, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	while (fd >= 0 && fcntl(fd, F_SETLKW, &l) < 0 && errno == EINTR)
		;
}

/* ---- The file. ---- */

/* The digest binds the grants to their run (granted.G2). */
static void granted_digest(const char *run, const char *text, size_t len, char ret[HASH_HEX_LEN + 1])
{
	unsigned char sum[HASH_LEN];
	struct hash_stream h;

	hash_stream_init(&h);
	hash_stream_add(&h, run, strlen(run) + 1);
	hash_stream_add(&h, text, len);
	hash_stream_end(&h, sum);
	hash_hex(sum, HASH_LEN, ret);
}

static int load_granted_text(const char *text, size_t len, const char *run, struct asks *l, struct asks_now t,
			     struct err *e)
{
	char sum[HASH_HEX_LEN + 1];

	if (len > HASH_HEX_LEN && text[HASH_HEX_LEN] == '\n') {
		const char *rest = text + HASH_HEX_LEN + 1;

		len -= HASH_HEX_LEN + 1;
		granted_digest(run, rest, len, sum);
		if (memcmp(sum, text, HASH_HEX_LEN) == 0)
			return asks_kept_load(l, t, rest, len, e);
	}
	return err_set(e, -EBADMSG, "the file of the session's grants is damaged, so none of them holds");
}

int granted_load(int run_fd, struct asks *l, struct asks_now t, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(run_fd, GRANTED_FILE, FILE_MAX, &b);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_sys(e, r, "cannot read the session's grants");
	return load_granted_text(buf_cstr(&b), b.len, asks_run(l), l, t, e);
}

static int no_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	(void)ctx;
	(void)ret_seq;
	(void)type;
	(void)fields;
	return 0;
}

static void no_tell(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why)
{
	(void)ctx;
	(void)waiter;
	(void)allow;
	(void)id;
	(void)why;
}

static const struct asks_out nobody = { .event = no_event, .tell = no_tell };

/* One grant that cannot be read back would invalidate all others (granted.G2), so it is refused here. */
static int check_is_readable(const struct buf *b, const char *run, struct err *e)
{
	CLEANUP(asks_freep) struct asks *l = asks_new(run, 0, &nobody);
	struct err own = ERR_INIT;

	if (!l || buf_error(b))
		return err_set(e, -ENOMEM, "out of memory");
	return load_granted_text(buf_cstr(b), b->len, run, l, asks_time_now(), &own) < 0
		       ? err_set(e, -EINVAL, "it cannot be kept for the session")
		       : 0;
}

static int write_granted(int run_fd, const struct buf *text, const char *run, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	char sum[HASH_HEX_LEN + 1];
	int r;

	granted_digest(run, text->data, text->len, sum);
	buf_addf(&b, "%s\n", sum);
	buf_add(&b, text->data, text->len);
	r = buf_error(text) ? err_set(e, -ENOMEM, "out of memory") : check_is_readable(&b, run, e);
	if (r < 0)
		return r;
	r = fd_replace_file(run_fd, GRANTED_FILE, b.data, b.len, 0600);
	return r < 0 ? err_sys(e, r, "it cannot be saved") : 0;
}

static int remove_granted(int run_fd, struct err *e)
{
	return unlinkat(run_fd, GRANTED_FILE, 0) < 0 && errno != ENOENT
		       ? err_sys(e, -errno, "the session's grants cannot be removed")
		       : 0;
}

int granted_write(int run_fd, const struct asks *l, bool less, struct err *e)
{
	autobuf struct buf text = BUF_INIT;
	struct err own = ERR_INIT;
	int r;

	asks_kept_store(l, &text);
	if (!text.len && !buf_error(&text))
		return remove_granted(run_fd, e);
	r = write_granted(run_fd, &text, asks_run(l), less ? &own : e);
	/* Losing all grants is better than keeping one that has ended. */
	return r < 0 && less ? remove_granted(run_fd, e) : r;
}

/* ---- For readers. ---- */

bool granted_exists(int run_fd)
{
	return faccessat(run_fd, GRANTED_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

struct asks *granted_open_list(int run_fd, const char *run, struct err *e)
{
	CLEANUP(asks_freep) struct asks *l = asks_new(run, 0, &nobody);

	if (!l)
		err_set(e, -ENOMEM, "out of memory");
	if (!l || !granted_session_is_alive(run_fd))
		return TAKE_PTR(l);
	if (granted_load(run_fd, l, asks_time_now(), e) < 0)
		return NULL;
	(void)asks_tick(l, asks_time_now());
	return TAKE_PTR(l);
}

int granted_rules(int run_fd, const char *run, struct strv *rules, struct strv *ids, struct err *e)
{
	CLEANUP(asks_freep) struct asks *l = granted_open_list(run_fd, run, e);
	const struct ask *a = NULL;

	if (!l)
		return e->code;
	while ((a = asks_next(l, a)) != NULL) {
		struct ask_view v;

		ask_view(l, a, &v);
		if (v.q.kind != ASK_WIDEN || v.state != ASK_GRANTED)
			continue;
		if (strv_add(rules, v.q.what) < 0 || strv_add(ids, v.id) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}
