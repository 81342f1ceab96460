/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main function of coffer-unpack: confines itself, then streams the archive through decompression and the tar parser
 * into the directory, and writes one reply of fixed size (unpack.h). It must not read a byte of the archive before it is
 * confined (unpack.K1).
 */
#include "sandbox/image/unpack.h"

#include "base/fd.h"
#include "base/str.h"
#include "codec/file/tar.h"
#include "sandbox/image/unpack_in.h"
#include "sandbox/image/unpack_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

struct unpack_job {
	struct tar tar;
	struct unpack_tree tree;
};

static int feed_tar(void *ctx, const uint8_t *data, size_t len, struct err *e)
{
	struct unpack_job *j = ctx;

	while (len) {
		struct tar_piece piece;
		size_t used = 0;
		int ev = tar_next(&j->tar, data, len, &used, &piece), r = 0;

		if (ev < 0)
			return err_set(e, ev, "%s", ev == -ENOMEM ? "out of memory" : j->tar.why);
		if (ev == TAR_ENTRY)
			r = unpack_tree_entry(&j->tree, &piece.entry, e);
		else if (ev == TAR_DATA)
			r = unpack_tree_data(&j->tree, piece.data, piece.len, tar_left(&j->tar) == 0, e);
		if (r < 0)
			return r;
		data += used;
		len -= used;
	}
	return 0;
}

static int unpack_archive(const struct unpack_opts *o, struct unpack_reply *reply, struct err *e)
{
	struct unpack_job *j = calloc(1, sizeof(*j));
	struct unpack_in in = { .fd = UNPACK_IN,
				.out_max = o->bytes_max,
				.ratio_max = o->ratio_max,
				.before_in = o->before_in,
				.before_out = o->before_out,
				.sink = feed_tar,
				.ctx = j };
	int r;

	if (!j)
		return err_set(e, -ENOMEM, "out of memory");
	j->tree = UNPACK_TREE_INIT;
	j->tree.root = UNPACK_DIR;
	j->tree.opts = o;
	j->tree.counts = reply;
	r = unpack_in_run(&in, e);
	if (r == 0 && tar_finish(&j->tar) < 0)
		r = err_set(e, -EBADMSG, "%s", j->tar.why);
	reply->unended = j->tar.unended;
	if (r == 0)
		r = unpack_tree_finish(&j->tree, e);
	if (r == 0)
		hash_stream_end(&in.hash, reply->diff_id);
	reply->bytes = in.out;
	tar_release(&j->tar);
	unpack_tree_release(&j->tree);
	free(j);
	return r;
}

int unpack_main(int argc, char **argv)
{
	struct unpack_reply reply = { .magic = UNPACK_MAGIC };
	struct unpack_opts o = { 0 };
	struct err e = ERR_INIT;
	int r;

	if (argc != 7 || str_to_u64(argv[1], &o.entries_max) < 0 || str_to_u64(argv[2], &o.bytes_max) < 0 ||
	    str_to_u64(argv[3], &o.ratio_max) < 0 || str_to_u64(argv[4], &o.before_in) < 0 ||
	    str_to_u64(argv[5], &o.before_out) < 0 || fcntl(UNPACK_REPLY, F_GETFD) < 0) {
		fputs("coffer-unpack is started by coffer, not by hand\n", stderr);
		return 2;
	}
	o.owners = str_eq(argv[6], "owners");
	umask(0); /* modes are those of the archive */
	r = unpack_fence(&o, &e);
	if (r == 0)
		r = unpack_archive(&o, &reply, &e);
	reply.code = r;
	snprintf(reply.msg, sizeof(reply.msg), "%.*s", (int)sizeof(reply.msg) - 1, e.msg);
	snprintf(reply.hint, sizeof(reply.hint), "%.*s", (int)sizeof(reply.hint) - 1, e.hint);
	/* Not exit(): a sanitizer's leak check needs system calls that the fence denies. */
	_exit(fd_write_all(UNPACK_REPLY, &reply, sizeof(reply)) < 0 || r < 0 ? 1 : 0);
}
