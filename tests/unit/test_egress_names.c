/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "egress/account/egress_names.h"
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

static const struct egress_name *add(struct egress_names *n, const char *text)
{
	const struct egress_name *name = NULL;
	struct host h = host(text);

	return egress_names_add(n, &h, &name) == 0 ? name : NULL;
}

static void test_basics(void)
{
	struct addr_range r = range("11.0.0.0/8");
	struct egress_names n;
	const struct egress_name *a, *b;
	struct addr addr, own;
	char text[ADDR_TEXT_LEN];

	CHECK(egress_names_open(&n, -1, &r, 12345, NULL) == 0);
	a = add(&n, "a.test");
	b = add(&n, "b.test");
	CHECK(a && b && a->addr != b->addr);
	CHECKF(add(&n, "a.test") == a, "a name keeps its entry when it is added again");
	addr = addr_from_v4(a->addr);
	CHECK(egress_names_at(&n, &addr) == a);
	addr = addr_from_v4(b->addr + 1);
	CHECKF(!egress_names_at(&n, &addr), "an address that was given to no name has none");
	addr = addr_from_v4(0x0a000002);
	CHECK(!egress_names_at(&n, &addr) && !egress_names_in_range(&n, &addr));
	own = egress_names_own(&n);
	CHECK_STR(addr_format(&own, text), "11.0.0.1");
	CHECK(egress_names_in_range(&n, &own) && !egress_names_at(&n, &own));
	CHECK(egress_names_index(&n, b) == 1);
	CHECK(egress_names_next_conn(&n) == 1);
	CHECK(egress_names_next_conn(&n) == 2);
	egress_names_close(&n);
}

/* Every name of a full small range, and of the largest table. */
static void test_full(void)
{
	struct addr_range small = range("11.1.0.0/20"), large = range("11.0.0.0/8");
	struct egress_names n;
	bool good = true;
	char text[32];
	unsigned i;

	CHECK(egress_names_open(&n, -1, &small, 4000000000u, NULL) == 0);
	for (i = 0; i < 16 * 253; i++) {
		const struct egress_name *name;
		struct addr a;

		snprintf(text, sizeof(text), "n%u.test", i);
		name = add(&n, text);
		a = addr_from_v4(name ? name->addr : 0);
		good = good && name && egress_names_at(&n, &a) == name && (name->addr & 0xff) > 1 &&
		       (name->addr & 0xff) < 255;
	}
	CHECKF(good, "each address of a small range is given once, but for .0, .1 and .255");
	CHECKF(!add(&n, "one.more.test"), "no name is added to a full table");
	CHECKF(add(&n, "n7.test") != NULL, "a full table still finds its names");
	egress_names_close(&n);
	CHECK(egress_names_open(&n, -1, &large, 0xffffffff, NULL) == 0);
	for (i = 0; i < EGRESS_NAMES_MAX; i++) {
		snprintf(text, sizeof(text), "n%u.test", i);
		if (!add(&n, text))
			break;
	}
	CHECK(i == EGRESS_NAMES_MAX && !add(&n, "one.more.test"));
	egress_names_close(&n);
}

static void test_restart(void)
{
	autoclose int fd = memfd_create("names", MFD_CLOEXEC);
	struct addr_range r = range("11.0.0.0/8"), other = range("12.0.0.0/8");
	struct egress_names n;
	uint32_t was;

	CHECK(egress_names_open(&n, fd, &r, 777, NULL) == 0);
	add(&n, "first.test");
	was = add(&n, "kept.test")->addr;
	*egress_names_counter(&n, 0) = 42;
	*egress_names_counter(&n, 99) = 43;
	egress_names_next_conn(&n);
	egress_names_close(&n);
	CHECKF(egress_names_open(&n, fd, &other, 888, NULL) == 0, "a stored file of names is loaded again");
	CHECKF(n.n == 2 && add(&n, "kept.test")->addr == was, "names keep their addresses over a restart");
	CHECKF(add(&n, "new.test")->addr != was, "a new name gets an unused address");
	CHECK(*egress_names_counter(&n, 0) == 42 && *egress_names_counter(&n, 99) == 43 &&
	      egress_names_next_conn(&n) == 2);
	egress_names_close(&n);
}

static void damage(int fd, off_t at, uint32_t value, const char *what)
{
	struct addr_range r = range("11.0.0.0/8");
	struct egress_names n;
	uint32_t was = 0;

	if (pread(fd, &was, sizeof(was), at) != sizeof(was) ||
	    pwrite(fd, &value, sizeof(value), at) != sizeof(value))
		return;
	CHECKF(egress_names_open(&n, fd, &r, 1, NULL) == -EBADMSG, "a file of names is refused with %s",
	       what);
	if (pwrite(fd, &was, sizeof(was), at) != sizeof(was))
		return;
}

static void test_damage(void)
{
	autoclose int fd = memfd_create("names", MFD_CLOEXEC);
	struct addr_range r = range("11.0.0.0/8");
	/* magic, base, blocks, start, n, conns, counters, records */
	const off_t base = 8, blocks = 12, count = 20, records = 32 + EGRESS_NAMES_COUNTERS * 16;
	struct egress_names n;

	CHECK(egress_names_open(&n, fd, &r, 777, NULL) == 0);
	add(&n, "aaaa.test");
	add(&n, "bbbb.test");
	egress_names_close(&n);
	damage(fd, 0, 1, "another magic");
	damage(fd, base, 0x0b000001, "a base within a block");
	damage(fd, blocks, 0, "a range of nothing");
	damage(fd, blocks, 0xffffffff, "a range past the last address");
	damage(fd, count, 3, "a record that is not there");
	damage(fd, count, EGRESS_NAMES_MAX + 1, "more records than can be");
	damage(fd, records + 1, 0x41414141, "a name in capitals");
	damage(fd, records + 11, 0x61616161, "a name twice");
	CHECKF(egress_names_open(&n, fd, &r, 1, NULL) == 0, "an undamaged file of names is loaded");
	egress_names_close(&n);
	CHECK(ftruncate(fd, 4096) == 0 && egress_names_open(&n, fd, &r, 1, NULL) == -EBADMSG);
	r = range("11.0.0.0/25");
	CHECK(egress_names_open(&n, -1, &r, 1, NULL) == -EINVAL);
}

static void test_counters(void)
{
	struct addr_range r = range("11.0.0.0/8");
	struct egress_names n;
	unsigned i;

	CHECK(egress_names_open(&n, -1, &r, 1, NULL) == 0);
	for (i = 1; i < EGRESS_NAMES_COUNTERS && egress_names_counter(&n, (uint64_t)i * 1000); i++)
		;
	CHECK(i == EGRESS_NAMES_COUNTERS && !egress_names_counter(&n, 5) && egress_names_counter(&n, 1000) &&
	      egress_names_counter(&n, 0));
	CHECK(egress_names_counter(&n, 1000) != egress_names_counter(&n, 0) &&
	      egress_names_counter(&n, 1000) == egress_names_counter(&n, 1000));
	egress_names_close(&n);
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
