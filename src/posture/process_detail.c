/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of one process in /proc: its namespaces, whether it may be dumped, its sockets and what it may write to. What the
 * caller may not see stays marked as not visible. It must not take a descriptor of another process: that could keep a
 * socket open which its owner closes.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "posture/processes_int.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define TABLE_MAX (256u << 20)
#define FDINFO_MAX 65536

static const char *const namespaces[] = { "user", "mnt", "net", "pid", "ipc", "uts", "cgroup" };
static_assert(ARRAY_SIZE(namespaces) == PROCESS_NS_COUNT, "a name for each");

const char *process_ns_name(enum process_ns ns)
{
	return namespaces[ns];
}

/* --- namespaces, dumping ---------------------------------------------------------------------------------------- */

/* `who` is a pid or "self". */
static int read_ns(const char *who, enum process_ns ns, uint64_t *ret)
{
	char path[64], link[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%s/ns/%s", who, namespaces[ns]);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return -errno;
	link[n] = '\0';
	return proc_text_ns(link, namespaces[ns], ret);
}

static bool has_ended(int code)
{
	return code == -ENOENT || code == -ESRCH;
}

/*
 * The kernel gives the files of a process that may not be dumped to root, or to root of the user namespace in which its program
 * was started; so the owner says nothing where that is the process's own user anyway.
 */
static int read_dumpable(struct process *p)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)p->f.st.pid);
	if (stat(path, &st) < 0)
		return -errno;
	p->dumpable = PROCESS_DUMP_HIDDEN;
	if (st.st_uid != p->f.st.uid)
		p->dumpable = PROCESS_DUMP_NO;
	else if (p->f.st.uid != 0 && p->ns_visible && !(p->differs & 1u << PROCESS_NS_USER))
		p->dumpable = PROCESS_DUMP_YES;
	return 0;
}

int process_read_identity(struct process *p)
{
	char who[24];
	int r;

	snprintf(who, sizeof(who), "%d", (int)p->f.st.pid);
	p->ns_visible = true;
	for (int i = 0; i < PROCESS_NS_COUNT && p->ns_visible; i++) {
		enum process_ns ns = (enum process_ns)i;
		uint64_t its = 0, ours = 0;

		r = read_ns(who, ns, &its);
		if (has_ended(r))
			return -ESRCH;
		p->ns_visible = r == 0 && read_ns("self", ns, &ours) == 0;
		if (its != ours)
			p->differs |= 1u << i;
		if (ns == PROCESS_NS_NET)
			p->netns = its;
	}
	if (!p->ns_visible)
		p->differs = 0;
	return read_dumpable(p) < 0 ? -ESRCH : 0;
}

/* --- sockets ---------------------------------------------------------------------------------------------------- */

struct socket_entry {
	uint64_t ino;
	enum socket_kind kind;
};

struct socket_map {
	struct socket_entry *v; /* by number */
	size_t n, room;
	uint64_t *netns; /* those that were read */
	size_t n_netns, netns_room;
};

void socket_map_free(struct socket_map *m)
{
	if (!m)
		return;
	free(m->v);
	free(m->netns);
	free(m);
}

static int add_table(struct socket_map *m, pid_t pid, enum socket_table t)
{
	autobuf struct buf b = BUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, socket_table_name(t));
	/* A kernel without this family has no such table; a process may have ended. Its sockets are of the kind `other` then. */
	if (fd_read_file(AT_FDCWD, path, TABLE_MAX, &b) < 0)
		return 0;
	for (const char *p = buf_cstr(&b); p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		struct socket_entry one;

		if (proc_text_socket(t, p, &one.ino, &one.kind) < 0 || one.ino == 0)
			continue;
		if (VEC_ROOM(m->v, m->n, m->room, VEC_NO_MAX) < 0)
			return -ENOMEM;
		m->v[m->n++] = one;
	}
	return 0;
}

static int add_netns(struct socket_map *m, const struct process *p)
{
	int r = 0;

	for (size_t i = 0; i < m->n_netns; i++) {
		if (m->netns[i] == p->netns)
			return 0;
	}
	if (VEC_ROOM(m->netns, m->n_netns, m->netns_room, VEC_NO_MAX) < 0)
		return -ENOMEM;
	m->netns[m->n_netns++] = p->netns;
	for (int t = 0; r == 0 && t < SOCKET_TABLE_COUNT; t++)
		r = add_table(m, p->f.st.pid, (enum socket_table)t);
	return r;
}

static int compare_entries(const void *a, const void *b)
{
	const struct socket_entry *x = a, *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

struct socket_map *socket_map_new(const struct processes *all)
{
	struct socket_map *m = calloc(1, sizeof(*m));
	int r = m ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < all->n; i++) {
		if (all->v[i]->ns_visible)
			r = add_netns(m, all->v[i]);
	}
	if (r < 0) {
		socket_map_free(m);
		return NULL;
	}
	if (m->n)
		qsort(m->v, m->n, sizeof(*m->v), compare_entries);
	return m;
}

/* The name of a socket of the kind unix may contain a newline and what looks like another row: a number that has two kinds has
 * none. */
static enum socket_kind find_socket(const struct socket_map *m, uint64_t ino)
{
	size_t lo = 0, hi = m->n;
	enum socket_kind kind;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->v[mid].ino < ino)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == m->n || m->v[lo].ino != ino)
		return SOCKET_OTHER;
	kind = m->v[lo].kind;
	for (; lo < m->n && m->v[lo].ino == ino; lo++)
		kind = m->v[lo].kind == kind ? kind : SOCKET_OTHER;
	return kind;
}

/* --- descriptors ------------------------------------------------------------------------------------------------ */

/* The device itself: a sandbox may have a file of that name. */
static bool is_null_device(int fds, const char *name)
{
	struct stat st;

	return fstatat(fds, name, &st, 0) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static int count_writable(struct process *p, int fds, const char *name, enum fd_sort sort, const char *link)
{
	autobuf struct buf b = BUF_INIT;
	char path[320];
	unsigned flags;

	snprintf(path, sizeof(path), "../fdinfo/%s", name);
	/* A descriptor that is closed meanwhile is not counted. */
	if (fd_read_file(fds, path, FDINFO_MAX, &b) < 0 || proc_text_flags(buf_cstr(&b), &flags) < 0 ||
	    !proc_flags_may_write(flags) || (sort == FD_SORT_FILE && is_null_device(fds, name)))
		return 0;
	p->writable++;
	p->writable_sorts[sort]++;
	if (sort == FD_SORT_FILE && p->paths.n < PROCESS_PATHS_MAX)
		return strv_add(&p->paths, link);
	return 0;
}

static int count_descriptor(struct process *p, int fds, const char *name, const struct socket_map *m)
{
	char link[PATH_MAX];
	uint64_t ino;
	ssize_t n = readlinkat(fds, name, link, sizeof(link) - 1);
	enum fd_sort sort;

	if (n < 0)
		return 0;
	link[n] = '\0';
	sort = proc_text_sort(link, &ino);
	p->descriptors++;
	if (sort == FD_SORT_SOCKET) {
		p->sockets++;
		p->socket_kinds[find_socket(m, ino)]++;
		return 0;
	}
	return sort == FD_SORT_OTHER ? 0 : count_writable(p, fds, name, sort, link);
}

int process_read_descriptors(struct process *p, const struct socket_map *m)
{
	char path[64];
	autoclosedir DIR *d = NULL;
	const struct dirent *de;
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)p->f.st.pid);
	d = opendir(path);
	if (!d)
		return has_ended(-errno) ? -ESRCH : 0;
	p->fds_visible = true;
	while (r == 0 && (de = readdir(d))) {
		if (de->d_name[0] != '.')
			r = count_descriptor(p, dirfd(d), de->d_name, m);
	}
	return r;
}
