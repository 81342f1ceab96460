/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies content, holes and extended attributes from one open file to another (file_copy.h). Opens nothing by name.
 */
#include "workspace/apply/file_copy.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

#define CHUNK (256 << 10)

/* With read() and write(), for pairs of file systems that copy_file_range() does not support. */
static int copy_by_read_write(int from, int to, off_t at, off_t end)
{
	autofree char *space = malloc(CHUNK);

	if (!space)
		return -ENOMEM;
	while (at < end) {
		size_t want = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
		ssize_t n = pread(from, space, want, at), done = 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0; /* the file became shorter; the size is set at the end */
		while (done < n) {
			ssize_t m = pwrite(to, space + done, (size_t)(n - done), at + done);

			if (m < 0 && errno == EINTR)
				continue;
			if (m < 0)
				return -errno;
			done += m;
		}
		at += n;
	}
	return 0;
}

static int copy_data_range(int from, int to, off_t at, off_t end, bool *by_hand)
{
	off_t in = at, out = at;

	while (in < end && !*by_hand) {
		size_t want = end - in < 1 << 30 ? (size_t)(end - in) : (size_t)1 << 30;
		ssize_t n = copy_file_range(from, &in, to, &out, want, 0);

		if (n == 0)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EFBIG))
			return -errno;
		*by_hand = n < 0;
	}
	return *by_hand ? copy_by_read_write(from, to, in, end) : 0;
}

int copy_content(int from, int to, off_t size)
{
	bool by_hand = false;
	off_t at = 0;

	if (size == 0)
		return 0;
	if (ioctl(to, FICLONE, from) == 0)
		return ftruncate(to, size) < 0 ? -errno : 0;
	while (at < size) {
		off_t data = lseek(from, at, SEEK_DATA), end;
		int r;

		if (data < 0 && errno == ENXIO)
			break; /* only a hole is left */
		if (data < 0)
			data = at;
		end = lseek(from, data, SEEK_HOLE);
		if (end <= data || end > size)
			end = size;
		r = copy_data_range(from, to, data, end, &by_hand);
		if (r < 0)
			return r;
		at = end;
	}
	return ftruncate(to, size) < 0 ? -errno : 0;
}

int copy_xattr(int from, int to, const char *name)
{
	autofree char *value = NULL;
	ssize_t n = fgetxattr(from, name, NULL, 0);

	if (n < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
	value = malloc((size_t)n + 1);
	if (!value)
		return -ENOMEM;
	n = fgetxattr(from, name, value, (size_t)n);
	if (n < 0)
		return -errno;
	return fsetxattr(to, name, value, (size_t)n, 0) < 0 ? -errno : 0;
}

int copy_user_xattrs(int from, int to)
{
	autofree char *names = NULL;
	ssize_t n = flistxattr(from, NULL, 0);

	if (n <= 0)
		return n < 0 && errno != EOPNOTSUPP ? -errno : 0;
	names = malloc((size_t)n + 1);
	if (!names)
		return -ENOMEM;
	n = flistxattr(from, names, (size_t)n);
	if (n < 0)
		return -errno;
	names[n] = '\0';
	for (const char *p = names; p < names + n; p += strlen(p) + 1) {
		int r;

		if (!str_starts(p, "user.") || str_starts(p, "user.overlay."))
			continue;
		r = copy_xattr(from, to, p);
		if (r == -EOPNOTSUPP)
			return 0;
		if (r == -ENOSPC || r == -E2BIG) /* too long for one file here, not a full disk */
			r = -EOVERFLOW;
		if (r < 0)
			return r;
	}
	return 0;
}
