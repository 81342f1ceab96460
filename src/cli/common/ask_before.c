/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the events of a sandbox before its question, backwards from the question's position in the audit log,
 * and formats each as one line. It only reads; the lines are not yet safe for a terminal.
 */
#include "cli/common/ask_before.h"

#include "audit/query.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "policy/shorten.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 80

void cli_ask_before_release(struct ask_before *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->line[i]);
	*b = (struct ask_before){ 0 };
}

static void add_event_value(struct buf *out, const char *s)
{
	buf_adds(out, "  ");
	shorten_text(s, VALUE_MAX, "…", out);
}

static void add_event_command(struct buf *out, const json_t *words)
{
	autobuf struct buf all = BUF_INIT;

	for (size_t i = 0; i < json_array_size(words) && all.len <= VALUE_MAX; i++) {
		const char *s = json_string_value(json_array_get(words, i));

		buf_addf(&all, "%s%s", i ? " " : "", s ? s : "");
	}
	if (all.len)
		add_event_value(out, buf_cstr(&all));
}

/* Is the event left out? An inspected connection is left out because its requests say more; a connection that
 * is not inspected is kept, because nothing else is known of it. */
static bool is_routine_event(const char *type, const json_t *o)
{
	static const char *const always[] = { "net.up",	      "net.policy", "net.close",
					      "net.response", "exec.end",   "api.request" };
	bool allowed = !str_eq(jsonget_text(o, "decision"), "deny");

	for (size_t i = 0; i < ARRAY_SIZE(always); i++) {
		if (str_eq(type, always[i]))
			return true;
	}
	if (str_eq(type, "net.dial"))
		return json_integer_value(json_object_get(o, "status")) >= 0;
	if (str_eq(type, "net.open"))
		return allowed && str_eq(jsonget_text(o, "depth"), "inspect");
	return str_eq(type, "net.dns") && allowed;
}

static void add_event_line(struct buf *out, const json_t *o)
{
	static const char *const keys[] = { "ev",   "kind",   "tool",	"method", "host", "name",
					    "addr", "secret", "path",	"what",	  "text", "decision",
					    "ask",  "answer", "reason", "why",	  "rule" };
	json_int_t count = json_integer_value(json_object_get(o, "count"));

	buf_addf(out, "%.8s  %s", strlen(jsonget_text(o, "time")) > 19 ? jsonget_text(o, "time") + 11 : "",
		 jsonget_text(o, "type"));
	add_event_command(out, json_object_get(o, "command"));
	if (count > 1)
		buf_addf(out, "  %lld times", (long long)count);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (jsonget_text(o, keys[i])[0])
			add_event_value(out, jsonget_text(o, keys[i]));
	}
}

/* Puts the event before the lines read so far. Returns 1, or 0 for a routine event, which is left out. */
static int prepend_event(struct ask_before *b, const struct audit_record *r)
{
	json_t *o = json_loadb(r->text, r->len, 0, NULL);
	autobuf struct buf line = BUF_INIT;
	char *s = NULL;

	if (o && is_routine_event(jsonget_text(o, "type"), o)) {
		json_decref(o);
		return 0;
	}
	add_event_line(&line, o);
	json_decref(o);
	s = buf_take(&line);
	if (!s)
		return -ENOMEM;
	memmove(b->line + 1, b->line, b->n * sizeof(b->line[0]));
	b->line[0] = s;
	b->n++;
	return 1;
}

int cli_ask_before_read(const json_t *ask, const struct state *st, size_t max, struct ask_before *ret,
			struct err *e)
{
	json_int_t seq = json_integer_value(json_object_get(ask, "seq"));
	const struct audit_filter f = { .sandbox = jsonget_text(ask, "sandbox"),
					.from = seq > ASK_BEFORE_WITHIN ? (uint64_t)seq - ASK_BEFORE_WITHIN
									: 0 };
	CLEANUP(audit_back_freep) struct audit_back *back = NULL;
	CLEANUP(cli_ask_before_release) struct ask_before b = { 0 };
	struct audit_record rec;
	int r = 0;

	b.is_unknown = seq <= 0 || !f.sandbox[0];
	if (!b.is_unknown)
		r = audit_back_open(&back, st->fd, &f, (uint64_t)seq, e);
	while (back && r >= 0 && b.n < max && (r = audit_back_next(back, &rec, e)) > 0) {
		r = rec.is_event && rec.text ? prepend_event(&b, &rec) : 0;
		if (r == -ENOMEM)
			err_set(e, r, "out of memory");
	}
	if (r < 0)
		return r;
	b.is_all = !b.is_unknown && b.n < max && !f.from;
	*ret = b;
	b = (struct ask_before){ 0 };
	return 0;
}
