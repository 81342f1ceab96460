/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications about asks (askpost.h): their texts, and the rate limit that protects people from a flood.
 * Sends nothing itself.
 */
#include "notify/askpost.h"

#include "base/cleanup.h"
#include "base/jsonget.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

#define LINES_MAX 8

/* --- texts (askpost.T3) --------------------------------------------------------------------------------- */

/* "PUT https://api.github.com/repos/o/r", "api.example.com:443", a title. */
static void add_ask_act(const json_t *ask, struct buf *b)
{
	const char *method = jsonget_text(ask, "method"), *host = jsonget_text(ask, "host"),
		   *path = jsonget_text(ask, "path");
	bool tls = json_is_true(json_object_get(ask, "tls"));
	uint64_t port = jsonget_u64(ask, "port");

	if (*method)
		buf_addf(b, "%s %s://", method, tls ? "https" : "http");
	buf_adds(b, host);
	if (port && (!*method || port != (tls ? 443 : 80)))
		buf_addf(b, ":%llu", (unsigned long long)port);
	buf_add(b, path, strcspn(path, "?"));
	if (strchr(path, '?'))
		buf_adds(b, "?...");
}

/* Adds the acts of the body, without the headers that follow them in `what`. */
static void add_body_act(const json_t *ask, struct buf *b)
{
	const char *what = jsonget_text(ask, "what");
	bool has_headers = *jsonget_text(ask, "method");

	while (*what) {
		size_t n = has_headers ? strcspn(what, ";") : strlen(what);

		if (has_headers && (memmem(what, n, ": ", 2) || str_starts(what, "headers ")))
			return;
		buf_adds(b, b->len ? "; " : "");
		buf_add(b, what, n);
		what += n;
		what += strspn(what, "; ");
	}
}

struct message_lines {
	struct buf text[LINES_MAX];
	const char *lines[LINES_MAX];
	size_t n;
};

static void message_lines_release(struct message_lines *w)
{
	for (size_t i = 0; i < w->n; i++)
		buf_release(&w->text[i]);
}

static void add_labelled_line(struct message_lines *w, const char *label, const char *text)
{
	if (!*text || w->n == LINES_MAX)
		return;
	buf_addf(&w->text[w->n], "%s%s", label, text);
	w->lines[w->n] = buf_cstr(&w->text[w->n]);
	w->n++;
}

static void add_body_line(struct message_lines *w, const json_t *ask)
{
	autobuf struct buf b = BUF_INIT;
	char size[16];

	if (!*jsonget_text(ask, "body"))
		return;
	buf_addf(&b, "%s, %.64s, sha256 %.64s", str_from_size(jsonget_u64(ask, "body_len"), size),
		 *jsonget_text(ask, "type") ? jsonget_text(ask, "type") : "of no type",
		 jsonget_text(ask, "body"));
	add_labelled_line(w, "body: ", buf_cstr(&b));
}

static void add_sandbox_name(const struct askpost *p, struct buf *b)
{
	buf_adds(b, p->name ? p->name : p->sandbox);
}

static void add_how_to_answer(const struct askpost *p, const char *id, struct buf *b)
{
	size_t n = p->ui ? strlen(p->ui) : 0;

	if (n)
		buf_addf(b, "%s%s#/asks", p->ui, p->ui[n - 1] == '/' ? "" : "/");
	else if (id)
		buf_addf(b, "coffer approve %s", id);
	else
		buf_adds(b, "coffer ask ls");
}

static void post_new_ask(const struct askpost *p, const json_t *ask)
{
	autobuf struct buf title = BUF_INIT, what = BUF_INIT, answer = BUF_INIT;
	CLEANUP(message_lines_release) struct message_lines w = { 0 };
	struct notify_event ev = {
		.type = "ask.new", .sandbox = p->sandbox, .ask = jsonget_text(ask, "id"), .lines = w.lines
	};

	add_sandbox_name(p, &title);
	buf_addf(&title, " asks (%s): ", jsonget_text(ask, "kind"));
	add_ask_act(ask, &title);
	add_body_act(ask, &what);
	if (!*jsonget_text(ask, "host"))
		buf_adds(&title, buf_cstr(&what));
	else
		add_labelled_line(
			&w, *jsonget_text(ask, "method") ? "request body: " : "with: ", buf_cstr(&what));
	add_labelled_line(&w, "by the rule: ", jsonget_text(ask, "rule"));
	add_labelled_line(&w, "reason given by the asker: ", jsonget_text(ask, "reason"));
	add_body_line(&w, ask);
	add_labelled_line(&w, "denied unless answered by ", jsonget_text(ask, "expires"));
	add_labelled_line(&w, "question ", jsonget_text(ask, "id"));
	add_how_to_answer(p, jsonget_text(ask, "id"), &answer);
	ev.title = buf_cstr(&title);
	ev.n_lines = w.n;
	ev.answer = buf_cstr(&answer);
	p->post(p->ctx, &ev);
}

static void post_ask_ended(const struct askpost *p, const json_t *ask)
{
	const json_t *n = json_object_get(ask, "answer");
	autobuf struct buf title = BUF_INIT;
	CLEANUP(message_lines_release) struct message_lines w = { 0 };
	struct notify_event ev = {
		.type = "ask.over", .sandbox = p->sandbox, .ask = jsonget_text(ask, "id"), .lines = w.lines
	};

	buf_addf(&title, "%s is over: ", jsonget_text(ask, "id"));
	if (json_is_object(n)) {
		bool allow = json_is_true(json_object_get(n, "allow"));

		buf_addf(&title, "%s%s%s by %s", allow ? "allowed" : "denied", allow ? ", " : "",
			 jsonget_text(n, "scope"),
			 *jsonget_text(n, "name") ? jsonget_text(n, "name") : "somebody");
		add_labelled_line(&w, "because: ", jsonget_text(n, "reason"));
	} else {
		buf_addf(&title, "%s", jsonget_text(ask, "state"));
		add_labelled_line(&w, "", jsonget_text(ask, "why"));
	}
	ev.title = buf_cstr(&title);
	ev.n_lines = w.n;
	p->post(p->ctx, &ev);
}

static void post_count(struct askpost *p)
{
	autobuf struct buf title = BUF_INIT, answer = BUF_INIT;
	struct notify_event ev = { .type = "ask.more", .sandbox = p->sandbox };

	add_sandbox_name(p, &title);
	buf_addf(&title, " asks more: %llu question%s beyond those that you were told of",
		 (unsigned long long)p->more, p->more == 1 ? "" : "s");
	add_how_to_answer(p, NULL, &answer);
	ev.title = buf_cstr(&title);
	ev.answer = buf_cstr(&answer);
	p->more = 0;
	p->post(p->ctx, &ev);
}

/* --- rate limit ----------------------------------------------------------------------------------------- */

/* askpost.T4: the window grows while nobody answers. */
static uint64_t current_window(const struct askpost *p)
{
	unsigned n = p->expired / ASKPOST_FEW;

	return ASKPOST_WINDOW << (n < ASKPOST_DOUBLED ? n : ASKPOST_DOUBLED);
}

uint64_t askpost_tick(struct askpost *p, uint64_t now)
{
	if (p->window && now - p->window >= current_window(p)) {
		/* If more asks come, the next window announces their number at its end. */
		p->window = p->more ? now : 0;
		p->told = 0;
		if (p->more) {
			p->told = ASKPOST_FEW;
			p->expired += ASKPOST_FEW;
			post_count(p);
		}
	}
	return p->more ? p->window + current_window(p) : 0;
}

static void take_pending_ask(struct askpost *p, uint64_t now, const json_t *ask, uint64_t number)
{
	(void)askpost_tick(p, now);
	p->last = number;
	if (!p->window) {
		p->window = now ? now : 1;
		p->told = 0;
	}
	if (p->told >= ASKPOST_FEW || p->n_open == ASKPOST_KEPT) {
		p->more++;
		return;
	}
	p->told++;
	p->open[p->n_open++] = number;
	post_new_ask(p, ask);
}

/* askpost.T4: announces the number of asks held back, and allows single ones again if the normal window has
 * passed. */
static void note_person_answered(struct askpost *p, uint64_t now)
{
	p->expired = 0;
	if (!p->window || now - p->window < ASKPOST_WINDOW)
		return;
	if (p->more)
		post_count(p);
	p->window = 0;
}

void askpost_take(struct askpost *p, uint64_t now, const json_t *ask)
{
	uint64_t number = jsonget_u64(ask, "number");
	bool waits = str_eq(jsonget_text(ask, "state"), "pending");

	snprintf(p->sandbox, sizeof(p->sandbox), "%s", jsonget_text(ask, "sandbox"));
	if (waits) {
		if (number > p->last)
			take_pending_ask(p, now, ask, number);
		return;
	}
	if (json_is_object(json_object_get(ask, "answer")))
		note_person_answered(p, now);
	for (size_t i = 0; i < p->n_open; i++) {
		if (p->open[i] != number)
			continue;
		p->open[i] = p->open[--p->n_open];
		p->expired += str_eq(jsonget_text(ask, "state"), "expired");
		post_ask_ended(p, ask);
		return;
	}
}

void askpost_end(struct askpost *p)
{
	if (p->more)
		post_count(p);
}
