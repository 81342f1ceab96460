/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control files: small texts that are read and written whole, in one call each. At most TEXT_MAX bytes of a
 * file are read.
 */
#include "base/fd.h"
#include "sys/cgroup/cgroup_internal.h"

#include <fcntl.h>
#include <stdio.h>

/* Longer than every file that is read here but v2's memory.stat, which has the key that we need in its first half. */
#define TEXT_MAX 2048

static int pread_text(int fd, char out[TEXT_MAX])
{
	ssize_t n = pread(fd, out, TEXT_MAX - 1, 0);

	if (n < 0)
		return -errno;
	out[n] = '\0';
	return 0;
}

int cgroup_read_u64(int dirfd, const char *file, uint64_t *ret)
{
	autoclose int fd = openat(dirfd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[TEXT_MAX];
	int r;

	if (fd < 0)
		return -errno;
	r = pread_text(fd, text);
	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = '\0';
	if (str_eq(text, "max")) {
		*ret = CGROUP_UNSET;
		return 0;
	}
	return str_to_u64(text, ret);
}

int cgroup_pread_key(int fd, const char *key, uint64_t *ret)
{
	char text[TEXT_MAX];
	size_t n = strlen(key);
	int r = pread_text(fd, text);

	if (r < 0)
		return r;
	for (char *line = text; *line;) {
		char *end = line + strcspn(line, "\n");
		bool more = *end == '\n';

		*end = '\0';
		if (strncmp(line, key, n) == 0 && line[n] == ' ')
			return str_to_u64(line + n + 1, ret);
		line = end + more;
	}
	return -ENODATA;
}

int cgroup_read_key(int dirfd, const char *file, const char *key, uint64_t *ret)
{
	autoclose int fd = openat(dirfd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : cgroup_pread_key(fd, key, ret);
}

int cgroup_write(int dirfd, const char *file, const char *text)
{
	return fd_write_file(dirfd, file, text);
}

int cgroup_write_u64(int dirfd, const char *file, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return cgroup_write(dirfd, file, text);
}

bool cgroup_set_text(struct cgroup *cg, int dirfd, const char *file, const char *text)
{
	int r = cgroup_write(dirfd, file, text);

	if (r < 0 && !cg->why[0])
		snprintf(cg->why, sizeof(cg->why), "%s could not be set to %s: %s", file, text, strerror(-r));
	return r == 0;
}

bool cgroup_set(struct cgroup *cg, int dirfd, const char *file, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return cgroup_set_text(cg, dirfd, file, text);
}
