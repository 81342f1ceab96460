/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journals of coffer-egress and coffer-dial, as files: made here, and given back to the disk once their lines are in the log. Bytes
 * that are read are punched out of the file: the disk usage stays small, offsets continue, and after a crash the next reader finds
 * zeros where nothing is left to do. Nothing here reads a byte of them: coffer-netd does.
 */
#include "base/fd.h"
#include "netd/serve/net_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define BEHIND_MAX (64u << 20) /* backlog limit: a process that writes faster is not writing events */

const char *const net_journal_names[NET_PARTS] = {
	[NET_EGRESS] = "journal.egress", [NET_DIAL] = "journal.dial"
};

static int open_journal(const struct net_guard *g, enum net_part p, int flags, struct err *e)
{
	int fd = openat(g->dir, net_journal_names[p], flags | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? err_sys(e, -errno, "cannot open %s in the run's directory", net_journal_names[p])
		      : fd;
}

int net_journal_open_place(int run_dir, bool make)
{
	return openat(run_dir, NET_JOURNAL_PLACE, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT : 0),
		      0600);
}

/* One write, which is whole or not at all where a process is killed. If it fails, as on a full disk, the file still has an earlier
 * place, and lines since then are logged twice rather than not at all. */
void net_journal_keep_place(int fd, const struct netd_peer *p)
{
	struct netd_place place;

	memcpy(place.logged, p->logged, sizeof(place.logged));
	memcpy(place.counted, p->counted, sizeof(place.counted));
	(void)!pwrite(fd, &place, sizeof(place), 0);
}

/* A place that the journals do not have, or none, is their beginning. */
void net_journal_find_place(int fd, const uint64_t size[NET_PARTS], struct netd_peer *p)
{
	struct netd_place place;

	if (fd < 0 || pread(fd, &place, sizeof(place), 0) != (ssize_t)sizeof(place))
		return;
	for (int i = 0; i < NET_PARTS; i++) {
		if (place.counted[i] > place.logged[i] || place.logged[i] > size[i])
			return;
	}
	memcpy(p->logged, place.logged, sizeof(place.logged));
	memcpy(p->counted, place.counted, sizeof(place.counted));
}

int net_journal_make(struct net_guard *g, struct err *e)
{
	const struct netd_peer begin = { 0 };

	/* Written at once: the room for it is there when the disk is full later. */
	if (g->place < 0) {
		g->place = net_journal_open_place(g->dir, true);
		net_journal_keep_place(g->place, &begin);
	}
	if (g->place < 0)
		return err_sys(e, -errno, "cannot make %s in the run's directory", NET_JOURNAL_PLACE);
	for (int i = 0; i < NET_PARTS; i++) {
		struct net_journal *j = &g->journal[i];

		if (j->fd < 0)
			j->fd = open_journal(g, (enum net_part)i, O_RDWR | O_CREAT, e);
		if (j->fd < 0)
			return j->fd;
	}
	return 0;
}

int net_journal_open(struct net_guard *g, enum net_part p, int *ret_fd, struct err *e)
{
	*ret_fd = open_journal(g, p, O_WRONLY | O_APPEND, e);
	return *ret_fd < 0 ? *ret_fd : 0;
}

int net_journal_open_read(struct net_guard *g, enum net_part p, int *ret_fd, struct err *e)
{
	*ret_fd = open_journal(g, p, O_RDONLY, e);
	return *ret_fd < 0 ? *ret_fd : 0;
}

uint64_t net_journal_size(const struct net_journal *j)
{
	struct stat st;

	return j->fd < 0 || fstat(j->fd, &st) < 0 ? 0 : (uint64_t)st.st_size;
}

/* If the file system cannot punch holes, write zeros: they mean the same, at the cost of disk space. */
void net_journal_punch(struct net_journal *j, uint64_t upto)
{
	static const char zeros[4096];

	if (j->fd < 0 || upto <= j->punched)
		return;
	if (fallocate(j->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)j->punched,
		      (off_t)(upto - j->punched)) == 0) {
		j->punched = upto;
		return;
	}
	while (j->punched < upto) {
		uint64_t n = upto - j->punched;
		ssize_t w = pwrite(j->fd, zeros, n < sizeof(zeros) ? n : sizeof(zeros), (off_t)j->punched);

		if (w <= 0)
			return;
		j->punched += (uint64_t)w;
	}
}

static uint64_t bytes_unread(const struct net_guard *g, int i)
{
	const uint64_t size = net_journal_size(&g->journal[i]), counted = g->reader.peer.counted[i];

	return size > counted ? size - counted : 0;
}

bool net_journal_is_flooded(const struct net_guard *g, enum net_part p)
{
	return bytes_unread(g, p) > BEHIND_MAX;
}

bool net_journal_is_read(const struct net_guard *g)
{
	return bytes_unread(g, NET_EGRESS) == 0 && bytes_unread(g, NET_DIAL) == 0;
}

void net_journal_remove(struct net_guard *g)
{
	if (net_journal_is_read(g))
		(void)unlinkat(g->dir, NET_JOURNAL_PLACE, 0);
	g->place = fd_close(g->place);
	for (int i = 0; i < NET_PARTS; i++) {
		if (g->journal[i].fd >= 0 && bytes_unread(g, i) == 0)
			(void)unlinkat(g->dir, net_journal_names[i], 0);
		g->journal[i].fd = fd_close(g->journal[i].fd);
	}
}
