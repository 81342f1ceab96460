/* SPDX-License-Identifier: Apache-2.0 */
/* A question: names of kinds, states and scopes, limits of its texts, its digest and its subject. Pure. */
#include "approval/list/asks_int.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
	[ASK_CONNECT] = "connect", [ASK_REQUEST] = "request", [ASK_GRAPHQL] = "graphql",
	[ASK_GIT] = "git",	   [ASK_SECRET] = "secret",   [ASK_APPLY] = "apply",
	[ASK_WIDEN] = "widen",	   [ASK_TOOL] = "tool",	      [ASK_QUESTION] = "question",
	[ASK_SIGN] = "ssh",
};
static_assert(ARRAY_SIZE(kind_names) == ASK_KIND_COUNT, "a name for each");

static const struct ask_means kind_means[] = {
	[ASK_CONNECT] = { "this connection",
			  "any connection to this host and port, with or without TLS like this one",
			  "any connection to this host and port", true },
	[ASK_REQUEST] = { "this very request, with its query, headers and body",
			  "the same method, path and headers with any query and body",
			  "the same request, any query and body", true },
	[ASK_GRAPHQL] = { "this very request, with this document and these variables",
			  "the same operations to this address with the same headers, whatever their arguments",
			  "the same operations, any arguments", true },
	[ASK_GIT] = { "this very request, with these commits",
		      "the same action on the same refs of this repository, with any commits",
		      "the same to these refs, any commits", true },
	[ASK_SECRET] = { "this very request with the secret",
			 "the secret with any request to this host and port",
			 "the secret, any request to this host", true },
	[ASK_APPLY] = { "exactly these changes", "exactly these changes again, and no others",
			"exactly these changes again", true },
	[ASK_WIDEN] = { NULL, "whatever the rule covers", "whatever the rule covers", true },
	[ASK_TOOL] = { "this very call, with this command and these arguments",
		       "the same tool (and conditions of the rule) with any arguments and command",
		       "the same tool, any arguments", true },
	[ASK_QUESTION] = { "this answer to the present asker", "the same question of the same asker",
			   "the same question again", false },
	[ASK_SIGN] = { "this use of the key", "the same use of this key at this host and port",
		       "the same use of the key there", false },
};
static_assert(ARRAY_SIZE(kind_means) == ASK_KIND_COUNT, "one for each");

static const char *const state_names[] = {
	[ASK_PENDING] = "pending", [ASK_PARKED] = "parked", [ASK_GRANTED] = "granted",
	[ASK_SPENT] = "spent",	   [ASK_DENIED] = "denied", [ASK_EXPIRED] = "expired",
	[ASK_LAPSED] = "lapsed",   [ASK_GONE] = "gone",
};
static_assert(ARRAY_SIZE(state_names) == ASK_STATE_COUNT, "a name for each");

static const char *const scope_names[] = {
	[ASK_ONCE] = "once", [ASK_SANDBOX] = "sandbox", [ASK_FOR] = "for",
	[ASK_USES] = "uses", [ASK_ALWAYS] = "always",
};
static_assert(ARRAY_SIZE(scope_names) == ASK_SCOPE_COUNT, "a name for each");

static int index_of_name(const char *const *names, int n, const char *s)
{
	for (int i = 0; i < n; i++) {
		if (str_eq(names[i], s))
			return i;
	}
	return -EINVAL;
}

const char *ask_kind_name(enum ask_kind k)
{
	return kind_names[k];
}

const struct ask_means *ask_kind_means(enum ask_kind k)
{
	return &kind_means[k];
}

int ask_kind_parse(const char *s)
{
	return index_of_name(kind_names, ASK_KIND_COUNT, s);
}

const char *ask_state_name(enum ask_state s)
{
	return state_names[s];
}

int ask_state_parse(const char *s)
{
	return index_of_name(state_names, ASK_STATE_COUNT, s);
}

const char *ask_scope_name(enum ask_scope s)
{
	return scope_names[s];
}

int ask_scope_parse(const char *s)
{
	return index_of_name(scope_names, ASK_SCOPE_COUNT, s);
}

/* The texts of a question, their limits, and whether the digest and the subject include them. */
static const struct {
	size_t offset;
	size_t max;
	const char *name;
	bool in_digest, in_subject;
} question_texts[] = {
	{ offsetof(struct ask_question, host), ASK_HOST_MAX, "host", true, true },
	{ offsetof(struct ask_question, method), ASK_METHOD_MAX, "method", true, true },
	{ offsetof(struct ask_question, path), ASK_PATH_MAX, "path", true, false },
	{ offsetof(struct ask_question, what), ASK_WHAT_MAX, "text", true, true },
	{ offsetof(struct ask_question, type), ASK_TYPE_MAX, "Content-Type", true, false },
	{ offsetof(struct ask_question, rule), ASK_RULE_MAX, "rule", true, false },
	{ offsetof(struct ask_question, reason), ASK_REASON_MAX, "reason", false, false },
	{ offsetof(struct ask_question, by), ASK_BY_MAX, "asker", true, true },
};

static const char *question_text(const struct ask_question *q, size_t i)
{
	const char *s;

	memcpy(&s, (const char *)q + question_texts[i].offset, sizeof(s));
	return s ? s : "";
}

int ask_question_check(const struct ask_question *q, char why[ASK_WHY_MAX])
{
	if ((int)q->kind < 0 || q->kind >= ASK_KIND_COUNT) {
		snprintf(why, ASK_WHY_MAX, "its kind is not known");
		return -EINVAL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(question_texts); i++) {
		if (strlen(question_text(q, i)) > question_texts[i].max) {
			snprintf(why, ASK_WHY_MAX,
				 "its %s is longer than %zu bytes, so nobody could be shown all of it",
				 question_texts[i].name, question_texts[i].max);
			return -E2BIG;
		}
	}
	if (q->preview_len > ASK_PREVIEW_MAX) {
		snprintf(why, ASK_WHY_MAX, "its preview is longer than %d bytes", ASK_PREVIEW_MAX);
		return -E2BIG;
	}
	return 0;
}

/* Adds a part with its length in front, so that no two different questions hash the same bytes. */
static void hash_add_part(struct hash_stream *h, const void *data, size_t len)
{
	uint64_t n = len;

	hash_stream_add(h, &n, sizeof(n));
	hash_stream_add(h, data, len);
}

static void hash_add_u64(struct hash_stream *h, uint64_t v)
{
	hash_add_part(h, &v, sizeof(v));
}

static void hash_begin(struct hash_stream *h, const char *what, const struct ask_question *q)
{
	hash_stream_init(h);
	hash_add_part(h, what, strlen(what));
	hash_add_u64(h, q->kind);
	hash_add_u64(h, q->port);
	hash_add_u64(h, q->tls);
}

void ask_question_digest(const struct ask_question *q, unsigned char ret[HASH_LEN])
{
	struct hash_stream h;

	hash_begin(&h, "coffer ask", q);
	hash_add_u64(&h, q->generation);
	hash_add_u64(&h, q->has_body);
	hash_add_u64(&h, q->body_len);
	hash_add_part(&h, q->body, sizeof(q->body));
	for (size_t i = 0; i < ARRAY_SIZE(question_texts); i++) {
		if (question_texts[i].in_digest)
			hash_add_part(&h, question_text(q, i), strlen(question_text(q, i)));
	}
	hash_add_part(&h, q->preview ? q->preview : "", q->preview_len);
	hash_add_u64(&h, q->preview_bytes);
	hash_stream_end(&h, ret);
}

void ask_question_subject(const struct ask_question *q, unsigned char ret[HASH_LEN])
{
	const char *path = q->path ? q->path : "";
	struct hash_stream h;

	hash_begin(&h, "coffer grant", q);
	for (size_t i = 0; i < ARRAY_SIZE(question_texts); i++) {
		if (question_texts[i].in_subject)
			hash_add_part(&h, question_text(q, i), strlen(question_text(q, i)));
	}
	hash_add_part(&h, path, strcspn(path, "?"));
	hash_stream_end(&h, ret);
}

int ask_question_copy(const struct ask_question *q, struct ask_question *ret, char **ret_text)
{
	size_t len = q->preview_len + 1;
	struct ask_question c = *q;
	char *p, *at;

	for (size_t i = 0; i < ARRAY_SIZE(question_texts); i++)
		len += strlen(question_text(q, i)) + 1;
	p = at = malloc(len);
	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(question_texts); i++) {
		size_t n = strlen(question_text(q, i)) + 1;
		const char *s = memcpy(at, question_text(q, i), n);

		memcpy((char *)&c + question_texts[i].offset, &s, sizeof(s));
		at += n;
	}
	if (q->preview_len)
		memcpy(at, q->preview, q->preview_len);
	at[q->preview_len] = '\0';
	c.preview = at;
	*ret = c;
	*ret_text = p;
	return 0;
}
