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

int net_journal_make(struct net_guard *g, struct err *e)
{
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
	for (int i = 0; i < NET_PARTS; i++) {
		if (g->journal[i].fd >= 0 && bytes_unread(g, i) == 0)
			(void)unlinkat(g->dir, net_journal_names[i], 0);
		g->journal[i].fd = fd_close(g->journal[i].fd);
	}
}
