/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that are denied, by category: a million of them in 8 MB, as sorted 64-bit hashes. A name blocks itself and all
 * below it. Text is what is found on the net: a name a line, or a hosts file ("0.0.0.0 name …"); # and ! begin comments.
 */
#ifndef POLICY_BLOCKLIST_H
#define POLICY_BLOCKLIST_H

#include "base/buf.h"
#include "policy/build.h"

struct blocklist {
	char category[POLICY_CATEGORY_MAX + 1];
	uint64_t *own;	    /* NULL when the hashes lie in a bundle */
	const void *hashes; /* sorted, each once, 8 bytes of this machine's order, at any alignment */
	size_t n;
	size_t room;	/* of own */
	size_t skipped; /* lines that were no name: IP addresses, patterns, garbage */
};

#define BLOCKLIST_INIT ((struct blocklist){ 0 })

/* One piece of a file; lines must be whole. */
int blocklist_add_lines(struct blocklist *b, const char *text, size_t len, struct err *e) MUST_CHECK;
/* Sorts, once all is added. */
void blocklist_finish(struct blocklist *b);
bool blocklist_has(const struct blocklist *b, const struct host *name);
void blocklist_release(struct blocklist *b);

#endif
