/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading members of a JSON object (jansson). A member that is missing or has another type gives a default value, so that
 * input from outside cannot produce a NULL that the caller does not check. The text lives as long as the object.
 */
#ifndef BASE_JSONGET_H
#define BASE_JSONGET_H

#include <jansson.h>
#include <stdint.h>

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

#endif
