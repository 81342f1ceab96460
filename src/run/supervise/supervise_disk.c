/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk limit where the kernel keeps none: the workspace's upper layer is watched from outside.
 *
 * Free space of the file system is cheap to ask for and says when a walk of the layer is worth it: when it fell by
 * a good part of what the sandbox may still use, or now and then while it moves at all. A walk costs time that grows
 * with the layer, so the next one waits ten times as long as the last one took. At the limit the sandbox is frozen,
 * counted once more, and killed if the count holds. The host's own free space is guarded the same way.
 */
#include "base/clock.h"
#include "run/supervise/supervise_int.h"
#include "workspace/workspace.h"

#include <errno.h>
#include <sys/statvfs.h>

#define LOOK_FAST (100 * NSEC_PER_MSEC)
#define LOOK_SLOW (500 * NSEC_PER_MSEC)
#define WALK_ANYWAY (2 * NSEC_PER_SEC)
#define FLOOR_BYTES (512ULL << 20)
#define FLOOR_PERCENT 2
#define STEP_BYTES (1ULL << 20)
#define STEP_INODES 64

/* Bytes and inodes now; true when either is past its limit. */
static bool is_over_disk_limit(struct sv *sv)
{
	struct disk_watch *d = &sv->disk;
	uint64_t bytes = 0, inodes = 0, began = clock_nsec(CLOCK_MONOTONIC), took;
	struct statvfs v;

	/* A layer that cannot be counted cannot be limited. */
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

static uint64_t fell(uint64_t before, uint64_t now)
{
	return before > now ? before - now : 0;
}

/* May it have come near a limit since the last walk? */
static bool walk_is_due(const struct disk_watch *d, const struct statvfs *v, bool moved, uint64_t now)
{
	uint64_t left, step;

	if (now < d->not_before)
		return false;
	if (d->limit != LIMIT_NONE) {
		left = fell(d->limit, d->walk_used);
		step = left / 4 > STEP_BYTES ? left / 4 : STEP_BYTES;
		if (fell(d->walk_free, v->f_bfree) * d->block >= step)
			return true;
	}
	if (d->inodes != LIMIT_NONE) {
		left = fell(d->inodes, d->walk_used_nodes);
		step = left / 4 > STEP_INODES ? left / 4 : STEP_INODES;
		if (fell(d->walk_nodes, v->f_ffree) >= step)
			return true;
	}
	/* Others may free space as fast as it is used here. */
	return moved && now - d->walked_at >= WALK_ANYWAY;
}

/* On cgroup v1 a frozen process does not die before it is thawed. */
static void end_for_disk(struct sv *sv, bool frozen)
{
	sv_kill(sv, CAUSE_DISK);
	if (frozen && cgroup_freeze(sv->cg, false, NULL) < 0 && cgroup_kill(sv->cg, NULL) < 0 && !sv->error)
		sv->error = err_set(sv->err, -EIO,
				    "a sandbox over its disk limit is frozen and cannot be killed");
}

static void check_limit(struct sv *sv)
{
	bool frozen;

	/* What stands still for a checkpoint writes nothing, and must not be woken by us. */
	if (sv->freeze.by || !is_over_disk_limit(sv))
		return;
	frozen = sv->cg && cgroup_freeze(sv->cg, true, NULL) == 0;
	if (!frozen || is_over_disk_limit(sv)) {
		end_for_disk(sv, frozen);
		return;
	}
	/* It made room in between. One that cannot be thawed has no future. */
	if (cgroup_freeze(sv->cg, false, NULL) < 0)
		end_for_disk(sv, true);
}

static void on_look(struct timer *t)
{
	struct sv *sv = t->ctx;
	struct disk_watch *d = &sv->disk;
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);
	struct statvfs v;
	bool moved;

	if (sv->killed || sv->ended)
		return;
	if (fstatvfs(sv->io->usage_fd, &v) < 0) {
		end_for_disk(sv, false);
		return;
	}
	moved = v.f_bfree != d->last_free || v.f_ffree != d->last_nodes;
	d->last_free = v.f_bfree;
	d->last_nodes = v.f_ffree;
	if ((uint64_t)v.f_bavail * d->block < d->floor)
		end_for_disk(sv, false);
	else if (walk_is_due(d, &v, moved, now))
		check_limit(sv);
	d->wait = moved ? LOOK_FAST : d->wait * 2 > LOOK_SLOW ? LOOK_SLOW : d->wait * 2;
	loop_timer(&sv->loop, &d->t, clock_nsec(CLOCK_MONOTONIC) + d->wait);
}

/* What the host keeps for itself; on one that has less already, half of that. */
static uint64_t host_floor(const struct statvfs *v, uint64_t block)
{
	uint64_t floor = (uint64_t)v->f_blocks / 100 * FLOOR_PERCENT * block;
	uint64_t free = (uint64_t)v->f_bavail * block;

	floor = floor > FLOOR_BYTES ? floor : FLOOR_BYTES;
	return free <= floor ? free / 2 : floor;
}

void sv_disk_start(struct sv *sv)
{
	struct disk_watch *d = &sv->disk;
	struct statvfs v;

	if (sv->io->usage_fd < 0 || fstatvfs(sv->io->usage_fd, &v) < 0)
		return;
	d->limit = sv->spec->limits.l[LIMIT_DISK].value;
	d->inodes = sv->spec->limits.l[LIMIT_INODES].value;
	d->block = v.f_frsize ? v.f_frsize : v.f_bsize;
	d->floor = host_floor(&v, d->block);
	d->last_free = d->walk_free = v.f_bfree;
	d->last_nodes = d->walk_nodes = v.f_ffree;
	d->wait = LOOK_FAST;
	d->t = (struct timer){ .fn = on_look, .ctx = sv };
	loop_timer(&sv->loop, &d->t, sv->started + LOOK_FAST);
}
