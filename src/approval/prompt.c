/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal prompt for a question (prompt.h): codes, typed lines, and the layout of pages. Pure: reads no
 * terminal and writes none.
 */
#include "approval/prompt.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "codec/term/termrows.h"
#include "policy/shorten.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* No vowels, so that a code never is a word, and no letters that look alike. */
static const char code_letters[] = "bcdfghjkmnpqrstvwxz";
#define N_LETTERS (sizeof(code_letters) - 1)

const char prompt_reset[] =
	"\x18\033\\"			  /* ends a sequence or string that was begun */
	"\033[?2026l"			  /* do not hold back updates */
	"\033[?1049l\033[?1047l\033[?47l" /* leave the alternate screen */
	"\033[!p"			  /* modes, margins, character sets, attributes */
	"\033[r\033[?69l\033[?6l"	  /* the whole screen scrolls */
	"\033[4l\033[20l\033[?5l\033[?7h" /* no inserting, no reverse video, lines wrap */
	"\033[?1l\033>"			  /* plain keys */
	"\033[?9l\033[?1000l\033[?1001l\033[?1002l\033[?1003l" /* no mouse */
	"\033[?1004l\033[?1005l\033[?1006l\033[?1007l\033[?1015l\033[?1016l"
	"\033[?2004l\033[?2031l"				   /* no bracketed paste */
	"\033[>4;0m\033[=0;1u"					   /* no other encoding of keys */
	"\033(B\033)B\033*B\033+B\017"				   /* ASCII character sets */
	"\033]104\033\\\033]110\033\\\033]111\033\\\033]112\033\\" /* the palette: all text is visible */
	"\033[0m\033[?25h\033[0 q";

int prompt_code(const uint8_t *random, size_t n, char ret[PROMPT_CODE_LEN + 1])
{
	size_t len = 0;

	/* Reject the remainder, so that all letters are equally likely. */
	for (size_t i = 0; i < n && len < PROMPT_CODE_LEN; i++) {
		if (random[i] < 256 - 256 % N_LETTERS)
			ret[len++] = code_letters[random[i] % N_LETTERS];
	}
	ret[len] = '\0';
	return len == PROMPT_CODE_LEN ? 0 : -EAGAIN;
}

/* Skips to the next word of a line; returns its length, up to a space. */
static size_t skip_to_word(const char **p)
{
	*p += strspn(*p, " \t");
	return strcspn(*p, " \t");
}

static bool word_equals(const char *p, size_t n, const char *word)
{
	return n == strlen(word) && strncasecmp(p, word, n) == 0;
}

/* "3x", "2h" */
static bool parse_scope(const char *p, size_t n, struct ask_answer *ret)
{
	char text[32];
	uint64_t ns;

	if (n == 0 || word_equals(p, n, "once")) {
		ret->scope = ASK_ONCE;
		return true;
	}
	if (word_equals(p, n, "sandbox")) {
		ret->scope = ASK_SANDBOX;
		return true;
	}
	if (n >= sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)n, p);
	if (text[n - 1] == 'x' || text[n - 1] == 'X') {
		text[n - 1] = '\0';
		ret->scope = ASK_USES;
		return str_to_u64(text, &ret->uses) == 0 && ret->uses >= 1 && ret->uses <= ASKS_USES_MAX;
	}
	/* A number alone could mean either. */
	if (text[n - 1] >= '0' && text[n - 1] <= '9')
		return false;
	ret->scope = ASK_FOR;
	if (str_to_nsec(text, &ns) < 0)
		return false;
	ret->seconds = ns / NSEC_PER_SEC;
	return ret->seconds >= 1 && ret->seconds <= ASKS_GRANT_MAX;
}

enum prompt_word prompt_parse(const char *line, const char *code, struct ask_answer *ret)
{
	static const struct {
		const char *text;
		enum prompt_word word;
	} words[] = { { "later", PROMPT_LATER }, { "never", PROMPT_NEVER }, { "more", PROMPT_MORE } };
	const char *p = line;
	size_t n = skip_to_word(&p);

	*ret = (struct ask_answer){ 0 };
	if (n == 0)
		return PROMPT_EMPTY;
	if (word_equals(p, n, "deny")) {
		p += n;
		(void)skip_to_word(&p);
		snprintf(ret->reason, sizeof(ret->reason), "%s", p);
		return PROMPT_DENY;
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (word_equals(p, n, words[i].text) && !p[n + strspn(p + n, " \t")])
			return words[i].word;
	}
	if (strlen(code) != PROMPT_CODE_LEN || !word_equals(p, n, code))
		return PROMPT_UNKNOWN;
	p += n;
	n = skip_to_word(&p);
	if (!parse_scope(p, n, ret) || p[n + strspn(p + n, " \t")]) {
		*ret = (struct ask_answer){ 0 };
		return PROMPT_UNKNOWN;
	}
	ret->allow = true;
	return PROMPT_ALLOW;
}

/* ---- Keys. ---- */

static void reset_line(struct prompt_line *l)
{
	l->len = 0;
	l->spoilt = false;
}

static enum prompt_key finish_line(struct prompt_line *l, struct buf *echo)
{
	bool spoilt = l->spoilt;

	buf_adds(echo, "\r\n");
	l->text[l->len] = '\0';
	reset_line(l);
	return spoilt ? PROMPT_KEY_SPOILT : PROMPT_KEY_LINE;
}

static void rub_out(struct prompt_line *l, size_t n, struct buf *echo)
{
	for (; n && l->len; n--, l->len--)
		buf_adds(echo, "\b \b");
}

static enum prompt_key take_prompt_key(struct prompt_line *l, uint8_t c, struct buf *echo)
{
	bool after_cr = l->was_cr;

	l->was_cr = c == '\r';
	if (c == '\n' && after_cr)
		return PROMPT_KEY_NONE;
	if (c == '\r' || c == '\n')
		return finish_line(l, echo);
	if (c == 0x03 || c == 0x04) {
		reset_line(l);
		return PROMPT_KEY_INTERRUPT;
	}
	if (c == 0x1a) {
		reset_line(l);
		return PROMPT_KEY_SUSPEND;
	}
	if (l->spoilt)
		return PROMPT_KEY_NONE;
	if (c == 0x7f || c == 0x08) {
		rub_out(l, 1, echo);
	} else if (c == 0x15 || c == 0x17) {
		rub_out(l, l->len, echo);
	} else if ((c >= 0x20 && c < 0x7f) || c == '\t') {
		/* A line that is too long is discarded; shortened, it could be a valid answer. */
		if (l->len == PROMPT_LINE_MAX) {
			l->spoilt = true;
		} else {
			l->text[l->len++] = (char)(c == '\t' ? ' ' : c);
			buf_addc(echo, l->text[l->len - 1]);
		}
	} else {
		rub_out(l, l->len, echo);
		l->spoilt = true;
	}
	return PROMPT_KEY_NONE;
}

enum prompt_key prompt_line_take(struct prompt_line *l, const uint8_t *data, size_t len, size_t *used,
				 struct buf *echo)
{
	enum prompt_key k = PROMPT_KEY_NONE;
	size_t i = 0;

	while (i < len && k == PROMPT_KEY_NONE)
		k = take_prompt_key(l, data[i++], echo);
	*used = i;
	return k;
}

/* ---- The screen. ---- */

void prompt_clear(unsigned rows, struct buf *out)
{
	rows = rows == 0 ? 24 : rows > 500 ? 500 : rows;
	buf_adds(out, prompt_reset);
	/* Scroll the content up into the scrollback instead of erasing it. */
	buf_adds(out, "\033[9999;1H");
	for (unsigned i = 0; i < rows; i++)
		buf_addc(out, '\n');
	buf_adds(out, "\033[H\033[2J");
}

void prompt_text_release(struct prompt_text *t)
{
	buf_release(&t->text);
	buf_release(&t->act);
	t->cut = false;
}

/* Ends the quotation, and does not cut within an escape. */
static void shorten_notice(const char *notice, size_t max, struct buf *out)
{
	autobuf struct buf cut = BUF_INIT;

	shorten_text(notice, max, "...", &cut);
	if (buf_error(&cut)) {
		out->error = -ENOMEM;
		return;
	}
	if (str_ends(buf_cstr(&cut), "..."))
		cut.len -= strlen("...");
	buf_addf(out, "%.*s...\"", (int)termrows_fit(buf_cstr(&cut), cut.len), buf_cstr(&cut));
}

void prompt_notice_cut(const char *notice, size_t max, struct buf *out)
{
	static const char end[] = "...\"";
	size_t n = strlen(notice), ours = strcspn(notice, ":");

	if (n <= max)
		buf_adds(out, notice);
	else if (max < ours + strlen(": \"") + strlen(end))
		buf_add(out, notice, ours);
	else
		shorten_notice(notice, max - strlen("\""), out);
}

void prompt_notice(const struct ask_view *v, size_t max, struct buf *out)
{
	autobuf struct buf act = BUF_INIT, line = BUF_INIT;

	buf_addf(&act, "%s%s%s", v->q.method, v->q.method[0] ? " " : "", v->q.host);
	if (v->q.port && v->q.port != (v->q.tls ? 443 : 80))
		buf_addf(&act, ":%u", v->q.port);
	buf_addf(&act, "%s%s%s", v->q.path, act.len && v->q.what[0] ? "  " : "", v->q.what);
	buf_addf(&line, "question %s waits (coffer ask show %s): ", v->id, v->id);
	termrows_quote(&line, buf_cstr(&act), act.len);
	prompt_notice_cut(buf_cstr(&line), max, out);
	if (buf_error(&act) || buf_error(&line))
		out->error = -ENOMEM;
}

/* The parts of a page, as rows. */
struct parts {
	struct buf head, hint, menu, note;
	unsigned rows, cols;
	size_t note_rows; /* reserved for a note */
};

#define NOTE_MAX 76
#define WIDE 60 /* minimum of columns to put the explanations beside the words */

static void add_separator(struct buf *out, unsigned cols)
{
	for (unsigned i = 0; i < cols - 1 && i < 72; i++)
		buf_addc(out, '=');
	buf_addc(out, '\n');
}

static void add_menu_item(struct buf *out, unsigned cols, bool bold, const char *word, const char *text)
{
	size_t len = strlen(word);

	buf_addf(out, "  %s%s%s", bold ? "\033[1m" : "", word, bold ? "\033[0m" : "");
	if (cols >= WIDE) {
		buf_addf(out, "%*s", (int)(len < 14 ? 16 - len : 2), "");
		termrows_wrap(out, cols, len < 14 ? 18 : len + 4, "                  ", text);
	} else {
		buf_adds(out, "  ");
		termrows_wrap(out, cols, len + 4, "    ", text);
	}
}

static void add_allow_items(const struct prompt_shown *s, struct buf *out, unsigned cols)
{
	/* Before the last page there is no code yet, but its rows are counted. */
	const char *code = s->code[0] ? s->code : "????";
	char word[32];
	autobuf struct buf same = BUF_INIT;

	snprintf(word, sizeof(word), "%s sandbox", code);
	if (s->is_rule) {
		add_menu_item(out, cols, true, word, "put the rule in force until the sandbox ends");
		snprintf(word, sizeof(word), "%s 2h", code);
		add_menu_item(out, cols, false, word, "for so long");
		return;
	}
	add_menu_item(out, cols, true, code, "allow it once: exactly this");
	buf_addf(&same, "%s, until the sandbox ends", s->same);
	add_menu_item(out, cols, false, word, buf_cstr(&same));
	buf_clear(&same);
	snprintf(word, sizeof(word), "%s 2h", code);
	buf_addf(&same, "for so long;  %s 3x: so many times", code);
	add_menu_item(out, cols, false, word, buf_cstr(&same));
}

static void add_other_items(const struct prompt_shown *s, struct buf *out, unsigned cols)
{
	add_menu_item(out, cols, false, "deny [WHY]", "refuse it, and say why");
	add_menu_item(out, cols, false, "later", "leave it for another terminal");
	add_menu_item(out, cols, false, "Ctrl-C", "leave all waiting questions");
	if (s->text->cut)
		add_menu_item(out, cols, false, "more", "show all of it");
	if (s->is_flood)
		add_menu_item(out, cols, false, "never", "ask no more on this terminal");
}

static void add_page_head(struct buf *out, unsigned cols, unsigned page, unsigned pages)
{
	autobuf struct buf words = BUF_INIT, rows = BUF_INIT;

	buf_adds(&words, "coffer: this sandbox waits for your answer");
	if (pages > 1)
		buf_addf(&words, " (page %u of %u)", page + 1, pages);
	buf_adds(&words, "; output is held back");
	termrows_wrap(&rows, cols, 0, "  ", buf_cstr(&words));
	buf_addf(out, "\033[1m%s\033[0m", buf_cstr(&rows));
	add_separator(out, cols);
}

static void prompt_add_note_rows(const char *note, struct buf *out, unsigned cols)
{
	autobuf struct buf plain = BUF_INIT;
	size_t n;

	termrows_plain(&plain, note, strlen(note));
	n = termrows_fit(buf_cstr(&plain), NOTE_MAX);
	if (plain.data)
		plain.data[n] = '\0';
	termrows_wrap(out, cols, 0, "  ", buf_cstr(&plain));
}

static void parts_release(struct parts *p)
{
	buf_release(&p->head);
	buf_release(&p->hint);
	buf_release(&p->menu);
	buf_release(&p->note);
}

static void parts_make(struct parts *p, const struct prompt_shown *s, unsigned page, unsigned pages)
{
	p->rows = s->rows ? s->rows : PROMPT_ROWS;
	p->cols = termrows_cols(s->cols);
	p->note_rows = (NOTE_MAX + p->cols - 4) / (p->cols - 3);
	add_page_head(&p->head, p->cols, page, pages);
	add_separator(&p->menu, p->cols);
	if (s->waiting) {
		autobuf struct buf words = BUF_INIT;

		buf_addf(&words, "%u more wait after this one.", s->waiting);
		termrows_wrap(&p->menu, p->cols, 0, "  ", buf_cstr(&words));
	}
	add_allow_items(s, &p->menu, p->cols);
	add_other_items(s, &p->menu, p->cols);
	add_separator(&p->hint, p->cols);
	add_menu_item(&p->hint, p->cols, true, "Enter", "the next page; how to allow it is on the last one");
	add_other_items(s, &p->hint, p->cols);
	if (s->note && s->note[0])
		prompt_add_note_rows(s->note, &p->note, p->cols);
}

/* Rows left for the question above a foot, a note and the input line. */
static size_t rows_above(const struct parts *p, const struct buf *foot)
{
	size_t used = termrows_count(buf_cstr(&p->head)) + termrows_count(buf_cstr(foot)) + p->note_rows + 1;

	return p->rows > used ? p->rows - used : 0;
}

/* The room on a page must not depend on its number, so the longest heading is measured. */
static void parts_measure(struct parts *p, const struct prompt_shown *s)
{
	parts_make(p, s, 9999, 9999);
}

unsigned prompt_pages(const struct prompt_shown *s)
{
	CLEANUP(parts_release) struct parts p = { 0 };
	size_t act = termrows_count(buf_cstr(&s->text->act)), text = termrows_count(buf_cstr(&s->text->text)),
	       room;

	/* On a terminal narrower than the layout, the terminal itself would break rows (prompt.Q4). */
	if ((s->cols && s->cols < TERMROWS_MIN) || buf_error(&s->text->act) || buf_error(&s->text->text))
		return 0;
	parts_measure(&p, s);
	if (buf_error(&p.head) || buf_error(&p.menu) || buf_error(&p.hint) || act > rows_above(&p, &p.menu))
		return 0;
	if (act + text <= rows_above(&p, &p.menu))
		return 1;
	room = rows_above(&p, &p.hint);
	return room < 3 ? 0 : (unsigned)((act + text + room - 1) / room) + 1;
}

static void add_terminal_rows(struct buf *out, const char *rows)
{
	while (*rows) {
		size_t n = strcspn(rows, "\n");

		buf_add(out, rows, n);
		buf_adds(out, "\r\n");
		rows += n + (rows[n] == '\n');
	}
}

static void add_question_page(const struct prompt_shown *s, const struct parts *p, struct buf *out)
{
	autobuf struct buf all = BUF_INIT, part = BUF_INIT;
	CLEANUP(parts_release) struct parts widest = { 0 };
	const char *from;
	size_t room;

	parts_measure(&widest, s);
	room = rows_above(&widest, &widest.hint);
	buf_adds(&all, buf_cstr(&s->text->act));
	buf_adds(&all, buf_cstr(&s->text->text));
	from = buf_cstr(&all) + termrows_skip(buf_cstr(&all), s->page * room);
	buf_add(&part, from, termrows_skip(from, room));
	add_terminal_rows(out, buf_cstr(&part));
	add_terminal_rows(out, buf_cstr(&p->hint));
}

void prompt_show(const struct prompt_shown *s, struct buf *out)
{
	CLEANUP(parts_release) struct parts p = { 0 };
	unsigned pages = prompt_pages(s);

	BUG_ON(s->page >= pages);
	parts_make(&p, s, s->page, pages);
	add_terminal_rows(out, buf_cstr(&p.head));
	if (s->page + 1 < pages) {
		add_question_page(s, &p, out);
	} else {
		/* The act is shown right above the answers. */
		if (pages == 1)
			add_terminal_rows(out, buf_cstr(&s->text->text));
		add_terminal_rows(out, buf_cstr(&s->text->act));
		add_terminal_rows(out, buf_cstr(&p.menu));
	}
	add_terminal_rows(out, buf_cstr(&p.note));
	prompt_line_begin(out);
}

void prompt_line_begin(struct buf *out)
{
	buf_adds(out, "> ");
}
