/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the JSON of access_body.h. It comes from inside the sandbox: lengths are checked before copying, and
 * unknown members refused.
 */
#include "egress/core/access_body.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static void release_json(json_t **o)
{
	json_decref(*o);
}

static int take_body_text(const json_t *v, const char *name, char *ret, size_t size, struct err *e)
{
	if (!json_is_string(v))
		return err_set(e, -EINVAL, "'%s' must be a string", name);
	if (json_string_length(v) >= size)
		return err_set(e, -EINVAL, "'%s' is longer than %zu bytes", name, size - 1);
	/* It has no NUL inside: the JSON parser refuses those. */
	memcpy(ret, json_string_value(v), json_string_length(v) + 1);
	return 0;
}

static int take_member(const char *key, const json_t *v, struct access_body *b, struct err *e)
{
	if (str_eq(key, "rule"))
		return take_body_text(v, key, b->rule, sizeof(b->rule), e);
	if (str_eq(key, "reason"))
		return take_body_text(v, key, b->reason, sizeof(b->reason), e);
	if (!str_eq(key, "wait"))
		return err_set(e, -EINVAL, "the members are 'rule', 'reason' and 'wait', and no others");
	if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > ACCESS_WAIT_MAX)
		return err_set(e, -EINVAL, "'wait' must be 0 to %d seconds", ACCESS_WAIT_MAX);
	b->wait = (unsigned)json_integer_value(v);
	return 0;
}

static int check_rule_text(const char *rule, struct err *e)
{
	if (!rule[0])
		return err_set(e, -EINVAL,
			       "'rule' is missing: name the host to reach, such as api.example.com");
	for (const char *p = rule; *p; p++) {
		if (*p < 0x20 || *p > 0x7e)
			return err_set(e, -EINVAL,
				       "'rule' must be printable ASCII; write names in Unicode as xn--");
	}
	return 0;
}

int access_body_parse(const char *data, size_t len, struct access_body *ret, struct err *e)
{
	CLEANUP(release_json) json_t *o = NULL;
	struct access_body b = { 0 };
	const char *key;
	json_t *v;
	int r = 0;

	if (len > ACCESS_BODY_MAX)
		return err_set(e, -EINVAL, "the body is longer than %u KiB", ACCESS_BODY_MAX >> 10);
	o = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(o))
		return err_set(
			e, -EINVAL,
			"the body is not a JSON object such as {\"rule\":\"api.example.com\",\"reason\":\"…\"}");
	json_object_foreach(o, key, v)
	{
		r = r < 0 ? r : take_member(key, v, &b, e);
	}
	r = r < 0 ? r : check_rule_text(b.rule, e);
	if (r == 0)
		*ret = b;
	return r;
}
