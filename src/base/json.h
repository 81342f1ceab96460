/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON writer over a buf. One line, no spaces, keys in the order they are written, so that the same event
 * gives the same bytes. Strings may hold any bytes: invalid UTF-8 becomes U+FFFD, and a caller that needs the
 * bytes themselves uses json_bytes(). Characters that steer a terminal (str_steers_terminal()) are written as \uNNNN.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct json {
	struct buf *out;
	bool comma; /* the next value needs a comma in front */
};

#define JSON_INIT(b) ((struct json){ .out = (b) })

/* In all of these, key is NULL inside an array and for the outermost value. */
void json_obj(struct json *j, const char *key);
void json_arr(struct json *j, const char *key);
void json_end_obj(struct json *j);
void json_end_arr(struct json *j);
void json_str(struct json *j, const char *key, const char *s); /* s == NULL writes null */
void json_strn(struct json *j, const char *key, const char *s, size_t len);
/* False when json_str() would write U+FFFD for a part of it. */
bool json_is_utf8(const char *s);
void json_bytes(struct json *j, const char *key, const char *s, size_t len); /* bytes over 0x7f as \u00NN */
void json_u64(struct json *j, const char *key, uint64_t v);
void json_milli(struct json *j, const char *key, uint64_t thousandths); /* 1234 is written 1.234 */
void json_i64(struct json *j, const char *key, int64_t v);
void json_bool(struct json *j, const char *key, bool v);
void json_none(struct json *j, const char *key); /* writes null; jansson already has a json_null */

#endif
