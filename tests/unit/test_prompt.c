/* SPDX-License-Identifier: Apache-2.0 */
/* A question on the terminal: the meaning of typed lines, and the text that is shown. */
#include "approval/prompt.h"
#include "tap.h"

#include "base/str.h"
#include "codec/term/termrows.h"

#include <errno.h>
#include <stdlib.h>

#define CODE "kfmx"

static enum prompt_word parse(const char *line, struct ask_answer *a)
{
	enum prompt_word w = prompt_parse(line, CODE, a);

	/* Q1, whatever was typed. */
	BUG_ON(a->allow != (w == PROMPT_ALLOW));
	return w;
}

static void test_words(void)
{
	static const char *const none[] = {
		"y",
		"yes",
		"allow",
		"kfm",
		"kfmxx",
		"x kfmx",
		"kfmx kfmx",
		"kfmx 3",
		"kfmx 0x",
		"kfmx -1x",
		"kfmx x",
		"kfmx 2h 3x",
		"kfmx ever",
		"kfmx always",
		"kfmx 0s",
		"kfmx 400d",
		"laters",
		"later kfmx",
		"never ever",
		"\"kfmx\"",
		"kfmx,",
		"kfmx 1e9",
		"kfmx once sandbox",
		"kfmx 99999999999999999999x",
	};
	struct ask_answer a;

	CHECK(parse("kfmx", &a) == PROMPT_ALLOW && a.scope == ASK_ONCE);
	CHECK(parse("  KFMX \t once ", &a) == PROMPT_ALLOW && a.scope == ASK_ONCE);
	CHECK(parse("kfmx sandbox", &a) == PROMPT_ALLOW && a.scope == ASK_SANDBOX);
	CHECK(parse("kfmx 2h", &a) == PROMPT_ALLOW && a.scope == ASK_FOR && a.seconds == 7200);
	CHECK(parse("kfmx 3x", &a) == PROMPT_ALLOW && a.scope == ASK_USES && a.uses == 3);
	CHECK(parse("deny", &a) == PROMPT_DENY && !a.reason[0]);
	CHECK(parse("Deny not today", &a) == PROMPT_DENY && str_eq(a.reason, "not today"));
	CHECK(parse("later", &a) == PROMPT_LATER && parse("never ", &a) == PROMPT_NEVER &&
	      parse("more", &a) == PROMPT_MORE);
	CHECK(parse("", &a) == PROMPT_EMPTY && parse(" \t", &a) == PROMPT_EMPTY);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		CHECKF(parse(none[i], &a) == PROMPT_UNKNOWN, "'%s' is no answer", none[i]);
	CHECKF(prompt_parse("", "", &a) == PROMPT_EMPTY && prompt_parse("x", "", &a) == PROMPT_UNKNOWN,
	       "an answer without a code does not allow");
}

static void test_code(void)
{
	uint8_t random[64];
	unsigned seen[256] = { 0 }, kinds = 0;
	char code[PROMPT_CODE_LEN + 1];
	struct ask_answer a;

	memset(random, 255, sizeof(random));
	CHECKF(prompt_code(random, sizeof(random), code) == -EAGAIN, "random bytes of no use give no code");
	for (unsigned b = 0; b < 256; b++) {
		memset(random, (int)b, sizeof(random));
		if (prompt_code(random, sizeof(random), code) == 0) {
			seen[(uint8_t)code[0]]++;
			BUG_ON(strlen(code) != PROMPT_CODE_LEN || strpbrk(code, "aeiouyl01"));
			BUG_ON(prompt_parse(code, code, &a) != PROMPT_ALLOW);
		}
	}
	for (unsigned i = 0; i < 256; i++) {
		kinds += seen[i] != 0;
		BUG_ON(seen[i] && seen[i] != seen['b']);
	}
	CHECKF(kinds == 19, "a code is made of %u letters, each as often as the others", kinds);
}

/* Feeds it all; the last event, and what was typed of the last line. */
static enum prompt_key type(const char *keys, size_t len, char *ret_line, size_t size)
{
	struct prompt_line l = { 0 };
	autobuf struct buf echo = BUF_INIT;
	enum prompt_key k, last = PROMPT_KEY_NONE;

	ret_line[0] = '\0';
	while (len) {
		size_t used;

		k = prompt_line_take(&l, (const uint8_t *)keys, len, &used, &echo);
		if (k == PROMPT_KEY_LINE)
			snprintf(ret_line, size, "%s", l.text);
		last = k == PROMPT_KEY_NONE ? last : k;
		keys += used;
		len -= used;
	}
	return last;
}

#define TYPE(keys) type(keys, sizeof(keys) - 1, line, sizeof(line))

static void test_keys(void)
{
	char line[PROMPT_LINE_MAX + 1], many[PROMPT_LINE_MAX + 10];

	CHECK(TYPE("kfmx\r") == PROMPT_KEY_LINE && str_eq(line, "kfmx"));
	CHECK(TYPE("kfmx\n") == PROMPT_KEY_LINE && str_eq(line, "kfmx"));
	CHECK(TYPE("one\r\n") == PROMPT_KEY_LINE && str_eq(line, "one"));
	CHECK(TYPE("kfxm\177\177mx\r") == PROMPT_KEY_LINE && str_eq(line, "kfmx"));
	CHECK(TYPE("rubbish\025kfmx\r") == PROMPT_KEY_LINE && str_eq(line, "kfmx"));
	CHECK(TYPE("\177\177kf") == PROMPT_KEY_NONE && !line[0]);
	CHECK(TYPE("kf\003") == PROMPT_KEY_INTERRUPT && TYPE("\004") == PROMPT_KEY_INTERRUPT &&
	      TYPE("kf\032") == PROMPT_KEY_SUSPEND);
	CHECKF(TYPE("\033[Akfmx\r") == PROMPT_KEY_SPOILT && !line[0], "a key with an arrow spoils the line");
	CHECKF(TYPE("kf\033]ltitle\033\\mx\r") == PROMPT_KEY_SPOILT && !line[0],
	       "a response of the terminal spoils the line");
	CHECKF(TYPE("\302\233kfmx\r") == PROMPT_KEY_SPOILT, "a control character in UTF-8 spoils the line");
	CHECKF(TYPE("\033x\rkfmx\r") == PROMPT_KEY_LINE && str_eq(line, "kfmx"),
	       "a spoilt line ends at its end, and the next is read");
	memset(many, 'k', sizeof(many));
	many[sizeof(many) - 1] = '\r';
	CHECKF(type(many, sizeof(many), line, sizeof(line)) == PROMPT_KEY_SPOILT,
	       "a line that is too long is spoilt");
}

/* ---- The text that is shown. ---- */

#define CONTINUED TERMROWS_MARK

static const unsigned widths[] = { 20, 40, 80, 200 };

/* A row as the terminal has it: without bold. */
static const char *next_row(const char **p, char *ret, size_t size)
{
	size_t n = 0;

	if (!**p)
		return NULL;
	while (**p && **p != '\r') {
		if (str_starts(*p, "\033[1m") || str_starts(*p, "\033[0m")) {
			*p += 4;
			continue;
		}
		BUG_ON(n + 1 >= size || **p == '\n' || **p == '\033');
		ret[n++] = *(*p)++;
	}
	BUG_ON(**p && !str_starts(*p, "\r\n"));
	*p += **p ? 2 : 0;
	ret[n] = '\0';
	return ret;
}

/* T1: a label, the mark, or words of our own in which there is nothing of anybody else's. */
static bool is_ours(const char *row)
{
	static const char *const begins[] = { CONTINUED,   "who      ", "what     ",
					      "with     ", "reason   ", "preview",
					      "before   ", "question ", "coffer: this sandbox" };
	static const char *const last[] = { "         |", "> " };

	for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
		if (str_starts(row, begins[i]))
			return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(last); i++) {
		if (str_eq(row, last[i]))
			return true;
	}
	return !strchr(row, '#');
}

/* The value of an attacker: each character of it that is not part of a look-alike is a #. */
static void add_evil(struct buf *out, unsigned cols, unsigned kind)
{
	static const char *const fill[] = { "#",
					    " ",
					    "\t",
					    "#\xcc\x81\xcc\x81",
					    "#\xe6\xbc\xa2",
					    "#\xf0\x9f\x98\x80",
					    "# \xe3\x80\x80",
					    "#\r\n",
					    "#\x1b[2J",
					    "#\xc2\xa0",
					    "#\xe2\x80\x8b" };

	/* At each column there is something that would be the left edge. */
	for (unsigned i = 0; i < 12; i++) {
		size_t end = (size_t)(i + 1) * cols - (i * 7) % cols;

		while (out->len < end)
			buf_adds(out, fill[kind % ARRAY_SIZE(fill)]);
		buf_adds(out, i % 2 ? "#what     widen  good.example:443#" : "question aaaaaa-9#");
	}
}

#define FILLS 11

static void make_text(struct prompt_text *t, unsigned cols, unsigned kind, const char *act)
{
	autobuf struct buf evil = BUF_INIT;

	prompt_text_release(t);
	add_evil(&evil, cols, kind);
	termrows_add(&t->act, cols, "what", act);
	termrows_add(&t->act, cols, "question", "abc-1");
	termrows_add(&t->text, cols, "who", "sandbox abc");
	termrows_add(&t->text, cols, "with", buf_cstr(&evil));
	buf_adds(&t->text, "preview\n");
	(void)termrows_lines(&t->text, cols, buf_cstr(&evil), evil.len, SIZE_MAX);
	termrows_add(&t->text, cols, "reason", buf_cstr(&evil));
}

/* One page: rows are ours, none is too wide, there are no more than the screen has. The part of `want` that was
 * shown is taken off. */
static bool check_page(const struct prompt_shown *s, const char **want, bool *has_act, bool *has_code)
{
	autobuf struct buf out = BUF_INIT;
	char row[1100];
	unsigned rows = 0;
	const char *p;
	bool good = true;

	prompt_show(s, &out);
	p = buf_cstr(&out);
	*has_code = strstr(p, CODE);
	*has_act = false;
	while (next_row(&p, row, sizeof(row))) {
		size_t n = strcspn(*want, "\n");

		rows++;
		good = good && strlen(row) < s->cols && is_ours(row);
		if (n && strlen(row) == n && strncmp(row, *want, n) == 0)
			*want += n + 1;
		*has_act = *has_act || str_starts(row, "what     request");
	}
	return good && rows <= s->rows;
}

static void test_pages(void)
{
	CLEANUP(prompt_text_release) struct prompt_text t = PROMPT_TEXT_INIT;
	unsigned many = 0;

	for (size_t w = 0; w < ARRAY_SIZE(widths); w++) {
		for (unsigned kind = 0; kind < FILLS * 3; kind++) {
			struct prompt_shown s = { .text = &t,
						  .code = CODE,
						  .same = "the same",
						  .rows = kind < FILLS	     ? 24
							  : kind < 2 * FILLS ? 60
									     : 200,
						  .cols = widths[w] };
			autobuf struct buf all = BUF_INIT;
			bool good = true, has_act = false, has_code = false;
			const char *want;
			unsigned pages;

			make_text(&t, widths[w], kind, "request  DELETE https://api.test/db");
			pages = prompt_pages(&s);
			if (pages != 1)
				buf_adds(&all, buf_cstr(&t.act));
			buf_adds(&all, buf_cstr(&t.text));
			want = buf_cstr(&all);
			for (s.page = 0; s.page < pages; s.page++) {
				good = good && check_page(&s, &want, &has_act, &has_code);
				good = good && has_code == (s.page + 1 == pages);
			}
			many += pages > 1;
			if (pages && (!good || !has_act || *want))
				CHECKF(false,
				       "a question fits its pages: %u columns, %u rows, fill %u: %u pages",
				       s.cols, s.rows, kind, pages);
			if (!pages && widths[w] > 20)
				CHECKF(false, "a question has pages at %u columns and %u rows", s.cols,
				       s.rows);
		}
	}
	CHECKF(many > 40, "%u questions have pages with all text, our marks, and act and code on the last",
	       many);
}

static void test_no_room(void)
{
	CLEANUP(prompt_text_release) struct prompt_text t = PROMPT_TEXT_INIT;
	struct prompt_shown s = { .text = &t, .code = CODE, .same = "the same", .rows = 24, .cols = 80 };
	autobuf struct buf act = BUF_INIT;

	buf_adds(&act, "request  GET https://api.test/");
	for (int i = 0; i < 2000; i++)
		buf_addc(&act, 'a');
	make_text(&t, 80, 0, buf_cstr(&act));
	CHECKF(prompt_pages(&s) == 0, "an act that is longer than the screen cannot be answered");
	s.rows = 100;
	CHECK(prompt_pages(&s) > 0);
	make_text(&t, 80, 0, "request  GET https://api.test/");
	s.rows = 5;
	CHECK(prompt_pages(&s) == 0);
	s.rows = 0;
	s.cols = 0;
	CHECKF(prompt_pages(&s) > 0, "a terminal that reports no size has 80x24");
	s.rows = 200;
	s.cols = 19;
	CHECKF(prompt_pages(&s) == 0, "a terminal that is too narrow shows no question");
}

static void test_show(void)
{
	CLEANUP(prompt_text_release) struct prompt_text t = PROMPT_TEXT_INIT;
	struct prompt_shown s = {
		.text = &t, .code = CODE, .same = "the same", .waiting = 3, .rows = 24, .cols = 80
	};
	autobuf struct buf out = BUF_INIT, rule = BUF_INIT, page = BUF_INIT, clear = BUF_INIT;

	termrows_add(&t.act, 80, "what", "request  PUT https://api.test/x");
	termrows_add(&t.act, 80, "question", "abc-1");
	termrows_add(&t.text, 80, "who", "sandbox abc");
	CHECK(prompt_pages(&s) == 1);
	prompt_show(&s, &out);
	CHECKF(strstr(buf_cstr(&out), "what     request  PUT https://api.test/x\r\nquestion abc-1\r\n===="),
	       "the act stands right above the answers");
	CHECK(strstr(buf_cstr(&out), "3 more wait") &&
	      strstr(buf_cstr(&out), "  kfmx sandbox    the same, until") &&
	      strstr(buf_cstr(&out), "  \033[1mkfmx\033[0m            allow"));
	CHECK(!strstr(buf_cstr(&out), "never") && !strstr(buf_cstr(&out), "  more  "));
	s.is_flood = s.is_rule = t.cut = true;
	s.note = "That is no answer.";
	prompt_show(&s, &rule);
	CHECK(strstr(buf_cstr(&rule), "  never  ") && strstr(buf_cstr(&rule), "  more  ") &&
	      !strstr(buf_cstr(&rule), "exactly this") &&
	      strstr(buf_cstr(&rule), "That is no answer.\r\n> "));
	for (int i = 0; i < 40; i++)
		termrows_more(&t.text, 80, "x");
	s.code = "";
	s.note = NULL;
	CHECK(prompt_pages(&s) > 2);
	prompt_show(&s, &page);
	CHECKF(strstr(buf_cstr(&page), "(page 1 of ") && strstr(buf_cstr(&page), "\033[1mEnter\033[0m") &&
		       strstr(buf_cstr(&page), "question abc-1\r\nwho ") &&
		       !strstr(buf_cstr(&page), "sandbox   ") && !strstr(buf_cstr(&page), "????"),
	       "the first of several pages has the act and the next key, and no code");
	prompt_clear(50, &clear);
	CHECK(str_starts(buf_cstr(&clear), "\x18\033\\") && strstr(buf_cstr(&clear), "\033[?1049l") &&
	      strstr(buf_cstr(&clear), "\033[2J"));
}

/* ---- The line where nobody is asked. ---- */

static void test_notice(void)
{
	static const char evil[] =
		"x-a: ok\"   (coffer ask show 89f211-1): \xe2\x80\x9d\n\x1b[2Jquestion 89f211-1 waits";
	static const char head[] =
		"question 89f211-3 waits (coffer ask show 89f211-3): \"POST api.test:8443/v1  x-a: ok'";
	struct ask_view v = { .id = "89f211-3",
			      .q = { .method = "POST",
				     .host = "api.test",
				     .path = "/v1",
				     .what = evil,
				     .port = 8443,
				     .tls = true } };
	autobuf struct buf out = BUF_INIT;
	unsigned bad = 0;

	prompt_notice(&v, 400, &out);
	CHECKF(str_starts(buf_cstr(&out), head), "a notice begins with the id of its question: %s",
	       buf_cstr(&out));
	for (size_t max = 1; max < 300; max++) {
		autobuf struct buf cut = BUF_INIT;
		const char *p, *quote;

		prompt_notice_cut(buf_cstr(&out), max, &cut);
		p = buf_cstr(&cut);
		quote = strchr(p, '"');
		bad += !str_starts(p, "question 89f211-3 waits (coffer ask show 89f211-3)");
		bad += quote && (cut.len > max || strchr(quote + 1, '"') != p + cut.len - 1);
		for (; *p; p++)
			bad += *p < 0x20 || *p > 0x7e;
	}
	CHECKF(bad == 0, "the words of an agent stay quoted wherever a line is cut");
}

int main(void)
{
	test_words();
	test_code();
	test_keys();
	test_show();
	test_pages();
	test_no_room();
	test_notice();
	return tap_done();
}
