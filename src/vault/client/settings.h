/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent's own settings, without the credentials in them: what `coffer run --settings` takes into a sandbox. Pure.
 *
 * Invariants
 *  T1  A value under a name that credentials have (token, apiKey, password, Authorization, …) is left out, whatever it is, but
 *      for numbers, true and false, and the name of a variable (${NAME}). So is a value that looks like a credential, under
 *      any name, an argument after an option of such a name or of headers, an argument NAME=VALUE, and the value of a request's
 *      header that has a long word with a digit in it.
 *  T2  What cannot be read as a whole is left out as a whole. So is a plain text in which something looks like a credential.
 *  T3  Comments are left out: nobody can tell what is in them.
 * It is a net, not a proof: a credential of no known shape under a name that nobody expects passes.
 */
#ifndef VAULT_SETTINGS_H
#define VAULT_SETTINGS_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

#define SETTINGS_FILE_MAX (256u << 10)

/* A file that is never taken, whatever is listed: one that agents and tools keep credentials in. `name`: without directories. */
bool settings_is_credential_file(const char *name);

/* By the name's ending: .json, .toml, anything else is plain text. *ret_left_out: how many values. -EBADMSG and -EACCES (T2) say
 * why. */
int settings_clean(const char *name, const char *text, size_t len, struct buf *out, size_t *ret_left_out,
		   struct err *e) MUST_CHECK;

/* For settings_toml.c. */
bool settings_is_credential_name(const char *name, size_t len);
/* Headers of requests, and a value of one that has too long a word in it. */
bool settings_is_headers_name(const char *name, size_t len);
bool settings_is_header_value(const char *s, size_t len);
bool settings_is_credential_text(const char *text, size_t len);
int settings_clean_toml(const char *text, size_t len, struct buf *out, size_t *left_out,
			struct err *e) MUST_CHECK;

#endif
