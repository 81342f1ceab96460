/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent's own settings without the credentials in them, for `coffer run --settings`. Pure.
 *
 * Invariants
 *  T1  A value under the name of a credential (token, apiKey, password, Authorization, …) is dropped, whatever it is, except
 *      numbers, true and false, and the name of a variable (${NAME}). Also dropped are: a value that looks like a credential, under
 *      any name; an argument after an option of such a name or of headers; an argument NAME=VALUE; and the value of a request
 *      header that has a long word with a digit in it.
 *  T2  A file that cannot be parsed is dropped as a whole. So is a plain text in which something looks like a credential.
 *  T3  Comments are dropped: their contents cannot be judged.
 * It is a filter, not a proof: a credential of no known shape under an unexpected name passes.
 */
#ifndef VAULT_SETTINGS_H
#define VAULT_SETTINGS_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

#define SETTINGS_FILE_MAX (256u << 10)

/* A file that is never copied, even if it is listed: one in which agents and tools keep credentials. `name`:
 * without directories. */
bool settings_is_credential_file(const char *name);

/* The name's suffix gives the format: .json, .toml, anything else is plain text. *ret_left_out: the number of
 * values dropped. -EBADMSG and -EACCES (T2), with the reason. */
int settings_clean(const char *name, const char *text, size_t len, struct buf *out, size_t *ret_left_out,
		   struct err *e) MUST_CHECK;

/* For settings_toml.c. */
bool settings_is_credential_name(const char *name, size_t len);
/* A table of request headers, and a header value that contains a suspiciously long word. */
bool settings_is_headers_name(const char *name, size_t len);
bool settings_is_header_value(const char *s, size_t len);
bool settings_is_credential_text(const char *text, size_t len);
int settings_clean_toml(const char *text, size_t len, struct buf *out, size_t *left_out,
			struct err *e) MUST_CHECK;

#endif
