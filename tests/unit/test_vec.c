/* SPDX-License-Identifier: Apache-2.0 */
#include "base/vec.h"
#include "tap.h"

static void test_room(void)
{
	unsigned long *v = NULL;
	size_t n = 0, cap = 0;

	for (; n < 1000; n++) {
		if (VEC_ROOM(v, n, cap, VEC_NO_MAX) < 0)
			break;
		v[n] = n;
	}
	CHECK(n == 1000 && cap >= n && cap < 3 * n);
	CHECK(v && v[0] == 0 && v[999] == 999);
	free(v);
}

static void test_max(void)
{
	char *v = NULL;
	size_t n = 0, cap = 0;

	while (VEC_ROOM(v, n, cap, 20) == 0)
		v[n++] = 'x';
	CHECK(n == 20 && cap == 20);
	CHECK(VEC_ROOM(v, n, cap, 20) == -E2BIG && v && cap == 20);
	CHECK(VEC_ROOM(v, n, cap, 0) == -E2BIG);
	free(v);
	v = NULL;
	n = cap = 0;
	while (VEC_ROOM(v, n, cap, 3) == 0)
		v[n++] = 'x';
	CHECK(n == 3);
	free(v);
}

/* A capacity of eight bits ends at 255, whatever the maximum. */
static void test_narrow(void)
{
	short *v = NULL;
	unsigned char cap = 0;
	size_t n = 0;

	while (VEC_ROOM(v, n, cap, VEC_NO_MAX) == 0)
		v[n++] = 1;
	CHECK(n == 255 && cap == 255);
	free(v);
}

static void test_overflow(void)
{
	struct {
		char big[4096];
	} *v = NULL, *was = v;
	volatile size_t huge = SIZE_MAX / 4096; /* so that the compiler does not warn of it */
	size_t cap = 4 * huge;

	CHECK(VEC_ROOM(v, cap, cap, VEC_NO_MAX) == -ENOMEM && v == was && cap == 4 * huge);
	CHECK(VEC_MORE(v, huge, VEC_NO_MAX) == -ENOMEM && v == was);
	CHECK(VEC_MORE(v, SIZE_MAX, VEC_NO_MAX) == -E2BIG && v == was);
}

/* Nothing remembers the capacity, so each step must find that of the one before. */
static void test_double(void)
{
	size_t *v = NULL, n = 0, right = 0;

	while (VEC_DOUBLE(v, n, 1000) == 0) {
		v[n] = n;
		n++;
	}
	for (size_t i = 0; i < n; i++)
		right += v[i] == i;
	CHECK(n == 1000 && right == 1000);
	CHECK(VEC_DOUBLE(v, n, 1000) == -E2BIG && v[999] == 999);
	CHECK(vec_implied(0) == 0 && vec_implied(1) == VEC_FIRST && vec_implied(VEC_FIRST) == VEC_FIRST &&
	      vec_implied(VEC_FIRST + 1) == (size_t)2 * VEC_FIRST && vec_implied(1024) == 1024 &&
	      vec_implied(1025) == 2048);
	free(v);
}

static void test_more(void)
{
	int *v = NULL;
	size_t n = 0;

	while (VEC_MORE(v, n, 7) == 0) {
		v[n] = (int)n;
		n++;
	}
	CHECK(n == 7 && v[6] == 6);
	CHECK(VEC_MORE(v, n, 7) == -E2BIG && v[0] == 0);
	free(v);
}

int main(void)
{
	test_room();
	test_max();
	test_narrow();
	test_overflow();
	test_double();
	test_more();
	return tap_done();
}
