/* SPDX-License-Identifier: Apache-2.0 */
/* What cofferd and its clients share. */
#ifndef COFFERDC_COFFERD_INT_H
#define COFFERDC_COFFERD_INT_H

#include "cofferdc/cofferd_client.h"
#include "vault/common/grants.h"

#include <sys/un.h>

#define COFFERD_FD_STARTING 4	 /* with --starting: closed once it serves */
#define COFFERD_SAYS "cofferd: " /* before its last words */

/* Of an open program; -1: the running one. */
int cofferd_build(int fd, struct cofferd_build *ret) MUST_CHECK;
void cofferd_address(const struct state *st, struct sockaddr_un *ret);
/* Strings with their NULs; -E2BIG past COFFERD_TEMPLATE_MAX. */
int cofferd_pack(const struct strv *template, struct buf *out) MUST_CHECK;

/* A question, as it came: checked, and pointing into the message. */
struct cofferd_msg {
	struct cofferd_ask head;
	const char *body;
	size_t len;
};

/* The longest question. */
#define COFFERD_ASK_MAX (sizeof(struct cofferd_ask) + RUN_ID_LEN + 1 + GRANTS_PACK_MAX)

/* -EPROTO for what is none. The body of a COFFERD_TAKE are strings with their NULs, at least one and none empty; that of a
 * COFFERD_KEEP is an id with its NUL, that of a COFFERD_HOLD the same and something behind it, that of a COFFERD_WEB a struct webctl; others have none. */
int cofferd_msg_parse(const void *data, size_t len, struct cofferd_msg *ret) MUST_CHECK;
/* An answer with its NULs put in place. */
int cofferd_reply_parse(void *data, size_t len, struct cofferd_reply *ret) MUST_CHECK;

#endif
