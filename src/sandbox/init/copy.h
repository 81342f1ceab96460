/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs trees into the archive of codec/file/pack.h and unpacks them, for `coffer cp`. The same code runs on both
 * sides: inside, as a function of coffer-init, and on the host, where the stream is hostile.
 *
 * Invariants of unpacking
 *  U1  Every name is one component below a directory fd that we opened ourselves without following a symlink,
 *      so nothing outside the destination is reachable, even while another process renames things.
 *  U2  A file is always a new one (the old name is unlinked first): an existing symlink is never followed and
 *      an existing hard link's other name is never written.
 *  U3  Only regular files, directories and symlinks; modes are 0777 minus the umask; owners are never set.
 *  U4  Entries and bytes are capped.
 *
 * No error text is built here (coffer-init has none): a failure is a negative errno, with act and name in copy_fail.
 */
#ifndef SANDBOX_COPY_H
#define SANDBOX_COPY_H

#include "base/buf.h"
#include "codec/file/pack.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The first failure. */
struct copy_fail {
	int code;	  /* negative errno, 0: nothing */
	const char *what; /* static text: "cannot open" */
	char name[PACK_NAME_MAX + 1];
};

struct pack_level {
	int fd;
	char *ents; /* as getdents64() gave them */
	long pos, end;
};

struct packer {
	struct pack_level level[PACK_DEPTH_MAX];
	unsigned depth;
	int file; /* being sent, or -1 */
	bool done;
	uint64_t skipped;      /* sockets, devices, fifos and what could not be read */
	struct copy_fail fail; /* about the first of these */
};

/*
 * Begins with `path` below dirfd. A path that ends in a symlink sends the link unless `follow`.
 * The struct is large (it holds its own stack): keep it in static memory or on the heap.
 */
int packer_open(struct packer *p, int dirfd, const char *path, bool follow, struct buf *out) MUST_CHECK;

/* Adds about one record to out. 1: there is more, 0: that was the end. Unreadable entries are skipped and counted. */
int packer_next(struct packer *p, struct buf *out) MUST_CHECK;
void packer_release(struct packer *p);

/* docker cp's rules for where things go, decided where the destination is. */
struct copy_target {
	int dir; /* owned by whoever opened it */
	char name[PACK_NAME_MAX + 1];
	bool into;     /* the source's contents go into dir itself, `name` is empty */
	bool want_dir; /* only a directory may get this name: it was typed with a trailing slash */
};

struct unpack_dir {
	int fd;
	bool ours; /* we made it: mode and time are set when it is left */
	uint32_t mode;
	int64_t mtime;
};

/*
 * Called for each entry before it is made: 1 makes it, 0 leaves it out, negative aborts. The first is at depth 0; `dir`
 * is the directory that it goes into, name is "" where that is the entry itself. `link` is the target of a symlink, NULL
 * for any other entry. A directory is left out with everything below it, for which this is not called.
 */
typedef int unpack_may(void *ctx, unsigned depth, int dir, const char *name, bool is_dir, const char *link);

struct unpacker {
	struct pack_state state;
	struct buf in; /* bytes of a record that is not complete */
	int parent;    /* borrowed */
	char root[PACK_NAME_MAX + 1];
	bool into, want_dir;
	struct unpack_dir dir[PACK_DEPTH_MAX];
	unsigned depth;
	int file;	  /* being written, or -1 */
	bool in_hole;	  /* its last bytes were zeros, and are not written */
	bool skip;	  /* a file that is left out */
	unsigned skipped; /* how deep in a directory that is left out */
	unpack_may *may;  /* NULL: every entry is made */
	void *may_ctx;
	int64_t file_mtime;
	mode_t mask;
	uint64_t entries, bytes, max_entries, max_bytes;
	uint64_t cut; /* files that the sender could not read to their end */
	struct copy_fail fail;
};

/* t->dir stays the caller's and must outlive the unpacker. */
void unpacker_init(struct unpacker *u, const struct copy_target *t, uint64_t max_entries, uint64_t max_bytes);

/* Takes the next bytes of the stream. After a failure nothing more may be fed. */
int unpacker_feed(struct unpacker *u, const void *data, size_t len) MUST_CHECK;
static inline bool unpacker_is_complete(const struct unpacker *u)
{
	return u->state.ended;
}
void unpacker_release(struct unpacker *u);

/*
 * dst as typed. source_name: last component of the source, or "" when only its contents are meant ("dir/.").
 * An existing directory takes the source inside; otherwise dst itself is the new name and its parent must exist.
 * On failure the part that is wrong is named in *fail.
 */
int copy_target_open(struct copy_target *t, int dirfd, const char *dst, const char *source_name,
		     struct copy_fail *fail) MUST_CHECK;

/* The last component of a path as typed, without trailing slashes; "" for "/", ".", ".." and what ends in "/.". */
int copy_source_name(const char *path, char ret[PACK_NAME_MAX + 1]) MUST_CHECK;

#endif
