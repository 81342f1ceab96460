/* SPDX-License-Identifier: Apache-2.0 */
/* What cofferd and its clients share. */
#ifndef GATEWAY_COFFERD_INT_H
#define GATEWAY_COFFERD_INT_H

#include "gateway/cofferd.h"

#include <sys/un.h>

/* Of an open program; -1: the running one. */
int cofferd_build(int fd, struct cofferd_build *ret) MUST_CHECK;
void cofferd_address(const struct state *st, struct sockaddr_un *ret);
/* Strings with their NULs; -E2BIG past COFFERD_TEMPLATE_MAX. */
int cofferd_pack(const struct strv *template, struct buf *out) MUST_CHECK;

#endif
