/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the http1*.c files. No other file includes this. */
#ifndef CODEC_HTTP1_INT_H
#define CODEC_HTTP1_INT_H

#include "codec/http/http1.h"

/* Records the reason, and the status for the client. Returns -EBADMSG. */
int http1_fail(struct http1_head *h, unsigned status, const char *why);

/* Splits one line, which is without its CR LF. Returns NULL, or the fault as static text. */
const char *http1_split_field(struct slice line, struct http1_field *ret);

/* Adds one header to h->fields, and applies its effect on framing and connection. 0 or -EBADMSG. */
int http1_take_field(struct http1_head *h, struct slice line) MUST_CHECK;

/* Checks and derives, after the last header, all that is the same for requests and responses. */
int http1_check_fields(struct http1_head *h) MUST_CHECK;

struct slice http1_trim(struct slice s);

#endif
