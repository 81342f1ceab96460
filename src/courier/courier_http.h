/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one request of coffer-courier as bytes, and the interpretation of the response. Pure.
 *
 * Invariants
 *  A1  Only the status of a response counts. A redirect is a response like any other: nothing is followed.
 *  A2  At most RESPONSE_TEXT_MAX bytes of a body are kept, and none of one whose status is 2xx; how much a
 *      server sends, or how slowly, does not matter once the head is complete. At most RESPONSE_INTERIM_MAX
 *      interim responses come before it.
 */
#ifndef COURIER_COURIER_HTTP_H
#define COURIER_COURIER_HTTP_H

#include "codec/http/http1.h"
#include "codec/http/http1_chunk.h"
#include "courier/courier_job.h"

#define RESPONSE_TEXT_MAX 200
#define RESPONSE_INTERIM_MAX 8
#define RESPONSE_RETRY_MAX 3600 /* seconds that a server may request */

/*
 * `out` should be a buffer that is zeroed. `now` is in seconds since 1970. -EINVAL: the secret is not allowed
 * in a header.
 */
int courier_request(const struct courier_job *j, struct slice secret, uint64_t now,
		    struct buf *out) MUST_CHECK;

struct courier_response {
	struct http1_head head;
	struct http1_chunks chunks;
	struct buf in; /* an incomplete head */
	struct buf text;
	struct slice method;
	unsigned interim;
	bool has_head;
	uint64_t left; /* of a body whose length is known */
	unsigned status;
	uint32_t retry_after;
	const char *why; /* static text */
};

void courier_response_init(struct courier_response *a, const char *method);
void courier_response_release(struct courier_response *a);

/* 1: the result is known; 0: more is needed; -EBADMSG: a->why. */
int courier_response_feed(struct courier_response *a, const char *data, size_t len) MUST_CHECK;
/* At the end of the stream: 1 when the received part suffices, else -EPIPE. */
int courier_response_end(const struct courier_response *a) MUST_CHECK;

#endif
