/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by wall.c and wall_rules.c. */
#ifndef SANDBOX_WALL_INT_H
#define SANDBOX_WALL_INT_H

#include "sandbox/wall/wall.h"

#include <netinet/in.h>

/* The address and port that the listeners of tproxy are bound to; for gVisor the address is also the gateway of all its routes.
 * The port belongs to a service that has been unused for decades. */
#define WALL_GATE4 "10.0.2.2"
#define WALL_GATE6 "fd00::2"
#define WALL_PORT 1

/* For constant addresses of the source. */
struct in_addr wall_addr4(const char *text);
struct in6_addr wall_addr6(const char *text);

/* Installs all packet rules of the current network namespace, for the sockets that exist. */
int wall_rules(const struct wall *w, bool guest, struct err *e) MUST_CHECK;

#endif
