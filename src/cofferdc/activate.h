/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket activation and readiness: LISTEN_FDS and NOTIFY_SOCKET of a service manager, as sd_listen_fds(3) and
 * sd_notify(3) describe them.
 */
#ifndef COFFERDC_ACTIVATE_H
#define COFFERDC_ACTIVATE_H

#include "base/err.h"

#define ACTIVATE_FIRST 3 /* the first descriptor passed by the service manager */

/* Number of descriptors that were passed to this process. */
unsigned activate_count(void);

/* Returns descriptor ACTIVATE_FIRST after checking that it is a listening SOCK_SEQPACKET socket. */
int activate_take(struct err *e) MUST_CHECK;

/* Sends "READY=1", "STOPPING=1", …; does nothing without a NOTIFY_SOCKET. */
void activate_notify(const char *text);

#endif
