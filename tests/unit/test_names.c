/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "egress/account/names.h"
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct addr_range range(const char *text)
{
	struct addr_range r = { 0 };

	CHECK(addr_range_parse(text, strlen(text), &r, NULL) == 0);
	return r;
}

static struct host host(const char *text)
{
	struct host h = { 0 };

	if (host_canon(text, strlen(text), &h, NULL) < 0)
		printf("# no name: %s\n", text);
	return h;
}

static const struct name *add(struct names *n, const char *text)
{
	const struct name *name = NULL;
	struct host h = host(text);

	return names_add(n, &h, &name) == 0 ? name : NULL;
}

static void test_basics(void)
{
	struct addr_range r = range("11.0.0.0/8");
	struct names n;
	const struct name *a, *b;
	struct addr addr, own;
	char text[ADDR_TEXT_LEN];

	CHECK(names_open(&n, -1, &r, 12345, NULL) == 0);
	a = add(&n, "a.test");
	b = add(&n, "b.test");
	CHECK(a && b && a->addr != b->addr);
	CHECKF(add(&n, "a.test") == a, "a name keeps its entry");
	addr = addr_from_v4(a->addr);
	CHECK(names_at(&n, &addr) == a);
	addr = addr_from_v4(b->addr + 1);
	CHECKF(!names_at(&n, &addr), "an address that was not given has no name");
	addr = addr_from_v4(0x0a000002);
	CHECK(!names_at(&n, &addr) && !names_in_range(&n, &addr));
	own = names_own(&n);
	CHECK_STR(addr_format(&own, text), "11.0.0.1");
	CHECK(names_in_range(&n, &own) && !names_at(&n, &own));
	CHECK(names_index(&n, b) == 1);
	CHECK(names_next_conn(&n) == 1);
	CHECK(names_next_conn(&n) == 2);
	names_close(&n);
}

/* Every name of a full small range, and of the largest table. */
static void test_full(void)
{
	struct addr_range small = range("11.1.0.0/20"), large = range("11.0.0.0/8");
	struct names n;
	bool good = true;
	char text[32];
	unsigned i;

	CHECK(names_open(&n, -1, &small, 4000000000u, NULL) == 0);
	for (i = 0; i < 16 * 253; i++) {
		const struct name *name;
		struct addr a;

		snprintf(text, sizeof(text), "n%u.test", i);
		name = add(&n, text);
		a = addr_from_v4(name ? name->addr : 0);
		good = good && name && names_at(&n, &a) == name && (name->addr & 0xff) > 1 &&
		       (name->addr & 0xff) < 255;
	}
	CHECKF(good, "each address of a small range is given once, but for .0, .1 and .255");
	CHECKF(!add(&n, "one.more.test"), "then the table is full");
	CHECKF(add(&n, "n7.test") != NULL, "and names in it are still found");
	names_close(&n);
	CHECK(names_open(&n, -1, &large, 0xffffffff, NULL) == 0);
	for (i = 0; i < NAMES_MAX; i++) {
		snprintf(text, sizeof(text), "n%u.test", i);
		if (!add(&n, text))
			break;
	}
	CHECK(i == NAMES_MAX && !add(&n, "one.more.test"));
	names_close(&n);
}

static void test_restart(void)
{
	autoclose int fd = memfd_create("names", MFD_CLOEXEC);
	struct addr_range r = range("11.0.0.0/8"), other = range("12.0.0.0/8");
	struct names n;
	uint32_t was;

	CHECK(names_open(&n, fd, &r, 777, NULL) == 0);
	add(&n, "first.test");
	was = add(&n, "kept.test")->addr;
	*names_counter(&n, 0) = 42;
	*names_counter(&n, 99) = 43;
	names_next_conn(&n);
	names_close(&n);
	CHECKF(names_open(&n, fd, &other, 888, NULL) == 0, "a file that was used is loaded again");
	CHECKF(n.n == 2 && add(&n, "kept.test")->addr == was, "names keep their addresses");
	CHECKF(add(&n, "new.test")->addr != was, "and no other name gets one of them");
	CHECK(*names_counter(&n, 0) == 42 && *names_counter(&n, 99) == 43 && names_next_conn(&n) == 2);
	names_close(&n);
}

static void damage(int fd, off_t at, uint32_t value, const char *what)
{
	struct addr_range r = range("11.0.0.0/8");
	struct names n;
	uint32_t was = 0;

	if (pread(fd, &was, sizeof(was), at) != sizeof(was) ||
	    pwrite(fd, &value, sizeof(value), at) != sizeof(value))
		return;
	CHECKF(names_open(&n, fd, &r, 1, NULL) == -EBADMSG, "%s is refused", what);
	if (pwrite(fd, &was, sizeof(was), at) != sizeof(was))
		return;
}

static void test_damage(void)
{
	autoclose int fd = memfd_create("names", MFD_CLOEXEC);
	struct addr_range r = range("11.0.0.0/8");
	/* magic, base, blocks, start, n, conns, counters, records */
	const off_t base = 8, blocks = 12, count = 20, records = 32 + NAMES_COUNTERS * 16;
	struct names n;

	CHECK(names_open(&n, fd, &r, 777, NULL) == 0);
	add(&n, "aaaa.test");
	add(&n, "bbbb.test");
	names_close(&n);
	damage(fd, 0, 1, "another magic");
	damage(fd, base, 0x0b000001, "a base within a block");
	damage(fd, blocks, 0, "a range of nothing");
	damage(fd, blocks, 0xffffffff, "a range past the last address");
	damage(fd, count, 3, "a record that is not there");
	damage(fd, count, NAMES_MAX + 1, "more records than can be");
	damage(fd, records + 1, 0x41414141, "a name in capitals");
	damage(fd, records + 11, 0x61616161, "a name twice");
	CHECKF(names_open(&n, fd, &r, 1, NULL) == 0, "undamaged it is loaded");
	names_close(&n);
	CHECK(ftruncate(fd, 4096) == 0 && names_open(&n, fd, &r, 1, NULL) == -EBADMSG);
	r = range("11.0.0.0/25");
	CHECK(names_open(&n, -1, &r, 1, NULL) == -EINVAL);
}

static void test_counters(void)
{
	struct addr_range r = range("11.0.0.0/8");
	struct names n;
	unsigned i;

	CHECK(names_open(&n, -1, &r, 1, NULL) == 0);
	for (i = 1; i < NAMES_COUNTERS && names_counter(&n, (uint64_t)i * 1000); i++)
		;
	CHECK(i == NAMES_COUNTERS && !names_counter(&n, 5) && names_counter(&n, 1000) &&
	      names_counter(&n, 0));
	CHECK(names_counter(&n, 1000) != names_counter(&n, 0) &&
	      names_counter(&n, 1000) == names_counter(&n, 1000));
	names_close(&n);
}

int main(void)
{
	test_basics();
	test_full();
	test_restart();
	test_damage();
	test_counters();
	return tap_done();
}
