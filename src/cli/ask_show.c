/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask_show.h"

#include "audit/query.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *ask_text(const json_t *ask, const char *key)
{
	const char *s = json_string_value(json_object_get(ask, key));

	return s ? s : "";
}

static uint64_t number(const json_t *ask, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(ask, key));
}

static void add_safe(struct buf *out, const char *s, size_t max)
{
	size_t n = strlen(s);

	str_add_safe(out, s, n < max ? n : max, false);
	if (n > max)
		buf_adds(out, "…");
}

void ask_act(const json_t *ask, size_t max, struct buf *out)
{
	const char *host = ask_text(ask, "host"), *method = ask_text(ask, "method"),
		   *what = ask_text(ask, "what");
	bool tls = json_is_true(json_object_get(ask, "tls"));
	uint64_t port = number(ask, "port");

	if (method[0]) {
		add_safe(out, method, 32);
		buf_adds(out, tls ? " https://" : " http://");
	}
	add_safe(out, host, 255);
	if (port && (!method[0] || port != (tls ? 443 : 80)))
		buf_addf(out, ":%llu", (unsigned long long)port);
	add_safe(out, ask_text(ask, "path"), max);
	if (what[0]) {
		buf_adds(out, host[0] ? "  " : "");
		add_safe(out, what, max);
	}
}

static void line(struct buf *out, const char *label, const char *text)
{
	if (!text[0])
		return;
	buf_addf(out, "%-9s", label);
	add_safe(out, text, 4096);
	buf_addc(out, '\n');
}

/* What the agent would see if it were printed raw is not what a person should. */
static void add_preview(const json_t *ask, struct buf *out)
{
	const char *p = ask_text(ask, "preview");
	size_t len = strlen(p), shown = 0;

	if (!len)
		return;
	buf_adds(out, "preview\n");
	while (shown < len && shown < 2048) {
		size_t n = strcspn(p + shown, "\n");

		n = n > 160 ? 160 : n;
		buf_adds(out, "  | ");
		str_add_safe(out, p + shown, n, false);
		buf_addc(out, '\n');
		shown += n + (p[shown + n] == '\n');
	}
	if (number(ask, "body_len") > len)
		buf_adds(out, "  | …\n");
}

static void add_body(const json_t *ask, struct buf *out)
{
	char size[16];

	if (!ask_text(ask, "body")[0])
		return;
	buf_addf(out, "body     %s, ", str_from_size(number(ask, "body_len"), size));
	add_safe(out, ask_text(ask, "type")[0] ? ask_text(ask, "type") : "of no type", 128);
	buf_addf(out, ", sha256 %s\n", ask_text(ask, "body"));
}

static void add_who(const json_t *ask, struct state *st, struct buf *out)
{
	const char *run = ask_text(ask, "sandbox");
	CLEANUP(run_meta_release) struct run_meta m = { 0 };
	autoclose int fd =
		st ? openat(st->runs_fd, run, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;

	buf_addf(out, "who      sandbox %s", run);
	if (fd >= 0 && run_meta_read(fd, &m, NULL) == 0) {
		buf_adds(out, m.name ? " (" : "");
		add_safe(out, m.name ? m.name : "", 72);
		buf_adds(out, m.name ? "): " : ": ");
		add_safe(out, m.command ? m.command : "", 160);
	}
	buf_addc(out, '\n');
}

static void add_means(const json_t *ask, struct buf *out)
{
	const char *kind = ask_text(ask, "kind");

	if (!str_eq(ask_text(ask, "state"), "pending"))
		return;
	if (str_eq(kind, "widen")) {
		buf_adds(out,
			 "allowing --sandbox: the rule holds until this sandbox ends; --for 2h: so long\n");
		return;
	}
	buf_adds(out, "allowing once: this very request, with this body, one time\n"
		      "         --sandbox, --for 2h, --uses 3: the same");
	buf_adds(out, ask_text(ask, "method")[0] ? " method and path with any query and body" : " again");
	buf_adds(out, ", without asking\n");
}

static void add_answer(const json_t *ask, struct buf *out)
{
	const json_t *a = json_object_get(ask, "answer");
	const char *scope = ask_text(a, "scope");

	if (!json_is_object(a))
		return;
	buf_addf(out, "answer   %s%s%s by ", json_is_true(json_object_get(a, "allow")) ? "allow" : "deny",
		 scope[0] ? ", " : "", scope);
	add_safe(out, ask_text(a, "name")[0] ? ask_text(a, "name") : "somebody", 64);
	buf_addf(out, " (uid %llu, ", (unsigned long long)number(a, "uid"));
	add_safe(out, ask_text(a, "via"), 24);
	buf_addf(out, ") at %.19s", ask_text(a, "at"));
	if (ask_text(a, "reason")[0]) {
		buf_adds(out, ": ");
		add_safe(out, ask_text(a, "reason"), 256);
	}
	buf_addc(out, '\n');
}

/* ---- What it did just before. ---- */

#define BEFORE 5

struct before {
	char *line[BEFORE];
	size_t n;
};

static void keep_line(struct before *b, const struct audit_record *r)
{
	json_t *o = json_loadb(r->text, r->len, 0, NULL);
	autobuf struct buf t = BUF_INIT;
	static const char *const keys[] = { "method", "host",	  "name",   "path",
					    "what",   "decision", "answer", "rule" };

	buf_addf(&t, "%.8s  %s", strlen(ask_text(o, "time")) > 19 ? ask_text(o, "time") + 11 : "",
		 ask_text(o, "type"));
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (ask_text(o, keys[i])[0]) {
			buf_adds(&t, "  ");
			add_safe(&t, ask_text(o, keys[i]), 80);
		}
	}
	json_decref(o);
	if (b->n == BEFORE) {
		free(b->line[0]);
		memmove(b->line, b->line + 1, sizeof(b->line) - sizeof(b->line[0]));
		b->n--;
	}
	b->line[b->n] = buf_take(&t);
	b->n += b->line[b->n] != NULL;
}

static void add_before(const json_t *ask, struct state *st, struct buf *out)
{
	const struct audit_filter f = { .sandbox = ask_text(ask, "sandbox") };
	CLEANUP(audit_query_freep) struct audit_query *q = NULL;
	struct before b = { 0 };
	struct audit_record r;

	if (!f.sandbox[0] || audit_query_open(&q, st->fd, &f, NULL) < 0)
		return;
	while (audit_query_next(q, &r, NULL) == 1) {
		if (r.text && r.is_event)
			keep_line(&b, &r);
	}
	if (b.n)
		buf_adds(out, "before   what the log has last of this sandbox:\n");
	for (size_t i = 0; i < b.n; i++) {
		buf_addf(out, "  %s\n", b.line[i]);
		free(b.line[i]);
	}
}

void ask_show(const json_t *ask, struct state *st, struct buf *out)
{
	line(out, "question", ask_text(ask, "id"));
	buf_addf(out, "state    %s", ask_text(ask, "state"));
	if (ask_text(ask, "why")[0]) {
		buf_adds(out, ": ");
		add_safe(out, ask_text(ask, "why"), 256);
	}
	buf_addc(out, '\n');
	add_who(ask, st, out);
	buf_addf(out, "what     %s  ", ask_text(ask, "kind"));
	ask_act(ask, 4096, out);
	buf_addc(out, '\n');
	add_body(ask, out);
	add_preview(ask, out);
	line(out, "why", ask_text(ask, "rule"));
	line(out, "reason", ask_text(ask, "reason"));
	buf_addf(out, "asked    %.19sZ, %llu times, %llu wait", ask_text(ask, "asked"),
		 (unsigned long long)number(ask, "times"), (unsigned long long)number(ask, "waiters"));
	if (ask_text(ask, "expires")[0])
		buf_addf(out, ", until %.19sZ", ask_text(ask, "expires"));
	buf_addc(out, '\n');
	add_answer(ask, out);
	if (number(ask, "used"))
		buf_addf(out, "used     %llu times\n", (unsigned long long)number(ask, "used"));
	line(out, "digest", ask_text(ask, "digest"));
	add_means(ask, out);
	if (st)
		add_before(ask, st, out);
}

void ask_who_am_i(struct ask_who *ret, const char *via)
{
	/* The uid is what the guard knows by itself; a name is for people. */
	const char *name = getuid() == 0 ? getenv("SUDO_USER") : NULL;

	*ret = (struct ask_who){ .uid = getuid() };
	snprintf(ret->name, sizeof(ret->name), "%s",
		 name		     ? name
		 : getenv("LOGNAME") ? getenv("LOGNAME")
				     : "");
	snprintf(ret->via, sizeof(ret->via), "%s", via);
}
