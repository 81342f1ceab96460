/* SPDX-License-Identifier: Apache-2.0 */
#include "notify/askpost.h"

#include "base/cleanup.h"
#include "base/jsonget.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

#define LINES_MAX 8

/* --- words (T3) --------------------------------------------------------------------------------------------------- */

/* "PUT https://api.github.com/repos/o/r", "api.example.com:443", a title. */
static void add_act(const json_t *ask, struct buf *b)
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

/* What the body does; what is said of headers comes behind it. */
static void add_what(const json_t *ask, struct buf *b)
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

struct words {
	struct buf text[LINES_MAX];
	const char *lines[LINES_MAX];
	size_t n;
};

static void words_release(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		buf_release(&w->text[i]);
}

static void add_line(struct words *w, const char *label, const char *text)
{
	if (!*text || w->n == LINES_MAX)
		return;
	buf_addf(&w->text[w->n], "%s%s", label, text);
	w->lines[w->n] = buf_cstr(&w->text[w->n]);
	w->n++;
}

static void add_body(struct words *w, const json_t *ask)
{
	autobuf struct buf b = BUF_INIT;
	char size[16];

	if (!*jsonget_text(ask, "body"))
		return;
	buf_addf(&b, "%s, %.64s, sha256 %.64s", str_from_size(jsonget_u64(ask, "body_len"), size),
		 *jsonget_text(ask, "type") ? jsonget_text(ask, "type") : "of no type",
		 jsonget_text(ask, "body"));
	add_line(w, "body: ", buf_cstr(&b));
}

static void add_who(const struct askpost *p, struct buf *b)
{
	buf_adds(b, p->name ? p->name : p->sandbox);
}

static void answer_of(const struct askpost *p, const char *id, struct buf *b)
{
	size_t n = p->ui ? strlen(p->ui) : 0;

	if (n)
		buf_addf(b, "%s%s#/asks", p->ui, p->ui[n - 1] == '/' ? "" : "/");
	else if (id)
		buf_addf(b, "coffer approve %s", id);
	else
		buf_adds(b, "coffer ask ls");
}

static void say_new(const struct askpost *p, const json_t *ask)
{
	autobuf struct buf title = BUF_INIT, what = BUF_INIT, answer = BUF_INIT;
	CLEANUP(words_release) struct words w = { 0 };
	struct notify_event ev = {
		.type = "ask.new", .sandbox = p->sandbox, .ask = jsonget_text(ask, "id"), .lines = w.lines
	};

	add_who(p, &title);
	buf_addf(&title, " asks (%s): ", jsonget_text(ask, "kind"));
	add_act(ask, &title);
	add_what(ask, &what);
	if (!*jsonget_text(ask, "host"))
		buf_adds(&title, buf_cstr(&what));
	else
		add_line(&w, "does: ", buf_cstr(&what));
	add_line(&w, "by the rule: ", jsonget_text(ask, "rule"));
	add_line(&w, "its own words: ", jsonget_text(ask, "reason"));
	add_body(&w, ask);
	add_line(&w, "denied unless answered by ", jsonget_text(ask, "expires"));
	add_line(&w, "question ", jsonget_text(ask, "id"));
	answer_of(p, jsonget_text(ask, "id"), &answer);
	ev.title = buf_cstr(&title);
	ev.n_lines = w.n;
	ev.answer = buf_cstr(&answer);
	p->post(p->ctx, &ev);
}

static void say_over(const struct askpost *p, const json_t *ask)
{
	const json_t *n = json_object_get(ask, "answer");
	autobuf struct buf title = BUF_INIT;
	CLEANUP(words_release) struct words w = { 0 };
	struct notify_event ev = {
		.type = "ask.over", .sandbox = p->sandbox, .ask = jsonget_text(ask, "id"), .lines = w.lines
	};

	buf_addf(&title, "%s is over: ", jsonget_text(ask, "id"));
	if (json_is_object(n)) {
		bool allow = json_is_true(json_object_get(n, "allow"));

		buf_addf(&title, "%s%s%s by %s", allow ? "allowed" : "denied", allow ? ", " : "",
			 jsonget_text(n, "scope"),
			 *jsonget_text(n, "name") ? jsonget_text(n, "name") : "somebody");
		add_line(&w, "because: ", jsonget_text(n, "reason"));
	} else {
		buf_addf(&title, "%s", jsonget_text(ask, "state"));
		add_line(&w, "", jsonget_text(ask, "why"));
	}
	ev.title = buf_cstr(&title);
	ev.n_lines = w.n;
	p->post(p->ctx, &ev);
}

static void say_more(struct askpost *p)
{
	autobuf struct buf title = BUF_INIT, answer = BUF_INIT;
	struct notify_event ev = { .type = "ask.more", .sandbox = p->sandbox };

	add_who(p, &title);
	buf_addf(&title, " asks more: %llu question%s beyond those that you were told of",
		 (unsigned long long)p->more, p->more == 1 ? "" : "s");
	answer_of(p, NULL, &answer);
	ev.title = buf_cstr(&title);
	ev.answer = buf_cstr(&answer);
	p->more = 0;
	p->post(p->ctx, &ev);
}

/* --- how often ---------------------------------------------------------------------------------------------------- */

/* T4 */
static uint64_t window_of(const struct askpost *p)
{
	unsigned n = p->expired / ASKPOST_FEW;

	return ASKPOST_WINDOW << (n < ASKPOST_DOUBLED ? n : ASKPOST_DOUBLED);
}

uint64_t askpost_tick(struct askpost *p, uint64_t now)
{
	if (p->window && now - p->window >= window_of(p)) {
		/* Who goes on is told of at the end of the next one. */
		p->window = p->more ? now : 0;
		p->told = 0;
		if (p->more) {
			p->told = ASKPOST_FEW;
			p->expired += ASKPOST_FEW;
			say_more(p);
		}
	}
	return p->more ? p->window + window_of(p) : 0;
}

static void take_new(struct askpost *p, uint64_t now, const json_t *ask, uint64_t number)
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
	say_new(p, ask);
}

/* T4: told of what was kept back, and of each again if the usual time has passed. */
static void somebody_is_there(struct askpost *p, uint64_t now)
{
	p->expired = 0;
	if (!p->window || now - p->window < ASKPOST_WINDOW)
		return;
	if (p->more)
		say_more(p);
	p->window = 0;
}

void askpost_take(struct askpost *p, uint64_t now, const json_t *ask)
{
	uint64_t number = jsonget_u64(ask, "number");
	bool waits = str_eq(jsonget_text(ask, "state"), "pending");

	snprintf(p->sandbox, sizeof(p->sandbox), "%s", jsonget_text(ask, "sandbox"));
	if (waits) {
		if (number > p->last)
			take_new(p, now, ask, number);
		return;
	}
	if (json_is_object(json_object_get(ask, "answer")))
		somebody_is_there(p, now);
	for (size_t i = 0; i < p->n_open; i++) {
		if (p->open[i] != number)
			continue;
		p->open[i] = p->open[--p->n_open];
		p->expired += str_eq(jsonget_text(ask, "state"), "expired");
		say_over(p, ask);
		return;
	}
}

void askpost_end(struct askpost *p)
{
	if (p->more)
		say_more(p);
}
