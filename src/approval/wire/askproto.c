/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses requests of clients to the ask server, and maps error codes. Pure; all input is hostile, and the
 * fuzzer enters here.
 */
#include "approval/wire/askproto.h"

#include "base/cleanup.h"
#include "base/jsonget.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum member_type { M_TEXT, M_BOOL, M_NUMBER };

struct member {
	const char *name;
	enum member_type type;
	size_t max;    /* bytes of a text, or the largest number */
	unsigned for_; /* bits of the request types that may have it */
	unsigned must; /* bits of the request types that require it */
};

#define BIT(t) (1u << (t))

static const struct member members[] = {
	{ "all", M_BOOL, 0, BIT(ASKP_LIST) | BIT(ASKP_FOLLOW), 0 },
	{ "id", M_TEXT, ASK_ID_MAX, BIT(ASKP_SHOW) | BIT(ASKP_ANSWER) | BIT(ASKP_REVOKE),
	  BIT(ASKP_SHOW) | BIT(ASKP_ANSWER) | BIT(ASKP_REVOKE) },
	{ "digest", M_TEXT, HASH_HEX_LEN, BIT(ASKP_ANSWER), BIT(ASKP_ANSWER) },
	{ "allow", M_BOOL, 0, BIT(ASKP_ANSWER), BIT(ASKP_ANSWER) },
	{ "scope", M_TEXT, 16, BIT(ASKP_ANSWER), 0 },
	{ "seconds", M_NUMBER, ASKS_GRANT_MAX, BIT(ASKP_ANSWER) | BIT(ASKP_SUBMIT), 0 },
	{ "uses", M_NUMBER, ASKS_USES_MAX, BIT(ASKP_ANSWER), 0 },
	{ "reason", M_TEXT, ASK_REASON_MAX, BIT(ASKP_ANSWER) | BIT(ASKP_SUBMIT), 0 },
	{ "name", M_TEXT, ASK_NAME_MAX - 1, BIT(ASKP_ANSWER) | BIT(ASKP_REVOKE), 0 },
	{ "via", M_TEXT, 23, BIT(ASKP_ANSWER) | BIT(ASKP_REVOKE), BIT(ASKP_ANSWER) | BIT(ASKP_REVOKE) },
	{ "kind", M_TEXT, 16, BIT(ASKP_SUBMIT), BIT(ASKP_SUBMIT) },
	{ "what", M_TEXT, ASK_WHAT_MAX, BIT(ASKP_SUBMIT), BIT(ASKP_SUBMIT) },
	{ "preview", M_TEXT, ASK_PREVIEW_MAX, BIT(ASKP_SUBMIT), 0 },
	{ "host", M_TEXT, ASK_HOST_MAX, BIT(ASKP_SUBMIT), 0 },
	{ "port", M_NUMBER, 65535, BIT(ASKP_SUBMIT), 0 },
	{ "rule", M_TEXT, ASK_RULE_MAX, BIT(ASKP_SUBMIT), 0 },
	{ "by", M_TEXT, ASK_BY_MAX, BIT(ASKP_SUBMIT), 0 },
	{ "body", M_TEXT, HASH_HEX_LEN, BIT(ASKP_SUBMIT), 0 },
	{ "body_len", M_NUMBER, INT64_MAX, BIT(ASKP_SUBMIT), 0 },
};

static const struct member *find_member_spec(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if (str_eq(members[i].name, name))
			return &members[i];
	}
	return NULL;
}

static bool member_is_valid(const struct member *m, const json_t *v)
{
	switch (m->type) {
	case M_TEXT:
		return json_is_string(v) && json_string_length(v) <= m->max &&
		       strlen(json_string_value(v)) == json_string_length(v);
	case M_BOOL:
		return json_is_boolean(v);
	case M_NUMBER:
		return json_is_integer(v) && json_integer_value(v) >= 0 &&
		       (uint64_t)json_integer_value(v) <= m->max;
	}
	return false;
}

static int check_members(json_t *o, enum askp_type type, struct err *e)
{
	char shown[64];
	const char *key;
	json_t *v;

	json_object_foreach(o, key, v)
	{
		const struct member *m = find_member_spec(key);

		if (!m || !(m->for_ & BIT(type)))
			return err_set(e, -EPROTO, "'%s' is not known here",
				       str_safe(key, shown, sizeof(shown)));
		if (!member_is_valid(m, v))
			return err_set(e, -EPROTO, "'%s' is too long, too large or of the wrong type", key);
	}
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if ((members[i].must & BIT(type)) && !json_object_get(o, members[i].name))
			return err_set(e, -EPROTO, "'%s' is missing", members[i].name);
	}
	return 0;
}

static int parse_answer(const json_t *o, struct ask_answer *n, struct err *e)
{
	int scope = json_object_get(o, "scope") ? ask_scope_parse(jsonget_text(o, "scope")) : ASK_ONCE;

	if (scope < 0)
		return err_set(e, -EPROTO, "'scope' is one of once, sandbox, for, uses, always");
	if (strlen(jsonget_text(o, "reason")) >= sizeof(n->reason))
		return err_set(e, -EPROTO, "'reason' of an answer has at most %zu bytes",
			       sizeof(n->reason) - 1);
	n->allow = jsonget_bool(o, "allow");
	n->scope = (enum ask_scope)scope;
	n->seconds = jsonget_u64(o, "seconds");
	n->uses = jsonget_u64(o, "uses");
	snprintf(n->reason, sizeof(n->reason), "%s", jsonget_text(o, "reason"));
	return 0;
}

static int parse_submission(const json_t *o, struct askp_request *ret, struct err *e)
{
	int kind = ask_kind_parse(jsonget_text(o, "kind"));

	/* Questions about network traffic are asked only by coffer-egress, which holds the request. */
	if (kind != ASK_APPLY && kind != ASK_TOOL && kind != ASK_QUESTION && kind != ASK_WIDEN)
		return err_set(e, -EPROTO, "'kind' is one of apply, tool, widen, question");
	ret->seconds = jsonget_u64(o, "seconds");
	if (ret->seconds > ASKS_TIMEOUT_MAX)
		return err_set(e, -EPROTO, "a question waits at most %d s", ASKS_TIMEOUT_MAX);
	ret->q = (struct ask_question){ .kind = (enum ask_kind)kind,
					.port = (uint16_t)jsonget_u64(o, "port"),
					.host = jsonget_text(o, "host"),
					.method = "",
					.path = "",
					.what = jsonget_text(o, "what"),
					.type = "",
					.rule = jsonget_text(o, "rule"),
					.reason = jsonget_text(o, "reason"),
					.submitted = true,
					.by = jsonget_text(o, "by"),
					.preview = jsonget_text(o, "preview"),
					.preview_len = strlen(jsonget_text(o, "preview")) };
	if (!json_object_get(o, "body"))
		return json_object_get(o, "body_len")
			       ? err_set(e, -EPROTO, "'body_len' needs 'body', the SHA-256")
			       : 0;
	if (strlen(jsonget_text(o, "body")) != HASH_HEX_LEN ||
	    hash_unhex(jsonget_text(o, "body"), HASH_LEN, ret->q.body) < 0)
		return err_set(e, -EPROTO, "'body' is a SHA-256 in hex");
	ret->q.has_body = true;
	ret->q.body_len = jsonget_u64(o, "body_len");
	return 0;
}

int askp_request_parse(const struct frame *f, struct askp_request *ret, struct err *e)
{
	struct askp_request q = { .type = (enum askp_type)f->type };
	int r;

	if (f->type < ASKP_LIST || f->type > ASKP_SUBMIT || f->chan || f->len > ASKP_MAX)
		return err_set(e, -EPROTO, "it is not a known request");
	q.json = json_loadb((const char *)f->data, f->len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(q.json)) {
		json_decref(q.json);
		return err_set(e, -EPROTO, "it is not a JSON object");
	}
	r = check_members(q.json, q.type, e);
	q.all = jsonget_bool(q.json, "all");
	q.id = jsonget_text(q.json, "id");
	q.digest = jsonget_text(q.json, "digest");
	snprintf(q.answer.who.name, sizeof(q.answer.who.name), "%s", jsonget_text(q.json, "name"));
	snprintf(q.answer.who.via, sizeof(q.answer.who.via), "%s", jsonget_text(q.json, "via"));
	if (r == 0 && q.type == ASKP_ANSWER)
		r = parse_answer(q.json, &q.answer, e);
	if (r == 0 && q.type == ASKP_SUBMIT)
		r = parse_submission(q.json, &q, e);
	if (r < 0)
		askp_request_release(&q);
	else
		*ret = q;
	return r;
}

void askp_request_release(struct askp_request *r)
{
	json_decref(r->json);
	r->json = NULL;
}

static const struct {
	int error;
	const char *name;
} codes[] = {
	{ -ENOENT, "unknown" }, { -ESTALE, "stale" },	{ -EALREADY, "answered" },
	{ -ETIME, "expired" },	{ -ECANCELED, "gone" }, { -EINVAL, "invalid" },
	{ -EPROTO, "invalid" }, { -EBUSY, "busy" },	{ -EIO, "failed" },
};

const char *askp_code_name(int error)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		if (codes[i].error == error)
			return codes[i].name;
	}
	return "failed";
}

int askp_code_parse(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		if (str_eq(codes[i].name, name))
			return codes[i].error;
	}
	return -EIO;
}
