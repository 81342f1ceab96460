/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports an image from an archive or a directory. Everything is made in a directory of our own in tmp/; layers are moved to
 * their place one by one, complete and checked; the name is written last. A crash before that leaves nothing visible
 * (image.I2). Archives are parsed by coffer-unpack, never here.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/image/image_source.h"
#include "sandbox/image/image_store.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

struct import {
	struct image_store store;
	const struct image_import *opts;
	char tmp[STORE_TMP_LEN + 1];
	int tmp_fd;
	unsigned n_sub;
	int held[OCI_LAYERS_MAX + 1]; /* trees of the stored layers, locked until the name is written */
	size_t n_held;
	struct strv digests; /* of the layers as they are stored, lowest first */
	struct image_notes notes;
	struct store_layer all; /* bytes and entries of all layers so far */
	uint64_t fed, grown; /* bytes of the archives that were unpacked here: as they came, and unpacked */
};

static void import_release(struct import *im)
{
	for (size_t i = 0; i < im->n_held; i++)
		fd_close(im->held[i]);
	if (im->tmp_fd >= 0) {
		int r = fd_rm_rf(im->store.tmp, im->tmp, NULL);

		(void)r; /* the next sweep removes the rest */
		fd_close(im->tmp_fd);
	}
	strv_release(&im->digests);
	image_store_release(&im->store);
}

/* Makes tmp/ID/N/tree to unpack into. Returns the tree, locked as a layer in use. */
static int new_layer_tree(struct import *im, char sub[16], struct err *e)
{
	char path[32];
	int fd;

	snprintf(sub, 16, "%u", im->n_sub++);
	snprintf(path, sizeof(path), "%s/tree", sub);
	if (mkdirat(im->tmp_fd, sub, 0700) < 0 || mkdirat(im->tmp_fd, path, 0755) < 0)
		return err_sys(e, -errno, "cannot make a directory in %s", im->store.path);
	fd = openat(im->tmp_fd, path, DIR_FLAGS);
	if (fd < 0 || fchmod(fd, 0755) < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0) {
		int code = -errno;

		fd_close(fd);
		return err_sys(e, code, "cannot make a directory in %s", im->store.path);
	}
	return fd;
}

static void add_unpack_notes(struct image_notes *n, const struct unpack_reply *r)
{
	n->devices += r->devices;
	n->pipes += r->pipes;
	n->setids += r->setids;
	n->xattrs += r->xattrs;
	n->strangers += r->strangers;
}

static int hold_imported_layer(struct import *im, int tree, const char *digest, const struct store_layer *l,
			       struct err *e)
{
	im->held[im->n_held++] = tree;
	im->all.bytes += l->bytes;
	im->all.entries += l->entries;
	im->notes.layers++;
	if (strv_add(&im->digests, digest) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	return image_check_limits(im->opts, &im->all, e);
}

/* Moves tmp/ID/SUB, which was unpacked to `tree`, to the layer `digest`, and holds that. Closes `tree`. */
static int image_store_unpacked_layer(struct import *im, const char *sub, int tree, const char *digest,
				      const struct unpack_reply *reply, struct err *e)
{
	struct store_layer l = { .bytes = reply->bytes, .entries = reply->entries };
	int r;

	snprintf(l.diff_id, sizeof(l.diff_id), "sha256:");
	hash_hex(reply->diff_id, HASH_LEN, l.diff_id + 7);
	r = image_store_put_layer(&im->store, im->tmp, sub, digest, &l, e);
	fd_close(tree);
	return r < 0 ? r : hold_imported_layer(im, r, digest, &l, e);
}

static int report_wrong_layer(struct err *e, size_t i, const char *want, const char *got)
{
	return err_set(e, -EBADMSG, "layer %zu does not match its digest: expected %.19s…, found %.19s…",
		       i + 1, want, got);
}

/*
 * The unpacker's limit for a later layer is what the earlier ones left of the import's, and its error names that number. Sets
 * the error that names the limit of the whole import instead, which the user knows. False: the error is about something else.
 */
static bool reword_over_limit(const struct import *im, int code, struct err *e)
{
	struct store_layer over = { 0 };

	if (!im->all.entries || (code != -E2BIG && (code != -EFBIG || !im->opts->bytes_max)))
		return false;
	*(code == -E2BIG ? &over.entries : &over.bytes) = UINT64_MAX;
	return image_check_limits(im->opts, &over, e) < 0;
}

/*
 * Imports one layer: from the store if it is there, else by unpacking it. A docker archive does not state the digest of its
 * layers as they come; they are uncompressed, so it equals the diff_id.
 */
static int import_layer(struct import *im, int src, const struct image_source *s, size_t i, struct err *e)
{
	const char *digest = s->digests.n ? s->digests.v[i] : NULL, *diff_id = s->about.diff_ids.v[i];
	char sub[16], got[OCI_DIGEST_LEN + 1], unpacked[OCI_DIGEST_LEN + 1] = "sha256:";
	struct unpack_reply reply = { 0 };
	struct unpack_opts caps;
	uint64_t fed = 0;
	struct store_layer l = { 0 };
	autoclose int fd = -1;
	int tree, r;

	tree = image_store_open_layer(&im->store, digest ? digest : diff_id, &l, e);
	if (tree >= 0) {
		im->notes.reused++;
		if (!str_eq(l.diff_id, diff_id)) {
			fd_close(tree);
			return report_wrong_layer(e, i, diff_id, l.diff_id);
		}
		return hold_imported_layer(im, tree, digest ? digest : diff_id, &l, e);
	}
	if (tree != -ENOENT)
		return tree;
	fd = image_source_open(src, s->layers.v[i], e);
	if (fd < 0)
		return fd;
	tree = new_layer_tree(im, sub, e);
	if (tree < 0)
		return tree;
	image_unpack_caps(&im->store, im->opts, &im->all, &caps);
	caps.before_in = im->fed;
	caps.before_out = im->grown;
	r = image_unpack(fd, tree, &caps, got, &fed, &reply, e);
	im->fed += fed;
	im->grown += reply.bytes;
	if (r < 0)
		r = reword_over_limit(im, r, e) ? r : err_wrap(e, r, "layer %zu of the image", i + 1);
	hash_hex(reply.diff_id, HASH_LEN, unpacked + 7);
	if (r == 0 && digest && !str_eq(digest, got))
		r = report_wrong_layer(e, i, digest, got);
	if (r == 0 && !str_eq(diff_id, unpacked))
		r = report_wrong_layer(e, i, diff_id, unpacked);
	if (r < 0) {
		fd_close(tree);
		return r;
	}
	add_unpack_notes(&im->notes, &reply);
	return image_store_unpacked_layer(im, sub, tree, got, &reply, e);
}

/* --- names -------------------------------------------------------------------------------------------------- */

static int refuse_unnamed_image(struct err *e)
{
	err_set(e, -EINVAL, "no image name was given, and the source has none that can be used");
	return err_hint(e, -EINVAL, "coffer image import --name NAME[:TAG] FILE");
}

/* The name from the command line, else the one that the image states; a bare tag is combined with its directory's name. */
static int choose_image_name(const struct image_import *o, const char *own, struct image_ref *ret,
			     struct err *e)
{
	autofree char *both = NULL;
	const char *text = o->name ? o->name : own;
	int r;

	if (!text)
		return refuse_unnamed_image(e);
	if (!o->name && !strpbrk(own, "/:")) {
		size_t end = strlen(o->path), begin;

		while (end && o->path[end - 1] == '/')
			end--;
		for (begin = end; begin && o->path[begin - 1] != '/'; begin--)
			;
		if (asprintf(&both, "%.*s:%s", (int)(end - begin), o->path + begin, own) < 0)
			return err_set(e, -ENOMEM, "out of memory");
		text = both;
	}
	r = image_ref_parse(text, ret, e);
	return r < 0 && !o->name ? refuse_unnamed_image(e) : r;
}

/* --- the whole ---------------------------------------------------------------------------------------------- */

/* Writes the blobs and, last of all, the name. */
static int commit_image(struct import *im, const struct image_source *s, const struct image_ref *ref,
			struct image_record *ret, struct err *e)
{
	CLEANUP(image_record_release) struct image_record rec = { 0 };
	autobuf struct buf made = BUF_INIT;
	char name[IMAGE_NAME_MAX + 1], config[OCI_DIGEST_LEN + 1];
	const struct buf *manifest = s->manifest.len ? &s->manifest : &made;
	autoclose int lock = image_store_lock(&im->store, LOCK_SH, e);
	int r = lock < 0 ? lock
			 : image_store_write_blob(&im->store, s->config.data, s->config.len, config, e);

	if (r < 0)
		return r;
	if (!s->manifest.len)
		image_source_manifest(config, s->config.len, &im->digests, &made);
	if (buf_error(&made))
		return err_set(e, -ENOMEM, "out of memory");
	r = image_store_write_blob(&im->store, manifest->data, manifest->len, rec.manifest, e);
	if (r < 0)
		return r;
	memcpy(rec.index, s->index, sizeof(rec.index));
	if (im->opts->index)
		snprintf(rec.index, sizeof(rec.index), "%s", im->opts->index);
	if (ref->digest[0] && !str_eq(ref->digest, rec.manifest) && !str_eq(ref->digest, rec.index))
		return err_set(e, -ESTALE, "the image is %s, not %s as its name says", rec.manifest,
			       ref->digest);
	rec.name = strdup(image_ref_name(ref, name));
	rec.source = strdup(im->opts->source ? im->opts->source : im->opts->path);
	rec.imported = clock_nsec(CLOCK_REALTIME);
	rec.bytes = im->all.bytes;
	if (!rec.name || !rec.source)
		return err_set(e, -ENOMEM, "out of memory");
	r = image_store_write_name(&im->store, &rec, e);
	if (r < 0)
		return r;
	*ret = rec;
	rec = (struct image_record){ 0 };
	return 0;
}

static int import_described(struct import *im, int dir, enum image_kind kind, struct image_record *ret,
			    struct err *e)
{
	CLEANUP(image_source_release) struct image_source s = { 0 };
	struct image_ref ref = { 0 };
	int r = image_source_read(dir, kind, im->opts->name, &s, e);

	if (r == 0)
		r = choose_image_name(im->opts, s.ref, &ref, e);
	for (size_t i = 0; r == 0 && i < s.layers.n; i++)
		r = import_layer(im, dir, &s, i, e);
	return r < 0 ? r : commit_image(im, &s, &ref, ret, e);
}

/* A bare root file system, already unpacked to tmp/ID/SUB. */
static int import_bare(struct import *im, const char *sub, int tree, const char *digest,
		       const struct unpack_reply *reply, struct image_record *ret, struct err *e)
{
	CLEANUP(image_source_release) struct image_source s = { 0 };
	char diff_id[OCI_DIGEST_LEN + 1] = "sha256:";
	struct image_ref ref = { 0 };
	int r = choose_image_name(im->opts, NULL, &ref, e);

	/* Only the end mark shows that a bare archive is complete; in an image a digest does. */
	if (r == 0 && reply->unended)
		r = err_set(e, -EBADMSG, "the archive is cut off: its end mark is missing");
	if (r < 0) {
		fd_close(tree);
		return r;
	}
	hash_hex(reply->diff_id, HASH_LEN, diff_id + 7);
	image_source_bare_config(diff_id, &s.config);
	r = image_store_unpacked_layer(im, sub, tree, digest, reply, e);
	if (r == 0 && buf_error(&s.config))
		r = err_set(e, -ENOMEM, "out of memory");
	return r < 0 ? r : commit_image(im, &s, &ref, ret, e);
}

/* An archive that was unpacked to tmp/ID/SUB. */
struct outer {
	char sub[16], digest[OCI_DIGEST_LEN + 1];
	int tree;
	struct unpack_reply reply;
};

static int unpack_outer(struct import *im, int fd, struct outer *o, struct err *e)
{
	static const struct store_layer none;
	struct unpack_opts caps;
	uint64_t fed;
	int r;

	o->tree = new_layer_tree(im, o->sub, e);
	if (o->tree < 0)
		return o->tree;
	image_unpack_caps(&im->store, im->opts, &none, &caps);
	r = image_unpack(fd, o->tree, &caps, o->digest, &fed, &o->reply, e);
	if (r < 0)
		o->tree = fd_close(o->tree);
	return r;
}

/*
 * Continues with an archive that was unpacked: its files tell whether it is an image, whose layers are to be unpacked in turn,
 * or a bare root file system, which is a layer already.
 */
static int import_unpacked(struct import *im, struct outer *o, struct image_record *ret, struct err *e)
{
	enum image_kind kind = image_source_kind(o->tree);
	int r;

	if (kind == IMAGE_ROOTFS) {
		add_unpack_notes(&im->notes, &o->reply);
		return import_bare(im, o->sub, TAKE_FD(o->tree), o->digest, &o->reply, ret, e);
	}
	r = import_described(im, o->tree, kind, ret, e);
	o->tree = fd_close(o->tree);
	return r;
}

/* Starts tar(1) over a directory and returns its output. */
static int start_tar_of_directory(int dir, struct spawned *ret, struct err *e)
{
	char *argv[] = { (char *)"tar", (char *)"-c", (char *)"--numeric-owner", (char *)"--one-file-system",
			 (char *)".",	NULL };
	int p[2], fds[] = { SPAWN_NULL, SPAWN_NULL, 2 }, r;
	const struct spawn s = { .path = argv[0],
				 .argv = argv,
				 .fds = fds,
				 .n_fds = ARRAY_SIZE(fds),
				 .cwd_fd = dir,
				 .flags = SPAWN_SAME_ID | SPAWN_CWD_FD };
	enum spawn_step step;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	fds[1] = p[1];
	r = spawn_start_step(&s, ret, &step, e);
	fd_close(p[1]);
	if (r == 0)
		return p[0];
	fd_close(p[0]);
	return r == -ENOENT && step == SPAWN_STEP_EXEC
		       ? err_set(e, r, "tar is not installed, and a directory cannot be read without it")
		       : r;
}

/* A directory with a root file system is archived by tar and unpacked like any other archive, with the same checks. */
static int import_directory(struct import *im, int dir, struct image_record *ret, struct err *e)
{
	struct outer o = { .tree = -1 };
	struct spawned tar = SPAWNED_INIT;
	autoclose int out = start_tar_of_directory(dir, &tar, e);
	int status, r;

	if (out < 0)
		return out;
	r = unpack_outer(im, out, &o, e);
	out = fd_close(out);
	status = spawn_wait(&tar);
	/* Exit status 1: files changed while tar read them. */
	if (r == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) > 1))
		r = err_set(e, -EIO, "tar could not read all of the directory");
	if (r < 0) {
		fd_close(o.tree);
		return r;
	}
	return import_unpacked(im, &o, ret, e);
}

static int import_source(struct state *st, const struct image_import *o, struct image_record *ret,
			 struct image_notes *notes, struct err *e)
{
	CLEANUP(import_release) struct import im = { .store = STORE_INIT, .opts = o, .tmp_fd = -1 };
	autoclose int fd = open(o->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	enum image_kind kind = IMAGE_ROOTFS;
	struct stat sb;
	int r;

	if (fd < 0 || fstat(fd, &sb) < 0)
		return err_sys(e, -errno, "cannot open %s", o->path);
	r = image_store_open(&im.store, st, e);
	if (r < 0)
		return r;
	image_store_sweep(&im.store);
	im.tmp_fd = image_store_tmp(&im.store, im.tmp, e);
	if (im.tmp_fd < 0)
		return im.tmp_fd;
	if (S_ISDIR(sb.st_mode)) {
		kind = image_source_kind(fd);
		r = kind == IMAGE_ROOTFS ? import_directory(&im, fd, ret, e)
					 : import_described(&im, fd, kind, ret, e);
	} else {
		struct outer u = { .tree = -1 };

		r = unpack_outer(&im, fd, &u, e);
		if (r == 0)
			r = import_unpacked(&im, &u, ret, e);
	}
	if (r < 0)
		return err_wrap(e, r, "%s", o->source ? o->source : o->path);
	*notes = im.notes;
	image_store_collect(&im.store);
	return 0;
}

int image_import(struct state *st, const struct image_import *o, struct image_record *ret,
		 struct image_notes *notes, struct err *e)
{
	CLEANUP(image_store_release) struct image_store s = STORE_INIT;
	int r = import_source(st, o, ret, notes, e);

	/* A failed import may have stored layers. Its locks on them have ended, and no name leads to them. */
	if (r < 0 && image_store_open(&s, st, NULL) == 0)
		image_store_collect(&s);
	return r;
}
