/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ask as JSON, and the file runs/ID/asks: writing it, and reading the history back from it. A line that
 * cannot be read is reported, never guessed.
 */
#include "approval/list/asks_int.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/jsonget.h"
#include "base/str.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_nonempty_text(struct json *j, const char *key, const char *s)
{
	if (s && s[0])
		json_str(j, key, s);
}

static void add_time(struct json *j, const char *key, uint64_t real)
{
	char text[CLOCK_TEXT_LEN];

	if (real)
		json_str(j, key, clock_format(real, text));
}

static void add_answer(const struct ask_view *v, struct json *j)
{
	const struct ask_answer *n = &v->answer;

	if (!v->answered)
		return;
	json_obj(j, "answer");
	json_bool(j, "allow", n->allow);
	if (n->allow)
		json_str(j, "scope", ask_scope_name(n->scope));
	if (n->allow && n->scope == ASK_FOR)
		json_u64(j, "seconds", n->seconds);
	if (n->allow && n->scope == ASK_USES)
		json_u64(j, "uses", n->uses);
	add_nonempty_text(j, "reason", n->reason);
	json_u64(j, "uid", n->who.uid);
	add_nonempty_text(j, "name", n->who.name);
	add_nonempty_text(j, "via", n->who.via);
	add_time(j, "at", v->answered_at);
	json_end_obj(j);
}

/* Readers stop at a NUL byte or refuse it, so NUL is shown as U+2400. */
static void add_preview(struct json *j, const struct ask_question *q)
{
	autobuf struct buf b = BUF_INIT;

	for (size_t i = 0; i < q->preview_len; i++) {
		if (q->preview[i])
			buf_addc(&b, q->preview[i]);
		else
			buf_adds(&b, "\xe2\x90\x80");
	}
	if (b.len)
		json_strn(j, "preview", buf_cstr(&b), b.len);
	if (q->preview_bytes)
		json_u64(j, "preview_bytes", q->preview_bytes);
}

static void add_question(const struct ask_question *q, struct json *j)
{
	char hex[HASH_HEX_LEN + 1];

	json_str(j, "kind", ask_kind_name(q->kind));
	add_nonempty_text(j, "host", q->host);
	if (q->port)
		json_u64(j, "port", q->port);
	if (q->tls)
		json_bool(j, "tls", true);
	add_nonempty_text(j, "method", q->method);
	add_nonempty_text(j, "path", q->path);
	add_nonempty_text(j, "what", q->what);
	add_nonempty_text(j, "rule", q->rule);
	add_nonempty_text(j, "reason", q->reason);
	add_nonempty_text(j, "by", q->by);
	if (q->has_body) {
		hash_hex(q->body, HASH_LEN, hex);
		json_str(j, "body", hex);
		json_u64(j, "body_len", q->body_len);
	}
	add_nonempty_text(j, "type", q->type);
	add_preview(j, q);
	if (q->generation)
		json_u64(j, "generation", q->generation);
}

void ask_json(const struct ask_view *v, struct json *j, const char *key)
{
	json_obj(j, key);
	json_str(j, "id", v->id);
	json_str(j, "sandbox", v->run);
	json_u64(j, "number", v->number);
	if (v->seq)
		json_u64(j, "seq", v->seq);
	json_str(j, "state", ask_state_name(v->state));
	add_question(&v->q, j);
	json_str(j, "digest", v->digest);
	add_time(j, "asked", v->asked);
	add_time(j, "expires", v->expires);
	json_u64(j, "waiters", v->waiters);
	json_u64(j, "times", v->times);
	json_u64(j, "used", v->used);
	if (v->uses)
		json_u64(j, "uses", v->uses);
	add_answer(v, j);
	add_nonempty_text(j, "why", v->why);
	json_end_obj(j);
}

void asks_store(const struct asks *l, struct buf *out)
{
	const struct ask *a = NULL;

	while ((a = asks_next(l, a)) != NULL) {
		struct json j = JSON_INIT(out);
		struct ask_view v;

		ask_view(l, a, &v);
		ask_json(&v, &j, NULL);
		buf_addc(out, '\n');
	}
}

/* ---- Reading it again. ---- */

static uint64_t get_time(const json_t *o, const char *key)
{
	uint64_t t = 0;

	return clock_parse(jsonget_text(o, key), 0, &t) == 0 ? t : 0;
}

static void read_answer(const json_t *o, struct ask *a)
{
	struct ask_answer *n = &a->answer;
	int scope = ask_scope_parse(jsonget_text(o, "scope"));

	if (!json_is_object(o))
		return;
	a->answered = true;
	a->answered_at = get_time(o, "at");
	n->allow = json_is_true(json_object_get(o, "allow"));
	n->scope = scope < 0 ? ASK_ONCE : (enum ask_scope)scope;
	n->seconds = jsonget_u64(o, "seconds");
	n->uses = jsonget_u64(o, "uses");
	n->who.uid = (uid_t)jsonget_u64(o, "uid");
	snprintf(n->reason, sizeof(n->reason), "%s", jsonget_text(o, "reason"));
	snprintf(n->who.name, sizeof(n->who.name), "%s", jsonget_text(o, "name"));
	snprintf(n->who.via, sizeof(n->who.via), "%s", jsonget_text(o, "via"));
}

/* The state in the file, where an ask that was open then has ended since. */
static enum ask_state read_former_state(const json_t *o, struct ask *a)
{
	int s = ask_state_parse(jsonget_text(o, "state"));

	snprintf(a->why, sizeof(a->why), "%s", jsonget_text(o, "why"));
	if (s == ASK_PENDING || s == ASK_PARKED || s == ASK_GRANTED) {
		snprintf(a->why, sizeof(a->why), "the sandbox has ended");
		return s == ASK_PENDING ? ASK_GONE : ASK_LAPSED;
	}
	return s < 0 ? ASK_GONE : (enum ask_state)s;
}

static int read_question(const json_t *o, struct ask *a)
{
	int kind = ask_kind_parse(jsonget_text(o, "kind"));
	const char *preview = jsonget_text(o, "preview");
	struct ask_question q = { .port = (uint16_t)jsonget_u64(o, "port"),
				  .tls = json_is_true(json_object_get(o, "tls")),
				  .generation = (uint32_t)jsonget_u64(o, "generation"),
				  .body_len = jsonget_u64(o, "body_len"),
				  .host = jsonget_text(o, "host"),
				  .method = jsonget_text(o, "method"),
				  .path = jsonget_text(o, "path"),
				  .what = jsonget_text(o, "what"),
				  .type = jsonget_text(o, "type"),
				  .rule = jsonget_text(o, "rule"),
				  .reason = jsonget_text(o, "reason"),
				  .by = jsonget_text(o, "by"),
				  .preview = preview,
				  .preview_len = strlen(preview),
				  .preview_bytes = jsonget_u64(o, "preview_bytes") };
	const char *body = jsonget_text(o, "body"), *digest = jsonget_text(o, "digest");

	if (kind < 0 || strlen(digest) != HASH_HEX_LEN || hash_unhex(digest, HASH_LEN, a->digest) < 0)
		return -EBADMSG;
	q.kind = (enum ask_kind)kind;
	q.has_body = strlen(body) == HASH_HEX_LEN && hash_unhex(body, HASH_LEN, q.body) == 0;
	return ask_question_copy(&q, &a->q, &a->text);
}

static bool has_ask_number(const struct asks *l, uint64_t number)
{
	const struct ask *a;

	for (a = TAILQ_FIRST(&l->list); a; a = TAILQ_NEXT(a, link)) {
		if (a->number == number)
			return true;
	}
	return false;
}

/* asks.A7 survives restarts of the run and changes of the ask server: recent denials in the file still count. */
static void restore_denial_count(struct asks *l, struct asks_now now, const struct ask *a)
{
	uint64_t ago = now.real > a->answered_at ? now.real - a->answered_at : 0;

	if (a->state == ASK_DENIED && a->answered && ago < ASKS_TIRED_WITHIN * NSEC_PER_SEC && ago < now.mono)
		asks_count_denial(l, (struct asks_now){ now.mono - ago, a->answered_at }, &a->q);
}

struct ask *ask_read(const json_t *o)
{
	struct ask *a = json_is_object(o) ? calloc(1, sizeof(*a)) : NULL;

	if (!a || read_question(o, a) < 0) {
		free(a);
		return NULL;
	}
	a->number = jsonget_u64(o, "number");
	a->seq = jsonget_u64(o, "seq");
	a->asked = get_time(o, "asked");
	a->expires_shown = get_time(o, "expires");
	a->times = jsonget_u64(o, "times");
	a->used = jsonget_u64(o, "used");
	a->uses = jsonget_u64(o, "uses");
	read_answer(json_object_get(o, "answer"), a);
	return a;
}

static int load_ask_line(struct asks *l, struct asks_now now, const char *line, size_t len)
{
	json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	struct ask *a = ask_read(o);

	if (a && has_ask_number(l, a->number)) {
		free(a->text);
		free(a);
	} else if (a) {
		a->state = read_former_state(o, a);
		l->last = a->number > l->last ? a->number : l->last;
		l->n_over++;
		TAILQ_INSERT_TAIL(&l->list, a, link);
		restore_denial_count(l, now, a);
	}
	json_decref(o);
	return a ? 0 : -EBADMSG;
}

int asks_load(struct asks *l, struct asks_now now, const char *text, size_t len, struct err *e)
{
	const char *end = text + len;
	int bad = 0;

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		size_t n = nl ? (size_t)(nl - text) : (size_t)(end - text);

		bad += n && load_ask_line(l, now, text, n) < 0;
		text += n + 1;
	}
	return bad ? err_set(e, -EBADMSG, "%d lines of the run's questions cannot be read", bad) : 0;
}
