/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the secrets of a vault want something: `schedule` beside the vault file, for those who may not open that, or need not.
 * A line for each secret that has a date: "NAME DUE EXPIRES", in seconds since 1970, 0 for never. Names and dates are all there is in it.
 *
 * Whoever has saved the vault writes it, under the vault's lock. It decides nothing: what is due the vault says itself.
 */
#ifndef VAULT_SCHEDULE_H
#define VAULT_SCHEDULE_H

#include "base/buf.h"
#include "base/err.h"
#include "vault/common/vaultproto.h"

#include <stdbool.h>

#define SCHEDULE_SOON (14 * 86400ull) /* s: what expires within this is told of */
#define SCHEDULE_FILE "schedule"
#define SCHEDULE_ENTRIES_MAX 512 /* as many as a vault has secrets */

struct schedule_entry {
	char name[VAULT_NAME_MAX + 1];
	uint64_t due, expires; /* s; 0: never */
};

struct schedule {
	struct schedule_entry *v;
	size_t n;
};

#define SCHEDULE_INIT ((struct schedule){ 0 })

void schedule_release(struct schedule *s);
int schedule_add(struct schedule *s,
		 const struct schedule_entry *n) MUST_CHECK; /* one without dates is left out */
void schedule_format(const struct schedule *s, struct buf *out);
/* -EBADMSG for anything that schedule_format() does not write. */
int schedule_parse(struct schedule *ret, const char *text, size_t len) MUST_CHECK;

/* Does it expire soon, and has not yet? */
static inline bool schedule_is_soon(uint64_t expires, uint64_t now)
{
	return expires > now && expires - now < SCHEDULE_SOON;
}
/* When the first is due; 0: none ever is. */
uint64_t schedule_next(const struct schedule *s);

/* dir: the vault's. Without dates there is no file. */
int schedule_write(int dir, const struct schedule *s) MUST_CHECK;
/* state_fd: the state directory. Nothing in it, and no file or no vault, is the same. */
int schedule_read(int state_fd, struct schedule *ret) MUST_CHECK;

#endif
