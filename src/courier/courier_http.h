/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one request of coffer-courier as bytes, and what it makes of the answer. Pure.
 *
 * Invariants
 *  A1  Of an answer its status counts. A redirect is an answer like any other: nothing is followed.
 *  A2  No more of a body is kept than ANSWER_TEXT_MAX bytes, and none of one whose status is 2xx; how much a server sends or how slowly
 *      does not matter once the head is there. At most ANSWER_INTERIM_MAX interim answers come before it.
 */
#ifndef COURIER_COURIER_HTTP_H
#define COURIER_COURIER_HTTP_H

#include "codec/http/http1.h"
#include "codec/http/http1_chunk.h"
#include "courier/courier_job.h"

#define ANSWER_TEXT_MAX 200
#define ANSWER_INTERIM_MAX 8
#define ANSWER_RETRY_MAX 3600 /* seconds that a server may ask for */

/* `out` should be one that wipes. `now` is in seconds since 1970. -EINVAL: the secret cannot stand in a header. */
int courier_request(const struct courier_job *j, struct slice secret, uint64_t now,
		    struct buf *out) MUST_CHECK;

struct courier_answer {
	struct http1_head head;
	struct http1_chunks chunks;
	struct buf in; /* a head that is not whole */
	struct buf text;
	struct slice method;
	unsigned interim;
	bool has_head;
	uint64_t left; /* of a body whose length is known */
	unsigned status;
	uint32_t retry_after;
	const char *why; /* static text */
};

void courier_answer_init(struct courier_answer *a, const char *method);
void courier_answer_release(struct courier_answer *a);

/* 1: it is known; 0: more is needed; -EBADMSG: a->why. */
int courier_answer_feed(struct courier_answer *a, const char *data, size_t len) MUST_CHECK;
/* At the end of the stream: 1 when what there is suffices, else -EPIPE. */
int courier_answer_end(const struct courier_answer *a) MUST_CHECK;

#endif
