/* SPDX-License-Identifier: Apache-2.0 */
/* The dates beside the vault: what is written is read, and nothing else is. */
#include "base/cleanup.h"
#include "tap.h"
#include "vault/client/schedule.h"

#include <errno.h>

static int parse(struct schedule *s, const char *text)
{
	return schedule_parse(s, text, strlen(text));
}

static void test_there_and_back(void)
{
	CLEANUP(schedule_release) struct schedule s = SCHEDULE_INIT, t = SCHEDULE_INIT;
	autobuf struct buf b = BUF_INIT;

	CHECK(schedule_add(&s, &(struct schedule_entry){ .name = "dateless" }) == 0 && s.n == 0);
	CHECK(schedule_next(&s) == 0);
	CHECK(schedule_add(&s, &(struct schedule_entry){ .name = "a", .expires = 9 }) == 0 &&
	      schedule_next(&s) == 0);
	CHECK(schedule_add(&s, &(struct schedule_entry){ .name = "b-2", .due = 50 }) == 0);
	CHECK(schedule_add(&s, &(struct schedule_entry){ .name = "c", .due = 7, .expires = UINT64_MAX }) ==
	      0);
	CHECK(s.n == 3 && schedule_next(&s) == 7);
	schedule_format(&s, &b);
	CHECK(strcmp(buf_cstr(&b), "a 0 9\nb-2 50 0\nc 7 18446744073709551615\n") == 0);
	CHECK(parse(&t, buf_cstr(&b)) == 0 && t.n == 3 && strcmp(t.v[1].name, "b-2") == 0 &&
	      t.v[1].due == 50 && t.v[2].expires == UINT64_MAX);
}

static void test_refused(void)
{
	static const char *const bad[] = { "a",
					   "a\n",
					   "a 1\n",
					   "a 1 2",
					   "a 1 2 3\n",
					   " 1 2\n",
					   "a -1 2\n",
					   "a 1 x\n",
					   "a/b 1 2\n",
					   "\n",
					   "a  1 2\n",
					   "a 1 2\nb\n",
					   "a 1 99999999999999999999\n" };
	struct schedule s = SCHEDULE_INIT;
	char longest[400];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECKF(parse(&s, bad[i]) == -EBADMSG && s.n == 0,
		       "line %zu of the wrong schedules is refused", i);
	memset(longest, 'a', sizeof(longest));
	memcpy(longest + sizeof(longest) - 6, " 1 2\n", 6);
	CHECK(parse(&s, longest) == -EBADMSG);
	CHECK(schedule_parse(&s, "a\0b 1 2\n", 8) == -EBADMSG);
	CHECK(parse(&s, "") == 0 && s.n == 0);
}

static void test_soon(void)
{
	CHECK(!schedule_is_soon(0, 1000) && !schedule_is_soon(1000, 1000) && !schedule_is_soon(999, 1000));
	CHECK(schedule_is_soon(1001, 1000) && schedule_is_soon(999 + SCHEDULE_SOON, 1000));
	CHECK(!schedule_is_soon(1000 + SCHEDULE_SOON, 1000));
}

int main(void)
{
	test_there_and_back();
	test_refused();
	test_soon();
	return tap_done();
}
