/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/ask_show.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "base/str.h"
#include "cli/common/ask_before.h"
#include "cli/core/say.h"
#include "codec/term/termrows.h"
#include "policy/shorten.h"
#include "run/supervise/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *ask_text(const json_t *ask, const char *key)
{
	const char *s = jsonget_text_or_null(ask, key);

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

unsigned ask_line_cols(int fd)
{
	return isatty(fd) ? ask_cols(fd) : 0;
}

/* ---- One line. ---- */

static void add_cut(struct buf *out, const char *s, size_t max)
{
	shorten_text(s, max, "…", out);
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

	/* A list says itself how much more there is. */
	if (str_eq(ask_text(ask, "kind"), "apply"))
		return false;
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

		buf_addf(&words, "… %zu more row%s: more", left_out, left_out == 1 ? "" : "s");
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
	int kind = ask_kind_parse(ask_text(ask, "kind"));
	const struct ask_means *m = kind < 0 ? NULL : ask_kind_means((enum ask_kind)kind);
	bool rule = kind == ASK_WIDEN;

	if (!m || !str_eq(ask_text(ask, "state"), "pending"))
		return;
	if (!rule)
		row(f, "allowing", "once: %s, one time", m->once);
	if (rule)
		row(f, "allowing", "--sandbox, --for 2h, without asking:");
	else
		termrows_more(f->out, f->cols, "--sandbox, --for 2h, --uses 3, without asking:");
	termrows_more(f->out, f->cols, m->again);
	if (m->has_rule)
		termrows_more(f->out, f->cols, "--always: a rule for it in the policy file");
}

/* Who it was: by the name that came with the answer, else by the one that this machine has for the user. */
static void add_name(const json_t *a, struct buf *out)
{
	char name[ASK_NAME_MAX];

	buf_addf(out, "%.64s",
		 ask_text(a, "name")[0]				     ? ask_text(a, "name")
		 : ask_user_name((uid_t)number(a, "uid"), name) == 0 ? name
								     : "somebody");
}

static void add_answer(const json_t *ask, const struct form *f)
{
	const json_t *a = json_object_get(ask, "answer");
	const char *scope = ask_text(a, "scope"), *reason = ask_text(a, "reason");
	autobuf struct buf name = BUF_INIT;

	add_name(a, &name);
	if (json_is_object(a))
		row(f, "answer", "%s%s%s by %s (uid %llu, %.24s) at %.19s%s%.256s",
		    json_is_true(json_object_get(a, "allow")) ? "allow" : "deny", scope[0] ? ", " : "", scope,
		    buf_cstr(&name), (unsigned long long)number(a, "uid"), ask_text(a, "via"),
		    ask_text(a, "at"), reason[0] ? ": " : "", reason);
}

/* ---- What it did just before. ---- */

#define BEFORE_BRIEF 3

static void add_more(const struct form *f, const char *text)
{
	size_t before = f->out->len;

	termrows_more(f->out, f->cols, text);
	if (f->brief)
		keep_row(f, before);
}

static void add_before(const json_t *ask, const struct state *st, const struct form *f)
{
	CLEANUP(ask_before_release) struct ask_before b = { 0 };
	struct err e = ERR_INIT;

	if (ask_before_read(ask, st, f->brief ? BEFORE_BRIEF : ASK_BEFORE_MAX, &b, &e) < 0) {
		row(f, "before", "the log cannot be read: %s", e.msg);
		return;
	}
	if (b.is_unknown || (!b.n && b.is_all)) {
		row(f, "before",
		    b.is_unknown ? "not known: the question does not say where it stands in the log"
				 : "nothing that the log still has");
		return;
	}
	row(f, "before", "what this sandbox did, newest last:");
	/* Above the rest: it is about what is older. */
	if (b.n < (f->brief ? BEFORE_BRIEF : ASK_BEFORE_MAX) && !b.is_all)
		add_more(f, "(it was not looked further back)");
	for (size_t i = 0; i < b.n; i++)
		add_more(f, b.line[i]);
}

/* ---- All of it. ---- */

#define OFTEN_LEN 32

static const char *how_often(uint64_t n, char text[OFTEN_LEN])
{
	if (n == 1)
		return "once";
	snprintf(text, OFTEN_LEN, "%llu times", (unsigned long long)n);
	return text;
}

static void add_asked(const json_t *ask, const struct form *f)
{
	const char *expires = ask_text(ask, "expires");
	uint64_t times = number(ask, "times");
	autobuf struct buf b = BUF_INIT;
	char often[OFTEN_LEN];

	buf_addf(&b, "%.19sZ", ask_text(ask, "asked"));
	/* The log does not say this of one whose sandbox is gone. */
	if (times)
		buf_addf(&b, ", %s, %llu waiting", how_often(times, often),
			 (unsigned long long)number(ask, "waiters"));
	if (expires[0])
		buf_addf(&b, ", until %.19sZ", expires);
	row(f, "asked", "%s", buf_cstr(&b));
}

void ask_show(const json_t *ask, struct state *st, unsigned cols, struct buf *out)
{
	const struct form f = { .out = out, .cols = cols, .preview_rows = SIZE_MAX };
	const char *why = ask_text(ask, "why");
	char often[OFTEN_LEN];

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
	add_asked(ask, &f);
	add_answer(ask, &f);
	if (number(ask, "used"))
		row(&f, "used", "%s", how_often(number(ask, "used"), often));
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

/* From the file alone: what asks elsewhere would load other libraries, which a static program does not. */
int ask_user_name(uid_t uid, char ret[ASK_NAME_MAX])
{
	FILE *f = fopen("/etc/passwd", "re");
	struct passwd *p = NULL;
	int r = -ENOENT;

	while (f && (p = fgetpwent(f)) != NULL && p->pw_uid != uid)
		;
	if (p && strlen(p->pw_name) < ASK_NAME_MAX) {
		snprintf(ret, ASK_NAME_MAX, "%s", p->pw_name);
		r = 0;
	}
	if (f)
		(void)fclose(f);
	return r;
}

void ask_who_am_i(struct ask_who *ret, const char *via)
{
	/* The uid is what the guard knows by itself; a name is for people. */
	const char *name = getuid() == 0 ? getenv("SUDO_USER") : NULL;

	*ret = (struct ask_who){ .uid = getuid() };
	name = name ? name : getenv("LOGNAME");
	if (name && *name)
		snprintf(ret->name, sizeof(ret->name), "%s", name);
	else if (ask_user_name(ret->uid, ret->name) < 0)
		ret->name[0] = '\0';
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
