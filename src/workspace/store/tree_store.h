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
#include "workspace/store/objects.h"
#include "workspace/workspace.h"

#include <stdbool.h>
#include <stdint.h>

#define CHECKPOINT_MANIFEST_MAX (1ULL << 30)

/*
 * What is known of files without reading them: for an inode that has not changed since (size, times of content and of
 * inode), the hash and the attributes. A private memory of one run, bound to the manifest it was made with.
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
/* By inode, size and time of content only: for files that we have just made ourselves. */
const struct known_ent *known_find_inode(const struct known *k, const struct stat *st);
int known_add(struct known *k, const struct stat *st, const unsigned char hash[HASH_LEN], const void *attrs,
	      uint32_t attrs_len) MUST_CHECK;

/* As a file's bytes, for the manifest of that hash; and back. -ESTALE when it belongs to another, -EBADMSG when damaged. */
void known_format(const struct known *k, const unsigned char manifest[HASH_LEN], struct buf *out);
int known_parse(struct known *k, const void *data, size_t len,
		const unsigned char manifest[HASH_LEN]) MUST_CHECK;

struct scan {
	struct objects *store; /* content goes there; with hash_only it is only hashed */
	bool hash_only;
	bool live;	   /* somebody may be writing */
	bool trust_inodes; /* `before` is of files that we made ourselves, and nobody has touched since */
	const struct known *before; /* sorted; may be NULL */
	struct known *after;	    /* filled; may be NULL */
	struct buf *out;	    /* the manifest */
	mode_t top_mode;	    /* what the next tree's top directory counts as having; 0: what it has */
	uint64_t entries;	    /* how many so far, over all trees */
	uint64_t files_read;
};

/* Adds one tree to the manifest. */
int scan_tree(struct scan *s, const char *name, int top_fd, struct err *e) MUST_CHECK;

struct restore {
	struct objects *store;
	int old_fd; /* the tree as it is now, -1: none; what is unchanged in it is linked, not copied */
	const struct known *before; /* of the old tree; may be NULL */
	struct known
		*after; /* may be NULL: gets inode and hash of every file, for a scan with trust_inodes */
	bool no_marks;	/* overlayfs' own attributes stay behind: whoever wrote the tree could set them */
	uint64_t entries, linked, copied;
};

/*
 * Makes the tree whose records the reader stands before (it has just returned MANIFEST_TREE) as dirfd/name, which must
 * not be there, exactly: content, owners, modes, times, attributes, links, deletions. Reads up to the tree's end.
 */
int restore_tree(struct restore *r, struct manifest_reader *m, int dirfd, const char *name,
		 struct err *e) MUST_CHECK;

/* Adds the hashes of all files of a manifest, which is read whole: -EBADMSG when it is not one. */
int checkpoint_hashes(const void *data, size_t len, struct hashes *ret) MUST_CHECK;

/*
 * What is different in b, seen from a, in each tree that either has. For a tree over an original (`lower` by tree name,
 * -1: none) it is the difference of what a program inside saw. Paths of trees other than "workspace" get the prefix
 * "~/" (home) or "/" (root). Flags and reasons are those of no apply: none are set, but CHANGE_HELD for what cannot be
 * looked into.
 */
struct compare {
	const void *a, *b;
	size_t a_len, b_len;
	int lower; /* the workspace's original; -1: it has none */
	struct objects *store;
};

int checkpoint_compare(const struct compare *c, struct changes *ret, struct err *e) MUST_CHECK;

/* The content of one such change, as workspace_patch() shows it. */
int checkpoint_patch(const struct compare *c, const struct change *change, struct buf *out) MUST_CHECK;

/* Attributes of an open file or directory that a checkpoint keeps, as a manifest has them. */
int attrs_read(int fd, struct buf *ret) MUST_CHECK;

#endif
