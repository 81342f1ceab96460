/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rolls a run back to a checkpoint, and fills a new run from one (fork). checkpoint.K2 gives the order of a
 * rollback.
 *
 * The journal is text: for each tree a line with its name and the inode number of the new tree's top
 * directory. By that number a process that finishes the rollback knows which pairs were exchanged already. No
 * crash may leave a mixture of old and new trees that nobody finishes.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "checkpoint/ckpt_int.h"
#include "sandbox/state/layers.h"
#include "workspace/tree/owner.h"
#include "workspace/wipe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define JOURNAL "rollback"
#define JOURNAL_MAX 4096
#define OVER_NS (30 * NSEC_PER_SEC) /* for the ended run's launcher to clean up */
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)

/* --- building trees ------------------------------------------------------------------------------------- */

struct build_result {
	uint64_t entries, linked, copied, ents_len;
};

static int build_one_tree(struct ckpt_build *b, struct manifest_reader *m, const struct ckpt_tree *t,
			  struct known *after, struct build_result *res, struct err *e)
{
	mode_t mode = 0;
	struct restore r = {
		.store = b->store, .before = b->before, .after = after, .no_marks = b->no_marks
	};
	int ret;

	r.old_fd = b->before ? ckpt_open_top(t, &mode) : -1;
	ret = restore_tree(&r, m, t->dirfd, t->fresh, e);
	ckpt_close_top(r.old_fd, mode);
	res->entries += r.entries;
	res->linked += r.linked;
	res->copied += r.copied;
	return ret;
}

static const struct ckpt_tree *find_build_tree(const struct ckpt_build *b, const char *name)
{
	for (size_t i = 0; i < b->n_trees; i++) {
		if (str_eq(b->trees[i].tree, name))
			return &b->trees[i];
	}
	return NULL;
}

static int build_all_trees(void *ctx, struct buf *out, struct err *e)
{
	struct ckpt_build *b = ctx;
	CLEANUP(known_release) struct known after = KNOWN_INIT;
	CLEANUP(manifest_close) struct manifest_reader m = { 0 };
	struct build_result res = { 0 };
	struct manifest_ent ent;
	int r = manifest_open(&m, b->manifest->data, b->manifest->len);

	if (r < 0)
		return err_set(e, r, "the checkpoint is damaged");
	while ((r = manifest_next(&m, &ent)) > 0) {
		const struct ckpt_tree *t;

		if (ent.type == MANIFEST_END)
			continue;
		t = find_build_tree(b, ent.name);
		if (!t)
			return err_set(e, -EBADMSG, "the checkpoint has a tree that the run does not have");
		r = build_one_tree(b, &m, t, &after, &res, e);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return err_set(e, r, "the checkpoint is damaged");
	known_sort(&after);
	res.ents_len = after.ents.len;
	buf_add(out, &res, sizeof(res));
	buf_add(out, after.ents.data, after.ents.len);
	buf_add(out, after.text.data, after.text.len);
	return buf_error(out) ? err_set(e, -ENOMEM, "out of memory") : 0;
}

int ckpt_build(struct ckpt_build *b, struct err *e)
{
	autobuf struct buf out = BUF_INIT;
	struct build_result res;
	int r = owner_call(b->mapped, build_all_trees, b, &out, e);

	if (r < 0)
		return r;
	memcpy(&res, out.data, sizeof(res));
	b->entries = res.entries;
	b->linked = res.linked;
	b->copied = res.copied;
	buf_add(&b->after->ents, out.data + sizeof(res), (size_t)res.ents_len);
	buf_add(&b->after->text, out.data + sizeof(res) + res.ents_len,
		out.len - sizeof(res) - (size_t)res.ents_len);
	return buf_error(&b->after->ents) || buf_error(&b->after->text) ? err_set(e, -ENOMEM, "out of memory")
									: 0;
}

/* --- the journal ---------------------------------------------------------------------------------------- */

static int inode_number(int dirfd, const char *name, uint64_t *ret)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	*ret = st.st_ino;
	return 0;
}

static int write_rollback_journal(int run_fd, const struct ckpt_tree *trees, size_t n, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		uint64_t ino = 0;

		r = inode_number(trees[i].dirfd, trees[i].fresh, &ino);
		/* A tree that the checkpoint does not have stays as it is. */
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		buf_addf(&b, "%s %llu\n", trees[i].tree, (unsigned long long)ino);
	}
	if (r == 0)
		r = buf_error(&b);
	if (r == 0)
		r = fd_replace_file(run_fd, JOURNAL, buf_cstr(&b), b.len, 0600);
	if (r == 0 && fsync(run_fd) < 0)
		r = -errno;
	return r < 0 ? err_sys(e, r, "cannot save the record of the rollback") : 0;
}

/* Exchanges one pair; succeeds if that was done before. */
static int exchange_tree(const struct ckpt_tree *t, uint64_t want)
{
	uint64_t now = 0, fresh = 0;
	int r = inode_number(t->dirfd, t->name, &now);

	if (r == 0 && now == want)
		return 0;
	if (inode_number(t->dirfd, t->fresh, &fresh) < 0 || fresh != want)
		return -ESTALE;
	if (renameat2(t->dirfd, t->fresh, t->dirfd, t->name, r == 0 ? RENAME_EXCHANGE : RENAME_NOREPLACE) < 0)
		return -errno;
	return 0;
}

static int follow_rollback_journal(const char *text, const struct ckpt_tree *trees, size_t n, struct err *e)
{
	char tree[16];
	unsigned long long ino;
	int used, r = 0;

	/* NOLINTNEXTLINE(cert-err34-c): a number that is none does not fit any inode */
	for (; r == 0 && sscanf(text, "%15s %llu\n%n", tree, &ino, &used) == 2; text += used) {
		r = -ESTALE;
		for (size_t i = 0; i < n; i++) {
			if (str_eq(trees[i].tree, tree))
				r = exchange_tree(&trees[i], ino);
		}
	}
	if (r == 0 && *text)
		r = -EBADMSG;
	return r < 0 ? err_sys(e, r, "cannot put the rolled back files into place") : 0;
}

/* Removes the trees beside the current ones: incomplete new ones, or complete old ones. */
static int remove_fresh_trees(const struct ckpt_tree *trees, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		char links[sizeof(trees[i].fresh) + 8];
		int r;

		snprintf(links, sizeof(links), "%s.links", trees[i].fresh);
		r = workspace_wipe(trees[i].dirfd, links, -1, NULL, e);
		if (r == 0)
			r = workspace_wipe(trees[i].dirfd, trees[i].fresh, -1, NULL, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int finish_rollback(int run_fd, const struct ckpt_tree *trees, size_t n, struct err *e)
{
	autobuf struct buf text = BUF_INIT;
	int r = fd_read_file(run_fd, JOURNAL, JOURNAL_MAX, &text);

	if (r == -ENOENT)
		return remove_fresh_trees(trees, n, e);
	if (r < 0)
		return err_sys(e, r, "cannot read the journal of a rollback");
	r = follow_rollback_journal(buf_cstr(&text), trees, n, e);
	if (r == 0 && unlinkat(run_fd, JOURNAL, 0) < 0)
		r = err_sys(e, -errno, "cannot end the rollback");
	return r < 0 ? r : remove_fresh_trees(trees, n, e);
}

int ckpt_recover(struct state *st, const char *id, int run_fd, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	struct ckpt_tree trees[CKPT_TREES];
	autoclose int layers = -1, homes = -1;
	struct stat sb;
	bool journal = fstatat(run_fd, JOURNAL, &sb, AT_SYMLINK_NOFOLLOW) == 0;
	size_t n;

	/* Fast path: most runs have never been rolled back. */
	if (!journal && fstatat(run_fd, "checkpoints", &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (state_meta_read(run_fd, &m, NULL) < 0)
		return 0;
	layers = layers_open(run_fd, e);
	if (layers < 0)
		return layers;
	homes = openat(st->fd, "homes", DIR_FLAGS);
	n = ckpt_trees(layers, homes, id, m.home, trees);
	return finish_rollback(run_fd, trees, n, e);
}

/* --- rolling back --------------------------------------------------------------------------------------- */

/* Sandboxes may share a home; it cannot be exchanged under one that runs. */
static int check_home_unused(struct ckpt_run *r, struct err *e)
{
	autostrv struct strv runs = STRV_INIT;
	int ret = r->meta.home ? state_run_list(&r->st, &runs, e) : 0;

	for (size_t i = 0; i < runs.n && ret == 0; i++) {
		CLEANUP(state_meta_release) struct run_meta m = { 0 };
		bool alive = false;
		autoclose int fd = -1;

		if (str_eq(runs.v[i], r->id))
			continue;
		fd = state_run_open(&r->st, runs.v[i], &alive, NULL);
		if (fd < 0 || !alive || state_meta_read(fd, &m, NULL) < 0 || !m.home ||
		    !str_eq(m.home, r->meta.home))
			continue;
		ret = err_set(e, -EBUSY, "the home '%s' is also used by %s, which runs", m.home, runs.v[i]);
		err_hint(e, ret, "coffer stop %s, then retry", runs.v[i]);
	}
	return ret;
}

/* All objects that the checkpoint names must exist before the run is ended for it. */
static int check_content_exists(struct ckpt_run *r, const struct buf *manifest, struct err *e)
{
	CLEANUP(hashes_release) struct hashes h = { 0 };
	struct objects_use use;
	int ret = tree_store_hashes(manifest->data, manifest->len, &h);

	if (ret < 0)
		return err_set(e, ret, "the checkpoint is damaged");
	hashes_sort(&h);
	objects_measure(&r->store, &h, &use);
	return use.objects == h.n ? 0
				  : err_set(e, -ENOENT,
					    "the checkpoint is damaged: the content of %llu files is missing",
					    (unsigned long long)(h.n - use.objects));
}

static int log_rollback(struct ckpt_run *r, const char *type, const struct ckpt_rolled *rolled, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char name[16];

	snprintf(name, sizeof(name), "c%u", rolled->to);
	json_str(&j, "to", name);
	snprintf(name, sizeof(name), "c%u", rolled->undo);
	json_str(&j, "undo", name);
	json_bool(&j, "was_alive", rolled->was_alive);
	if (rolled->entries)
		json_u64(&j, "entries", rolled->entries);
	return ckpt_log(r->audit, type, r->id, &b, e);
}

/* Ends the run while it is frozen, so that nothing is written that no checkpoint has, and takes its lock. */
static int end_frozen_run(struct ckpt_run *r, struct err *e)
{
	uint64_t until = clock_nsec(CLOCK_MONOTONIC) + OVER_NS;
	int ret = run_link_rollback(&r->link, e), fd;

	run_link_close(&r->link);
	if (ret < 0)
		return ret;
	r->layers_fd = fd_close(r->layers_fd);
	while ((fd = state_run_claim(&r->st, r->id, e)) == -EBUSY) {
		const struct timespec pause = { .tv_nsec = 2 * (long)NSEC_PER_MSEC };

		if (clock_nsec(CLOCK_MONOTONIC) > until)
			return err_set(e, -ETIMEDOUT, "%s has ended, but its cleanup takes long", r->id);
		nanosleep(&pause, NULL);
	}
	if (fd < 0)
		return fd;
	fd_close(r->run_fd);
	r->run_fd = fd;
	r->alive = false;
	return 0;
}

/* Indexes the files just made, so that the next checkpoint need not read them. */
static void index_restored_files(struct ckpt_run *r, const struct known *made,
				 const unsigned char manifest[HASH_LEN])
{
	CLEANUP(known_release) struct known after = KNOWN_INIT;
	autobuf struct buf scratch = BUF_INIT;
	struct ckpt_scan s = {
		.r = r, .hash_only = true, .trust_inodes = true, .before = made, .after = &after
	};

	if (ckpt_scan(&s, &scratch, NULL) == 0)
		ckpt_save_known(r->dir_fd, &after, manifest);
}

static int restore_checkpoint(struct ckpt_run *r, const struct ckpt *to, const struct buf *manifest,
			      struct ckpt_rolled *ret, struct err *e)
{
	CLEANUP(known_release) struct known before = KNOWN_INIT;
	CLEANUP(known_release) struct known made = KNOWN_INIT;
	struct ckpt_tree trees[CKPT_TREES];
	const struct ckpt *base;
	struct ckpt_build b = {
		.store = &r->store,
		.manifest = manifest,
		.trees = trees,
		.before = &before,
		.after = &made,
		.mapped = r->mapped,
	};
	int code = ckpt_open_places(r, e);

	if (code < 0)
		return code;
	b.n_trees = ckpt_trees(r->layers_fd, r->homes_fd, r->id, r->meta.home, trees);
	if (ckpt_load_known(r, &before, &base) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	code = remove_fresh_trees(trees, b.n_trees, e);
	if (code == 0)
		code = ckpt_build(&b, e);
	if (code == 0)
		code = write_rollback_journal(r->run_fd, trees, b.n_trees, e);
	if (code < 0) {
		struct err ignored = ERR_INIT;

		(void)!remove_fresh_trees(trees, b.n_trees, &ignored);
		return code;
	}
	ret->entries = b.entries;
	ret->linked = b.linked;
	ret->copied = b.copied;
	code = finish_rollback(r->run_fd, trees, b.n_trees, e);
	if (code == 0)
		index_restored_files(r, &made, to->hash);
	return code;
}

int ckpt_rollback(struct ckpt_run *r, const struct ckpt *to, struct ckpt_rolled *ret, struct err *e)
{
	autobuf struct buf manifest = BUF_INIT;
	struct ckpt target = *to;
	struct ckpt_made undo = { 0 };
	char label[64];
	const struct ckpt_want w = { .label = label, .undo = true, .hold = true };
	int code;

	*ret = (struct ckpt_rolled){ .to = to->number, .was_alive = r->alive };
	snprintf(label, sizeof(label), "before rollback to c%u", to->number);
	code = objects_lock(&r->store, e);
	if (code == 0)
		code = check_home_unused(r, e);
	if (code == 0)
		code = ckpt_read(r, to, &manifest, e);
	if (code == 0)
		code = check_content_exists(r, &manifest, e);
	/* `to` points into the list, which ckpt_make() reloads: from here on `target` is used. */
	if (code == 0)
		code = ckpt_make(r, &w, &undo, e);
	if (code < 0)
		return code;
	ret->undo = undo.number;
	code = log_rollback(r, "checkpoint.rollback", ret, e);
	if (code == 0 && r->alive)
		code = end_frozen_run(r, e);
	run_link_close(&r->link);
	if (code == 0)
		code = restore_checkpoint(r, &target, &manifest, ret, e);
	return code < 0 ? code : log_rollback(r, "checkpoint.rolled_back", ret, e);
}

/* --- forking -------------------------------------------------------------------------------------------- */

static int log_checkpoint_fork(struct ckpt_fork *f, const struct run *r, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char name[16];

	snprintf(name, sizeof(name), "c%u", f->at->number);
	json_str(&j, "from", f->from->id);
	json_str(&j, "checkpoint", name);
	return ckpt_log(r->audit, "checkpoint.fork", r->spec->id, &b, e);
}

/* Moves a built tree into the place of the empty one. */
static int install_fork_tree(const struct ckpt_tree *t, struct err *e)
{
	if (faccessat(t->dirfd, t->fresh, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (unlinkat(t->dirfd, t->name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot fill the new sandbox (%s)", t->tree);
	if (renameat2(t->dirfd, t->fresh, t->dirfd, t->name, RENAME_NOREPLACE) < 0)
		return err_sys(e, -errno, "cannot fill the new sandbox (%s)", t->tree);
	return 0;
}

/* The home that the spec has open is the empty one: open the filled one in its place. */
static int reopen_fork_home(struct spec *s, int homes, const char *home, struct err *e)
{
	int fd = openat(homes, home, DIR_FLAGS);

	if (fd < 0)
		return err_sys(e, -errno, "cannot open the new sandbox's home");
	fd_close(s->home_fd);
	s->home_fd = fd;
	return 0;
}

static int publish_first_checkpoint(struct run *r, const struct buf *manifest, const struct ckpt *at,
				    struct err *e)
{
	autoclose int dir = ckpt_open_dir(r->spec->run_fd, true, e);

	return dir < 0 ? dir : ckpt_publish(dir, at->number, at->hash, manifest, e);
}

int ckpt_populate(void *fork, struct run *r, struct err *e)
{
	struct ckpt_fork *f = fork;
	CLEANUP(known_release) struct known made = KNOWN_INIT;
	autobuf struct buf manifest = BUF_INIT;
	autoclose int homes = -1;
	struct spec *s = r->spec;
	struct ckpt_tree trees[CKPT_TREES];
	struct ckpt_build b = { .store = &f->from->store,
				.manifest = &manifest,
				.trees = trees,
				.after = &made,
				.mapped = f->from->mapped };
	int ret = ckpt_read(f->from, f->at, &manifest, e);

	if (ret == 0)
		ret = log_checkpoint_fork(f, r, e);
	if (ret < 0)
		return ret;
	homes = f->home ? openat(r->st->fd, "homes", DIR_FLAGS) : -1;
	b.n_trees = ckpt_trees(s->layers_fd, homes, s->id, f->home, trees);
	ret = ckpt_build(&b, e);
	for (size_t i = 0; i < b.n_trees && ret == 0; i++)
		ret = install_fork_tree(&trees[i], e);
	if (ret == 0 && f->home && s->home_fd >= 0)
		ret = reopen_fork_home(s, homes, f->home, e);
	return ret < 0 ? ret : publish_first_checkpoint(r, &manifest, f->at, e);
}
