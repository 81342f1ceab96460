/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "egress/wire/journal.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

static uint64_t fixed(void)
{
	return 7;
}

static void line(struct journal *j, const char *text, size_t max)
{
	struct json *l = journal_begin(j, "dns");

	journal_str(l, "name", text, max);
	journal_str(l, "why", NULL, 10);
	journal_str(l, "rule", "", 10);
	journal_end(j);
}

static const char *got(int fd, struct buf *b)
{
	buf_clear(b);
	CHECK(fd_read_all(fd, 1 << 20, b) == 0 || b->len);
	buf_add(b, "", 0); /* an end, also after a read that failed for want of more */
	return buf_cstr(b);
}

/* J4 */
static void test_dropped(void)
{
	autobuf struct buf b = BUF_INIT;
	struct journal j;
	char big[2000];
	int p[2];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	CHECK(pipe2(p, O_CLOEXEC | O_NONBLOCK) == 0);
	journal_init(&j, p[1]);
	for (int i = 0; i < 400; i++)
		line(&j, big, 1900);
	while (j.pending.len) {
		CHECKF(journal_commit(&j) < 0, "dropped lines are an error even when the others are written");
		got(p[0], &b);
	}
	CHECK(j.dropped > 0 && journal_is_dirty(&j));
	line(&j, "a", 9);
	CHECKF(journal_commit(&j) < 0, "dropped lines are an error for each one that waits");
	journal_settled(&j);
	line(&j, "a", 9);
	CHECK(journal_commit(&j) == 0 && !journal_is_dirty(&j));
	journal_release(&j);
	close(p[0]);
	close(p[1]);
}

/* A disk that takes what it is given takes as much as there is. */
static void test_much(void)
{
	int fd = memfd_create("journal", MFD_CLOEXEC);
	struct journal j;
	char big[2000];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	journal_init(&j, fd);
	for (int i = 0; i < 4000; i++)
		line(&j, big, 1900);
	CHECK(journal_commit(&j) == 0 && j.dropped == 0 && lseek(fd, 0, SEEK_CUR) > 4000L * 1900);
	journal_release(&j);
	close(fd);
}

int main(void)
{
	autobuf struct buf b = BUF_INIT;
	struct journal j;
	char big[6000];
	int p[2];

	test_dropped();
	test_much();
	CHECK(pipe2(p, O_CLOEXEC | O_NONBLOCK) == 0);
	journal_init(&j, p[1]);
	j.now = fixed;
	CHECK(journal_commit(&j) == 0 && !journal_is_dirty(&j));
	line(&j, "a", 9);
	line(&j, "b\n\"\xff", 9);
	CHECK(journal_is_dirty(&j) && journal_commit(&j) == 0 && j.writes == 1 && !journal_is_dirty(&j));
	CHECK_STR(got(p[0], &b), "{\"t\":7,\"ev\":\"dns\",\"name\":\"a\"}\n"
				 "{\"t\":7,\"ev\":\"dns\",\"name\":\"b\\n\\\"\\ufffd\"}\n");
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	line(&j, big, 5);
	line(&j, "\xc3\xa4\xc3\xa4", 3);
	CHECK(journal_commit(&j) == 0);
	CHECK_STR(
		got(p[0], &b),
		"{\"t\":7,\"ev\":\"dns\",\"name\":\"xxxxx\"}\n{\"t\":7,\"ev\":\"dns\",\"name\":\"\xc3\xa4\"}\n");
	line(&j, big, sizeof(big));
	CHECK(journal_commit(&j) == 0);
	CHECK_STR(got(p[0], &b), "{\"t\":7,\"ev\":\"garbled\",\"why\":\"a line was too long\"}\n");

	/* A pipe that is full stands for a disk that is. */
	for (int i = 0; i < 100; i++)
		line(&j, big, 1900);
	CHECKF(journal_commit(&j) == -EAGAIN && j.error == -EAGAIN,
	       "lines that cannot be written are an error");
	CHECKF(journal_is_dirty(&j) && journal_commit(&j) == -EAGAIN,
	       "a full journal stays in error until it is read");
	got(p[0], &b);
	CHECKF(journal_commit(&j) == -EAGAIN,
	       "an error stays for all that waited when the journal can be written again");
	journal_settled(&j);
	while (journal_commit(&j) == -EAGAIN) {
		autobuf struct buf more = BUF_INIT;

		got(p[0], &more);
		buf_add(&b, more.data, more.len);
		journal_settled(&j);
	}
	{
		autobuf struct buf more = BUF_INIT;
		unsigned n = 0;

		got(p[0], &more);
		buf_add(&b, more.data, more.len);
		for (size_t i = 0; i < b.len; i++)
			n += b.data[i] == '\n' && (i + 1 == b.len || b.data[i + 1] == '{');
		CHECKF(n == 100, "all held lines are written whole when there is room");
	}
	for (int i = 0; i < 400; i++)
		line(&j, big, 1900);
	CHECKF(j.dropped > 0 && j.pending.len <= JOURNAL_HELD_MAX, "the held lines have a bound");
	while (journal_commit(&j) == -EAGAIN) {
		got(p[0], &b);
		journal_settled(&j);
	}
	line(&j, "a", 9);
	CHECKF(journal_commit(&j) == 0 && j.error == 0, "a journal that was written has no error any more");
	journal_release(&j);
	close(p[0]);
	close(p[1]);
	return tap_done();
}
