/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by cofferd and its clients: message formats and the socket's address. */
#ifndef COFFERDC_COFFERD_INT_H
#define COFFERDC_COFFERD_INT_H

#include "cofferdc/cofferd_client.h"
#include "vault/common/grants.h"

#include <sys/un.h>

#define COFFERD_FD_STARTING 4	 /* with --starting: closed once it serves */
#define COFFERD_SAYS "cofferd: " /* prefix of its error message */

/* Identifies the build of an open program; -1: the running one. */
int cofferd_build(int fd, struct cofferd_build *ret) MUST_CHECK;
void cofferd_address(const struct state *st, struct sockaddr_un *ret);
/* Strings with their NULs; -E2BIG past COFFERD_TEMPLATE_MAX. */
int cofferd_pack(const struct strv *template, struct buf *out) MUST_CHECK;

/* A request after checking; `body` points into the message. */
struct cofferd_msg {
	struct cofferd_ask head;
	const char *body;
	size_t len;
};

/* Length of the longest request. */
#define COFFERD_ASK_MAX (sizeof(struct cofferd_ask) + RUN_ID_LEN + 1 + GRANTS_PACK_MAX)

/* -EPROTO if malformed. The body of COFFERD_TAKE is one or more non-empty strings with their NULs; of
 * COFFERD_KEEP an id with its NUL; of COFFERD_HOLD the same followed by packed grants; of COFFERD_WEB a
 * struct webctl; others have none. */
int cofferd_msg_parse(const void *data, size_t len, struct cofferd_msg *ret) MUST_CHECK;
/* Checks a response, and terminates its strings. */
int cofferd_reply_parse(void *data, size_t len, struct cofferd_reply *ret) MUST_CHECK;

#endif
