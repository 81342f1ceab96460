/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a secret comes from: a file, a pipe, or a terminal without echo. Read by the vault itself, straight into locked
 * memory, so that nobody else ever has it.
 *
 * A terminal is put back as it was on every way out: when the line is done, and also when the process that started the vault
 * is gone (it cannot do it then). It is put back with whatever was typed beyond the line thrown away, so that a second
 * pasted line does not become a command.
 */
#ifndef VAULT_SOURCE_H
#define VAULT_SOURCE_H

#include "base/err.h"
#include "crypto/secmem.h"

#include <stdbool.h>

struct source {
	int fd;
	int control;	    /* its end means that nobody wants the value any more; -1: none */
	bool terminal;	    /* one line, without echo, behind `prompt` */
	const char *prompt; /* and what it is for */
	const char *subject;
};

/* Up to `most` bytes; -EFBIG when there are more, -EPIPE when the starter is gone. A line break at the end is dropped, and
 * *ret_trimmed says so. */
int source_read(const struct source *s, size_t most, struct secmem *ret, bool *ret_trimmed,
		struct err *e) MUST_CHECK;

#endif
