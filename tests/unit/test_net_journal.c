/* SPDX-License-Identifier: Apache-2.0 */
/* The journals on their way into the log: a process that writes without end does not hold the guard. */
#include "base/clock.h"
#include "base/fd.h"
#include "netd/serve/net_int.h"
#include "tap.h"

#include <sys/mman.h>
#include <sys/stat.h>

static struct net_guard g;
static uint64_t n_events;

static int on_event(void *ctx, const char *type, const struct buf *fields)
{
	(void)ctx;
	(void)type;
	(void)fields;
	n_events++;
	return 0;
}

/* Writes at least that many bytes, in lines that cost little. Returns their number. */
static uint64_t write_lines(int fd, uint64_t bytes)
{
	static const char line[] = "{\"ev\":\"dns\",\"name\":\"a.test\",\"decision\":\"allow\"}\n";
	char chunk[1024 * (sizeof(line) - 1)];
	uint64_t n = 0;

	for (size_t i = 0; i < 1024; i++)
		memcpy(chunk + i * (sizeof(line) - 1), line, sizeof(line) - 1);
	for (; n < bytes; n += sizeof(chunk)) {
		if (fd_write_all(fd, chunk, sizeof(chunk)) < 0)
			return 0;
	}
	return n;
}

/* More lines that may not be folded than the pace lets through, and then the run ends. */
static void test_end(void)
{
	static const char line[] =
		"{\"ev\":\"open\",\"name\":\"a.test\",\"decision\":\"allow\",\"first\":1}\n";
	const struct net_fold_out out = { .event = on_event };
	struct net_journal *j = &g.journal[NET_EGRESS];
	const unsigned n = NET_BURST_KEPT + 4000;
	autobuf struct buf text = BUF_INIT;

	for (unsigned i = 0; i < n; i++)
		buf_adds(&text, line);
	*j = (struct net_journal){ .fd = memfd_create("journal", MFD_CLOEXEC) };
	g.fold = net_fold_new(clock_nsec(CLOCK_MONOTONIC), &out);
	n_events = 0;
	CHECK(g.fold && j->fd >= 0 && fd_write_all(j->fd, text.data, text.len) == 0);
	net_journal_fold(&g, true);
	CHECKF(n_events == n && j->off == text.len,
	       "at the end of a run all lines of new keys come into the log: %llu of %u",
	       (unsigned long long)n_events, n);
	net_fold_free(g.fold);
	fd_close(j->fd);
}

int main(void)
{
	const struct net_fold_out out = { .event = on_event };
	struct net_journal *j = &g.journal[NET_EGRESS];
	unsigned turns = 1;
	uint64_t size;
	struct stat st;

	g.journal[NET_DIAL].fd = -1;
	g.proc[NET_EGRESS].pid = g.proc[NET_DIAL].pid = -1;
	g.fold = net_fold_new(0, &out);
	j->fd = memfd_create("journal", MFD_CLOEXEC);
	size = j->fd < 0 ? 0 : write_lines(j->fd, 8 * (uint64_t)NET_FOLD_TURN);
	CHECK(g.fold && size > 0);
	net_journal_fold(&g, false);
	CHECKF(j->off >= NET_FOLD_TURN && j->off < 2 * (uint64_t)NET_FOLD_TURN,
	       "a turn takes NET_FOLD_TURN bytes and little more: %llu of %llu", (unsigned long long)j->off,
	       (unsigned long long)size);
	CHECK(fstat(j->fd, &st) == 0);
	CHECKF((uint64_t)st.st_blocks * 512 <= size - NET_FOLD_TURN + 8192,
	       "a turn gives the disk space back");
	CHECK(n_events > 0);
	for (; j->off < size && turns < 100; turns++)
		net_journal_fold(&g, false);
	CHECKF(j->off == size && turns > 4, "the rest of the journal comes turn by turn: %u", turns);
	CHECK(!net_journal_is_flooded(&g, NET_EGRESS));
	CHECK(ftruncate(j->fd, (off_t)(size + (65u << 20))) == 0 && net_journal_is_flooded(&g, NET_EGRESS));
	net_fold_free(g.fold);
	fd_close(j->fd);
	test_end();
	return tap_done();
}
