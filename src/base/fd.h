/* SPDX-License-Identifier: Apache-2.0 */
/* Files and descriptors: whole reads and writes, capped; small files in one call. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Writes all of it, through short writes and EINTR. 0 or negative errno. */
int fd_write_all(int fd, const void *data, size_t len) MUST_CHECK;

/* Reads exactly len bytes; -EPIPE when the other side ended first. */
int fd_read_exact(int fd, void *data, size_t len) MUST_CHECK;

/* Fills `to` from offset `at` of the file; returns less than `len` only at the end of the file. */
ssize_t fd_read_at(int fd, void *to, size_t len, uint64_t at) MUST_CHECK;

/* The next range of a file, from `at` on, that has data: at most `most` bytes. Short holes are part of a range. False when only
 * a hole is left. Where holes cannot be found, the range is that from `at` on, also beyond the end of the file. Moves the
 * descriptor's position. */
bool fd_next_data(int fd, uint64_t at, uint64_t most, uint64_t *ret_from, uint64_t *ret_to);

/* Appends all that can be read to b; -EFBIG past `cap` bytes. */
int fd_read_all(int fd, size_t cap, struct buf *b) MUST_CHECK;

/* Appends the file's bytes to b. dirfd may be AT_FDCWD. Never follows a symlink in the last component. */
int fd_read_file(int dirfd, const char *path, size_t cap, struct buf *b) MUST_CHECK;

/* Writes one string to an existing file in one write(): /proc and cgroup files. */
int fd_write_file(int dirfd, const char *path, const char *text) MUST_CHECK;

/* Creates or replaces path atomically (temporary file, rename). mode 0 means 0600. */
int fd_replace_file(int dirfd, const char *path, const void *data, size_t len, mode_t mode) MUST_CHECK;

/* mkdir -p below dirfd, each new directory with `mode`. */
int fd_mkdir_p(int dirfd, const char *path, mode_t mode) MUST_CHECK;

/* openat2(); `resolve` is RESOLVE_* of <linux/openat2.h>. The fd is CLOEXEC. fd or negative errno. */
int fd_openat2(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve) MUST_CHECK;

/* chmod() of the entry itself: -EOPNOTSUPP when it is a symlink. */
int fd_chmod_nofollow(int dirfd, const char *name, mode_t mode) MUST_CHECK;

/*
 * Removes a whole tree below dirfd without following symlinks or leaving its mount. -ENOENT is 0. Survives trees of
 * any depth and size with a few fds and little memory; makes directories writable on the way where their
 * owner may. *ret_n (may be NULL) gets the number of removed entries, also on failure.
 */
int fd_rm_tree(int dirfd, const char *path, uint64_t *ret_n, struct err *e) MUST_CHECK;

/* fd_rm_tree() without the number. */
int fd_rm_rf(int dirfd, const char *path, struct err *e) MUST_CHECK;

/* Is `place`, a file or a directory, the absolute path or one of its parents? Compares device and inode, because the same
 * directory may be mounted in several places. */
bool fd_path_leads_through(const char *path, const char *place);

int fd_set_nonblock(int fd, bool on) MUST_CHECK;
int fd_set_cloexec(int fd, bool on) MUST_CHECK;

#endif
