/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the facts of http_act.h. A name with a space, or one too long, is not written: the text is marked as
 * cut instead.
 */
#include "egress/exchange/http_act.h"

#include "egress/exchange/http_head.h"
#include "policy/replay/replay.h"

#include <stdio.h>

#define ALSO_LOGGED 240 /* bytes of a second path */
#define LINE_REST 64	/* of a line, for the rest of the JSON */

static bool act_is_cut(const struct buf *b)
{
	const size_t cut = sizeof(" " REPLAY_ACT_CUT) - 1;

	return buf_error(b) ||
	       (b->len >= cut && memcmp(b->data + b->len - cut, " " REPLAY_ACT_CUT, cut) == 0);
}

/* Adds one word, or the mark that some are missing. */
static void act_add_word(struct buf *b, size_t max, const char *what, struct slice name)
{
	const size_t cut = sizeof(" " REPLAY_ACT_CUT) - 1;
	size_t end = b->len, n = strlen(what) + name.len + (end != 0);

	if (act_is_cut(b))
		return;
	if (end + n + cut > max || memchr(name.p ? name.p : "", ' ', name.len)) {
		buf_adds(b, " " REPLAY_ACT_CUT);
		return;
	}
	if (end)
		buf_addc(b, ' ');
	buf_adds(b, what);
	buf_add(b, name.p, name.len);
}

static void act_add_document(struct buf *b, const struct graphql_doc *g)
{
	const struct graphql_op *op = &g->ops[g->selected];
	char what[24];

	snprintf(what, sizeof(what), "%s:", graphql_type_name(op->type));
	for (unsigned i = 0; i < op->n_fields; i++)
		act_add_word(b, REPLAY_ACT_MAX, what, g->fields[op->first_field + i]);
}

static const char *act_push_word(enum policy_push_act act)
{
	return act == POLICY_PUSH_CREATE   ? "create:"
	       : act == POLICY_PUSH_DELETE ? "delete:"
	       : act == POLICY_PUSH_UPDATE ? "update:"
					   : "force:";
}

void http_act_body(struct exch *e, const struct policy_request *q)
{
	for (size_t i = 0; i < q->n_gql; i++)
		act_add_document(&e->act, q->gql[i]);
	for (size_t i = 0; i < q->n_push; i++)
		act_add_word(&e->act, REPLAY_ACT_MAX, act_push_word(q->push[i].act), q->push[i].ref);
	if (q->n_gql == 0 && q->n_push == 0)
		act_add_word(&e->act, REPLAY_ACT_MAX, "push:none", SLICE_NONE);
}

void http_act_also(struct exch *e, const char *method, struct slice path)
{
	char what[EXCH_METHOD_MAX + 8];
	autobuf struct buf text = BUF_INIT;

	snprintf(what, sizeof(what), "also:%s:", method);
	http_path_log(&text, path, ALSO_LOGGED);
	act_add_word(&e->act, REPLAY_ACT_MAX, what, (struct slice){ text.data, text.len });
	if (buf_error(&text))
		e->act.error = buf_error(&text);
}

/* The journal has only digests of query values, but this value decides. */
static void act_add_git_service(struct buf *b, size_t max, const struct exch *e)
{
	struct slice path = urlpath_path(&e->req.target, &e->req.url);
	enum gitpkt_service service;

	if (!e->req.url.path_len || !e->req.url.has_query ||
	    gitpkt_service(path, SLICE_NONE, NULL) != GITPKT_DUMB)
		return;
	service = gitpkt_service(path, urlpath_query(&e->req.target, &e->req.url), NULL);
	act_add_word(b, max,
		     service == GITPKT_REFS_PUSH    ? "refs:push"
		     : service == GITPKT_REFS_FETCH ? "refs:fetch"
						    : "refs:none",
		     SLICE_NONE);
}

void http_act_key(const struct exch *e, struct seen *key)
{
	autobuf struct buf service = BUF_INIT;

	act_add_git_service(&service, REPLAY_ACT_MAX, e);
	seen_add(key, service.data, service.len);
	seen_add(key, e->act.data, e->act.len);
	/* A fact of which the text has only a digest makes the key unique. */
	if (act_is_cut(&e->act) || buf_error(&service) ||
	    memchr(e->act.data ? e->act.data : "", '#', e->act.len))
		seen_add(key, &e->id, sizeof(e->id));
}

void http_act_log(const struct exch *e, const struct journal *j, struct json *l)
{
	size_t used = j->pending.len - j->start;
	size_t room = used + LINE_REST < JOURNAL_LINE_MAX ? JOURNAL_LINE_MAX - used - LINE_REST : 0;
	autobuf struct buf b = BUF_INIT;

	room = room < REPLAY_ACT_MAX ? room : REPLAY_ACT_MAX;
	act_add_git_service(&b, room, e);
	if (e->act.len && b.len + e->act.len + 1 <= room) {
		buf_addc(&b, ' ');
		buf_add(&b, e->act.data, e->act.len);
	} else if (e->act.len) {
		buf_adds(&b, " " REPLAY_ACT_CUT);
	}
	if (buf_error(&b) || buf_error(&e->act))
		json_str(l, "act", REPLAY_ACT_CUT);
	else if (b.len)
		journal_str(l, "act", buf_cstr(&b) + (b.data[0] == ' '), REPLAY_ACT_MAX);
}
