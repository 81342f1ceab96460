/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit events of asks. Each function returns negative if its event was not written; then the act it
 * records must not happen (asks.A3).
 */
#include "approval/list/asks_int.h"
#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void ask_id(const struct asks *l, const struct ask *a, char out[ASK_ID_MAX])
{
	snprintf(out, ASK_ID_MAX, "%.6s-%llu", l->run, (unsigned long long)a->number);
}

static void add_ask_head(const struct asks *l, const struct ask *a, struct json *j)
{
	char id[ASK_ID_MAX], hex[HASH_HEX_LEN + 1];

	ask_id(l, a, id);
	hash_hex(a->digest, HASH_LEN, hex);
	json_str(j, "ask", id);
	json_str(j, "kind", ask_kind_name(a->q.kind));
	json_str(j, "digest", hex);
}

static int log_event_seq(struct asks *l, const char *type, const struct buf *b, uint64_t *ret_seq)
{
	return buf_error(b) ? -ENOMEM : l->out.event(l->out.ctx, type, b, ret_seq);
}

static int log_event(struct asks *l, const char *type, const struct buf *b)
{
	uint64_t seq = 0;

	return log_event_seq(l, type, b, &seq);
}

static void add_question_target(const struct ask_question *q, struct json *j)
{
	if (q->host[0])
		json_str(j, "host", q->host);
	if (q->port)
		json_u64(j, "port", q->port);
	if (q->tls)
		json_bool(j, "tls", true);
	if (q->method[0])
		json_str(j, "method", q->method);
	/* Values in a query may be secrets: the digest binds them, and the log omits them. */
	if (q->path[0])
		json_strn(j, "path", q->path, strcspn(q->path, "?"));
	if (q->what[0])
		json_str(j, "what", q->what);
}

int ask_log_new(struct asks *l, struct ask *a)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char hex[HASH_HEX_LEN + 1];

	add_ask_head(l, a, &j);
	add_question_target(&a->q, &j);
	if (a->q.has_body) {
		hash_hex(a->q.body, HASH_LEN, hex);
		json_str(&j, "body", hex);
		json_u64(&j, "body_len", a->q.body_len);
	}
	if (a->q.rule[0])
		json_str(&j, "rule", a->q.rule);
	if (a->q.reason[0])
		json_str(&j, "reason", a->q.reason);
	if (a->q.by[0])
		json_str(&j, "by", a->q.by);
	return log_event_seq(l, "ask.new", &b, &a->seq);
}

static void add_approver(const struct ask_who *w, struct json *j)
{
	json_u64(j, "uid", w->uid);
	if (w->name[0])
		json_str(j, "who", w->name);
	json_str(j, "via", w->via);
}

int ask_log_answer(struct asks *l, const struct ask *a, const struct ask_answer *n)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	add_ask_head(l, a, &j);
	add_question_target(&a->q, &j);
	json_str(&j, "answer", n->allow ? "allow" : "deny");
	if (n->allow)
		json_str(&j, "scope", ask_scope_name(n->scope));
	if (n->allow && n->scope == ASK_FOR)
		json_u64(&j, "seconds", n->seconds);
	if (n->allow && n->scope == ASK_USES)
		json_u64(&j, "uses", n->uses);
	add_approver(&n->who, &j);
	if (n->reason[0])
		json_str(&j, "reason", n->reason);
	return log_event(l, "ask.answer", &b);
}

int ask_log(struct asks *l, const struct ask *a, const char *type, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	add_ask_head(l, a, &j);
	add_question_target(&a->q, &j);
	if (str_eq(type, "ask.use"))
		json_u64(&j, "use", a->used);
	if (why[0])
		json_str(&j, "why", why);
	return log_event(l, type, &b);
}

int ask_log_revoke(struct asks *l, const struct ask *a, const struct ask_who *who)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	add_ask_head(l, a, &j);
	add_approver(who, &j);
	return log_event(l, "ask.revoke", &b);
}
