/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that build the wall share. */
#ifndef SANDBOX_WALL_INT_H
#define SANDBOX_WALL_INT_H

#include "sandbox/wall/wall.h"

#include <netinet/in.h>

/* Where the listeners of tproxy are; for gVisor the address is also what it sends everything to. The port is that of a
 * service that has been dead for decades. */
#define WALL_GATE4 "10.0.2.2"
#define WALL_GATE6 "fd00::2"
#define WALL_PORT 1

/* For addresses that stand in the source. */
struct in_addr wall_addr4(const char *text);
struct in6_addr wall_addr6(const char *text);

/* All packet rules of the namespace that the process is in, for the sockets that there are. */
int wall_rules(const struct wall *w, bool guest, struct err *e) MUST_CHECK;

#endif
