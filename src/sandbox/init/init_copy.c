/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builtins of `coffer cp`, run in a process of their own inside the sandbox:
 *   cp-out PATH [follow]    PATH as an archive on stdout
 *   cp-in DST SOURCE_NAME   the archive on stdin to DST, by docker cp's rules
 * Exit status 0; 1 when an entry was skipped or failed, with a line about it on stderr. Nothing outside may
 * trust the archive: to the host it is hostile (copy.h).
 */
#include "base/cleanup.h"
#include "sandbox/init/copy.h"
#include "sandbox/init/init_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define OUT_HIGH (64u << 10)

/* Texts of the common errors; coffer-init has no strerror(). */
const char *init_copy_reason(int code)
{
	static const struct {
		int code;
		char text[36];
	} table[] = {
		{ ENOENT, "No such file or directory" },
		{ EACCES, "Permission denied" },
		{ EPERM, "Operation not permitted" },
		{ ENOTDIR, "Not a directory" },
		{ EISDIR, "Is a directory" },
		{ EEXIST, "File exists" },
		{ ENOSPC, "No space left on device" },
		{ EDQUOT, "Disk quota exceeded" },
		{ EFBIG, "File too large" },
		{ EROFS, "Read-only file system" },
		{ ELOOP, "Too many levels of symbolic links" },
		{ ENAMETOOLONG, "File name too long" },
		{ EMFILE, "Too many open files" },
		{ EIO, "Input/output error" },
		{ EPROTO, "Protocol error" },
		{ EOPNOTSUPP, "Not a file that can be copied" },
		{ EINVAL, "Not a path of a sandbox file" },
		{ EBUSY, "It is hidden, and stays as it is" },
		{ ENOMEM, "Out of memory" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].code == code)
			return table[i].text;
	}
	return "Failed";
}

static void say_copy_failure(const struct copy_fail *f)
{
	struct buf b = BUF_INIT;
	ssize_t n;

	buf_adds(&b, f->what);
	if (f->name[0])
		buf_addc(&b, ' ');
	buf_adds(&b, f->name);
	buf_adds(&b, ": ");
	buf_adds(&b, init_copy_reason(-f->code));
	buf_addc(&b, '\n');
	n = write(2, b.data, b.len);
	(void)n;
	buf_release(&b);
}

static int write_archive_out(struct buf *b)
{
	size_t done = 0;

	while (done < b->len) {
		ssize_t n = write(1, b->data + done, b->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	buf_clear(b);
	return 0;
}

static int builtin_cp_out(const char *path, bool follow)
{
	static struct packer p;
	struct buf out = BUF_INIT;
	int r = packer_open(&p, AT_FDCWD, path, follow, &out);

	while (r >= 0) {
		r = packer_next(&p, &out);
		if (r < 0 || (r > 0 && out.len < OUT_HIGH))
			continue;
		if (write_archive_out(&out) < 0)
			r = -EPIPE;
		if (r == 0)
			break;
	}
	packer_release(&p);
	buf_release(&out);
	if (p.fail.code)
		say_copy_failure(&p.fail);
	return r < 0 || p.skipped ? 1 : 0;
}

static int builtin_cp_in(const char *dst, const char *source_name)
{
	static struct unpacker u;
	static char chunk[64u << 10];
	struct copy_target t;
	struct copy_fail fail = { 0 };
	int r = copy_target_open(&t, AT_FDCWD, dst, source_name, &fail);

	if (r < 0) {
		say_copy_failure(&fail);
		return 1;
	}
	unpacker_init(&u, &t, UINT64_MAX, UINT64_MAX);
	while (r == 0) {
		ssize_t n = read(0, chunk, sizeof(chunk));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		r = unpacker_feed(&u, chunk, (size_t)n);
	}
	if (r < 0)
		say_copy_failure(&u.fail);
	r = r < 0 || !unpacker_is_complete(&u);
	unpacker_release(&u);
	return r;
}

bool init_copy_is(const char *name)
{
	return strcmp(name, "cp-in") == 0 || strcmp(name, "cp-out") == 0;
}

int init_copy(char *const *argv)
{
	if (!argv[1])
		return 2;
	if (strcmp(argv[0], "cp-out") == 0)
		return builtin_cp_out(argv[1], argv[2] && strcmp(argv[2], "follow") == 0);
	return argv[2] ? builtin_cp_in(argv[1], argv[2]) : 2;
}
