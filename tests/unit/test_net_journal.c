/* SPDX-License-Identifier: Apache-2.0 */
/* The journals as files: what is in the log is given back to the disk, and a backlog is seen. */
#include "base/fd.h"
#include "netd/serve/net_int.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

static struct net_guard g;

static uint64_t disk_bytes(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static void test_punch(void)
{
	static char megabyte[1u << 20];
	struct net_journal *j = &g.journal[NET_EGRESS];
	char end[8] = "";

	memset(megabyte, 'x', sizeof(megabyte));
	CHECK(fd_write_all(j->fd, megabyte, sizeof(megabyte)) == 0 && fd_write_all(j->fd, "the end", 7) == 0);
	CHECK(net_journal_size(j) == sizeof(megabyte) + 7 && disk_bytes(j->fd) >= sizeof(megabyte));
	net_journal_punch(j, sizeof(megabyte));
	CHECKF(disk_bytes(j->fd) <= 8192, "bytes that are in the log take no room on the disk any more: %llu",
	       (unsigned long long)disk_bytes(j->fd));
	CHECKF(net_journal_size(j) == sizeof(megabyte) + 7, "offsets in a journal never change");
	CHECK(pread(j->fd, end, 7, sizeof(megabyte)) == 7);
	CHECK_STR(end, "the end");
	net_journal_punch(j, 5);
	CHECKF(j->punched == sizeof(megabyte), "an offset that went back gives nothing back");
}

static void test_backlog(void)
{
	struct net_journal *j = &g.journal[NET_EGRESS];
	const uint64_t size = net_journal_size(j);

	g.reader.peer.counted[NET_FROM_EGRESS] = size;
	CHECK(net_journal_is_read(&g) && !net_journal_is_flooded(&g, NET_EGRESS));
	CHECK(ftruncate(j->fd, (off_t)(size + (65u << 20))) == 0);
	CHECKF(net_journal_is_flooded(&g, NET_EGRESS) && !net_journal_is_flooded(&g, NET_DIAL),
	       "a journal with more than 64 MiB unread is flooded");
	CHECK(!net_journal_is_read(&g));
}

static void test_removal(void)
{
	g.reader.peer.counted[NET_FROM_DIAL] = 0;
	net_journal_remove(&g);
	CHECKF(faccessat(g.dir, net_journal_names[NET_EGRESS], F_OK, 0) == 0,
	       "a journal with unread lines stays for net_finish()");
	CHECKF(faccessat(g.dir, net_journal_names[NET_DIAL], F_OK, 0) != 0, "a journal that is read goes");
	(void)unlinkat(g.dir, net_journal_names[NET_EGRESS], 0);
}

int main(void)
{
	char dir[] = "/tmp/net-journal-XXXXXX";
	struct err e = ERR_INIT;

	if (!mkdtemp(dir))
		return 1;
	g.dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g.journal[NET_EGRESS].fd = g.journal[NET_DIAL].fd = -1;
	CHECKF(net_journal_make(&g, &e) == 0, "the guard makes both journals: %s", e.msg);
	test_punch();
	test_backlog();
	test_removal();
	fd_close(g.dir);
	rmdir(dir);
	return tap_done();
}
