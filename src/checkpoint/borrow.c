/* SPDX-License-Identifier: Apache-2.0 */
/* Holds another run's workspace and copies its layer for a call (borrow.h). Never writes to that run. */
#include "checkpoint/borrow.h"

#include "base/clock.h"
#include "base/fd.h"
#include "checkpoint/ckpt_int.h"
#include "sandbox/state/layers.h"
#include "sys/filetime.h"
#include "workspace/view/view.h"
#include "workspace/wipe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
#define PATIENCE_NS (60 * NSEC_PER_SEC)
#define STORE "objects"

/* --- finding and holding -------------------------------------------------------------------------------- */

static int reopen_run(struct ckpt_run *r, struct err *e)
{
	fd_close(r->run_fd);
	r->run_fd = state_run_open(&r->st, r->id, &r->alive, e);
	if (r->run_fd == -ENOENT) {
		r->run_fd = -1;
		return err_set(e, -ENOENT, "sandbox %s is gone", r->id);
	}
	return r->run_fd < 0 ? r->run_fd : 0;
}

int borrow_open(struct borrow *b, const char *id, struct err *e)
{
	struct ckpt_run *r = &b->r;
	int ret;

	*b = BORROW_INIT;
	snprintf(r->id, sizeof(r->id), "%s", id);
	/* When another process breaks a lease (scan.c), the kernel sends this signal, whose default would end
	 * us. */
	signal(SIGIO, SIG_IGN);
	ret = state_open(&r->st, e);
	if (ret == 0)
		ret = reopen_run(r, e);
	if (ret == 0)
		ret = state_meta_read(r->run_fd, &r->meta, e);
	if (ret < 0)
		return ret;
	r->mapped = r->meta.map_ids && !state_is_host_root() && geteuid() != 0;
	return 0;
}

void borrow_release(struct borrow *b)
{
	ckpt_release(&b->r);
	*b = BORROW_INIT;
}

void borrow_unhold(struct borrow *b)
{
	struct ckpt_run *r = &b->r;

	run_link_close(&r->link);
	/* Closing the descriptor releases the lock. */
	if (!r->alive)
		r->run_fd = fd_close(r->run_fd);
	r->layers_fd = fd_close(r->layers_fd);
	b->time = 0;
}

static int lock_ended_run(struct ckpt_run *r, struct err *e)
{
	int fd = state_run_claim(&r->st, r->id, e);

	if (fd == -EBUSY)
		return -EAGAIN;
	if (fd < 0)
		return fd;
	fd_close(r->run_fd);
	r->run_fd = fd;
	return ckpt_recover(&r->st, r->id, fd, e);
}

/* -EAGAIN: retry in a moment. */
static int freeze_live_run(struct ckpt_run *r, struct err *e)
{
	int ret = ckpt_hold_still(r, e);

	if (ret == -ENOENT || ret == -ECONNREFUSED || ret == -EPERM || ret == -EPIPE || ret == -ECONNRESET)
		return -EAGAIN;
	if (ret < 0 || r->frozen != PROTO_FROZEN_NOT)
		return ret;
	err_set(e, -EBUSY, "sandbox %s cannot be paused here", r->id);
	return err_hint(e, -EBUSY, "coffer stop %s, then retry", r->id);
}

static int try_hold(struct ckpt_run *r, struct err *e)
{
	int ret;

	run_link_close(&r->link);
	r->layers_fd = fd_close(r->layers_fd);
	ret = reopen_run(r, e);
	if (ret == 0)
		ret = r->alive ? freeze_live_run(r, e) : lock_ended_run(r, e);
	if (ret == 0)
		ret = ckpt_open_places(r, e);
	if (ret < 0)
		return ret;
	/* It may have been restarted meanwhile with other settings. */
	state_meta_release(&r->meta);
	return state_meta_read(r->run_fd, &r->meta, e);
}

int borrow_hold(struct borrow *b, struct err *e)
{
	uint64_t until = clock_nsec(CLOCK_MONOTONIC) + PATIENCE_NS;
	const struct timespec pause = { .tv_nsec = 5 * NSEC_PER_MSEC };
	int ret = try_hold(&b->r, e);

	while (ret == -EAGAIN && clock_nsec(CLOCK_MONOTONIC) < until) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		*e = ERR_INIT;
		ret = try_hold(&b->r, e);
	}
	if (ret == -EAGAIN)
		return err_hint(e, -EBUSY, "try again later");
	b->time = 0;
	return ret < 0 ? ret : filetime_between(&b->time, e);
}

/* --- the copy ------------------------------------------------------------------------------------------- */

static int remove_layer_copy(int run_fd, const char *name, bool mapped, struct err *e)
{
	int r = mapped ? workspace_wipe(run_fd, name, -1, NULL, e) : fd_rm_rf(run_fd, name, e);

	return r == -ENOENT ? 0 : r;
}

/* Scans the layer: most of it while the sandbox continues, the rest while it is held. */
static int scan_held_layer(struct borrow *b, struct buf *manifest, struct err *e)
{
	CLEANUP(known_release) struct known before = KNOWN_INIT;
	CLEANUP(known_release) struct known after = KNOWN_INIT;
	struct ckpt_run *r = &b->r;
	struct ckpt_scan s = { .r = r, .before = &before, .after = &after, .workspace_only = true };
	bool held = b->time != 0;
	uint64_t time;
	int ret = r->alive && !held ? ckpt_first_pass(r, &s, &before, e) : 0;

	if (ret == 0 && !held)
		ret = borrow_hold(b, e);
	s.live = r->alive;
	if (ret == 0)
		ret = ckpt_scan(&s, manifest, e);
	/* adr/0010 B1: a copy is valid only if the run stood still during the whole second pass. */
	if (ret == 0 && r->alive && !run_link_is_frozen(&r->link))
		ret = err_set(e, -EBUSY, "sandbox %s was not paused long enough", r->id);
	time = b->time;
	if (!held)
		borrow_unhold(b);
	b->time = time;
	return ret;
}

static int build_layer_copy(struct borrow *b, int run_fd, const struct buf *manifest, struct err *e)
{
	CLEANUP(known_release) struct known made = KNOWN_INIT;
	const struct ckpt_tree tree = { "workspace", run_fd, LAYERS_FROM, LAYERS_FROM_NEW };
	struct ckpt_build build_layer_copy = {
		.store = &b->r.store,
		.manifest = manifest,
		.trees = &tree,
		.n_trees = 1,
		.after = &made,
		.mapped = b->r.mapped,
		/* Only the kernel interprets overlay marks, and only in an overlay. */
		.no_marks = !str_eq(b->r.meta.ws_mode, "overlay"),
	};

	return ckpt_build(&build_layer_copy, e);
}

/* adr/0010 B6: the copy appears atomically, whether or not there was one before. */
static int install_layer_copy(const struct borrow *b, int run_fd, struct err *e)
{
	if (renameat2(run_fd, LAYERS_FROM_NEW, run_fd, LAYERS_FROM, RENAME_EXCHANGE) == 0)
		return remove_layer_copy(run_fd, LAYERS_FROM_NEW, b->r.mapped, e);
	if (errno == ENOENT && renameat2(run_fd, LAYERS_FROM_NEW, run_fd, LAYERS_FROM, RENAME_NOREPLACE) == 0)
		return 0;
	return err_sys(e, -errno, "cannot put the copied layer in its place");
}

int borrow_copy(struct borrow *b, int run_fd, struct err *e)
{
	const struct manifest_head h = { .time = clock_nsec(CLOCK_REALTIME),
					 .number = UINT32_MAX,
					 .label = "" };
	autobuf struct buf manifest = BUF_INIT;
	struct err ignored = ERR_INIT;
	int ret = remove_layer_copy(run_fd, LAYERS_FROM_NEW, b->r.mapped, e), gone;

	if (ret == 0)
		ret = objects_open(&b->r.store, run_fd, e);
	if (ret < 0)
		return ret;
	manifest_add_head(&manifest, &h);
	ret = scan_held_layer(b, &manifest, e);
	if (ret == 0)
		ret = build_layer_copy(b, run_fd, &manifest, e);
	if (ret == 0)
		ret = install_layer_copy(b, run_fd, e);
	objects_release(&b->r.store);
	gone = fd_rm_rf(run_fd, STORE, ret < 0 ? &ignored : e);
	ret = ret < 0 ? ret : gone;
	return ret < 0 ? err_wrap(e, ret, "cannot copy the workspace of %s", b->r.id) : 0;
}

/* --- for a call ----------------------------------------------------------------------------------------- */

/* The call's own layer determines mode and owner of /workspace: copy those that the other sandbox sees. */
static int copy_top_attributes(const struct run *r, struct err *e)
{
	const struct spec *s = r->spec;
	struct stat st;

	if (fstat(s->from_fd, &st) < 0 ||
	    (fchownat(s->layers_fd, "upper", st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 &&
	     s->ids.host_root) ||
	    fchmodat(s->layers_fd, "upper", st.st_mode & 07777, 0) < 0)
		return err_sys(e, -errno, "cannot make a layer in %s", s->run_path);
	return 0;
}

int borrow_populate(void *call, struct run *r, struct err *e)
{
	struct borrow_call *c = call;
	struct spec *s = r->spec;
	int ret = borrow_copy(c->from, s->run_fd, e);

	if (ret < 0)
		return ret;
	s->over_time = c->from->time;
	s->from_fd = openat(s->run_fd, LAYERS_FROM, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (s->from_fd < 0)
		return err_sys(e, -errno, "cannot open the copied layer");
	ret = copy_top_attributes(r, e);
	return ret < 0 ? ret
		       : workspace_merge_masks((struct base){ s->from_fd, s->ws_fd }, s->ws_path, c->show,
					       c->from->r.mapped, &s->masks, &s->n_masks, e);
}
