/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's control messages (fds.h), the policies they carry, and the replies. */
#ifndef EGRESS_CONTROL_H
#define EGRESS_CONTROL_H

#include "egress/core/egress.h"
#include "egress/wire/fds.h"

int control_open(struct egress *eg, int fd,
		 struct err *e) MUST_CHECK; /* fd stays open until control_close() */
void control_close(struct egress *eg);

/* Sends one message to the guard. When the guard does not read, or is gone, the process ends. */
void control_send(struct egress *eg, enum ctl_type type, const char *text, size_t len);

/*
 * The same for asks, of which there may be many at once: messages that do not fit into the socket are queued,
 * in order.
 */
void control_queue(struct egress *eg, enum ctl_type type, const void *data, size_t len);

/* Tells the guard that the journal has a line that must reach the log at once. */
void control_poke(struct egress *eg);

/*
 * Loads the policy of a bundle: a sealed memory file, mapped as long as the policy is in force. Any failure
 * leaves no policy, which denies everything, and puts the reason into `e` and the journal. Does not take fd.
 */
int control_load(struct egress *eg, int fd, uint32_t generation, struct err *e) MUST_CHECK;

/* The statistics for CTL_STATS, as JSON. */
void control_stats(struct egress *eg, struct buf *out);

#endif
