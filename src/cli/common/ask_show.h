/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question in words for a person. Whatever came from inside is made harmless for a terminal, and laid out in rows of ours
 * (codec/term/termrows.h): what an agent writes never stands where our labels do.
 */
#ifndef CLI_ASK_SHOW_H
#define CLI_ASK_SHOW_H

#include "approval/prompt.h"
#include "approval/wire/askproto.h"

/* "PUT https://api.github.com/repos/o/r/pulls/7/merge", "api.example.com:443", the text of a question; one line, cut: its path and
 * text to so many bytes each. */
void ask_act(const json_t *ask, size_t max, struct buf *out);
/* What is asked for, whole, as rows: kind, method, host and port, path or rule, and the question's id. */
void ask_show_act(const json_t *ask, unsigned cols, struct buf *out);
/* All of it; `st` for who asks and what it did just before, may be NULL. */
void ask_show(const json_t *ask, struct state *st, unsigned cols, struct buf *out);
/* The same for who answers at once: shorter, without what an answer says itself, what is asked for apart. */
void ask_show_prompt(const json_t *ask, struct state *st, unsigned cols, bool all, struct prompt_text *ret);
/* Columns to lay out for on this descriptor. */
unsigned ask_cols(int fd);
/* The same for lines of a list, which are not broken: 0 where there is no terminal, and nothing is cut. */
unsigned ask_line_cols(int fd);
/* A member that is text; "" when it is not there. */
const char *ask_text(const json_t *ask, const char *key);
/* The name of a user of this machine; -ENOENT: it has none. */
int ask_user_name(uid_t uid, char ret[ASK_NAME_MAX]) MUST_CHECK;
/* Who is at this terminal. */
void ask_who_am_i(struct ask_who *ret, const char *via);

/* For who asks (askhold.h): "waiting for an answer…", on stderr. */
void ask_say_waits(void *ctx, const char *id);
/* --ask-timeout, in seconds. */
int ask_timeout_parse(const char *value, uint64_t *ret, struct err *e) MUST_CHECK;

#endif
