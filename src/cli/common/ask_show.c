/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays out a question for the list, for `coffer ask show` and for the prompt of `coffer run`. Text that an
 * agent wrote is always passed through termrows, which escapes control characters and puts it in the column
 * after our labels, never at the margin.
 */
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

unsigned cli_ask_cols(int fd)
{
	unsigned rows, cols;

	tty_size(fd, &rows, &cols);
	return termrows_cols(cols);
}

unsigned cli_ask_line_cols(int fd)
{
	return isatty(fd) ? cli_ask_cols(fd) : 0;
}

/* ---- One line. ---- */

static void add_shortened(struct buf *out, const char *s, size_t max)
{
	shorten_text(s, max, "…", out);
}

/* The target of the act, without its content: method, host, port and path. */
static void add_ask_target(const json_t *ask, size_t max, struct buf *out)
{
	const char *method = jsonget_text(ask, "method");
	bool tls = jsonget_bool(ask, "tls");
	uint64_t port = jsonget_u64(ask, "port");

	if (method[0]) {
		add_shortened(out, method, 32);
		buf_adds(out, tls ? " https://" : " http://");
	}
	add_shortened(out, jsonget_text(ask, "host"), 255);
	if (port && (!method[0] || port != (tls ? 443 : 80)))
		buf_addf(out, ":%llu", (unsigned long long)port);
	add_shortened(out, jsonget_text(ask, "path"), max);
}

void cli_ask_act(const json_t *ask, size_t max, struct buf *out)
{
	autobuf struct buf raw = BUF_INIT;

	add_ask_target(ask, max, &raw);
	if (jsonget_text(ask, "what")[0]) {
		buf_adds(&raw, raw.len ? "  " : "");
		add_shortened(&raw, jsonget_text(ask, "what"), max);
	}
	termrows_plain(out, buf_cstr(&raw), raw.len);
}

/* ---- Rows. ---- */

struct ask_form {
	struct buf *out;
	unsigned cols;
	size_t preview_rows;
	bool brief; /* for the prompt: the person answers at once, on one screen */
};

static void add_ask_row(const struct ask_form *f, const char *label, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void add_ask_row(const struct ask_form *f, const char *label, const char *fmt, ...)
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

/* Cuts the text that begins at `before` to its first row. */
static void cut_to_one_row(const struct ask_form *f, size_t before)
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
 * The text "what" of a request describes its content in the agent's words, so it gets a row of its own
 * ("with"), apart from the target. For the other kinds of question this text is the act itself.
 */
static bool has_separate_body_text(const json_t *ask)
{
	return jsonget_text(ask, "method")[0] && jsonget_text(ask, "what")[0];
}

static void add_with_row(const json_t *ask, const struct ask_form *f)
{
	if (has_separate_body_text(ask))
		add_ask_row(f, "with", "%s", jsonget_text(ask, "what"));
}

static void add_what_row(const json_t *ask, const struct ask_form *f)
{
	autobuf struct buf raw = BUF_INIT;

	add_ask_target(ask, ASK_PATH_MAX, &raw);
	if (!has_separate_body_text(ask) && jsonget_text(ask, "what")[0])
		buf_addf(&raw, "%s%s", raw.len ? "  " : "", jsonget_text(ask, "what"));
	add_ask_row(f, "what", "%s  %s", jsonget_text(ask, "kind"), buf_cstr(&raw));
	if (buf_error(&raw))
		f->out->error = buf_error(&raw);
}

/* In the preview a NUL, or a byte that is not UTF-8, takes three bytes. */
#define PREVIEW_SHOWN (3UL * ASK_PREVIEW_MAX)

/* Is the body longer than its preview? */
static bool preview_is_cut(const json_t *ask, size_t len)
{
	uint64_t bytes = jsonget_u64(ask, "preview_bytes");

	/* The list of files to apply has its own last line that says how many more there are. */
	if (str_eq(jsonget_text(ask, "kind"), "apply"))
		return false;
	return jsonget_u64(ask, "body_len") > (bytes ? bytes : len);
}

/* The preview is the agent's own bytes, so it is never printed raw. Returns whether rows were left out. */
static bool add_preview_rows(const json_t *ask, const struct ask_form *f)
{
	const char *p = jsonget_text(ask, "preview");
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
	} else if (len > PREVIEW_SHOWN || preview_is_cut(ask, len)) {
		termrows_more(f->out, f->cols, "…");
	}
	return left_out;
}

static void add_body_row(const json_t *ask, const struct ask_form *f)
{
	const char *digest = jsonget_text(ask, "body"), *type = jsonget_text(ask, "type");
	char size[16];

	if (digest[0])
		add_ask_row(f, "body", "%s, %.128s, sha256 %.*s%s",
			    str_from_size(jsonget_u64(ask, "body_len"), size), type[0] ? type : "of no type",
			    f->brief ? 16 : HASH_HEX_LEN, digest, f->brief ? "…" : "");
}

static void add_sandbox_row(const json_t *ask, struct state *st, const struct ask_form *f)
{
	const char *run = jsonget_text(ask, "sandbox");
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	autoclose int fd =
		st ? openat(st->runs_fd, run, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
	size_t before = f->out->len;

	if (fd >= 0 && state_meta_read(fd, &m, NULL) == 0)
		add_ask_row(f, "who", "sandbox %s%s%.72s%s: %.160s", run, m.name ? " (" : "",
			    m.name ? m.name : "", m.name ? ")" : "", m.command ? m.command : "");
	else
		add_ask_row(f, "who", "sandbox %s", run);
	if (f->brief)
		cut_to_one_row(f, before);
}

static void add_allowing_rows(const json_t *ask, const struct ask_form *f)
{
	int kind = ask_kind_parse(jsonget_text(ask, "kind"));
	const struct ask_means *m = kind < 0 ? NULL : ask_kind_means((enum ask_kind)kind);
	bool rule = kind == ASK_WIDEN;

	if (!m || !str_eq(jsonget_text(ask, "state"), "pending"))
		return;
	if (!rule)
		add_ask_row(f, "allowing", "once: %s, one time", m->once);
	if (rule)
		add_ask_row(f, "allowing", "--sandbox, --for 2h, without asking:");
	else
		termrows_more(f->out, f->cols, "--sandbox, --for 2h, --uses 3, without asking:");
	termrows_more(f->out, f->cols, m->again);
	if (m->has_rule)
		termrows_more(f->out, f->cols, "--always: a rule for it in the policy file");
}

/* The approver's name: the one in the answer, else the name of the uid on this machine. */
static void add_approver_name(const json_t *a, struct buf *out)
{
	char name[ASK_NAME_MAX];

	buf_addf(out, "%.64s",
		 jsonget_text(a, "name")[0]				      ? jsonget_text(a, "name")
		 : cli_ask_user_name((uid_t)jsonget_u64(a, "uid"), name) == 0 ? name
									      : "somebody");
}

static void add_answer_row(const json_t *ask, const struct ask_form *f)
{
	const json_t *a = json_object_get(ask, "answer");
	const char *scope = jsonget_text(a, "scope"), *reason = jsonget_text(a, "reason");
	autobuf struct buf name = BUF_INIT;

	add_approver_name(a, &name);
	if (json_is_object(a))
		add_ask_row(f, "answer", "%s%s%s by %s (uid %llu, %.24s) at %.19s%s%.256s",
			    jsonget_bool(a, "allow") ? "allow" : "deny", scope[0] ? ", " : "", scope,
			    buf_cstr(&name), (unsigned long long)jsonget_u64(a, "uid"),
			    jsonget_text(a, "via"), jsonget_text(a, "at"), reason[0] ? ": " : "", reason);
}

/* ---- The sandbox's last events before the question. ---- */

#define BEFORE_BRIEF 3

static void add_before_line(const struct ask_form *f, const char *text)
{
	size_t before = f->out->len;

	termrows_more(f->out, f->cols, text);
	if (f->brief)
		cut_to_one_row(f, before);
}

static void add_before_rows(const json_t *ask, const struct state *st, const struct ask_form *f)
{
	CLEANUP(cli_ask_before_release) struct ask_before b = { 0 };
	struct err e = ERR_INIT;

	if (cli_ask_before_read(ask, st, f->brief ? BEFORE_BRIEF : ASK_BEFORE_MAX, &b, &e) < 0) {
		add_ask_row(f, "before", "the log cannot be read: %s", e.msg);
		return;
	}
	if (b.is_unknown || (!b.n && b.is_all)) {
		add_ask_row(f, "before",
			    b.is_unknown ? "unknown: the question has no position in the log"
					 : "the log has no event of this sandbox");
		return;
	}
	add_ask_row(f, "before", "what this sandbox did, newest last:");
	/* The first line, because it is about older events. */
	if (b.n < (f->brief ? BEFORE_BRIEF : ASK_BEFORE_MAX) && !b.is_all)
		add_before_line(f, "(older events were not searched)");
	for (size_t i = 0; i < b.n; i++)
		add_before_line(f, b.line[i]);
}

/* ---- The whole question. ---- */

#define OFTEN_LEN 32

static const char *format_count(uint64_t n, char text[OFTEN_LEN])
{
	if (n == 1)
		return "once";
	snprintf(text, OFTEN_LEN, "%llu times", (unsigned long long)n);
	return text;
}

static void add_asked_row(const json_t *ask, const struct ask_form *f)
{
	const char *expires = jsonget_text(ask, "expires");
	uint64_t times = jsonget_u64(ask, "times");
	autobuf struct buf b = BUF_INIT;
	char often[OFTEN_LEN];

	buf_addf(&b, "%.19sZ", jsonget_text(ask, "asked"));
	/* Unknown for a question that comes from the log, because its sandbox was removed. */
	if (times)
		buf_addf(&b, ", %s, %llu waiting", format_count(times, often),
			 (unsigned long long)jsonget_u64(ask, "waiters"));
	if (expires[0])
		buf_addf(&b, ", until %.19sZ", expires);
	add_ask_row(f, "asked", "%s", buf_cstr(&b));
}

void cli_ask_show(const json_t *ask, struct state *st, unsigned cols, struct buf *out)
{
	const struct ask_form f = { .out = out, .cols = cols, .preview_rows = SIZE_MAX };
	const char *why = jsonget_text(ask, "why");
	char often[OFTEN_LEN];

	add_ask_row(&f, "question", "%s", jsonget_text(ask, "id"));
	add_ask_row(&f, "state", "%s%s%.256s", jsonget_text(ask, "state"), why[0] ? ": " : "", why);
	add_sandbox_row(ask, st, &f);
	add_what_row(ask, &f);
	add_with_row(ask, &f);
	add_body_row(ask, &f);
	(void)add_preview_rows(ask, &f);
	add_ask_row(&f, "why", "%s", jsonget_text(ask, "rule"));
	add_ask_row(&f, "reason", "%s", jsonget_text(ask, "reason"));
	add_ask_row(&f, "by", "%s", jsonget_text(ask, "by"));
	add_asked_row(ask, &f);
	add_answer_row(ask, &f);
	if (jsonget_u64(ask, "used"))
		add_ask_row(&f, "used", "%s", format_count(jsonget_u64(ask, "used"), often));
	add_ask_row(&f, "digest", "%s", jsonget_text(ask, "digest"));
	add_allowing_rows(ask, &f);
	if (st)
		add_before_rows(ask, st, &f);
}

void cli_ask_show_act(const json_t *ask, unsigned cols, struct buf *out)
{
	const struct ask_form f = { .out = out, .cols = cols };
	const char *expires = jsonget_text(ask, "expires");

	add_what_row(ask, &f);
	/* The operation or the git refs: the path alone does not tell what the act does. */
	if (!str_eq(jsonget_text(ask, "kind"), "request"))
		add_with_row(ask, &f);
	add_ask_row(&f, "question", "%s%s%.19s%s", jsonget_text(ask, "id"),
		    expires[0] ? "; denied after " : "", expires, expires[0] ? "Z" : "");
}

void cli_ask_show_prompt(const json_t *ask, struct state *st, unsigned cols, bool all,
			 struct prompt_text *ret)
{
	const struct ask_form f = { .out = &ret->text,
				    .cols = cols,
				    .preview_rows = all ? SIZE_MAX : PROMPT_PREVIEW_ROWS,
				    .brief = true };

	prompt_text_release(ret);
	cli_ask_show_act(ask, cols, &ret->act);
	add_sandbox_row(ask, st, &f);
	if (str_eq(jsonget_text(ask, "kind"), "request"))
		add_with_row(ask, &f);
	add_body_row(ask, &f);
	ret->cut = add_preview_rows(ask, &f);
	add_ask_row(&f, "why", "%s", jsonget_text(ask, "rule"));
	add_ask_row(&f, "reason", "%s", jsonget_text(ask, "reason"));
	add_ask_row(&f, "by", "%s", jsonget_text(ask, "by"));
	if (st)
		add_before_rows(ask, st, &f);
}

/* Reads /etc/passwd itself: getpwuid() would load NSS libraries, which a static program cannot. */
int cli_ask_user_name(uid_t uid, char ret[ASK_NAME_MAX])
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

void cli_ask_who_am_i(struct ask_who *ret, const char *via)
{
	/* The ask server knows the uid from the socket; the name is only for display. */
	const char *name = getuid() == 0 ? getenv("SUDO_USER") : NULL;

	*ret = (struct ask_who){ .uid = getuid() };
	name = name ? name : getenv("LOGNAME");
	if (name && *name)
		snprintf(ret->name, sizeof(ret->name), "%s", name);
	else if (cli_ask_user_name(ret->uid, ret->name) < 0)
		ret->name[0] = '\0';
	snprintf(ret->via, sizeof(ret->via), "%s", via);
}

/* ---- For verbs that ask a question themselves. ---- */

void cli_ask_say_waits(void *ctx, const char *id)
{
	(void)ctx;
	say_note("waiting for an answer: coffer ask show %s, coffer approve %s, coffer deny %s", id, id, id);
}

int cli_ask_timeout_parse(const char *value, uint64_t *ret, struct err *e)
{
	uint64_t ns;

	if (str_to_nsec(value, &ns) < 0 || ns < NSEC_PER_SEC || ns > ASKS_TIMEOUT_MAX * NSEC_PER_SEC)
		return err_set(e, -EINVAL, "--ask-timeout takes a time from 1s to 1d, such as 5m");
	*ret = ns / NSEC_PER_SEC;
	return 0;
}
