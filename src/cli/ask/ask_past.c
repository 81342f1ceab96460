/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebuilds the questions of removed sandboxes from the audit log. The log is read from its end, so the
 * first event found for a question is its last one and tells its final state; earlier events add the
 * details. At most ASK_PAST_MAX questions are kept.
 */
#include "cli/ask/ask_past.h"

#include "audit/query.h"
#include "base/cleanup.h"
#include "base/jsonget.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct past_ask {
	json_t *ask;
	size_t run; /* index into past.gone: 0 is the newest sandbox */
	json_int_t number;
	bool is_whole; /* its ask.new was found; without it the question is not listed */
};

struct past {
	struct past_ask v[ASK_PAST_MAX];
	size_t n;
	struct strv gone; /* ids of removed sandboxes, newest first */
};

/*
 * The final state that the last event of a question implies: the asker and its ask server no longer exist.
 */
static const char *state_after_event(const json_t *event)
{
	static const struct {
		const char *type, *state;
	} known[] = { { "ask.new", "gone" },	   { "ask.use", "spent" },    { "ask.unused", "lapsed" },
		      { "ask.expire", "expired" }, { "ask.gone", "gone" },    { "ask.lapse", "lapsed" },
		      { "ask.revoke", "lapsed" },  { "ask.answer", "lapsed" } };
	const char *type = jsonget_text(event, "type");

	if (str_eq(type, "ask.answer") && str_eq(jsonget_text(event, "answer"), "deny"))
		return "denied";
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (str_eq(type, known[i].type))
			return known[i].state;
	}
	return NULL;
}

/* The sandbox's index in p->gone, added where it is new. -ENOENT: the sandbox still exists; -ENOMEM. */
static long gone_sandbox_index(struct past *p, const struct state *st, const char *sandbox)
{
	for (size_t i = p->gone.n; i-- > 0;) {
		if (str_eq(p->gone.v[i], sandbox))
			return (long)i;
	}
	/*
	 * This test comes after the event was read, so a sandbox that starts meanwhile counts as existing.
	 */
	if (!sandbox[0] || faccessat(st->runs_fd, sandbox, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -ENOENT;
	return strv_add(&p->gone, sandbox) < 0 ? -ENOMEM : (long)p->gone.n - 1;
}

static struct past_ask *past_find(struct past *p, const char *sandbox, const char *id)
{
	for (size_t i = p->n; i-- > 0;) {
		if (str_eq(jsonget_text(p->v[i].ask, "id"), id) &&
		    str_eq(jsonget_text(p->v[i].ask, "sandbox"), sandbox))
			return &p->v[i];
	}
	return NULL;
}

static int past_set_text(json_t *ask, const char *key, const char *s)
{
	return s[0] ? json_object_set_new(ask, key, json_string(s)) : 0;
}

/*
 * Adds a question, from its newest event, which tells its final state. NULL: no room, no memory, or a
 * malformed id.
 */
static struct past_ask *past_add(struct past *p, size_t run, const json_t *event, const char *state)
{
	const char *id = jsonget_text(event, "ask"), *dash = strchr(id, '-');
	struct past_ask *a;
	uint64_t number;

	if (p->n == ASK_PAST_MAX || !dash || str_to_u64(dash + 1, &number) < 0 || number > LINE_SEQ_MAX)
		return NULL;
	a = &p->v[p->n];
	*a = (struct past_ask){ .ask = json_object(), .run = run, .number = (json_int_t)number };
	if (past_set_text(a->ask, "id", id) < 0 ||
	    past_set_text(a->ask, "sandbox", jsonget_text(event, "sandbox")) < 0 ||
	    json_object_set_new(a->ask, "number", json_integer(a->number)) < 0 ||
	    past_set_text(a->ask, "state", state) < 0 ||
	    past_set_text(a->ask, "why", jsonget_text(event, "why")) < 0) {
		json_decref(a->ask);
		return NULL;
	}
	p->n++;
	return a;
}

static int past_set_answer(json_t *ask, const json_t *event)
{
	json_t *n = json_object();
	int r = json_object_set_new(n, "allow", json_boolean(str_eq(jsonget_text(event, "answer"), "allow")));

	r = r < 0 ? r : past_set_text(n, "scope", jsonget_text(event, "scope"));
	r = r < 0 ? r : past_set_text(n, "reason", jsonget_text(event, "reason"));
	r = r < 0 ? r : past_set_text(n, "name", jsonget_text(event, "who"));
	r = r < 0 ? r : past_set_text(n, "via", jsonget_text(event, "via"));
	r = r < 0 ? r : past_set_text(n, "at", jsonget_text(event, "time"));
	if (r == 0 && json_object_get(event, "uid"))
		r = json_object_set(n, "uid", json_object_get(event, "uid"));
	return json_object_set_new(ask, "answer", n) < 0 || r < 0 ? -ENOMEM : 0;
}

static int past_set_question(struct past_ask *a, json_t *event)
{
	static const char *const keys[] = {
		"seq",	"kind", "host",	    "port", "tls",    "method", "path",
		"what", "body", "body_len", "rule", "reason", "by",	"digest"
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		json_t *v = json_object_get(event, keys[i]);

		if (v && json_object_set(a->ask, keys[i], v) < 0)
			return -ENOMEM;
	}
	a->is_whole = true;
	return past_set_text(a->ask, "asked", jsonget_text(event, "time"));
}

/*
 * Adds one event of the log to the question that it is about. 1: ASK_PAST_MAX questions are kept already.
 */
static int past_take_event(struct past *p, const struct state *st, json_t *event)
{
	const char *state = state_after_event(event), *type = jsonget_text(event, "type");
	long run = state ? gone_sandbox_index(p, st, jsonget_text(event, "sandbox")) : -ENOENT;
	struct past_ask *a;
	json_int_t used;

	if (run < 0)
		return run == -ENOMEM ? -ENOMEM : 0;
	a = past_find(p, jsonget_text(event, "sandbox"), jsonget_text(event, "ask"));
	a = a ? a : past_add(p, (size_t)run, event, state);
	if (!a)
		return p->n == ASK_PAST_MAX;
	if (str_eq(type, "ask.new"))
		return past_set_question(a, event);
	if (str_eq(type, "ask.answer"))
		return past_set_answer(a->ask, event);
	used = json_integer_value(json_object_get(event, "use"));
	if (used > json_integer_value(json_object_get(a->ask, "used")))
		return json_object_set_new(a->ask, "used", json_integer(used));
	return 0;
}

static int compare_run_and_number(const void *a, const void *b)
{
	const struct past_ask *x = a, *y = b;

	if (x->run != y->run)
		return x->run < y->run ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static int past_read_log(struct past *p, const struct state *st, bool *ret_more, struct err *e)
{
	CLEANUP(audit_back_freep) struct audit_back *back = NULL;
	struct audit_filter f = { .type = "ask" };
	struct audit_record rec;
	uint64_t last = 0;
	int r = audit_last_seq(st->fd, &last, e);

	f.from = last > ASK_PAST_WITHIN ? last - ASK_PAST_WITHIN : 0;
	*ret_more = f.from > 0;
	r = r < 0 ? r : audit_back_open(&back, st->fd, &f, UINT64_MAX, e);
	while (r >= 0 && (r = audit_back_next(back, &rec, e)) > 0) {
		json_t *event = rec.is_event && rec.text ? json_loadb(rec.text, rec.len, 0, NULL) : NULL;

		r = event ? past_take_event(p, st, event) : 0;
		json_decref(event);
		if (r == 1) {
			*ret_more = true;
			return 0;
		}
		if (r < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	return r;
}

int cli_ask_past(const struct state *st, askc_fn *fn, void *ctx, bool *ret_more, struct err *e)
{
	struct past *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_set(e, -ENOMEM, "out of memory");
	r = past_read_log(p, st, ret_more, e);
	if (r == 0)
		qsort(p->v, p->n, sizeof(p->v[0]), compare_run_and_number);
	for (size_t i = 0; i < p->n; i++) {
		if (r == 0 && p->v[i].is_whole)
			r = fn(ctx, p->v[i].ask);
		json_decref(p->v[i].ask);
	}
	strv_release(&p->gone);
	free(p);
	return r;
}
