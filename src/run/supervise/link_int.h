/* SPDX-License-Identifier: Apache-2.0 */
/* What link.c and link_run.c share. */
#ifndef RUN_LINK_INT_H
#define RUN_LINK_INT_H

#include "run/supervise/link.h"

/* Queues the start of a command on the next channel. */
int link_begin(struct link *l, const struct link_cmd *c, unsigned rows, unsigned cols,
	       struct err *e) MUST_CHECK;

int link_gone(struct err *e);
int link_refused(const struct frame *f, struct err *e);

#endif
