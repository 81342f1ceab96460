/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When secrets of a vault are due for rotation or expire: the file `schedule` beside the vault file, for processes that cannot or
 * need not open the vault. One line for each secret that has a date: "NAME DUE EXPIRES", in seconds since 1970, 0 for never.
 *
 * The process that saved the vault writes it, under the vault's lock. It decides nothing: the vault itself knows what is due.
 */
#ifndef VAULT_SCHEDULE_H
#define VAULT_SCHEDULE_H

#include "base/buf.h"
#include "base/err.h"
#include "vault/common/vaultproto.h"

#include <stdbool.h>

#define SCHEDULE_SOON (14 * 86400ull) /* s; a warning is given for what expires within this time */
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
int schedule_add(struct schedule *s, const struct schedule_entry *n) MUST_CHECK; /* skips one without dates */
void schedule_format(const struct schedule *s, struct buf *out);
/* -EBADMSG for text that schedule_format() does not write. */
int schedule_parse(struct schedule *ret, const char *text, size_t len) MUST_CHECK;

/* Will it expire soon, but has not yet? */
static inline bool schedule_is_soon(uint64_t expires, uint64_t now)
{
	return expires > now && expires - now < SCHEDULE_SOON;
}
/* The earliest due date; 0: none. */
uint64_t schedule_next(const struct schedule *s);

/* dir: the vault's directory. Without dates the file is removed. */
int schedule_write(int dir, const struct schedule *s) MUST_CHECK;
/* state_fd: the state directory. A missing file or vault gives an empty schedule. */
int schedule_read(int state_fd, struct schedule *ret) MUST_CHECK;

#endif
