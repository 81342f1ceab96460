/* SPDX-License-Identifier: Apache-2.0 */
/* The steps before an answer is sent to the ask server: identify the question, show it, confirm, and for
 * --always edit the policy file. */
#ifndef CLI_APPROVE_HOW_H
#define CLI_APPROVE_HOW_H

#include "approval/wire/askproto.h"

/* Are standard input and standard error a terminal, so that a person can be asked? */
bool cli_approve_can_confirm(void);
/* Asks a yes-or-no question. Input that was typed before the question was shown is discarded. -ECANCELED: not
 * confirmed. */
int cli_approve_confirm(const char *question, struct err *e) MUST_CHECK;

/* Shows the rows `all` on the terminal, a screen at a time. If that takes more than one screen, the last one
 * repeats the requested act (`act`). -ECANCELED: the person stopped; -EMSGSIZE: the terminal is too small to
 * show the act on one screen. */
int cli_approve_show(const char *all, const char *act, struct err *e) MUST_CHECK;

/*
 * Each run numbers its questions from 1, so a bare number may refer to another run's question by the time it
 * is answered. It is accepted only if the question can be shown to a person first (*ret_show); otherwise the
 * error lists the ids that it could mean.
 */
int cli_approve_check_id(struct state *st, const char *id, bool *ret_show, struct err *e) MUST_CHECK;

/* Shows the edit of the run's policy file, asks for confirmation unless `yes`, and makes it. 0: the file
 * allows the act now. */
int cli_approve_always(struct askc *c, struct state *st, int run_fd, const json_t *ask,
		       const struct ask_who *who, bool yes, struct err *e) MUST_CHECK;

#endif
