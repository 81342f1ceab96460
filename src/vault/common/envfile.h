/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .env files as people write them: NAME=value lines, `export` before them, # comments, values bare, in single quotes (as they
 * are) or in double quotes (\n \r \t \" \\ \$ are read, line breaks kept). Nothing is expanded: a value with $ in it stays
 * as it is. Pure; the file's bytes are changed in place, so that they can stay in locked memory.
 */
#ifndef VAULT_ENVFILE_H
#define VAULT_ENVFILE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define ENVFILE_MAX (256u << 10)
#define ENVFILE_NAME_MAX 63

struct envfile {
	char *p, *end;
	unsigned line; /* that the next entry begins in, from 1 */
};

struct envfile_entry {
	char name[ENVFILE_NAME_MAX + 1];
	char *value; /* into the text */
	size_t len;
	unsigned line;
};

void envfile_init(struct envfile *f, char *text, size_t len);

/* 1: the next entry, 0: the end, -EINVAL with the line and what is wrong; the value is never in a message. */
int envfile_next(struct envfile *f, struct envfile_entry *ret, struct err *e) MUST_CHECK;

#endif
