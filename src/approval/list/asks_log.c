/* SPDX-License-Identifier: Apache-2.0 */
/* What the log is told of questions. Each returns negative when it was not written, and then what it tells of does not happen (A3). */
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

static void event_head(const struct asks *l, const struct ask *a, struct json *j)
{
	char id[ASK_ID_MAX], hex[HASH_HEX_LEN + 1];

	ask_id(l, a, id);
	hash_hex(a->digest, HASH_LEN, hex);
	json_str(j, "ask", id);
	json_str(j, "kind", ask_kind_name(a->q.kind));
	json_str(j, "digest", hex);
}

static int event_seq(struct asks *l, const char *type, const struct buf *b, uint64_t *ret_seq)
{
	return buf_error(b) ? -ENOMEM : l->out.event(l->out.ctx, type, b, ret_seq);
}

static int event(struct asks *l, const char *type, const struct buf *b)
{
	uint64_t seq = 0;

	return event_seq(l, type, b, &seq);
}

static void add_target(const struct ask_question *q, struct json *j)
{
	if (q->host[0])
		json_str(j, "host", q->host);
	if (q->port)
		json_u64(j, "port", q->port);
	if (q->tls)
		json_bool(j, "tls", true);
	if (q->method[0])
		json_str(j, "method", q->method);
	/* Values of a query may be secrets: the digest binds them, the log does without. */
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

	event_head(l, a, &j);
	add_target(&a->q, &j);
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
	return event_seq(l, "ask.new", &b, &a->seq);
}

static void add_who(const struct ask_who *w, struct json *j)
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

	event_head(l, a, &j);
	add_target(&a->q, &j);
	json_str(&j, "answer", n->allow ? "allow" : "deny");
	if (n->allow)
		json_str(&j, "scope", ask_scope_name(n->scope));
	if (n->allow && n->scope == ASK_FOR)
		json_u64(&j, "seconds", n->seconds);
	if (n->allow && n->scope == ASK_USES)
		json_u64(&j, "uses", n->uses);
	add_who(&n->who, &j);
	if (n->reason[0])
		json_str(&j, "reason", n->reason);
	return event(l, "ask.answer", &b);
}

int ask_log(struct asks *l, const struct ask *a, const char *type, const char *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	event_head(l, a, &j);
	add_target(&a->q, &j);
	if (str_eq(type, "ask.use"))
		json_u64(&j, "use", a->used);
	if (why[0])
		json_str(&j, "why", why);
	return event(l, type, &b);
}

int ask_log_revoke(struct asks *l, const struct ask *a, const struct ask_who *who)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	event_head(l, a, &j);
	add_who(who, &j);
	return event(l, "ask.revoke", &b);
}
