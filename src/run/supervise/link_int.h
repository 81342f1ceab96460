/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by link.c and link_run.c. */
#ifndef RUN_LINK_INT_H
#define RUN_LINK_INT_H

#include "run/supervise/link.h"

/* Queues the start of a command on the next channel. */
int link_begin(struct link *l, const struct link_cmd *c, unsigned rows, unsigned cols,
	       struct err *e) MUST_CHECK;

/* The launcher closed the link: -EPIPE. */
int link_gone(struct err *e);
/* The launcher sent PROTO_ERROR, whose text is for a person: -EPERM. */
int link_refused(const struct frame *f, struct err *e);

#endif
