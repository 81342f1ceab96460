/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the questions (ask.new) of the log for `coffer replay`, and adds those to the replay that no
 * other line of the log reports. The text of a question is parsed back into the act that it was about.
 */
#include "cli/net/replay_asks.h"

#include "base/jsonget.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct replay_ask {
	enum replay_kind kind;
	uint16_t port;
	char *key; /* "SANDBOX ID" */
	char *host, *method, *path, *what, *rule, *act;
};

static void replay_ask_release(struct replay_ask *a)
{
	free(a->key);
	free(a->host);
	free(a->method);
	free(a->path);
	free(a->what);
	free(a->rule);
	free(a->act);
}

void cli_replay_asks_release(struct replay_asks *a)
{
	for (size_t i = 0; i < a->n; i++)
		replay_ask_release(&a->v[i]);
	free(a->v);
	strv_release(&a->told);
	*a = REPLAY_ASKS_INIT;
}

/* --- from a question's text to an `act` (policy/replay/replay.h) ---------------------------------- */

static bool take_prefix(const char **p, const char *prefix)
{
	size_t n = strlen(prefix);

	if (!str_starts(*p, prefix))
		return false;
	*p += n;
	return true;
}

/* Parses "create refs/heads/a, push refs/heads/b"; a ref contains no space. */
static void add_push_act(const char *p, struct buf *act)
{
	static const struct {
		const char *word, *act;
	} of[] = { { "create ", "create:" },
		   { "push (maybe forced) ", "force:" },
		   { "push ", "update:" },
		   { "delete ", "delete:" } };

	for (bool more = true; more;) {
		size_t i = 0, len;

		while (i < ARRAY_SIZE(of) && !take_prefix(&p, of[i].word))
			i++;
		if (i == ARRAY_SIZE(of))
			return;
		len = strcspn(p, " ;");
		more = len && p[len] == ' ' && p[len - 1] == ',';
		buf_addf(act, "%s%s%.*s", act->len ? " " : "", of[i].act, (int)(len - more), p);
		p += len + more;
	}
}

/* Parses "mutation a, b (2 times); query c"; field names consist of letters, digits and _. */
static void add_graphql_act(const char *p, struct buf *act)
{
	static const char *const types[] = { "query", "mutation", "subscription" };
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

	do {
		size_t i = 0;

		while (i < ARRAY_SIZE(types) && !take_prefix(&p, types[i]))
			i++;
		if (i == ARRAY_SIZE(types) || !take_prefix(&p, " "))
			return;
		do {
			size_t len = strspn(p, letters);

			buf_addf(act, "%s%s:%.*s", act->len ? " " : "", types[i], (int)len, p);
			p += len;
			if (take_prefix(&p, " ("))
				p += strcspn(p, ")") + (strchr(p, ')') != NULL);
		} while (take_prefix(&p, ", "));
	} while (take_prefix(&p, "; "));
}

/* --- ask.new ----------------------------------------------------------------------------------------------------------- */

static bool read_question_kind(const char *name, struct replay_ask *a, struct buf *act, const char *what)
{
	static const struct {
		const char *name;
		enum replay_kind kind;
	} of[] = { { "connect", REPLAY_CONNECT }, { "request", REPLAY_REQUEST },
		   { "graphql", REPLAY_REQUEST }, { "git", REPLAY_REQUEST },
		   { "secret", REPLAY_SECRET },	  { "tool", REPLAY_TOOL },
		   { "apply", REPLAY_APPLY } };

	for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
		if (!str_eq(name, of[i].name))
			continue;
		a->kind = of[i].kind;
		if (str_eq(name, "graphql"))
			add_graphql_act(what, act);
		else if (str_eq(name, "git"))
			add_push_act(what, act);
		return true;
	}
	return false;
}

/* The subject: for a tool its name, without the conditions that caused the question. */
static char *question_subject(enum replay_kind kind, const char *what)
{
	return kind == REPLAY_TOOL     ? strndup(what, strcspn(what, " "))
	       : kind == REPLAY_SECRET ? strdup(what)
				       : strdup("");
}

/*
 * ask.new has no query. Where a query would decide (git's info/refs), a "?" says that there may have been
 * one.
 */
static char *question_path(const json_t *event)
{
	const char *path = jsonget_text(event, "path");
	char *s = NULL;

	return asprintf(&s, "%s%s", path, str_ends(path, "/info/refs") ? "?" : "") < 0 ? NULL : s;
}

static char *question_key(const char *sandbox, const char *id, size_t len)
{
	char *s = NULL;

	return asprintf(&s, "%s %.*s", sandbox, (int)len, id) < 0 ? NULL : s;
}

int cli_replay_asks_add(struct replay_asks *l, const char *sandbox, const json_t *event)
{
	const char *what = jsonget_text(event, "what"), *id = jsonget_text(event, "ask");
	json_int_t port = json_integer_value(json_object_get(event, "port"));
	struct replay_ask a = { .port = port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0 };
	autobuf struct buf act = BUF_INIT;

	if (!*id || !read_question_kind(jsonget_text(event, "kind"), &a, &act, what))
		return 0;
	if (VEC_MORE(l->v, l->n, VEC_NO_MAX) < 0)
		return -ENOMEM;
	a.key = question_key(sandbox, id, strlen(id));
	a.host = strdup(jsonget_text(event, "host"));
	a.method = strdup(jsonget_text(event, "method"));
	a.path = question_path(event);
	a.what = question_subject(a.kind, what);
	a.rule = strdup(jsonget_text(event, "rule"));
	a.act = strdup(buf_cstr(&act));
	l->v[l->n++] = a;
	return a.key && a.host && a.method && a.path && a.what && a.rule && a.act && !buf_error(&act)
		       ? 0
		       : -ENOMEM;
}

int cli_replay_asks_told(struct replay_asks *a, const char *sandbox, const char *ids)
{
	while (ids && *ids) {
		size_t len = strcspn(ids, ",");
		autofree char *key = question_key(sandbox, ids, len);

		if (!key || strv_add(&a->told, key) < 0)
			return -ENOMEM;
		ids += len + (ids[len] == ',');
	}
	return 0;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int cli_replay_asks_flush(struct replay_asks *l, struct replay *re)
{
	int r = 0;

	if (l->told.n)
		qsort(l->told.v, l->told.n, sizeof(*l->told.v), compare_texts);
	for (size_t i = 0; r == 0 && i < l->n; i++) {
		const struct replay_ask *a = &l->v[i];
		/* `coffer apply --ask` was asked at the caller's wish; the policy had allowed it. */
		const bool by_policy = a->kind != REPLAY_APPLY || str_starts(a->rule, "apply:");
		const struct replay_seen s = { .kind = a->kind,
					       .was = by_policy ? POLICY_ASK : POLICY_ALLOW,
					       .host = a->host,
					       .port = a->port,
					       .rule = a->rule,
					       .method = a->method,
					       .path = a->path,
					       .act = a->act,
					       .what = a->what,
					       .secrets = a->kind == REPLAY_SECRET ? a->what : "",
					       .count = 1 };

		if (!l->told.n || !bsearch(&a->key, l->told.v, l->told.n, sizeof(*l->told.v), compare_texts))
			r = replay_add(re, &s);
	}
	return r;
}
