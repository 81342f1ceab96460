/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by run_link.c and run_link_exec.c. */
#ifndef RUN_RUN_LINK_INT_H
#define RUN_RUN_LINK_INT_H

#include "run/supervise/run_link.h"

/* Queues the start of a command on the next channel. */
int run_link_begin(struct run_link *l, const struct run_link_cmd *c, unsigned rows, unsigned cols,
		   struct err *e) MUST_CHECK;

/* The launcher closed the link: -EPIPE. */
int run_link_gone(struct err *e);
/* The launcher sent PROTO_ERROR, whose text is for a person: -EPERM. */
int run_link_refused(const struct frame *f, struct err *e);

#endif
