/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probing the host: which controllers this process may use, and where it would make a group.
 *
 * /proc/self/cgroup says in which group we live, in each hierarchy. Where that group's directory is depends
 * on what is mounted where. The mount table knows, but costs more the more mounts a host has; so in the first
 * cgroup namespace, where paths are absolute, the usual places are tried first: a directory of the right kind
 * at the usual mount point with our own path below it is our group. Anywhere else (containers mostly) the
 * table is read.
 *
 * v1 and v2 may be mixed in any way: a controller is on v1 when /proc/self/cgroup lists it, else on v2. It
 * must not make a group, nor change one.
 */
#include "base/fd.h"
#include "base/str.h"
#include "sys/cgroup/cgroup_internal.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

/* The inodes of the first namespaces are fixed numbers of the kernel's interface (linux/nsfs.h). */
#define FIRST_CGROUP_NS "cgroup:[4026531835]"
#define FIRST_USER_NS "user:[4026531837]"

const struct cgroup_source cgroup_source_real = {
	.cgroup = "/proc/self/cgroup",
	.mountinfo = "/proc/self/mountinfo",
	.prefix = "",
	.shortcut = true,
};

static const char *const ctl_names[CGROUP_CTL_COUNT] = {
	[CGROUP_MEMORY] = "memory",   [CGROUP_CPU] = "cpu",	    [CGROUP_PIDS] = "pids",
	[CGROUP_FREEZER] = "freezer", [CGROUP_CPUACCT] = "cpuacct",
};

const char *cgroup_ctl_name(enum cgroup_ctl k)
{
	return ctl_names[k];
}

/* Our own group in each hierarchy, and its directory. Index CGROUP_CTL_COUNT is v2. */
#define V2 CGROUP_CTL_COUNT
struct place {
	char text[8192];		       /* /proc/self/cgroup; `own` points into it */
	const char *own[CGROUP_CTL_COUNT + 1]; /* our path, "" for the root; NULL: no such hierarchy */
	char root[CGROUP_CTL_COUNT + 1][CGROUP_DIR_MAX]; /* mount point; empty: not found */
	bool writable[CGROUP_CTL_COUNT + 1]; /* known to be writable; otherwise access is checked */
};

/* Whether `word` is one of the comma-separated ones. */
static bool controllers_have(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; *p;) {
		size_t len = strcspn(p, ",");

		if (len == n && memcmp(p, word, n) == 0)
			return true;
		p += len + (p[len] == ',');
	}
	return false;
}

/* "4:cpu,cpuacct:/a/b" or "0::/a/b" */
static void read_own_line(struct place *p, char *line)
{
	char *list = strchr(line, ':');
	char *path = list ? strchr(list + 1, ':') : NULL;

	if (!path)
		return;
	*path++ = '\0';
	list++;
	if (str_eq(path, "/"))
		path++;
	if (!*list) {
		p->own[V2] = path;
		return;
	}
	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		if (controllers_have(list, ctl_names[k]))
			p->own[k] = path;
	}
}

static int read_own(struct place *p, const char *file)
{
	autoclose int fd = open(file, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	char *line = p->text;

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = read(fd, p->text + len, sizeof(p->text) - 1 - len);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
		if (len == sizeof(p->text) - 1)
			return -EFBIG;
	}
	p->text[len] = '\0';
	while (*line) {
		char *end = strchr(line, '\n');

		if (end)
			*end = '\0';
		read_own_line(p, line);
		if (!end)
			break;
		line = end + 1;
	}
	return 0;
}

/* Is this process in the first namespace of a kind? /proc/self/ns/KIND is "KIND:[INODE]". */
static bool is_first_namespace(const char *path, const char *first)
{
	char text[32] = "";

	return readlink(path, text, sizeof(text) - 1) > 0 && str_eq(text, first);
}

/* Is the directory of the right file system type? Root of the first user namespace may write wherever the mount is
 * writable, so no further check is needed then. */
static bool probe_place(struct place *p, int k, __fsword_t magic, bool root)
{
	char dir[2 * CGROUP_DIR_MAX];
	struct statfs sf;

	if (snprintf(dir, sizeof(dir), "%s%s", p->root[k], p->own[k]) >= (int)sizeof(dir))
		return false;
	if (statfs(dir, &sf) < 0 || sf.f_type != magic)
		return false;
	p->writable[k] = root && !(sf.f_flags & ST_RDONLY);
	return true;
}

/* The usual mount points, without the mount table. False when controllers must be somewhere else. */
static bool find_usual(struct place *p)
{
	bool all_v1 = p->own[CGROUP_MEMORY] && p->own[CGROUP_CPU] && p->own[CGROUP_PIDS];
	bool root = geteuid() == 0 && is_first_namespace("/proc/self/ns/user", FIRST_USER_NS);

	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		if (!p->own[k])
			continue;
		snprintf(p->root[k], CGROUP_DIR_MAX, "/sys/fs/cgroup/%s", ctl_names[k]);
		/* Freezer and cpuacct are seldom used and probed only when they are. */
		if (k < CGROUP_FREEZER && !probe_place(p, k, CGROUP_SUPER_MAGIC, root))
			return false;
	}
	if (!p->own[V2])
		return true;
	cgroup_copy_dir(p->root[V2], all_v1 ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup");
	if (probe_place(p, V2, CGROUP2_SUPER_MAGIC, root))
		return true;
	p->root[V2][0] = '\0';
	return all_v1; /* a v2 tree without controllers is useful, but not required */
}

/* Our path relative to the root of the mount; NULL when our group cannot be reached through it. */
static const char *path_below_mount(const char *own, const char *root)
{
	size_t n = strlen(root);

	if (str_starts(root, "/..") || str_starts(own, "/.."))
		return NULL; /* outside of our cgroup namespace: our group in it is unknown */
	if (str_eq(root, "/"))
		return own;
	if (strncmp(own, root, n) != 0 || (own[n] != '\0' && own[n] != '/'))
		return NULL;
	return own + n;
}

/* noinline: only a caller that needs the table pays for its space on the stack. */
__attribute__((noinline)) static int find_in_table(struct place *p, const struct cgroup_source *src)
{
	struct cgroup_mount mounts[CGROUP_MOUNTS_MAX];
	const char *own[V2 + 1];
	int n = cgroup_mounts(src, mounts, CGROUP_MOUNTS_MAX);

	/* A later mount may lie over an earlier one, so each starts from our whole path. */
	memcpy(own, p->own, sizeof(own));
	memset(p->root, 0, sizeof(p->root));
	memset(p->writable, 0, sizeof(p->writable));
	for (int i = 0; i < n; i++) {
		for (int k = 0; k <= V2; k++) {
			const char *rest = own[k] ? path_below_mount(own[k], mounts[i].root) : NULL;

			if (!rest || (mounts[i].unified ? k != V2 : !(mounts[i].ctls & CGROUP_BIT(k))))
				continue;
			cgroup_copy_dir(p->root[k], mounts[i].point);
			p->own[k] = rest;
		}
	}
	return n < 0 ? n : 0;
}

/* On v1 a group may hold processes and children both, so ours go right below our own. */
static void choose_v1(struct cgroup_host *host, const struct place *p, enum cgroup_ctl k)
{
	char *dir = host->parent[k], *why = host->why[k], tasks[CGROUP_DIR_MAX + 8];
	const size_t why_size = sizeof(host->why[k]);

	snprintf(why, why_size,
		 "the %s controller (cgroup v1) is not mounted where this process can reach its own group",
		 ctl_names[k]);
	if (!p->root[k][0] || snprintf(dir, CGROUP_DIR_MAX, "%s%s", p->root[k], p->own[k]) >= CGROUP_DIR_MAX)
		return;
	for (int j = 0; j < (int)k; j++) {
		if (p->own[j] == p->own[k] && host->usable[j] && !host->unified[j]) {
			cgroup_copy_dir(dir, host->parent[j]); /* cpu,cpuacct: one hierarchy, one directory */
			host->usable[k] = true;
			return;
		}
	}
	/* `tasks` exists only in v1 groups, and delegation of a group includes it. */
	snprintf(tasks, sizeof(tasks), "%s/tasks", dir);
	host->usable[k] = p->writable[k] || faccessat(AT_FDCWD, tasks, W_OK, AT_EACCESS) == 0;
	if (host->usable[k] || errno == ENOENT)
		return;
	if (errno == EROFS)
		snprintf(why, why_size, "%.100s is mounted read-only", p->root[k]);
	else
		snprintf(
			why, why_size,
			"only root may use the %s controller of this host (cgroup v1 at %.50s): use sudo, or boot with cgroup v2",
			ctl_names[k], p->root[k]);
}

/* Fills in the reason for each controller that is not usable. One on neither v1 nor v2: the kernel was built or
 * booted without it. */
static void explain_missing(struct cgroup_host *host, const struct place *p)
{
	for (int k = 0; k < CGROUP_CTL_COUNT; k++) {
		if (host->usable[k])
			host->why[k][0] = '\0';
		if (host->usable[k] || host->why[k][0])
			continue;
		if (!p->own[V2])
			snprintf(host->why[k], sizeof(host->why[k]), "this kernel offers no %s controller",
				 ctl_names[k]);
		else
			snprintf(
				host->why[k], sizeof(host->why[k]),
				"the control groups (cgroup2) are not mounted where this process can reach its own");
	}
}

static void choose_parents(struct cgroup_host *host, const struct place *p)
{
	unsigned wanted = CGROUP_LIMITING;

	*host = (struct cgroup_host){ .pids_cap = CGROUP_UNSET };
	for (int k = 0; k < CGROUP_FREEZER; k++) {
		if (!p->own[k])
			continue;
		host->version = 1;
		wanted &= ~CGROUP_BIT(k);
		choose_v1(host, p, k);
	}
	if (p->root[V2][0])
		cgroup_v2_choose(host, p->root[V2], p->own[V2], wanted, p->writable[V2]);
	if (host->version == 0 && p->root[V2][0])
		host->version = 2;
	/* v2 freezes, kills and counts better; v1 replaces it only where v2 cannot be used. */
	for (int k = CGROUP_FREEZER; k < CGROUP_CTL_COUNT; k++) {
		if (!host->usable[k] && p->own[k])
			choose_v1(host, p, k);
	}
	explain_missing(host, p);
}

int cgroup_host_probe_at(struct cgroup_host *ret, const struct cgroup_source *src, struct err *e)
{
	struct place p;
	int r;

	memset(p.own, 0, sizeof(p.own));
	memset(p.writable, 0, sizeof(p.writable));
	for (int k = 0; k <= V2; k++)
		p.root[k][0] = '\0';
	r = read_own(&p, src->cgroup);
	if (r < 0 && r != -ENOENT)
		return err_sys(e, r, "cannot read %s", src->cgroup);
	if (!src->shortcut || !is_first_namespace("/proc/self/ns/cgroup", FIRST_CGROUP_NS) ||
	    !find_usual(&p)) {
		r = find_in_table(&p, src);
		if (r < 0)
			return err_sys(e, r, "cannot read %s", src->mountinfo);
	}
	choose_parents(ret, &p);
	return 0;
}

int cgroup_host_probe(struct cgroup_host *ret, struct err *e)
{
	return cgroup_host_probe_at(ret, &cgroup_source_real, e);
}
