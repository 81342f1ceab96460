/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership by attribute: a local that owns a resource is declared with it, and the resource is released on every
 * way out of its scope. TAKE_PTR() and TAKE_FD() pass the resource on and leave the local empty.
 * Every fd is CLOEXEC, and -1 when empty.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(func) __attribute__((cleanup(func)))

static inline void cleanup_freep(void *p)
{
	free(*(void **)p);
}

/* Closes and preserves errno, so that an error path may read errno after a scope has ended. Returns -1. */
static inline int fd_close(int fd)
{
	if (fd >= 0) {
		int saved = errno;

		close(fd);
		errno = saved;
	}
	return -1;
}

static inline void cleanup_closep(const int *fd)
{
	fd_close(*fd);
}

static inline void cleanup_closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

static inline void cleanup_fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define autofree CLEANUP(cleanup_freep)
#define autoclose CLEANUP(cleanup_closep)
#define autoclosedir CLEANUP(cleanup_closedirp)
#define autofclose CLEANUP(cleanup_fclosep)

#define TAKE_PTR(p)                         \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})

#define TAKE_FD(fd)                \
	({                         \
		int taken_ = (fd); \
		(fd) = -1;         \
		taken_;            \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
