/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of a secret: a file, a pipe, or a terminal without echo. The vault itself reads it, straight into locked
 * memory, so that no other process has it.
 *
 * The terminal is restored on every exit: when the line is complete, and also when the process that started the vault
 * has gone (and cannot do it). Any input beyond the line is discarded then, so that a second pasted line does not become a
 * command.
 */
#ifndef VAULT_SOURCE_H
#define VAULT_SOURCE_H

#include "base/err.h"
#include "crypto/secmem.h"

#include <stdbool.h>

struct source {
	int fd;
	int control;	    /* its end means that the value is no longer wanted; -1: none */
	bool terminal;	    /* one line, without echo, after `prompt` */
	const char *prompt; /* printed with `subject`, which says what it is for */
	const char *subject;
};

/* Reads up to `most` bytes; -EFBIG if there are more, -EPIPE if the starter has gone. Drops a trailing line
 * break, and reports that in *ret_trimmed. */
int source_read(const struct source *s, size_t most, struct secmem *ret, bool *ret_trimmed,
		struct err *e) MUST_CHECK;

#endif
