/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager hands to a service, and hears from it: LISTEN_FDS and NOTIFY_SOCKET, as sd_listen_fds(3) and
 * sd_notify(3) describe them. */
#ifndef COFFERDC_ACTIVATE_H
#define COFFERDC_ACTIVATE_H

#include "base/err.h"

#define ACTIVATE_FIRST 3 /* the first descriptor that is handed over */

/* How many descriptors were handed to this process. */
unsigned activate_count(void);

/* Descriptor ACTIVATE_FIRST as a listening SOCK_SEQPACKET socket, or what is wrong with it. */
int activate_take(struct err *e) MUST_CHECK;

/* "READY=1", "STOPPING=1", …; nothing happens where nobody asked to be told. */
void activate_notify(const char *text);

#endif
