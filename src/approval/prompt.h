/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question on the terminal of `coffer run`, as text and bytes: the screen that is shown, and the meaning of
 * a typed line. Pure; supervise_prompt.c owns the terminal, doc/adr/0020 has the reasons.
 *
 * Invariants (cited elsewhere as prompt.Q1 …)
 * Q1  Only a line that begins with the whole code allows. The code is new each time a question is shown,
 *     comes from getrandom(), is written only to the terminal, and is never a word: it has no vowels.
 * Q2  A line that contains anything but typed letters (an escape sequence: an arrow key, or the terminal's
 *     response to a query of the command) is discarded as a whole, up to its end.
 * Q3  Everything shown is our own text or made harmless by the renderer. Before the first byte of it, all
 *     state that the command left in the terminal is reset (prompt_reset), and its output is scrolled out of
 *     sight.
 * Q4  Rows are counted, and each fits one row of the terminal (codec/term/termrows.h). A question that does
 *     not fit on the screen is shown in pages. The code is on the last page only, together with the whole act
 *     that is asked for. If there is no room for that, there is no code.
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
#define PROMPT_PREVIEW_ROWS 8 /* of a body, unless `more` is typed */
#define PROMPT_ROW 3	      /* questions in a row, after which `never` is offered */
#define PROMPT_ROWS 24	      /* if the terminal does not report its size */

/* Makes a code of random bytes, one letter for each; some bytes are rejected: -EAGAIN if too few are left. */
int prompt_code(const uint8_t *random, size_t n, char ret[PROMPT_CODE_LEN + 1]) MUST_CHECK;

enum prompt_word {
	PROMPT_EMPTY,
	PROMPT_ALLOW,
	PROMPT_DENY,
	PROMPT_LATER, /* leaves the question pending, for another approver */
	PROMPT_NEVER, /* and asks no more questions of this run on this terminal */
	PROMPT_MORE,  /* shows everything known about it */
	PROMPT_UNKNOWN,
};

/* Parses a typed line, which ends with NUL. Sets allow, scope, seconds, uses and reason of *ret. */
enum prompt_word prompt_parse(const char *line, const char *code, struct ask_answer *ret);

/* The line as typed so far. */
struct prompt_line {
	char text[PROMPT_LINE_MAX + 1];
	size_t len;
	bool spoilt; /* contains other than typed letters (Q2) */
	bool was_cr;
};

enum prompt_key {
	PROMPT_KEY_NONE,      /* all bytes were taken; the line is not complete */
	PROMPT_KEY_LINE,      /* `text` is a complete line; the next call begins a new one */
	PROMPT_KEY_SPOILT,    /* the end of a discarded line */
	PROMPT_KEY_INTERRUPT, /* Ctrl-C, Ctrl-D */
	PROMPT_KEY_SUSPEND,   /* Ctrl-Z */
};

/* Takes bytes up to the next event; *used is their number. Bytes to echo are added to *echo. */
enum prompt_key prompt_line_take(struct prompt_line *l, const uint8_t *data, size_t len, size_t *used,
				 struct buf *echo);

/* Ends any sequence that the command had begun, leaves the alternate screen, resets modes, colours and
 * palette (Q3). */
extern const char prompt_reset[];

/* Resets the terminal, scrolls its content out of sight, and clears the screen. */
void prompt_clear(unsigned rows, struct buf *out);

/*
 * One line for terminals where no question is asked: `question 89f211-3 waits (coffer ask show 89f211-3):
 * "POST api.example.com/v1"`. The agent's words come last, shortened, in quotes that they cannot end. The
 * second function shortens such a line again, for a terminal.
 */
void prompt_notice(const struct ask_view *v, size_t max, struct buf *out);
void prompt_notice_cut(const char *notice, size_t max, struct buf *out);

/* A question as rows of codec/term/termrows.h for one width. */
struct prompt_text {
	struct buf text; /* the asker, its reason, the content of the request */
	struct buf act;	 /* the whole act that is asked for, and the question's id */
	bool cut;	 /* `more` shows more of it */
};

#define PROMPT_TEXT_INIT ((struct prompt_text){ .text = BUF_INIT, .act = BUF_INIT })
void prompt_text_release(struct prompt_text *t);

struct prompt_shown {
	const struct prompt_text *text;
	const char *code;
	const char *same;    /* the extent of an answer for more than one use */
	const char *note;    /* on the line typed last; may be NULL */
	unsigned rows, cols; /* size that the terminal reports */
	unsigned page;	     /* from 0 */
	bool is_rule;	     /* a rule: it cannot be allowed once */
	bool is_flood;	     /* others came right before it */
	unsigned waiting;    /* number of questions queued after this one */
};

/* Number of pages; 0 if it cannot be answered on this terminal (Q4). */
unsigned prompt_pages(const struct prompt_shown *s);
/* One page with the possible answers, and on the last one the code; rows end with CR LF. `page` must exist. */
void prompt_show(const struct prompt_shown *s, struct buf *out);
void prompt_line_begin(struct buf *out); /* "> " */

#endif
