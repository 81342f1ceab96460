/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of directory trees: a tree becomes a manifest (codec/file/manifest.h) and objects (objects.h), is restored
 * from them, and two manifests are compared.
 *
 * A sandbox wrote the trees and may still be writing: no symlink is followed, nothing that could block is opened, an entry
 * that vanishes meanwhile is left out, and a file that changes faster than it can be read is an error.
 */
#ifndef WORKSPACE_TREE_STORE_H
#define WORKSPACE_TREE_STORE_H

#include "base/buf.h"
#include "base/err.h"
#include "codec/file/manifest.h"
#include "workspace/change/changes.h"
#include "workspace/store/objects.h"

#include <stdbool.h>
#include <stdint.h>

#define CHECKPOINT_MANIFEST_MAX (1ULL << 30)

/*
 * A cache of hashes and attributes by inode, so that unchanged files are not read again: an entry is valid while the size,
 * mtime and ctime of its inode are the recorded ones. It belongs to one run and to the manifest that it was made with.
 */
struct known_ent {
	uint64_t dev, ino, size;
	int64_t mtime, ctime; /* ns */
	unsigned char hash[HASH_LEN];
	uint64_t attrs; /* where they begin in the text */
	uint32_t attrs_len;
	uint32_t zero;
};

struct known {
	struct buf ents; /* struct known_ent, sorted by dev and ino once known_sort() was called */
	struct buf text;
};

#define KNOWN_INIT ((struct known){ 0 })

void known_release(struct known *k);
void known_sort(struct known *k);
const struct known_ent *known_find(const struct known *k, const struct stat *st);
/* Ignores the ctime: for files that we have just made ourselves, and whose inode we have changed since. */
const struct known_ent *known_find_inode(const struct known *k, const struct stat *st);
int known_add(struct known *k, const struct stat *st, const unsigned char hash[HASH_LEN], const void *attrs,
	      uint32_t attrs_len) MUST_CHECK;

/* The cache as the bytes of a file, bound to the manifest of that hash; and back. -ESTALE: it belongs to another manifest;
 * -EBADMSG: it is damaged. */
void known_format(const struct known *k, const unsigned char manifest[HASH_LEN], struct buf *out);
int known_parse(struct known *k, const void *data, size_t len,
		const unsigned char manifest[HASH_LEN]) MUST_CHECK;

struct scan {
	struct objects *store; /* where content is stored */
	bool hash_only;	       /* content is hashed, not stored */
	bool live;	       /* a process may be writing to the tree */
	bool trust_inodes; /* `before` describes files that we made ourselves and that no process has changed since */
	const struct known *before; /* sorted; may be NULL */
	struct known *after;	    /* filled; may be NULL */
	struct buf *out;	    /* the manifest */
	mode_t top_mode;  /* recorded as the mode of the next tree's top directory; 0: its real mode */
	uint64_t entries; /* how many so far, over all trees */
	uint64_t files_read;
};

/* Adds one tree to the manifest. */
int scan_tree(struct scan *s, const char *name, int top_fd, struct err *e) MUST_CHECK;

struct restore {
	struct objects *store;
	int old_fd; /* the present tree, -1: none; its unchanged files are linked instead of copied */
	const struct known *before; /* of the old tree; may be NULL */
	struct known
		*after; /* may be NULL: gets inode and hash of every file, for a scan with trust_inodes */
	bool no_marks; /* leave out overlayfs's own attributes, which the writer of the tree could have forged */
	uint64_t entries, linked, copied;
};

/*
 * Makes the tree whose records the reader returns next (it has just returned MANIFEST_TREE) as dirfd/name, which must not
 * exist. Restores content, owners, modes, times, attributes, links and deletions. Reads up to the end of the tree.
 */
int restore_tree(struct restore *r, struct manifest_reader *m, int dirfd, const char *name,
		 struct err *e) MUST_CHECK;

/* Adds the hashes of all files of a manifest: -EBADMSG when the bytes are not a complete manifest. */
int tree_store_hashes(const void *data, size_t len, struct hashes *ret) MUST_CHECK;

/*
 * The changes from manifest a to manifest b, in each tree that both have. For the workspace, which lies over an original,
 * the two views that a program inside has are compared, not the two layers. Paths of the other trees get the prefix "~/"
 * (home) or "/" (root). No flags for an apply are set; CHANGE_HELD marks a directory whose path is too long to compare it.
 */
struct compare {
	const void *a, *b;
	size_t a_len, b_len;
	int lower; /* the workspace's original; -1: it has none */
	struct objects *store;
};

int tree_store_compare(const struct compare *c, struct changes *ret, struct err *e) MUST_CHECK;

/* The content of one such change, as workspace_patch() shows it. */
int tree_store_patch(const struct compare *c, const struct change *change, struct buf *out) MUST_CHECK;

/* Attributes of an open file or directory that a checkpoint keeps, as a manifest has them. */
int attrs_read(int fd, struct buf *ret) MUST_CHECK;

#endif
