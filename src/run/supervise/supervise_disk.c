/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk limit where the kernel enforces none: the workspace's upper layer is watched from outside.
 *
 * Free space of the file system is cheap to read and tells when a walk of the layer is worth its time: when it falls by a
 * good part of what the sandbox may still use, or every WALK_ANYWAY while it changes at all. A walk takes longer the
 * larger the layer is, so the next one waits ten times as long as the last one took. At the limit the sandbox is frozen,
 * counted once more, and killed if the second count is over the limit too. The host's own free space is guarded by a
 * floor: below it the sandbox is ended.
 */
#include "base/clock.h"
#include "run/supervise/supervise_int.h"
#include "workspace/view/view.h"

#include <errno.h>
#include <sys/statvfs.h>

#define LOOK_FAST (100 * NSEC_PER_MSEC)
#define LOOK_SLOW (500 * NSEC_PER_MSEC)
#define WALK_ANYWAY (2 * NSEC_PER_SEC)
#define FLOOR_BYTES (512ULL << 20)
#define FLOOR_PERCENT 2
#define STEP_BYTES (1ULL << 20)
#define STEP_INODES 64

/* Walks the layers and counts bytes and inodes; true when either is over its limit, or cannot be counted. */
static bool is_over_disk_limit(struct supervision *sv)
{
	struct disk_watch *d = &sv->disk;
	uint64_t bytes = 0, inodes = 0, began = clock_nsec(CLOCK_MONOTONIC), took;
	struct statvfs v;

	/* A layer that cannot be counted counts as over its limit. */
	if (workspace_usage(sv->io->usage_fd, d->limit, d->inodes, &bytes, &inodes, NULL) < 0)
		return true;
	if (sv->io->usage2_fd >= 0) {
		uint64_t more = 0, nodes = 0;

		if (workspace_usage(sv->io->usage2_fd, d->limit, d->inodes, &more, &nodes, NULL) < 0)
			return true;
		bytes += more;
		inodes += nodes;
	}
	d->walked_at = clock_nsec(CLOCK_MONOTONIC);
	took = d->walked_at - began;
	d->not_before = d->walked_at + 10 * took;
	d->walk_used = bytes;
	d->walk_used_nodes = inodes;
	if (fstatvfs(sv->io->usage_fd, &v) == 0) {
		d->walk_free = v.f_bfree;
		d->walk_nodes = v.f_ffree;
	}
	return bytes > d->limit || inodes > d->inodes;
}

static uint64_t decrease(uint64_t before, uint64_t now)
{
	return before > now ? before - now : 0;
}

/* May usage have come near a limit since the last walk? */
static bool walk_is_due(const struct disk_watch *d, const struct statvfs *v, bool moved, uint64_t now)
{
	uint64_t left, step;

	if (now < d->not_before)
		return false;
	if (d->limit != LIMIT_NONE) {
		left = decrease(d->limit, d->walk_used);
		step = left / 4 > STEP_BYTES ? left / 4 : STEP_BYTES;
		if (decrease(d->walk_free, v->f_bfree) * d->block >= step)
			return true;
	}
	if (d->inodes != LIMIT_NONE) {
		left = decrease(d->inodes, d->walk_used_nodes);
		step = left / 4 > STEP_INODES ? left / 4 : STEP_INODES;
		if (decrease(d->walk_nodes, v->f_ffree) >= step)
			return true;
	}
	/* Other programs may free space as fast as the sandbox uses it. */
	return moved && now - d->walked_at >= WALK_ANYWAY;
}

/* On cgroup v1 a frozen process does not die before it is thawed. */
static void kill_for_disk(struct supervision *sv, bool frozen)
{
	supervise_kill(sv, CAUSE_DISK);
	if (frozen && cgroup_freeze(sv->cg, false, NULL) < 0 && cgroup_kill(sv->cg, NULL) < 0 && !sv->error)
		sv->error = err_set(sv->err, -EIO,
				    "a sandbox over its disk limit is frozen and cannot be killed");
}

static void enforce_disk_limit(struct supervision *sv)
{
	bool frozen;

	/* A sandbox that is frozen for a checkpoint writes nothing, and must not be thawed here. One that could not be
	 * frozen runs on while its checkpoint is taken. */
	if ((sv->freeze.by && sv->freeze.how != PROTO_FROZEN_NOT) || !is_over_disk_limit(sv))
		return;
	frozen = sv->cg && cgroup_freeze(sv->cg, true, NULL) == 0;
	if (!frozen || is_over_disk_limit(sv)) {
		kill_for_disk(sv, frozen);
		return;
	}
	/* It freed space in between and runs on. A sandbox that cannot be thawed is ended. */
	if (cgroup_freeze(sv->cg, false, NULL) < 0)
		kill_for_disk(sv, true);
}

static void on_disk_poll(struct timer *t)
{
	struct supervision *sv = t->ctx;
	struct disk_watch *d = &sv->disk;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	struct statvfs v;
	bool moved;

	if (sv->killed || sv->ended)
		return;
	if (fstatvfs(sv->io->usage_fd, &v) < 0) {
		kill_for_disk(sv, false);
		return;
	}
	moved = v.f_bfree != d->last_free || v.f_ffree != d->last_nodes;
	d->last_free = v.f_bfree;
	d->last_nodes = v.f_ffree;
	if ((uint64_t)v.f_bavail * d->block < d->floor)
		kill_for_disk(sv, false);
	else if (walk_is_due(d, &v, moved, now))
		enforce_disk_limit(sv);
	d->wait = moved ? LOOK_FAST : d->wait * 2 > LOOK_SLOW ? LOOK_SLOW : d->wait * 2;
	loop_timer(&sv->loop, &d->t, clock_nsec(CLOCK_MONOTONIC) + d->wait);
}

/* Free bytes that are reserved for the host; half of what is free where that is less already. */
static uint64_t host_free_floor(const struct statvfs *v, uint64_t block)
{
	uint64_t floor = (uint64_t)v->f_blocks / 100 * FLOOR_PERCENT * block;
	uint64_t free = (uint64_t)v->f_bavail * block;

	floor = floor > FLOOR_BYTES ? floor : FLOOR_BYTES;
	return free <= floor ? free / 2 : floor;
}

void supervise_disk_start(struct supervision *sv)
{
	struct disk_watch *d = &sv->disk;
	struct statvfs v;

	if (sv->io->usage_fd < 0 || fstatvfs(sv->io->usage_fd, &v) < 0)
		return;
	d->limit = sv->spec->limits.l[LIMIT_DISK].value;
	d->inodes = sv->spec->limits.l[LIMIT_INODES].value;
	d->block = v.f_frsize ? v.f_frsize : v.f_bsize;
	d->floor = host_free_floor(&v, d->block);
	d->last_free = d->walk_free = v.f_bfree;
	d->last_nodes = d->walk_nodes = v.f_ffree;
	d->wait = LOOK_FAST;
	d->t = (struct timer){ .fn = on_disk_poll, .ctx = sv };
	loop_timer(&sv->loop, &d->t, sv->started + LOOK_FAST);
}
