/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input from a terminal at a question: keys, and whatever the terminal says by itself because the command asked it to
 * before. Nothing allows but a line whose first word is the code (Q1), and no line has a byte that was not typed as a
 * letter (Q2). And what is shown of an agent's bytes on a terminal of any size: no row begins with them, is wider than
 * the terminal or one too many; the code is on the last page, with what is asked for (Q4).
 */
#include "approval/prompt.h"
#include "codec/term/termrows.h"

#include <string.h>
#include <strings.h>

#define CODE "kfmx"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_allowed(const char *line, const struct ask_answer *a)
{
	const char *p = line + strspn(line, " \t");

	BUG_ON(strncasecmp(p, CODE, strlen(CODE)) != 0);
	BUG_ON(p[strlen(CODE)] && p[strlen(CODE)] != ' ');
	BUG_ON((unsigned)a->scope >= ASK_ALWAYS);
	BUG_ON(a->scope == ASK_FOR && (a->seconds < 1 || a->seconds > ASKS_GRANT_MAX));
	BUG_ON(a->scope == ASK_USES && (a->uses < 1 || a->uses > ASKS_USES_MAX));
}

static void check_line(const struct prompt_line *l)
{
	struct ask_answer a;
	enum prompt_word w = prompt_parse(l->text, CODE, &a);

	BUG_ON(strlen(l->text) > PROMPT_LINE_MAX);
	for (const char *q = l->text; *q; q++)
		BUG_ON(*q < 0x20 || *q > 0x7e);
	BUG_ON(a.allow != (w == PROMPT_ALLOW));
	if (w == PROMPT_ALLOW)
		check_allowed(l->text, &a);
}

static void keys(const uint8_t *data, size_t size)
{
	struct prompt_line l = { 0 };

	while (size) {
		autobuf struct buf echo = BUF_INIT;
		size_t used = 0, escapes = 0;
		enum prompt_key k = prompt_line_take(&l, data, size, &used, &echo);

		BUG_ON(used == 0 || used > size || l.len > PROMPT_LINE_MAX);
		for (size_t i = 0; i < echo.len; i++)
			escapes += echo.data[i] == '\033';
		BUG_ON(escapes);
		if (k == PROMPT_KEY_LINE)
			check_line(&l);
		data += used;
		size -= used;
	}
}

/* T1, T2: how each row begins, and how wide it is. */
static void check_rows(const char *rows, unsigned cols)
{
	static const char *const begins[] = { "reason   ", "what     ", "preview\n", TERMROWS_MARK };

	while (*rows) {
		size_t n = strcspn(rows, "\n");
		bool found = false;

		for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
			found = found || strncmp(rows, begins[i], strlen(begins[i])) == 0;
		BUG_ON(!found || n >= cols || rows[n] != '\n');
		for (size_t i = 0; i < n; i++)
			BUG_ON((unsigned char)rows[i] < 0x20 || rows[i] == 0x7f);
		rows += n + 1;
	}
}

/* The text that the terminal shows: bold takes no room, and nothing else is a sequence. */
static void strip(const struct buf *in, struct buf *out)
{
	for (size_t i = 0; i < in->len; i++) {
		if (in->data[i] == '\033') {
			BUG_ON(memcmp(in->data + i, "\033[1m", 4) != 0 &&
			       memcmp(in->data + i, "\033[0m", 4) != 0);
			i += 3;
		} else if (in->data[i] != '\r') {
			buf_addc(out, in->data[i]);
		} else {
			BUG_ON(in->data[i + 1] != '\n');
		}
	}
}

static void check_screen(const struct prompt_shown *s, unsigned pages, struct buf *seen)
{
	autobuf struct buf out = BUF_INIT;
	size_t rows = 0;

	prompt_show(s, &out);
	strip(&out, seen);
	for (const char *p = buf_cstr(seen); *p; rows++) {
		size_t n = strcspn(p, "\n");

		BUG_ON(n >= s->cols);
		p += n + (p[n] == '\n');
	}
	BUG_ON(rows > s->rows);
	BUG_ON((memmem(out.data, out.len, "\033[1m" CODE, strlen(CODE) + 4) != NULL) !=
	       (s->page + 1 == pages));
}

/* The first two bytes are the size of the terminal, the third what is known of the question; the rest is the agent's. */
static void shown(const uint8_t *data, size_t size)
{
	CLEANUP(prompt_text_release) struct prompt_text t = PROMPT_TEXT_INIT;
	struct prompt_shown s = { .text = &t, .code = CODE, .same = "the same" };
	autobuf struct buf value = BUF_INIT, seen = BUF_INIT;
	unsigned pages;

	if (size < 3)
		return;
	s.cols = TERMROWS_MIN + data[0];
	s.rows = 1 + data[1];
	s.is_rule = data[2] & 1;
	s.is_flood = data[2] & 2;
	s.waiting = data[2] & 4;
	t.cut = data[2] & 8;
	/* JSON has no NUL in it. */
	for (size_t i = 3; i < size; i++)
		buf_addc(&value, (char)(data[i] ? data[i] : ' '));
	s.note = data[2] & 16 ? buf_cstr(&value) : NULL;
	termrows_add(&t.act, s.cols, "what",
		     data[2] & 32 ? buf_cstr(&value) : "request  GET http://api.test/");
	buf_adds(&t.text, "preview\n");
	(void)termrows_lines(&t.text, s.cols, buf_cstr(&value), value.len, SIZE_MAX);
	termrows_add(&t.text, s.cols, "reason", buf_cstr(&value));
	check_rows(buf_cstr(&t.act), s.cols);
	check_rows(buf_cstr(&t.text), s.cols);
	pages = prompt_pages(&s);
	for (; s.page < pages; s.page++) {
		buf_clear(&seen);
		check_screen(&s, pages, &seen);
	}
	/* Q4: on the last page what is asked for is whole. */
	BUG_ON(pages && !strstr(buf_cstr(&seen), buf_cstr(&t.act)));
}

static void notice(const uint8_t *data, size_t size)
{
	autobuf struct buf what = BUF_INIT, out = BUF_INIT, cut = BUF_INIT;
	struct ask_view v = { .id = "89f211-3", .q = { .method = "", .host = "", .path = "" } };
	const char *quote;

	for (size_t i = 1; i < size; i++)
		buf_addc(&what, (char)(data[i] ? data[i] : ' '));
	v.q.what = buf_cstr(&what);
	prompt_notice(&v, 511, &out);
	BUG_ON(strncmp(buf_cstr(&out), "question 89f211-3 waits", 23) != 0 || out.len > 511);
	prompt_notice_cut(buf_cstr(&out), size ? data[0] : 0, &cut);
	quote = strchr(buf_cstr(&cut), '"');
	BUG_ON(strncmp(buf_cstr(&cut), "question 89f211-3 waits", 23) != 0);
	BUG_ON(quote && (strchr(quote + 1, '"') != buf_cstr(&cut) + cut.len - 1 || cut.len > data[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	keys(data, size);
	shown(data, size);
	notice(data, size);
	return 0;
}
