/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a group by its name alone, by walking every mounted hierarchy. The process that cleans up after a
 * crash may be in other groups than the process that crashed, and would make its own groups elsewhere. It
 * must not make a group.
 */
#include "base/fd.h"
#include "sys/cgroup/cgroup_internal.h"

#include <fcntl.h>

#define SEARCH_BUDGET 50000 /* directories looked at before giving up */

static DIR *open_group_dir(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		fd_close(fd);
	return d;
}

int cgroup_walk(int fd, cgroup_visit visit, void *ctx)
{
	DIR *way[CGROUP_DEPTH_MAX];
	int depth = 0, r = 0;

	way[0] = open_group_dir(fd, ".");
	depth += way[0] != NULL;
	while (depth > 0 && r >= 0) {
		struct dirent *de = readdir(way[depth - 1]);

		if (!de) {
			closedir(way[--depth]);
			continue;
		}
		if (de->d_type != DT_DIR || str_eq(de->d_name, ".") || str_eq(de->d_name, ".."))
			continue;
		r = visit(dirfd(way[depth - 1]), de->d_name, ctx);
		if (r == 0 && depth < CGROUP_DEPTH_MAX) {
			way[depth] = open_group_dir(dirfd(way[depth - 1]), de->d_name);
			depth += way[depth] != NULL;
		}
	}
	while (depth > 0)
		closedir(way[--depth]);
	return r < 0 ? r : 0;
}

struct wanted {
	const char *name;
	int budget;
	int fd; /* -1 until it is found */
};

static int match_group_name(int parent_fd, const char *name, void *ctx)
{
	struct wanted *w = ctx;

	if (--w->budget < 0)
		return -E2BIG;
	if (!str_eq(name, w->name))
		return 0;
	w->fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return w->fd >= 0 ? -EEXIST : 0;
}

/* The controllers that a group in this mount would provide, without those that are open already. */
static unsigned open_ctls(const struct cgroup *cg, const struct cgroup_mount *m)
{
	unsigned bits = 0;

	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		bool here =
			m->unified ? cg->host->version == 2 || k >= CGROUP_FREEZER : m->ctls & CGROUP_BIT(k);

		if (here && cg->dirfd[k] < 0)
			bits |= CGROUP_BIT(k);
	}
	return bits;
}

static void adopt_found_group(struct cgroup *cg, unsigned bits, int fd, bool unified)
{
	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		if (!(bits & CGROUP_BIT(k)))
			continue;
		cg->dirfd[k] = fd;
		cg->unified[k] = unified;
	}
}

int cgroup_search(struct cgroup *cg, struct err *e)
{
	struct cgroup_mount mounts[CGROUP_MOUNTS_MAX];
	struct wanted w = { .name = cg->name, .budget = SEARCH_BUDGET };
	int n = cgroup_mounts(&cgroup_source_real, mounts, CGROUP_MOUNTS_MAX);

	if (n < 0)
		return err_sys(e, n, "cannot read the mount table");
	/* v2 first: it freezes and kills best. */
	for (int i = 0; i < 2 * n; i++) {
		const struct cgroup_mount *m = &mounts[i < n ? i : i - n];
		unsigned bits = m->unified == (i < n) ? open_ctls(cg, m) : 0;
		autoclose int root = bits ? open(m->point, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

		w.fd = -1;
		if (root >= 0)
			(void)cgroup_walk(root, match_group_name, &w);
		if (w.fd >= 0)
			adopt_found_group(cg, bits, w.fd, m->unified);
	}
	return 0;
}
