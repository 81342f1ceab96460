/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of a run's asks (askserve.V6): reserved in runs/ID/asks.next before they are used, so that none is
 * used twice.
 */
#include "approval/server/askserve.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 64

static int write_number(const struct askserve *s, uint64_t n)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)n);

	return fd_replace_file(s->dir, ASKNUMBER_FILE, text, (size_t)len, 0600);
}

/* 0, -ENOENT, or another error if the number cannot be determined. */
static int read_number(const struct askserve *s, uint64_t *ret)
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(s->dir, ASKNUMBER_FILE, TEXT_MAX, &b);
	char *nl = r == 0 && b.len ? memchr(b.data, '\n', b.len) : NULL;

	if (r < 0)
		return r;
	/* Without its newline it may be the beginning of a larger number. */
	if (!nl || nl != b.data + b.len - 1 || strlen(b.data) != b.len)
		return -EBADMSG;
	*nl = '\0';
	return str_to_u64(b.data, ret);
}

/* Under asks.lock, so that two lists of one run get distinct numbers. */
static int on_reserve_numbers(void *ctx, uint64_t *last)
{
	struct askserve *s = ctx;
	autoclose int lock = askserve_lock(s);
	uint64_t used = 0, from;
	int r = lock < 0 ? lock : read_number(s, &used);

	if (lock < 0)
		return lock;
	/* Questions come more slowly than one per microsecond, so this is beyond every number in use. */
	if ((r == -ENOENT && s->had_list) || (r < 0 && r != -ENOENT))
		used = clock_nsec(CLOCK_REALTIME) / 1000;
	from = used > *last ? used : *last;
	r = write_number(s, from + ASKS_NUMBERS);
	if (r < 0)
		return r;
	s->had_list = true;
	*last = from;
	return 0;
}

void asknumber_open(struct askserve *s, bool had_list)
{
	s->had_list = s->had_list || had_list;
	asks_set_numbers(s->asks, on_reserve_numbers, s);
}

void asknumber_close(struct askserve *s)
{
	uint64_t mine = asks_reserved(s->asks), was = 0;
	autoclose int lock = mine ? askserve_lock(s) : -1;

	/* Reserved numbers that were never used are given back: nobody has seen them. */
	if (lock >= 0 && read_number(s, &was) == 0 && was == mine && mine > asks_last_number(s->asks))
		(void)!write_number(s, asks_last_number(s->asks));
}
