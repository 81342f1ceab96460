/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays that grow. Pure, typed by the array itself, checked for overflow; on failure the array is as it was.
 *
 * `max` limits the number of entries where outside input decides it; VEC_NO_MAX where memory alone is the limit.
 * All return 0, -ENOMEM, or -E2BIG when there are `max` entries already.
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include "base/err.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define VEC_NO_MAX SIZE_MAX
#define VEC_FIRST 4 /* entries that a first allocation has room for */

static inline int MUST_CHECK vec_set_room(void **v, size_t room, size_t size)
{
	void *more = reallocarray(*v, room, size);

	if (!more)
		return -ENOMEM;
	*v = more;
	return 0;
}

static inline int MUST_CHECK vec_grow(void **v, size_t n, size_t *cap, size_t size, size_t max)
{
	size_t more = *cap > max / 2 ? max : *cap ? *cap * 2 : VEC_FIRST;
	int r;

	if (n >= max)
		return -E2BIG;
	if (n < *cap && *v)
		return 0;
	more = more > max ? max : more;
	r = vec_set_room(v, more, size);
	if (r == 0)
		*cap = more;
	return r;
}

static inline int MUST_CHECK vec_grow_by_one(void **v, size_t n, size_t size, size_t max)
{
	return n >= max ? -E2BIG : vec_set_room(v, n + 1, size);
}

/* The capacity that VEC_DOUBLE() assumes for n entries. */
static inline size_t vec_implied(size_t n)
{
	size_t cap = n ? VEC_FIRST : 0;

	while (cap < n)
		cap *= 2;
	return cap;
}

/* Makes room for one more entry after the n of v, whose capacity is `cap`: doubles it when full. `cap` may have any unsigned type,
 * and the largest value of that type is a maximum too. */
#define VEC_ROOM(v, n, cap, max)                                                                        \
	({                                                                                              \
		void *vec_ = (v);                                                                       \
		size_t cap_ = (cap), most_ = (__typeof__(cap))-1;                                       \
		size_t size_ =                                                                          \
			sizeof(*(v)); /* NOLINT(bugprone-sizeof-expression): entries may be pointers */ \
		int r_ = vec_grow(&vec_, (n), &cap_, size_, (max) < most_ ? (max) : most_);             \
                                                                                                        \
		if (r_ >= 0) {                                                                          \
			(v) = vec_;                                                                     \
			(cap) = (__typeof__(cap))cap_;                                                  \
		}                                                                                       \
		r_;                                                                                     \
	})

/* VEC_ROOM() for an array without a stored capacity: it is the power of two at or above n, at least VEC_FIRST. Only for an array
 * that no other code allocates. */
#define VEC_DOUBLE(v, n, max)                                                                           \
	({                                                                                              \
		void *vec_ = (v);                                                                       \
		size_t n_ = (n), cap_ = vec_implied(n_);                                                \
		size_t size_ =                                                                          \
			sizeof(*(v)); /* NOLINT(bugprone-sizeof-expression): entries may be pointers */ \
		int r_ = n_ >= (max) ? -E2BIG : vec_grow(&vec_, n_, &cap_, size_, VEC_NO_MAX);          \
                                                                                                        \
		if (r_ >= 0)                                                                            \
			(v) = vec_;                                                                     \
		r_;                                                                                     \
	})

/* VEC_ROOM() for an array that has room for exactly its n entries: each call reallocates. */
#define VEC_MORE(v, n, max)                                                                             \
	({                                                                                              \
		void *vec_ = (v);                                                                       \
		size_t size_ =                                                                          \
			sizeof(*(v)); /* NOLINT(bugprone-sizeof-expression): entries may be pointers */ \
		int r_ = vec_grow_by_one(&vec_, (n), size_, (max));                                     \
                                                                                                        \
		if (r_ >= 0)                                                                            \
			(v) = vec_;                                                                     \
		r_;                                                                                     \
	})

#endif
