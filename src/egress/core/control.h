/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's messages (fds.h), the policy they bring, and what is answered. */
#ifndef EGRESS_CONTROL_H
#define EGRESS_CONTROL_H

#include "egress/core/egress.h"
#include "egress/wire/fds.h"

int control_open(struct egress *eg, int fd, struct err *e) MUST_CHECK; /* fd stays open until the end */
void control_close(struct egress *eg);

/* One message to the guard; a guard that does not read, or is gone, ends the process. */
void control_send(struct egress *eg, enum ctl_type type, const char *text, size_t len);

/* The same for questions, which may be many at once: what the socket does not take now waits, and goes in order. */
void control_queue(struct egress *eg, enum ctl_type type, const void *data, size_t len);

/* Tells it that the journal has something that is to be in the log at once. */
void control_poke(struct egress *eg);

/*
 * Takes the policy of a bundle: a sealed memory file, mapped as long as the policy is in force. Any failure leaves no
 * policy, which denies everything, and says why in `e` and in the journal. Does not take fd.
 */
int control_load(struct egress *eg, int fd, uint32_t generation, struct err *e) MUST_CHECK;

/* The snapshot that CTL_STATS answers with. */
void control_stats(struct egress *eg, struct buf *out);

#endif
