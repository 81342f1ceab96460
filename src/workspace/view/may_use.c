/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which directories may be shown to a sandbox at all. When in doubt it refuses.
 *
 * Directories are compared by device and inode while walking up from them, never by their text: a symlink, a bind mount or
 * a ".." does not make a directory another one. Every start runs this, so it makes a few dozen system calls and no more.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "workspace/view/secret.h"
#include "workspace/view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>

#define ANCESTORS_MAX 128
#define PASSWD_MAX (1 << 20)
#define UID_FIRST_PERSON 1000
#define UID_NOBODY 65534

struct node {
	dev_t dev;
	ino_t ino;
};

/* A directory and all directories above it, itself first. */
struct lineage {
	struct node v[ANCESTORS_MAX];
	size_t n;
};

static bool same_node(struct node a, struct node b)
{
	return a.dev == b.dev && a.ino == b.ino;
}

static bool has_node(const struct lineage *l, struct node x)
{
	for (size_t i = 0; i < l->n; i++) {
		if (same_node(l->v[i], x))
			return true;
	}
	return false;
}

/* False when the path does not exist or is not visible to us; errno tells which. */
static bool node_at(int dirfd, const char *path, int flags, struct node *ret)
{
	struct stat st;

	if (fstatat(dirfd, path, &st, flags) < 0)
		return false;
	*ret = (struct node){ .dev = st.st_dev, .ino = st.st_ino };
	return true;
}

/* Up to the root, which is its own parent. */
static int read_lineage(int dirfd, struct lineage *ret)
{
	char path[3 * ANCESTORS_MAX + 2] = ".";
	struct node x = { 0 };

	ret->n = 0;
	for (size_t len = 1; ret->n < ANCESTORS_MAX; len += 3) {
		if (!node_at(dirfd, path, 0, &x))
			return errno ? -errno : -EIO;
		if (ret->n && same_node(ret->v[ret->n - 1], x))
			return 0;
		ret->v[ret->n++] = x;
		memcpy(path + len, "/..", 4);
	}
	return -ENAMETOOLONG;
}

enum relation { REL_NONE, REL_SELF, REL_ABOVE, REL_BELOW };

/* The directory `ups` levels above path. */
static bool node_above(const char *path, unsigned ups, struct node *ret)
{
	char walk[PATH_MAX + 3 * ANCESTORS_MAX];
	size_t len = strlen(path);
	const char *slash;

	if (len >= PATH_MAX)
		return false;
	memcpy(walk, path, len + 1);
	for (unsigned i = 0; i < ups; i++)
		memcpy(walk + len + 3 * (size_t)i, "/..", 4);
	if (node_at(AT_FDCWD, walk, 0, ret))
		return true;
	/* In another user's home we may not resolve ".."; there the text of the path is used. */
	slash = strrchr(path, '/');
	if (errno != EACCES || ups != 1 || !slash)
		return false;
	len = slash > path ? (size_t)(slash - path) : 1;
	walk[len] = '\0';
	return node_at(AT_FDCWD, walk, 0, ret);
}

/*
 * The relation of the directory that `up` starts with to the one at path. Walks up from path only until the two lineages
 * meet. `seen` (may be NULL) remembers parents that need not be walked again.
 */
static enum relation relation_to(const struct lineage *up, const char *path, struct lineage *seen)
{
	struct node x = { 0 };

	for (unsigned i = 0; i < ANCESTORS_MAX && node_above(path, i, &x); i++) {
		if (same_node(x, up->v[0]))
			return i == 0 ? REL_SELF : REL_ABOVE;
		if (has_node(up, x))
			return i == 0 ? REL_BELOW : REL_NONE;
		if (i == 0 || !seen)
			continue;
		if (has_node(seen, x))
			return REL_NONE;
		if (seen->n < ANCESTORS_MAX)
			seen->v[seen->n++] = x;
	}
	return REL_NONE;
}

/* One check: a directory, its lineage, and its name in messages. */
struct use_check {
	struct lineage up;
	const char *path;
	struct err *e;
};

static int refuse_workspace(const struct use_check *g, const char *why, const char *hint)
{
	char shown[512];
	int r = err_set(g->e, -EPERM, "%s cannot be shown to a sandbox: %s",
			str_safe(g->path, shown, sizeof(shown)), why);

	return err_hint(g->e, r, "%s", hint);
}

static const char hint_shown[] = "--i-know shows it anyway";
static const char hint_project[] = "choose the directory of one project: -C DIR";

/* --- the system's own directories ------------------------------------------------------------------------- */

enum reach {
	REACH_SELF, /* the directory itself */
	REACH_BELOW /* and everything below it */
};

static const struct {
	const char *path;
	enum reach reach;
	const char *why;
} system_dirs[] = {
	{ "/dev", REACH_BELOW, "it holds devices" },
	{ "/boot", REACH_BELOW, "it holds the files that start the machine" },
	{ "/etc", REACH_SELF, "it holds the machine's configuration and passwords" },
	{ "/home", REACH_SELF, "there are home directories below it" }, /* also before there is one */
	{ "/run", REACH_SELF, "it holds the sockets of all daemons" },
	{ "/usr", REACH_SELF, "it holds the machine's programs" },
	{ "/var", REACH_SELF, "it holds the data of all daemons" },
	{ "/var/lib", REACH_SELF, "it holds the data of all daemons" },
};

/* File systems that are the kernel's own, wherever they are mounted. */
static const struct {
	unsigned long magic;
	const char *why;
} kernel_fs[] = {
	{ PROC_SUPER_MAGIC, "it is the kernel's view of all processes" },
	{ SYSFS_MAGIC, "it is the kernel's view of the machine" },
	{ CGROUP_SUPER_MAGIC, "it steers the limits of all processes" },
	{ CGROUP2_SUPER_MAGIC, "it steers the limits of all processes" },
	{ DEBUGFS_MAGIC, "it is the kernel's view of the machine" },
	{ TRACEFS_MAGIC, "it is the kernel's view of the machine" },
	{ SECURITYFS_MAGIC, "it is the kernel's view of the machine" },
	{ DEVPTS_SUPER_MAGIC, "it holds terminals" },
};

/* The greatest depth of a directory that is listed for itself only. */
#define SELF_DEPTH_MAX 2

static int refuse_kernel_fs(const struct use_check *g, int dir_fd)
{
	struct statfs fs;

	if (fstatfs(dir_fd, &fs) < 0)
		return err_sys(g->e, -errno, "cannot look at %s", g->path);
	for (size_t i = 0; i < ARRAY_SIZE(kernel_fs); i++) {
		if ((unsigned long)fs.f_type == kernel_fs[i].magic)
			return refuse_workspace(g, kernel_fs[i].why, hint_project);
	}
	return 0;
}

static int refuse_system_dir(const struct use_check *g)
{
	bool shallow = g->up.n <= SELF_DEPTH_MAX + 1;
	struct node x = { 0 };

	if (g->up.n == 1)
		return refuse_workspace(g, "it is the root of all files", hint_project);
	for (size_t i = 0; i < ARRAY_SIZE(system_dirs); i++) {
		bool self = system_dirs[i].reach == REACH_SELF;

		if ((self && !shallow) || !node_at(AT_FDCWD, system_dirs[i].path, 0, &x))
			continue;
		if (!(self ? same_node(g->up.v[0], x) : has_node(&g->up, x)))
			continue;
		/* Shared memory holds temporary files and happens to be below /dev. */
		if (!self && node_at(AT_FDCWD, "/dev/shm", 0, &x) && has_node(&g->up, x))
			continue;
		return refuse_workspace(g, system_dirs[i].why, hint_project);
	}
	return 0;
}

/* --- home directories ----------------------------------------------------------------------------------------- */

typedef int home_visit(const struct use_check *g, const char *home, void *arg);

/* The home in one line of passwd; false when the account is not a person's. */
static bool parse_passwd_home(char *line, uid_t euid, const char **ret_home)
{
	char *field[7];
	size_t n = 0;
	uint64_t uid;

	for (char *p = line; p && n < ARRAY_SIZE(field); n++)
		field[n] = strsep(&p, ":");
	if (n < 6 || str_to_u64(field[2], &uid) < 0 || field[5][0] != '/')
		return false;
	*ret_home = field[5];
	/* Homes of daemons are directories such as /var/www, in which users do work. */
	return uid == 0 || uid == euid || (uid >= UID_FIRST_PERSON && uid != UID_NOBODY);
}

/* All homes: of the environment, and of the people in passwd (read by hand: there is no NSS in a static program). */
static int visit_homes(const struct use_check *g, home_visit *visit, void *arg)
{
	autobuf struct buf b = BUF_INIT;
	const char *env = getenv("HOME"), *home;
	uid_t euid = geteuid();
	char *line, *rest;
	int r = env && *env == '/' ? visit(g, env, arg) : 0;

	if (r < 0)
		return r;
	r = fd_read_file(AT_FDCWD, "/etc/passwd", PASSWD_MAX, &b);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_sys(g->e, r, "cannot find out which directories are homes: /etc/passwd");
	rest = b.data;
	while ((line = strsep(&rest, "\n"))) {
		if (!parse_passwd_home(line, euid, &home) || (env && str_eq(env, home)))
			continue;
		r = visit(g, home, arg);
		if (r < 0)
			return r;
	}
	return 0;
}

static int refuse_home(const struct use_check *g, const char *home, void *arg)
{
	switch (relation_to(&g->up, home, arg)) {
	case REL_SELF:
		return refuse_workspace(g, "it is a home directory", hint_project);
	case REL_ABOVE:
		return refuse_workspace(g, "there are home directories below it", hint_project);
	default:
		return 0;
	}
}

/* --- the state directory ------------------------------------------------------------------------------------- */

static int refuse_state_dir(const struct use_check *g, const char *state_path)
{
	if (relation_to(&g->up, state_path, NULL) == REL_NONE)
		return 0;
	return refuse_workspace(g, "coffer keeps its log and its layers there", "choose another directory");
}

/* --- directories that hold keys ------------------------------------------------------------------------------- */

/* The real path of an fd, for its names; "" when there is none. */
static void fd_real_path(int fd, char out[PATH_MAX])
{
	char proc[32];
	ssize_t n;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	n = readlink(proc, out, PATH_MAX - 1);
	out[n > 0 ? n : 0] = '\0';
}

static int refuse_key_names(const struct use_check *g, int fd, bool is_dir, const char *hint)
{
	const struct secret_rule *rule;
	char real[PATH_MAX], why[128];
	size_t end;

	fd_real_path(fd, real);
	end = real[0] == '/' ? secret_match_path(real + 1, is_dir, &rule) : 0;
	if (!end)
		return 0;
	/* A name that is only a suspicion does not count for the bound file itself: with -v the user named it on purpose. */
	if (!is_dir && !real[end + 1] && secret_needs_look(rule) && !secret_look(rule, AT_FDCWD, real))
		return 0;
	snprintf(why, sizeof(why), "by its name it holds %s", secret_what(rule));
	return refuse_workspace(g, why, hint);
}

/* Refuses directories of a home that hold keys, and those above such a directory, as ~/.config. */
static const char *const key_places[] = {
	".ssh",
	".gnupg",
	".aws",
	".azure",
	".kube",
	".docker",
	".config/gcloud",
	".config/gh",
	".config/google-chrome",
	".config/chromium",
	".mozilla",
	".password-store",
	".local/share/keyrings",
	".netrc",
	".git-credentials",
};

static int refuse_home_keys(const struct use_check *g, const char *home_path, void *arg)
{
	autoclose int home_fd = open(home_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct node home = { 0 }, place = { 0 };

	(void)arg;
	if (home_fd < 0 || !node_at(home_fd, ".", 0, &home))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(key_places); i++) {
		char path[64];

		if (!node_at(home_fd, key_places[i], 0, &place))
			continue;
		if (has_node(&g->up, place))
			return refuse_workspace(g, "it holds keys or passwords", hint_shown);
		/* Between the home and the place: above it. */
		snprintf(path, sizeof(path), "%s", key_places[i]);
		for (char *slash; (slash = strrchr(path, '/'));) {
			*slash = '\0';
			if (node_at(home_fd, path, 0, &place) && same_node(g->up.v[0], place))
				return refuse_workspace(
					g, "it holds keys or passwords further down",
					"bind only the part that is needed; --i-know shows all of it");
		}
	}
	return 0;
}

/* --- sockets -------------------------------------------------------------------------------------------------------- */

static const char hint_iknow[] = "--i-know shows it anyway: programs inside can then talk to that process";

static int refuse_special_file(const struct use_check *g, const struct stat *st)
{
	if (S_ISSOCK(st->st_mode))
		return refuse_workspace(g, "it is a socket, a way to command a process of the host",
					hint_iknow);
	if (S_ISFIFO(st->st_mode))
		return refuse_workspace(g, "it is a pipe to a process of the host", hint_iknow);
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		return refuse_workspace(g, "it is a device", hint_shown);
	return 0;
}

/* Sockets named in the environment: of an agent that signs with keys, of a container engine. */
static int refuse_env_sockets(const struct use_check *g)
{
	static const char *const names[] = { "SSH_AUTH_SOCK", "DOCKER_HOST", "XDG_RUNTIME_DIR",
					     "GPG_AGENT_INFO" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *path = getenv(names[i]);
		struct lineage l;
		autoclose int fd = -1;
		char dir[PATH_MAX];

		if (path && str_starts(path, "unix://"))
			path += 7;
		if (!path || *path != '/' || strlen(path) >= sizeof(dir))
			continue;
		memcpy(dir, path, strlen(path) + 1);
		fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 && strrchr(dir, '/') != dir) {
			*strrchr(dir, '/') = '\0';
			fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		}
		if (fd >= 0 && read_lineage(fd, &l) == 0 && l.n > 1 && has_node(&l, g->up.v[0]))
			return refuse_workspace(g, "sockets of running programs are in it", hint_iknow);
	}
	return 0;
}

#define SOCKETS_LOOK_MAX 10000

/* Sockets directly in the directory. */
static int refuse_dir_with_sockets(const struct use_check *g, int dirfd)
{
	autoclose int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(struct dirent64) char raw[8192];
	unsigned seen = 0;
	ssize_t len;

	if (fd < 0)
		return err_sys(g->e, -errno, "cannot inspect %s", g->path);
	while ((len = getdents64(fd, raw, sizeof(raw))) > 0 && seen < SOCKETS_LOOK_MAX) {
		for (ssize_t at = 0; at < len; seen++) {
			const struct dirent64 *de = (const void *)(raw + at);

			if (de->d_type == DT_SOCK)
				return refuse_workspace(g, "there are sockets of running programs in it",
							hint_iknow);
			at += de->d_reclen;
		}
	}
	return 0;
}

/* --- the two questions ------------------------------------------------------------------------------------------ */

static int may_use_directory(struct use_check *g, int dir_fd, const char *state_path)
{
	struct lineage seen = { .n = 0 };
	int r = read_lineage(dir_fd, &g->up);

	if (r < 0)
		return err_sys(g->e, r, "cannot look at %s", g->path);
	r = refuse_system_dir(g);
	if (r == 0)
		r = refuse_kernel_fs(g, dir_fd);
	if (r == 0)
		r = visit_homes(g, refuse_home, &seen);
	if (r == 0 && state_path)
		r = refuse_state_dir(g, state_path);
	return r;
}

int workspace_may_use(int dir_fd, const char *path, const char *state_path, struct err *e)
{
	struct use_check g = { .path = path, .e = e };
	int r = may_use_directory(&g, dir_fd, state_path);

	return r < 0 ? r : refuse_key_names(&g, dir_fd, true, hint_project);
}

/* Opens the directory of a file by its real path, and verifies that the file is there. */
static int open_file_parent_dir(int fd, const struct stat *st)
{
	autoclose int dir = -1;
	char real[PATH_MAX], *slash;
	struct node x = { 0 };

	fd_real_path(fd, real);
	slash = strrchr(real, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	dir = open(*real ? real : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	if (!node_at(dir, slash + 1, AT_SYMLINK_NOFOLLOW, &x) || x.dev != st->st_dev || x.ino != st->st_ino)
		return -ESTALE;
	return TAKE_FD(dir);
}

/* Checks a file: its type, its directories, and its name. */
static int may_bind_file(struct use_check *g, int fd, const struct stat *st, const char *state_path)
{
	autoclose int dir = -1;
	struct lineage seen = { .n = 0 };
	struct node state = { 0 };
	int r = refuse_special_file(g, st);

	if (r < 0)
		return r;
	dir = open_file_parent_dir(fd, st);
	if (dir < 0)
		return err_sys(g->e, dir, "cannot determine where %s is", g->path);
	/* The file is the first of the lineage, so that "below" is tested as for a directory. */
	r = read_lineage(dir, &seen);
	if (r < 0)
		return err_sys(g->e, r, "cannot look at %s", g->path);
	g->up.v[0] = (struct node){ .dev = st->st_dev, .ino = st->st_ino };
	g->up.n = 1;
	for (size_t i = 0; i < seen.n && g->up.n < ANCESTORS_MAX; i++)
		g->up.v[g->up.n++] = seen.v[i];
	if (state_path && node_at(AT_FDCWD, state_path, 0, &state) && has_node(&g->up, state))
		return refuse_workspace(g, "coffer keeps its log and its layers there",
					"choose another file");
	r = refuse_key_names(g, fd, false, hint_shown);
	return r < 0 ? r : visit_homes(g, refuse_home_keys, NULL);
}

int workspace_may_bind(int fd, const char *path, const char *state_path, struct err *e)
{
	struct use_check g = { .path = path, .e = e };
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", path);
	if (!S_ISDIR(st.st_mode))
		return may_bind_file(&g, fd, &st, state_path);
	r = may_use_directory(&g, fd, state_path);
	if (r == 0)
		r = refuse_key_names(&g, fd, true, hint_shown);
	if (r == 0)
		r = visit_homes(&g, refuse_home_keys, NULL);
	if (r == 0)
		r = refuse_env_sockets(&g);
	return r < 0 ? r : refuse_dir_with_sockets(&g, fd);
}
