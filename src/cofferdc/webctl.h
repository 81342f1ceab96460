/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of `coffer token`, `coffer ui` and `coffer gateway` about the API, over cofferd's own socket (COFFERD_WEB). */
#ifndef COFFERDC_WEBCTL_H
#define COFFERDC_WEBCTL_H

#include "base/err.h"
#include "crypto/hash.h"
#include "web/wire/webproto.h"

#include <stdint.h>

enum webctl_op {
	WEBCTL_LISTEN = 1,
	WEBCTL_WHERE,
	WEBCTL_TOKEN,
	WEBCTL_LOGIN,
	WEBCTL_LS,
	WEBCTL_RM,
	WEBCTL_OP_COUNT
};

struct webctl {
	uint32_t op;
	uint32_t role;	    /* enum web_role */
	uint32_t is_public; /* 0 or 1 */
	uint32_t pad;
	uint64_t expires; /* CLOCK_REALTIME ns; 0: never */
	unsigned char hash[HASH_LEN];
	char name[72];	 /* of the token; WEBCTL_RM: the one to remove */
	char listen[72]; /* "127.0.0.1:8787" */
	char hosts[256]; /* accepted values of Host, comma-separated */
};

/* Checks that texts are terminated and numbers in range. -EPROTO. */
int webctl_parse(const void *data, size_t len, struct webctl *ret) MUST_CHECK;
#endif
