/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a checkpoint.
 *
 * For a live run most of the work is done while it continues: a first pass stores the content. Then the run
 * is frozen, and a second pass finds the few changes since. It is released before anything is synced to disk.
 * A checkpoint must not be in the list before all that it names is on the disk (checkpoint.K1).
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "checkpoint/ckpt_int.h"
#include "sandbox/state/layers.h"
#include "workspace/tree/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define STILL_MS 60000u
#define INDEX "index"
#define INDEX_MAX (1ULL << 30)

int ckpt_log(struct audit *a, const char *type, const char *id, const struct buf *fields, struct err *e)
{
	return buf_error(fields) ? err_set(e, -ENOMEM, "out of memory")
				 : audit_append(a, type, id, fields, e);
}

/* --- the index of known files --------------------------------------------------------------------------- */

int ckpt_load_known(const struct ckpt_run *r, struct known *ret, const struct ckpt **ret_base)
{
	autobuf struct buf b = BUF_INIT;
	int n = fd_read_file(r->dir_fd, INDEX, INDEX_MAX, &b);

	*ret_base = NULL;
	if (n < 0)
		return n == -ENOMEM ? n : 0;
	/* The objects that an index names exist as long as its manifest does. */
	for (size_t i = r->list.n; i-- > 0;) {
		n = known_parse(ret, b.data, b.len, r->list.v[i].hash);
		if (n == 0) {
			*ret_base = &r->list.v[i];
			return 0;
		}
		known_release(ret);
		if (n != -ESTALE)
			return n == -ENOMEM ? n : 0;
	}
	return 0;
}

/* The index is only a cache: without it the next checkpoint reads everything again. */
void ckpt_save_known(int dir_fd, const struct known *k, const unsigned char manifest[HASH_LEN])
{
	autobuf struct buf b = BUF_INIT;

	known_format(k, manifest, &b);
	if (buf_error(&b) || fd_replace_file(dir_fd, INDEX, b.data, b.len, 0600) < 0)
		unlinkat(dir_fd, INDEX, 0);
}

/* --- one pass ------------------------------------------------------------------------------------------- */

/* Precedes the manifest and the index in the output of a pass, which may come from a child process
 * (owner_call). */
struct scan_result {
	uint64_t entries, files_read, new_objects, new_bytes;
	uint64_t manifest_len, ents_len;
};

static int scan_one_tree(struct scan *s, const struct ckpt_tree *t, struct err *e)
{
	mode_t mode;
	int fd = ckpt_open_top(t, &mode), r;

	if (fd < 0)
		return err_sys(e, fd, "cannot open the run's layer (%s)", t->tree);
	s->top_mode = mode;
	r = scan_tree(s, t->tree, fd, e);
	ckpt_close_top(fd, mode);
	return r;
}

static int scan_all_trees(void *ctx, struct buf *out, struct err *e)
{
	struct ckpt_scan *c = ctx;
	struct ckpt_run *r = c->r;
	struct ckpt_tree trees[CKPT_TREES];
	CLEANUP(known_release) struct known after = KNOWN_INIT;
	autobuf struct buf manifest = BUF_INIT;
	struct scan s = {
		.store = &r->store,
		.hash_only = c->hash_only,
		.live = c->live,
		.trust_inodes = c->trust_inodes,
		.before = c->before,
		.after = &after,
		.out = &manifest,
	};
	size_t n = ckpt_trees(r->layers_fd, r->homes_fd, r->id, r->meta.home, trees);
	struct scan_result res;
	int ret = 0;

	if (n == 0) {
		err_set(e, -ENODATA,
			"%s has no layer and no named home: there is nothing that a checkpoint could hold",
			r->id);
		return err_hint(e, -ENODATA, "without :ro and :rw a workspace has a layer");
	}
	for (size_t i = 0; i < n && ret == 0; i++) {
		if (!c->workspace_only || str_eq(trees[i].tree, "workspace"))
			ret = scan_one_tree(&s, &trees[i], e);
	}
	if (ret < 0)
		return ret;
	manifest_add_end(&manifest, s.entries);
	known_sort(&after);
	res = (struct scan_result){ s.entries,		s.files_read, r->store.new_objects,
				    r->store.new_bytes, manifest.len, after.ents.len };
	buf_add(out, &res, sizeof(res));
	buf_add(out, manifest.data, manifest.len);
	buf_add(out, after.ents.data, after.ents.len);
	buf_add(out, after.text.data, after.text.len);
	return buf_error(&manifest) || buf_error(out) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

int ckpt_scan(struct ckpt_scan *s, struct buf *manifest, struct err *e)
{
	autobuf struct buf out = BUF_INIT;
	struct scan_result res;
	size_t at = sizeof(res);
	int r = owner_call(s->r->mapped, scan_all_trees, s, &out, e);

	if (r < 0)
		return r;
	memcpy(&res, out.data, sizeof(res));
	buf_add(manifest, out.data + at, (size_t)res.manifest_len);
	at += (size_t)res.manifest_len;
	buf_add(&s->after->ents, out.data + at, (size_t)res.ents_len);
	at += (size_t)res.ents_len;
	buf_add(&s->after->text, out.data + at, out.len - at);
	s->entries = res.entries;
	s->files_read = res.files_read;
	s->r->store.by_another = s->r->mapped && res.new_objects;
	s->r->store.new_objects = res.new_objects;
	s->r->store.new_bytes = res.new_bytes;
	return buf_error(manifest) || buf_error(&s->after->ents) || buf_error(&s->after->text)
		       ? err_set(e, -ENOMEM, "out of memory")
		       : 0;
}

/* --- freezing ------------------------------------------------------------------------------------------- */

int ckpt_hold_still(struct ckpt_run *r, struct err *e)
{
	int layers = -1, ret = run_link_open(&r->link, r->run_fd, e);

	if (ret == -ENOENT || ret == -ECONNREFUSED)
		return err_set(e, ret, "%s is just starting or ending", r->id);
	if (ret == 0)
		ret = run_link_freeze(&r->link, STILL_MS, &r->frozen, &layers, e);
	if (ret < 0)
		return ret;
	fd_close(r->layers_fd);
	r->layers_fd = layers;
	return 0;
}

static bool layers_are_image(const struct ckpt_run *r)
{
	return faccessat(r->run_fd, LAYERS_IMAGE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Errors caused by files changing meanwhile are ignored: the second pass finds those files again. */
int ckpt_first_pass(struct ckpt_run *r, const struct ckpt_scan *how, struct known *k, struct err *e)
{
	CLEANUP(known_release) struct known after = KNOWN_INIT;
	autobuf struct buf scratch = BUF_INIT;
	struct err ignored = ERR_INIT;
	struct ckpt_scan s = *how;
	int ret;

	s.live = true;
	s.before = k;
	s.after = &after;
	if (layers_are_image(r))
		return 0;
	ret = ckpt_open_places(r, e);
	if (ret < 0)
		return ret;
	ret = ckpt_scan(&s, &scratch, &ignored);
	if (ret == -ENOSPC || ret == -EDQUOT || ret == -ENOMEM) {
		*e = ignored;
		return ret;
	}
	if (ret == 0) {
		known_release(k);
		*k = after;
		after = KNOWN_INIT;
	}
	return 0;
}

struct scanned_state {
	struct known known;
	uint64_t entries, files_read, still_ns;
	uint32_t flags;
};

/* Scans all trees and appends them to the manifest's head. */
static int scan_state(struct ckpt_run *r, struct known *before, bool hash_only, struct buf *manifest,
		      struct scanned_state *t, struct err *e)
{
	struct ckpt_scan s = {
		.r = r, .live = r->alive, .hash_only = hash_only, .before = before, .after = &t->known
	};
	uint64_t began;
	int ret = r->alive ? ckpt_first_pass(r, &s, before, e) : 0;

	if (ret < 0)
		return ret;
	began = clock_nsec(CLOCK_MONOTONIC);
	if (r->alive)
		ret = ckpt_hold_still(r, e);
	if (ret == 0)
		ret = ckpt_open_places(r, e);
	if (ret == 0)
		ret = ckpt_scan(&s, manifest, e);
	if (ret < 0)
		return ret;
	t->entries = s.entries;
	t->files_read = s.files_read;
	t->still_ns = clock_nsec(CLOCK_MONOTONIC) - began;
	t->flags = r->alive ? MANIFEST_LIVE : 0;
	if (r->alive && r->frozen != PROTO_FROZEN_NOT && run_link_is_frozen(&r->link))
		t->flags |= MANIFEST_FROZEN;
	return 0;
}

/* --- storing the checkpoint ----------------------------------------------------------------------------- */

int ckpt_publish(int dir_fd, uint32_t number, const unsigned char hash[HASH_LEN], const struct buf *manifest,
		 struct err *e)
{
	autoclose int fd = openat(dir_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0400);
	char name[CKPT_FILE_MAX], proc[32];
	int r = fd < 0 ? -errno : fd_write_all(fd, manifest->data, manifest->len);

	if (r == 0 && fdatasync(fd) < 0)
		r = -errno;
	ckpt_file_name(number, hash, name);
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	if (r == 0 && linkat(AT_FDCWD, proc, dir_fd, name, AT_SYMLINK_FOLLOW) < 0)
		r = -errno;
	if (r == 0 && fsync(dir_fd) < 0)
		r = -errno;
	return r < 0 ? err_sys(e, r, "cannot write the checkpoint") : 0;
}

static int log_checkpoint_made(struct ckpt_run *r, const struct ckpt_made *m, const struct ckpt_want *w,
			       struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char hex[HASH_HEX_LEN + 1], name[16];

	snprintf(name, sizeof(name), "c%u", m->number);
	hash_hex(m->hash, HASH_LEN, hex);
	json_str(&j, "checkpoint", name);
	json_str(&j, "manifest", hex);
	if (*w->label)
		json_str(&j, "label", w->label);
	json_u64(&j, "entries", m->entries);
	json_u64(&j, "new_bytes", m->new_bytes);
	json_bool(&j, "live", m->flags & MANIFEST_LIVE);
	if (m->flags & MANIFEST_LIVE)
		json_bool(&j, "frozen", m->flags & MANIFEST_FROZEN);
	return ckpt_log(r->audit, "checkpoint.create", r->id, &b, e);
}

int ckpt_remove_for(struct ckpt_run *r, const struct ckpt *c, const char *why, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char name[CKPT_FILE_MAX], mark[CKPT_MARK_MAX];
	int ret;

	snprintf(name, sizeof(name), "c%u", c->number);
	json_str(&j, "checkpoint", name);
	json_str(&j, "why", why);
	ret = ckpt_log(r->audit, "checkpoint.rm", r->id, &b, e);
	if (ret < 0)
		return ret;
	ckpt_file_name(c->number, c->hash, name);
	if (unlinkat(r->dir_fd, name, 0) < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot remove checkpoint c%u", c->number);
	ckpt_mark_name(c->number, c->hash, mark);
	unlinkat(r->dir_fd, mark, 0);
	return 0;
}

int ckpt_remove(struct ckpt_run *r, const struct ckpt *c, struct err *e)
{
	return ckpt_remove_for(r, c, "asked for", e);
}

/* Removes the oldest checkpoints; never the newest, nor the target of a rollback. */
static int prune_checkpoints(struct ckpt_run *r, uint64_t keep, uint64_t *ret_n, struct err *e)
{
	int ret = ckpt_reload(r, e);

	for (size_t i = 0; keep && ret == 0 && r->list.n - i > keep; i++) {
		ret = ckpt_remove_for(r, &r->list.v[i], "more than are kept", e);
		*ret_n += ret == 0;
	}
	return ret < 0 || !*ret_n ? ret : ckpt_reload(r, e);
}

/* The bytes after the head are the state: equal bytes are an equal state. */
static bool is_same_state(struct ckpt_run *r, const struct ckpt *last, const struct buf *manifest,
			  size_t head_len)
{
	autobuf struct buf b = BUF_INIT;
	struct manifest_head h;
	size_t off;

	if (!last || ckpt_read(r, last, &b, NULL) < 0 || manifest_peek(b.data, b.len, &h) < 0)
		return false;
	off = (size_t)(h.label - b.data) + strlen(h.label) + 1;
	return b.len - off == manifest->len - head_len &&
	       memcmp(b.data + off, manifest->data + head_len, b.len - off) == 0;
}

static int mark_automatic(struct ckpt_run *r, const struct ckpt_made *m, struct err *e)
{
	char mark[CKPT_MARK_MAX];
	autoclose int fd = -1;

	ckpt_mark_name(m->number, m->hash, mark);
	fd = openat(r->dir_fd, mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? err_sys(e, -errno, "cannot write the checkpoint") : 0;
}

static int store_checkpoint(struct ckpt_run *r, const struct ckpt_want *w, const struct scanned_state *t,
			    const struct buf *manifest, struct ckpt_made *ret, struct err *e)
{
	int code;

	hash_blake_once(manifest->data, manifest->len, ret->hash);
	ret->entries = t->entries;
	ret->files_read = t->files_read;
	ret->still_ns = t->still_ns;
	ret->frozen = r->frozen;
	ret->new_objects = r->store.new_objects;
	ret->new_bytes = r->store.new_bytes;
	code = objects_sync(&r->store, e);
	if (code == 0)
		code = log_checkpoint_made(r, ret, w, e);
	if (code == 0 && w->automatic)
		code = mark_automatic(r, ret, e);
	if (code == 0)
		code = ckpt_publish(r->dir_fd, ret->number, ret->hash, manifest, e);
	if (code < 0)
		return code;
	ckpt_note_spent(r, ret->new_bytes);
	ckpt_save_known(r->dir_fd, &t->known, ret->hash);
	return prune_checkpoints(r, w->keep, &ret->pruned, e);
}

static uint32_t next_checkpoint_number(const struct ckpt_run *r)
{
	return r->list.n ? r->list.v[r->list.n - 1].number + 1 : 1;
}

/* The length of the head does not depend on flags and number, so they are filled in once they are known. */
static int make_checkpoint(struct ckpt_run *r, const struct ckpt_want *w, struct known *before,
			   const struct ckpt *base, struct ckpt_made *ret, struct err *e)
{
	struct manifest_head h = { .time = clock_nsec(CLOCK_REALTIME),
				   .number = next_checkpoint_number(r),
				   .label = w->label };
	struct scanned_state t = { 0 };
	autobuf struct buf manifest = BUF_INIT, head = BUF_INIT;
	size_t head_len;
	int code;

	if (!base && r->list.n)
		base = &r->list.v[r->list.n - 1];
	if (base)
		memcpy(h.parent, base->hash, HASH_LEN);
	manifest_add_head(&manifest, &h);
	head_len = manifest.len;
	code = scan_state(r, before, false, &manifest, &t, e);
	if (!w->hold || code < 0)
		run_link_close(&r->link);
	if (code == 0 && w->only_changed && is_same_state(r, base, &manifest, head_len)) {
		known_release(&t.known);
		return 0;
	}
	if (code == 0) {
		h.flags = t.flags | (r->mapped ? MANIFEST_MAPPED : 0) | (w->undo ? MANIFEST_UNDO : 0);
		manifest_add_head(&head, &h);
		BUG_ON(head.len != head_len);
		memcpy(manifest.data, head.data, head_len);
		ret->flags = h.flags;
		ret->number = h.number;
		code = store_checkpoint(r, w, &t, &manifest, ret, e);
	}
	known_release(&t.known);
	return code;
}

int ckpt_make(struct ckpt_run *r, const struct ckpt_want *w, struct ckpt_made *ret, struct err *e)
{
	CLEANUP(known_release) struct known before = KNOWN_INIT;
	const struct ckpt *base = NULL;
	int code;

	*ret = (struct ckpt_made){ .frozen = PROTO_FROZEN_NOT };
	if (strlen(w->label) > MANIFEST_LABEL_MAX)
		return err_set(e, -EINVAL, "a label has at most %d bytes", MANIFEST_LABEL_MAX);
	code = objects_lock(&r->store, e);
	if (code == 0)
		code = ckpt_load_known(r, &before, &base);
	if (code < 0)
		return e->code ? code : err_sys(e, code, "cannot read the index of the run's files");
	code = make_checkpoint(r, w, &before, base, ret, e);
	if (code == -ENOSPC || code == -EDQUOT)
		return err_hint(e, code, "coffer checkpoint gc frees what no checkpoint needs");
	return code;
}

int ckpt_scan_now(struct ckpt_run *r, bool content, struct buf *ret, struct err *e)
{
	CLEANUP(known_release) struct known before = KNOWN_INIT;
	const struct manifest_head h = { .time = clock_nsec(CLOCK_REALTIME),
					 .number = UINT32_MAX,
					 .label = "" };
	struct scanned_state t = { 0 };
	const struct ckpt *base;
	int code = objects_lock(&r->store, e);

	if (code == 0 && ckpt_load_known(r, &before, &base) < 0)
		code = err_set(e, -ENOMEM, "out of memory");
	if (code < 0)
		return code;
	manifest_add_head(ret, &h);
	code = scan_state(r, &before, !content, ret, &t, e);
	run_link_close(&r->link);
	known_release(&t.known);
	return code;
}
