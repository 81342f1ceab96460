/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats a question for a person. Text from inside a sandbox is escaped for the terminal and laid out in
 * rows of ours (codec/term/termrows.h), so that an agent's text never appears in the column of our labels.
 */
#ifndef CLI_ASK_SHOW_H
#define CLI_ASK_SHOW_H

#include "approval/prompt.h"
#include "approval/wire/askproto.h"

/* The requested act as one line: "PUT https://api.github.com/repos/o/r/pulls/7/merge", "api.example.com:443",
 * or the text of the question. Path and text are cut to `max` bytes each. */
void cli_ask_act(const json_t *ask, size_t max, struct buf *out);
/* The requested act in full, as rows: kind, method, host and port, path or rule, and the question's id. */
void cli_ask_show_act(const json_t *ask, unsigned cols, struct buf *out);
/* The whole question. `st` is used for the sandbox's name and its last events; it may be NULL. */
void cli_ask_show(const json_t *ask, struct state *st, unsigned cols, struct buf *out);
/* The question for the prompt, whose reader answers at once: shorter, and with the requested act in a text of
 * its own. */
void cli_ask_show_prompt(const json_t *ask, struct state *st, unsigned cols, bool all,
			 struct prompt_text *ret);
/* The columns to lay rows out for on this fd. */
unsigned cli_ask_cols(int fd);
/* The columns to cut the lines of a list at; 0 if the fd is no terminal, and lines are not cut. */
unsigned cli_ask_line_cols(int fd);
/* The name of a user of this machine; -ENOENT if /etc/passwd has none. */
int cli_ask_user_name(uid_t uid, char ret[ASK_NAME_MAX]) MUST_CHECK;
/* Describes the user of this process as the approver; `via` is the way of answering, such as "terminal". */
void cli_ask_who_am_i(struct ask_who *ret, const char *via);

/* The callback `waits` of askhold.h for verbs that ask: prints "waiting for an answer…" on stderr. */
void cli_ask_say_waits(void *ctx, const char *id);
/* Parses the value of --ask-timeout into seconds. */
int cli_ask_timeout_parse(const char *value, uint64_t *ret, struct err *e) MUST_CHECK;

#endif
