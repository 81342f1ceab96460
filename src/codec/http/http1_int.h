/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the http1*.c files. No other file includes this. */
#ifndef CODEC_HTTP1_INT_H
#define CODEC_HTTP1_INT_H

#include "codec/http/http1.h"

/* Records why, and what to answer the client. Returns -EBADMSG. */
int http1_fail(struct http1_head *h, unsigned answer, const char *why);

/* One line without its CR LF. NULL, or static text that says what is wrong with it. */
const char *http1_split_field(struct slice line, struct http1_field *ret);

/* Takes one header: into h->fields, and what it says of framing and connection. 0 or -EBADMSG. */
int http1_take_field(struct http1_head *h, struct slice line) MUST_CHECK;

/* After the last header: what holds for requests and responses alike. */
int http1_check_fields(struct http1_head *h) MUST_CHECK;

struct slice http1_trim(struct slice s);

#endif
