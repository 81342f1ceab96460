/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question on the terminal of `coffer run`, as text and bytes: what is shown, and what a typed line means. Pure;
 * supervise_prompt.c has the terminal, doc/adr/0020 the reasons.
 *
 * Invariants
 *  Q1  Nothing allows but a line that begins with the code, whole. The code is new for each time that a question is shown, comes
 *      from getrandom(), is written to nothing but the terminal, and is no word: it has no vowels.
 *  Q2  A line into which something else than typed letters came (an escape sequence: an arrow, or the terminal's answer to what
 *      the command had asked it) is thrown away as a whole, up to its end.
 *  Q3  What is shown is ours but for what the renderer has made harmless; whatever the command did to the terminal before is
 *      undone (PROMPT_RESET) before the first byte of it, and what it had printed is above it, out of sight.
 *  Q4  Rows are counted, and each is one of the terminal's (codec/term/termrows.h). What does not fit on the screen at once is shown in
 *      pages. The code is on the last one, and nowhere before; what is asked for stands there in full. Where there is no room for
 *      that, there is no code.
 */
#ifndef APPROVAL_PROMPT_H
#define APPROVAL_PROMPT_H

#include "approval/list/asks.h"
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROMPT_CODE_LEN 4
#define PROMPT_LINE_MAX 160
#define PROMPT_PREVIEW_ROWS 8 /* of a body, unless more is asked for */
#define PROMPT_ROW 3	      /* questions in a row, after which it is said how to be left alone */
#define PROMPT_ROWS 24	      /* where the terminal does not say */

/* One letter for each byte; random ones, of which some are of no use: -EAGAIN when there are too few. */
int prompt_code(const uint8_t *random, size_t n, char ret[PROMPT_CODE_LEN + 1]) MUST_CHECK;

enum prompt_word {
	PROMPT_EMPTY,
	PROMPT_ALLOW,
	PROMPT_DENY,
	PROMPT_LATER, /* it stays as it is, for somebody elsewhere */
	PROMPT_NEVER, /* and so do all others that this run asks */
	PROMPT_MORE,  /* all of what is known of it */
	PROMPT_UNKNOWN,
};

/* ret: allow, scope, seconds, uses, reason are set. `line` ends with NUL. */
enum prompt_word prompt_parse(const char *line, const char *code, struct ask_answer *ret);

/* What was typed of a line so far. */
struct prompt_line {
	char text[PROMPT_LINE_MAX + 1];
	size_t len;
	bool spoilt; /* Q2 */
	bool was_cr;
};

enum prompt_key {
	PROMPT_KEY_NONE,      /* all was taken, and the line is not at its end */
	PROMPT_KEY_LINE,      /* text is a line; the next call begins a new one */
	PROMPT_KEY_SPOILT,    /* its end has come, and it is thrown away */
	PROMPT_KEY_INTERRUPT, /* Ctrl-C, Ctrl-D */
	PROMPT_KEY_SUSPEND,   /* Ctrl-Z */
};

/* Takes bytes until something has happened; *used says how many. What is to be seen of it is added to *echo. */
enum prompt_key prompt_line_take(struct prompt_line *l, const uint8_t *data, size_t len, size_t *used,
				 struct buf *echo);

/* Ends whatever sequence the command had begun, leaves the alternate screen, resets modes, colours and palette (Q3). */
extern const char prompt_reset[];

/* The terminal is reset, what was on it is moved out of sight, and the screen is empty. */
void prompt_clear(unsigned rows, struct buf *out);

/*
 * One line for where nobody is asked: `question 89f211-3 waits (coffer ask show 89f211-3): "POST api.example.com/v1"`. The agent's words
 * are the last, in quotes that they cannot end, and cut. The second cuts such a line once more, for a terminal.
 */
void prompt_notice(const struct ask_view *v, size_t max, struct buf *out);
void prompt_notice_cut(const char *notice, size_t max, struct buf *out);

/* A question in words, as rows of codec/term/termrows.h for one width. */
struct prompt_text {
	struct buf text; /* who asks, why, what comes with it */
	struct buf act;	 /* what is asked for, whole, and the question's id */
	bool cut;	 /* there is more to see of it */
};

#define PROMPT_TEXT_INIT ((struct prompt_text){ .text = BUF_INIT, .act = BUF_INIT })
void prompt_text_release(struct prompt_text *t);

struct prompt_shown {
	const struct prompt_text *text;
	const char *code;
	const char *same;    /* what an answer for more than once holds for */
	const char *note;    /* on what was typed; may be NULL */
	unsigned rows, cols; /* of the terminal, as it says */
	unsigned page;	     /* from 0 */
	bool is_rule;	     /* one that cannot be allowed once */
	bool is_flood;	     /* there were some before it */
	unsigned waiting;    /* behind this one */
};

/* How many it takes; 0 when it cannot be answered on this terminal (Q4). */
unsigned prompt_pages(const struct prompt_shown *s);
/* One page with what can be typed, and on the last one the code; rows end with CR LF. Only for a page that there is. */
void prompt_show(const struct prompt_shown *s, struct buf *out);
void prompt_line_begin(struct buf *out); /* "> " */

#endif
