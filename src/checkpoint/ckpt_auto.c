/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Automatic checkpoints, which the commands of a sandbox cause. Each may store as much as the sandbox wrote, so a sandbox
 * could fill the host's disk with them: they are limited (checkpoint.K4), and a lack of room never fails the command.
 *
 * The content of older checkpoints is measured only when it may have exceeded its limit: "spent" in the run's checkpoints has
 * the bytes stored since the last measurement. Without that file the content is measured.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "checkpoint/ckpt_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPENT "spent"
#define NO_ROOM "no-room" /* exists while the lack of room is known */
#define BUDGET_DISKS 4
#define GC_WAIT_MS 1000u

const char ckpt_no_room_text[] = "too little space is left on the file system of the state directory "
				 "(coffer checkpoint rm and coffer rm free space)";

/* --- what was stored ---------------------------------------------------------------------------------------------------- */

static uint64_t read_spent(const struct ckpt_run *r)
{
	autobuf struct buf b = BUF_INIT;
	uint64_t n;

	return fd_read_file(r->dir_fd, SPENT, 32, &b) < 0 || str_to_u64(buf_cstr(&b), &n) < 0 ? UINT64_MAX
											      : n;
}

/* It is not synced: after a crash the content is measured. */
static void write_spent(const struct ckpt_run *r, uint64_t n)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	autoclose int fd =
		openat(r->dir_fd, SPENT, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0 || fd_write_all(fd, text, (size_t)len) < 0)
		unlinkat(r->dir_fd, SPENT, 0);
}

void ckpt_note_spent(struct ckpt_run *r, uint64_t new_bytes)
{
	uint64_t before = r->list.n ? read_spent(r) : 0;

	if (before != UINT64_MAX && (new_bytes || !r->list.n))
		write_spent(r, before + new_bytes);
}

/* --- removing the oldest ------------------------------------------------------------------------------------------------ */

/* The newest is always kept: the next checkpoint is made relative to it. */
static bool may_drop(const struct ckpt_run *r, size_t i)
{
	return i + 1 < r->list.n && (r->list.v[i].automatic || r->list.v[i].flags & MANIFEST_UNDO);
}

/* Frees what no checkpoint names. The lock on the content is given up: the checkpoint that was made is in place, or failed. */
static int free_content(struct ckpt_run *r, struct err *e)
{
	struct objects_use gone, left;

	objects_unlock(&r->store);
	return ckpt_gc(&r->st, GC_WAIT_MS, &gone, &left, e);
}

/* Removes the older half of the automatic checkpoints. Returns their number. */
static int drop_older_half(struct ckpt_run *r, struct err *e)
{
	size_t n = 0, dropped = 0;
	int ret = 0;

	for (size_t i = 0; i < r->list.n; i++)
		n += may_drop(r, i);
	for (size_t i = 0; i < r->list.n && dropped < (n + 1) / 2 && ret == 0; i++) {
		if (!may_drop(r, i))
			continue;
		ret = ckpt_remove_for(r, &r->list.v[i], "too little space is left", e);
		dropped += ret == 0;
	}
	if (ret == 0)
		ret = ckpt_reload(r, e);
	return ret < 0 ? ret : (int)dropped;
}

static int add_checkpoint_hashes(const struct ckpt_run *r, const struct ckpt *c, struct hashes *h,
				 struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int ret = ckpt_read(r, c, &b, e);

	if (ret == 0 && tree_store_hashes(b.data, b.len, h) < 0)
		ret = err_set(e, -EBADMSG, "checkpoint c%u is damaged", c->number);
	hashes_sort(h);
	return ret;
}

/* Bytes of the content that checkpoint i has and `seen` has not, which it is added to. */
static int measure_more(struct ckpt_run *r, size_t i, struct hashes *seen, uint64_t *ret_bytes, struct err *e)
{
	CLEANUP(hashes_release) struct hashes h = { 0 }, more = { 0 };
	struct objects_use use;
	int ret = add_checkpoint_hashes(r, &r->list.v[i], &h, e);

	for (size_t k = 0; k < h.n && ret == 0; k++) {
		if (!hashes_have(seen, h.v[k]))
			ret = hashes_add(&more, h.v[k]);
	}
	objects_measure(&r->store, &more, &use);
	for (size_t k = 0; k < more.n && ret == 0; k++)
		ret = hashes_add(seen, more.v[k]);
	hashes_sort(seen);
	*ret_bytes = use.bytes;
	return ret == -ENOMEM ? err_set(e, ret, "out of memory") : ret;
}

/* Keeps the newest automatic checkpoints whose content, without that of the very newest, fits in `most` bytes. */
static int drop_beyond(struct ckpt_run *r, uint64_t most, uint64_t *ret_left, struct err *e)
{
	CLEANUP(hashes_release) struct hashes seen = { 0 };
	uint64_t more;
	bool full = false;
	int ret = 0;

	*ret_left = 0;
	for (size_t i = r->list.n; i-- > 0 && ret == 0;) {
		if (i + 1 < r->list.n && !may_drop(r, i))
			continue;
		more = 0;
		if (!full)
			ret = measure_more(r, i, &seen, &more, e);
		if (i + 1 == r->list.n)
			continue;
		full = full || more > most - *ret_left;
		if (!full)
			*ret_left += more;
		else if (ret == 0)
			ret = ckpt_remove_for(r, &r->list.v[i], "more bytes than are kept", e);
	}
	return ret < 0 ? ret : ckpt_reload(r, e);
}

/* Removes down to three quarters, so that not each of the next checkpoints measures again. */
static int keep_within_budget(struct ckpt_run *r, struct err *e)
{
	uint64_t budget = r->meta.disk * BUDGET_DISKS, left = 0;
	int ret;

	if (!budget || read_spent(r) <= budget)
		return 0;
	ret = ckpt_reload(r, e);
	if (ret == 0)
		ret = drop_beyond(r, budget / 4 * 3, &left, e);
	if (ret < 0)
		return ret;
	/* Another process is making a checkpoint: the content is measured and freed with the next one. */
	if (free_content(r, NULL) < 0)
		unlinkat(r->dir_fd, SPENT, 0);
	else
		write_spent(r, left);
	return 0;
}

/* --- making ------------------------------------------------------------------------------------------------------------- */

static int note_no_room(struct ckpt_run *r, const char *label, struct ckpt_made *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	autoclose int fd =
		openat(r->dir_fd, NO_ROOM, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	*ret = (struct ckpt_made){ .frozen = PROTO_FROZEN_NOT, .no_room = true };
	ret->told = fd < 0 && errno == EEXIST;
	if (ret->told)
		return 0;
	if (*label)
		json_str(&j, "label", label);
	json_str(&j, "why", "too little space is left");
	return ckpt_log(r->audit, "checkpoint.skip", r->id, &b, e);
}

bool ckpt_room_is_low(const struct ckpt_run *r)
{
	return objects_lack_room(&r->store, objects_free_floor(&r->store), 0);
}

int ckpt_make_automatic(struct ckpt_run *r, const struct ckpt_want *w, struct ckpt_made *ret, struct err *e)
{
	struct ckpt_want want = *w;
	int code, dropped;

	want.automatic = true;
	r->store.floor = objects_free_floor(&r->store);
	for (;;) {
		struct err failed = ERR_INIT;

		code = ckpt_make(r, &want, ret, &failed);
		if (code < 0 && code != -ENOSPC && code != -EDQUOT)
			*e = failed;
		if (code != -ENOSPC && code != -EDQUOT)
			break;
		dropped = drop_older_half(r, e);
		if (dropped < 0)
			return dropped;
		/* The failed attempt left content without a checkpoint. If it cannot be freed now, the next collection does. */
		(void)!free_content(r, NULL);
		if (dropped == 0)
			return note_no_room(r, w->label, ret, e);
	}
	if (code < 0 || !ret->number)
		return code;
	unlinkat(r->dir_fd, NO_ROOM, 0);
	return keep_within_budget(r, e);
}
