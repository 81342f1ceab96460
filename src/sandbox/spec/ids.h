/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapping of ids inside to ids of the host.
 *
 *  - An ordinary user (or root of some user namespace): the one id of the command is the caller's own, outside as
 *    inside. With map_range all other ids map to the caller's subordinate ids (newuidmap).
 *  - The host's root: a block of 65536 ids that belongs to no account and to no other live sandbox, so that root
 *    inside has no rights outside. The block is reserved while lock_fd is open.
 */
#ifndef SANDBOX_IDS_H
#define SANDBOX_IDS_H

#include "base/err.h"
#include "sandbox/state/state.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define IDS_BLOCK 65536u

struct ids {
	bool host_root; /* started by the host's root: maps are written from outside, mounts are idmapped */
	bool range;	/* IDS_BLOCK ids are mapped, from 0 on; otherwise only uid and gid */
	uint32_t uid, gid;	   /* inside, of the command */
	uint32_t out_uid, out_gid; /* outside: of the command (single), or of id 0 (host root's block) */
	uint32_t sub_uid, sub_gid; /* ordinary user with a range: first subordinate id */
	int lock_fd;
};

#define IDS_INIT ((struct ids){ .lock_fd = -1 })

int ids_plan(struct ids *ret, struct state *st, const char *run_id, uid_t uid, gid_t gid, bool range,
	     struct err *e) MUST_CHECK;
void ids_release(struct ids *ids);

/* The command's uid as the host sees it. */
uint32_t ids_outside_uid(const struct ids *ids);

#define IDS_MAP_LEN 96
/* The map of the outer user namespace where only one id is mapped, and of the inner one, which maps ids to themselves. */
char *ids_outer_map(const struct ids *ids, bool groups, char out[IDS_MAP_LEN]);
char *ids_inner_map(const struct ids *ids, bool groups, char out[IDS_MAP_LEN]);

/* Writes the outer map of a range, from outside, once the child is in its new user namespace. */
int ids_write_maps(const struct ids *ids, pid_t child, struct err *e) MUST_CHECK;

#endif
