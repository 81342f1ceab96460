/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask_show.h"

#include "audit/query.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/say.h"
#include "codec/termrows.h"
#include "gateway/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
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

unsigned ask_cols(int fd)
{
	unsigned rows, cols;

	tty_size(fd, &rows, &cols);
	return termrows_cols(cols);
}

/* ---- One line. ---- */

static void add_cut(struct buf *out, const char *s, size_t max)
{
	size_t n = strlen(s);

	buf_add(out, s, n < max ? n : max);
	if (n > max)
		buf_adds(out, "…");
}

/* Where it goes to, without what it carries. */
static void add_target(const json_t *ask, size_t max, struct buf *out)
{
	const char *method = ask_text(ask, "method");
	bool tls = json_is_true(json_object_get(ask, "tls"));
	uint64_t port = number(ask, "port");

	if (method[0]) {
		add_cut(out, method, 32);
		buf_adds(out, tls ? " https://" : " http://");
	}
	add_cut(out, ask_text(ask, "host"), 255);
	if (port && (!method[0] || port != (tls ? 443 : 80)))
		buf_addf(out, ":%llu", (unsigned long long)port);
	add_cut(out, ask_text(ask, "path"), max);
}

void ask_act(const json_t *ask, size_t max, struct buf *out)
{
	autobuf struct buf raw = BUF_INIT;

	add_target(ask, max, &raw);
	if (ask_text(ask, "what")[0]) {
		buf_adds(&raw, raw.len ? "  " : "");
		add_cut(&raw, ask_text(ask, "what"), max);
	}
	termrows_plain(out, buf_cstr(&raw), raw.len);
}

/* ---- Rows. ---- */

struct form {
	struct buf *out;
	unsigned cols;
	size_t preview_rows;
	bool brief; /* for who answers at once, on a screen */
};

static void row(const struct form *f, const char *label, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void row(const struct form *f, const char *label, const char *fmt, ...)
{
	autobuf struct buf text = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vaddf(&text, fmt, ap);
	va_end(ap);
	termrows_add(f->out, f->cols, label, buf_cstr(&text));
	if (buf_error(&text))
		f->out->error = buf_error(&text);
}

/* No more than its first row. */
static void keep_row(const struct form *f, size_t before)
{
	static const char more[] = "…";
	size_t len, n;

	if (buf_error(f->out) || termrows_count(f->out->data + before) < 2)
		return;
	len = strcspn(f->out->data + before, "\n");
	n = termrows_fit(f->out->data + before, len - strlen(more));
	f->out->len = before + n;
	buf_adds(f->out, more);
	buf_addc(f->out, '\n');
}

/*
 * What a request carries beside its target stands apart: its words are the agent's. For other kinds these words are what is asked
 * for.
 */
static bool is_apart(const json_t *ask)
{
	return ask_text(ask, "method")[0] && ask_text(ask, "what")[0];
}

static void add_with(const json_t *ask, const struct form *f)
{
	if (is_apart(ask))
		row(f, "with", "%s", ask_text(ask, "what"));
}

static void add_what(const json_t *ask, const struct form *f)
{
	autobuf struct buf raw = BUF_INIT;

	add_target(ask, ASK_PATH_MAX, &raw);
	if (!is_apart(ask) && ask_text(ask, "what")[0])
		buf_addf(&raw, "%s%s", raw.len ? "  " : "", ask_text(ask, "what"));
	row(f, "what", "%s  %s", ask_text(ask, "kind"), buf_cstr(&raw));
	if (buf_error(&raw))
		f->out->error = buf_error(&raw);
}

/* A NUL, or what is no UTF-8, stands in it as three bytes. */
#define PREVIEW_SHOWN (3UL * ASK_PREVIEW_MAX)

/* Is there more of the body than the preview has? */
static bool is_preview_cut(const json_t *ask, size_t len)
{
	uint64_t bytes = number(ask, "preview_bytes");

	return number(ask, "body_len") > (bytes ? bytes : len);
}

/* What the agent would see if it were printed raw is not what a person should. Says whether rows were left out. */
static bool add_preview(const json_t *ask, const struct form *f)
{
	const char *p = ask_text(ask, "preview");
	size_t len = strlen(p), left_out;

	if (!len)
		return false;
	buf_adds(f->out, "preview\n");
	left_out = termrows_lines(f->out, f->cols, p, len < PREVIEW_SHOWN ? len : PREVIEW_SHOWN,
				  f->preview_rows);
	if (left_out) {
		autobuf struct buf words = BUF_INIT;

		buf_addf(&words, "… %zu more rows: more", left_out);
		termrows_more(f->out, f->cols, buf_cstr(&words));
	} else if (len > PREVIEW_SHOWN || is_preview_cut(ask, len)) {
		termrows_more(f->out, f->cols, "…");
	}
	return left_out;
}

static void add_body(const json_t *ask, const struct form *f)
{
	const char *digest = ask_text(ask, "body"), *type = ask_text(ask, "type");
	char size[16];

	if (digest[0])
		row(f, "body", "%s, %.128s, sha256 %.*s%s", str_from_size(number(ask, "body_len"), size),
		    type[0] ? type : "of no type", f->brief ? 16 : HASH_HEX_LEN, digest, f->brief ? "…" : "");
}

static void add_who(const json_t *ask, struct state *st, const struct form *f)
{
	const char *run = ask_text(ask, "sandbox");
	CLEANUP(run_meta_release) struct run_meta m = { 0 };
	autoclose int fd =
		st ? openat(st->runs_fd, run, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
	size_t before = f->out->len;

	if (fd >= 0 && run_meta_read(fd, &m, NULL) == 0)
		row(f, "who", "sandbox %s%s%.72s%s: %.160s", run, m.name ? " (" : "", m.name ? m.name : "",
		    m.name ? ")" : "", m.command ? m.command : "");
	else
		row(f, "who", "sandbox %s", run);
	if (f->brief)
		keep_row(f, before);
}

static void add_means(const json_t *ask, const struct form *f)
{
	const char *kind = ask_text(ask, "kind");

	if (!str_eq(ask_text(ask, "state"), "pending"))
		return;
	if (str_eq(kind, "widen")) {
		row(f, "allowing", "--sandbox: the rule holds until this sandbox ends; --for 2h: so long");
		return;
	}
	if (str_eq(kind, "secret")) {
		row(f, "allowing", "once: this very request with the secret, one time");
		termrows_more(f->out, f->cols, "--sandbox, --for 2h, --uses 3:");
		termrows_more(f->out, f->cols, "the secret with any request to this host, without asking");
		return;
	}
	row(f, "allowing", "once: this very request, with this body, one time");
	termrows_more(f->out, f->cols, "--sandbox, --for 2h, --uses 3, without asking:");
	termrows_more(f->out, f->cols,
		      ask_text(ask, "method")[0] ? "the same method and path with any query and body"
		      : str_eq(kind, "tool")	 ? "the same tool with any arguments and command"
						 : "the same again");
	/* What a policy file can have a rule for. */
	if (ask_text(ask, "host")[0])
		termrows_more(f->out, f->cols, "--always: a rule for it in the policy file");
}

static void add_answer(const json_t *ask, const struct form *f)
{
	const json_t *a = json_object_get(ask, "answer");
	const char *scope = ask_text(a, "scope"), *reason = ask_text(a, "reason"),
		   *name = ask_text(a, "name");

	if (json_is_object(a))
		row(f, "answer", "%s%s%s by %.64s (uid %llu, %.24s) at %.19s%s%.256s",
		    json_is_true(json_object_get(a, "allow")) ? "allow" : "deny", scope[0] ? ", " : "", scope,
		    name[0] ? name : "somebody", (unsigned long long)number(a, "uid"), ask_text(a, "via"),
		    ask_text(a, "at"), reason[0] ? ": " : "", reason);
}

/* ---- What it did just before. ---- */

#define BEFORE 5
#define BEFORE_BRIEF 3

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
			add_cut(&t, ask_text(o, keys[i]), 80);
		}
	}
	json_decref(o);
	b->line[b->n] = buf_take(&t);
	b->n += b->line[b->n] != NULL;
}

/* What it does not know already. */
static bool is_itself(const json_t *ask, const struct audit_record *r)
{
	const char *id = ask_text(ask, "id");

	return id[0] && memmem(r->text, r->len, id, strlen(id)) &&
	       memmem(r->text, r->len, "\"ask.new\"", strlen("\"ask.new\""));
}

static void add_before(const json_t *ask, struct state *st, const struct form *f)
{
	const struct audit_filter filter = { .sandbox = ask_text(ask, "sandbox") };
	CLEANUP(audit_back_freep) struct audit_back *back = NULL;
	struct before b = { 0 };
	struct audit_record r;

	if (!filter.sandbox[0] || audit_back_open(&back, st->fd, &filter, UINT64_MAX, NULL) < 0)
		return;
	while (b.n < (f->brief ? BEFORE_BRIEF : BEFORE) && audit_back_next(back, &r, NULL) == 1) {
		if (r.text && r.is_event && !is_itself(ask, &r))
			keep_line(&b, &r);
	}
	if (b.n)
		row(f, "before", "what the log has last of this sandbox:");
	while (b.n) {
		size_t before = f->out->len;

		termrows_more(f->out, f->cols, b.line[--b.n]);
		if (f->brief)
			keep_row(f, before);
		free(b.line[b.n]);
	}
}

/* ---- All of it. ---- */

void ask_show(const json_t *ask, struct state *st, unsigned cols, struct buf *out)
{
	const struct form f = { .out = out, .cols = cols, .preview_rows = SIZE_MAX };
	const char *why = ask_text(ask, "why"), *expires = ask_text(ask, "expires");

	row(&f, "question", "%s", ask_text(ask, "id"));
	row(&f, "state", "%s%s%.256s", ask_text(ask, "state"), why[0] ? ": " : "", why);
	add_who(ask, st, &f);
	add_what(ask, &f);
	add_with(ask, &f);
	add_body(ask, &f);
	(void)add_preview(ask, &f);
	row(&f, "why", "%s", ask_text(ask, "rule"));
	row(&f, "reason", "%s", ask_text(ask, "reason"));
	row(&f, "by", "%s", ask_text(ask, "by"));
	row(&f, "asked", "%.19sZ, %llu times, %llu wait%s%.19s%s", ask_text(ask, "asked"),
	    (unsigned long long)number(ask, "times"), (unsigned long long)number(ask, "waiters"),
	    expires[0] ? ", until " : "", expires, expires[0] ? "Z" : "");
	add_answer(ask, &f);
	if (number(ask, "used"))
		row(&f, "used", "%llu times", (unsigned long long)number(ask, "used"));
	row(&f, "digest", "%s", ask_text(ask, "digest"));
	add_means(ask, &f);
	if (st)
		add_before(ask, st, &f);
}

void ask_show_act(const json_t *ask, unsigned cols, struct buf *out)
{
	const struct form f = { .out = out, .cols = cols };
	const char *expires = ask_text(ask, "expires");

	add_what(ask, &f);
	/* The operation, the refs: the path alone does not say what is done. */
	if (!str_eq(ask_text(ask, "kind"), "request"))
		add_with(ask, &f);
	row(&f, "question", "%s%s%.19s%s", ask_text(ask, "id"), expires[0] ? "; denied after " : "", expires,
	    expires[0] ? "Z" : "");
}

void ask_show_prompt(const json_t *ask, struct state *st, unsigned cols, bool all, struct prompt_text *ret)
{
	const struct form f = { .out = &ret->text,
				.cols = cols,
				.preview_rows = all ? SIZE_MAX : PROMPT_PREVIEW_ROWS,
				.brief = true };

	prompt_text_release(ret);
	ask_show_act(ask, cols, &ret->act);
	add_who(ask, st, &f);
	if (str_eq(ask_text(ask, "kind"), "request"))
		add_with(ask, &f);
	add_body(ask, &f);
	ret->cut = add_preview(ask, &f);
	row(&f, "why", "%s", ask_text(ask, "rule"));
	row(&f, "reason", "%s", ask_text(ask, "reason"));
	row(&f, "by", "%s", ask_text(ask, "by"));
	if (st)
		add_before(ask, st, &f);
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

/* ---- For who asks. ---- */

void ask_say_waits(void *ctx, const char *id)
{
	(void)ctx;
	say_note("waiting for an answer: coffer ask show %s, coffer approve %s, coffer deny %s", id, id, id);
}

int ask_timeout_parse(const char *value, uint64_t *ret, struct err *e)
{
	uint64_t ns;

	if (str_to_nsec(value, &ns) < 0 || ns < NSEC_PER_SEC || ns > ASKS_TIMEOUT_MAX * NSEC_PER_SEC)
		return err_set(e, -EINVAL, "--ask-timeout takes a time from 1s to 1d, such as 5m");
	*ret = ns / NSEC_PER_SEC;
	return 0;
}
