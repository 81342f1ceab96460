/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the host for coffer-egress, coffer-dial and coffer-courier, which cannot open any themselves. */
#ifndef EGRESS_HOSTFILES_H
#define EGRESS_HOSTFILES_H

#include "base/err.h"

/* Opens the bundle of certificate authorities that the host trusts, or -1: then no server can be verified. */
int hostfiles_store(void);
/* A sealed copy of /etc/resolv.conf; empty where the host has none. */
int hostfiles_resolv(struct err *e) MUST_CHECK;

#endif
