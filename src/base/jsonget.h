/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing JSON and reading members of an object (jansson). A member that is missing or has another type gives a default value, so that
 * input from outside cannot produce a NULL that the caller does not check. The text lives as long as the object.
 */
#ifndef BASE_JSONGET_H
#define BASE_JSONGET_H

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Parses a text; duplicate members are refused. -EBADMSG: it is not JSON, which `why` (may be NULL) explains. -ENOMEM: this is
 * not known. jansson reports a string for which it has no memory as a syntax error, and other missing memory not at all; errno
 * tells.
 */
static inline int jsonget_load(const char *text, size_t len, json_t **ret, json_error_t *why)
{
	errno = 0;
	*ret = json_loadb(text, len, JSON_REJECT_DUPLICATES, why);
	return *ret ? 0 : errno == ENOMEM ? -ENOMEM : -EBADMSG;
}

/* "" where there is no text. */
static inline const char *jsonget_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* NULL where there is no text: for a caller that must tell a missing text from an empty one. */
static inline const char *jsonget_text_or_null(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* 0 where there is no integer, or a negative one. */
static inline uint64_t jsonget_u64(const json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v > 0 ? (uint64_t)v : 0;
}

/* 0 where there is no integer. */
static inline long long jsonget_i64(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

/* false where there is no boolean. */
static inline bool jsonget_bool(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

#endif
