/* SPDX-License-Identifier: Apache-2.0 */
/* A question in words for a person. Whatever came from inside is made harmless for a terminal. */
#ifndef CLI_ASK_SHOW_H
#define CLI_ASK_SHOW_H

#include "gateway/askproto.h"

/* "PUT https://api.github.com/repos/o/r/pulls/7/merge", "api.example.com:443", the text of a question; one line, cut. */
void ask_act(const json_t *ask, size_t max, struct buf *out);
/* All of it; `st` for who asks and what it did just before, may be NULL. */
void ask_show(const json_t *ask, struct state *st, struct buf *out);
/* A member that is text; "" when it is not there. */
const char *ask_text(const json_t *ask, const char *key);
/* Who is at this terminal. */
void ask_who_am_i(struct ask_who *ret, const char *via);

#endif
