/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .env files as people write them: NAME=value lines, optionally with `export`, # comments; values are bare, in single quotes
 * (verbatim) or in double quotes (\n \r \t \" \\ \$ are decoded, line breaks kept). Nothing is expanded: a $ in a value stays.
 * Pure; decodes the file's bytes in place, so that they can stay in locked memory.
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
	unsigned line; /* where the next entry begins, from 1 */
};

struct envfile_entry {
	char name[ENVFILE_NAME_MAX + 1];
	char *value; /* points into the text */
	size_t len;
	unsigned line;
};

void envfile_init(struct envfile *f, char *text, size_t len);

/* 1: the next entry, 0: the end, -EINVAL with the line and the reason; a message never contains a value. */
int envfile_next(struct envfile *f, struct envfile_entry *ret, struct err *e) MUST_CHECK;

#endif
