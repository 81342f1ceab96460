/* SPDX-License-Identifier: Apache-2.0 */
/* What comes before an answer counts: which question is meant, and, for one that is to hold for good, the policy file. */
#ifndef CLI_APPROVE_HOW_H
#define CLI_APPROVE_HOW_H

#include "approval/wire/askproto.h"

/* Is there a person who can be shown something and say yes? */
bool approve_can_confirm(void);
/* What was typed before the question stood there does not answer it. -ECANCELED: no. */
int approve_confirm(const char *question, struct err *e) MUST_CHECK;

/* Rows on the terminal, a screen at a time; when it takes more than one, the last has what is asked for (`act`) again. -ECANCELED: the
 * person had enough; -EMSGSIZE: a screen has no room for that. */
int approve_show(const char *all, const char *act, struct err *e) MUST_CHECK;

/*
 * A number alone may be another question by the time it is answered: a new one comes, an old one goes. It is taken only where a
 * person is shown what it is (*ret_show); elsewhere the ids that it could be are named.
 */
int approve_check_id(struct state *st, const char *id, bool *ret_show, struct err *e) MUST_CHECK;

/* Shows the edit of the run's policy file, has it confirmed unless `yes`, and makes it. 0: the file allows it now. */
int approve_always(struct askc *c, struct state *st, int run_fd, const json_t *ask, const struct ask_who *who,
		   bool yes, struct err *e) MUST_CHECK;

#endif
