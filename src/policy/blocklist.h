/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Denied names, by category: a million of them take 8 MB, as sorted 64-bit hashes. A name blocks itself and everything
 * below it. The text format is that of published lists: one name per line, or a hosts file ("0.0.0.0 name …"); # and ! start
 * comments.
 */
#ifndef POLICY_BLOCKLIST_H
#define POLICY_BLOCKLIST_H

#include "base/buf.h"
#include "policy/build.h"

struct blocklist {
	char category[POLICY_CATEGORY_MAX + 1];
	uint64_t *own;	    /* NULL if the hashes are in a bundle */
	const void *hashes; /* sorted, unique, 8 bytes each in host byte order, at any alignment */
	size_t n;
	size_t room;	/* capacity of own */
	size_t skipped; /* entries that are not names: IP addresses, patterns, garbage */
};

#define BLOCKLIST_INIT ((struct blocklist){ 0 })

/* Adds a part of a file; it must consist of whole lines. */
int blocklist_add_lines(struct blocklist *b, const char *text, size_t len, struct err *e) MUST_CHECK;
/* Sorts; call after everything was added. */
void blocklist_finish(struct blocklist *b);
bool blocklist_has(const struct blocklist *b, const struct host *name);
void blocklist_release(struct blocklist *b);

#endif
