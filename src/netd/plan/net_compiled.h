/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of the process that compiles a changed policy (net_compile_child.c), as the guard reads it from a memory
 * file: a head of fixed size, the paths of the files that were read, an error or a bundle. The process parses what
 * people wrote and may have been taken over, so its result is hostile: nothing in it is believed before
 * net_compiled_parse() has checked it, and the bundle not before policy_unpack().
 */
#ifndef NETD_NET_COMPILED_H
#define NETD_NET_COMPILED_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

#define NET_COMPILED_MAGIC "cofferC1"
#define NET_COMPILED_FILES_MAX 4096
#define NET_COMPILED_PATHS_MAX (1u << 20)    /* bytes of all paths */
#define NET_COMPILED_BUNDLE_MAX (512u << 20) /* coffer-dial takes no larger one */
#define NET_COMPILED_ERROR_MAX 1023
#define NET_COMPILED_MAX (sizeof(struct net_compiled_head) + NET_COMPILED_PATHS_MAX + NET_COMPILED_BUNDLE_MAX)

enum net_compiled_outcome {
	NET_COMPILED_BROKEN, /* an error, and nothing else */
	NET_COMPILED_SAME,   /* the policy that is in force; the files may be others */
	NET_COMPILED_NEW,    /* a bundle without generation and without granted rules */
	NET_COMPILED_COUNT
};

/* Followed by the paths, each with its NUL, then the error, then the bundle; nothing after it. In the byte order
 * of the machine: both sides are the same program. */
struct net_compiled_head {
	char magic[8];
	uint32_t outcome;
	uint32_t n_files;
	uint64_t paths_len;
	uint64_t error_len;
	uint64_t bundle_len;
};

struct net_compiled {
	enum net_compiled_outcome outcome;
	char error[NET_COMPILED_ERROR_MAX + 1]; /* harmless for a terminal */
	struct strv files;			/* absolute */
	struct buf bytes;			/* the whole result */
	size_t bundle_len;			/* at the end of `bytes` */
};

#define NET_COMPILED_INIT ((struct net_compiled){ .files = STRV_INIT, .bytes = BUF_INIT })

/* Everything before the bundle, of which only the length is used. */
void net_compiled_begin(const struct net_compiled *c, struct buf *out);

/* Takes over the bytes on success. -EBADMSG: they are no result. */
int net_compiled_parse(struct buf *bytes, struct net_compiled *ret, struct err *e) MUST_CHECK;
const char *net_compiled_bundle(const struct net_compiled *c);
void net_compiled_release(struct net_compiled *c);

#endif
