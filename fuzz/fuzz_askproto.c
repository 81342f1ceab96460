/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a client to the server of a run's questions, each parsed as the server does; and the file. */
#include "approval/wire/askproto.h"
#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

#define RUN "0123456789ab"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	(void)ctx;
	(void)ret_seq;
	(void)type;
	(void)fields;
	return 0;
}

static void on_tell(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why)
{
	(void)ctx;
	(void)waiter;
	(void)allow;
	(void)id;
	(void)why;
}

static void read_frames(const uint8_t *data, size_t size)
{
	struct frame f;
	long n;

	while ((n = frame_parse(data, size, &f)) > 0) {
		struct askp_request q;
		struct err e = ERR_INIT;

		if (askp_request_parse(&f, &q, &e) == 0) {
			char why[ASK_WHY_MAX];

			if (q.type == ASKP_SUBMIT)
				BUG_ON(ask_question_check(&q.q, why) < 0);
			if (q.type == ASKP_ANSWER)
				BUG_ON(!q.id[0] && strlen(q.digest) > HASH_HEX_LEN);
			askp_request_release(&q);
		}
		data += n;
		size -= (size_t)n;
	}
}

/* The file of a session's grants: all or nothing, and an accepted one can be written and read again. */
static void read_kept(const uint8_t *data, size_t size, const struct asks_out *out, struct asks_now now)
{
	CLEANUP(asks_freep) struct asks *l = asks_new(RUN, 0, out), *again = asks_new(RUN, 0, out);
	autobuf struct buf text = BUF_INIT;
	struct err e = ERR_INIT;

	if (!l || !again)
		return;
	if (asks_kept_load(l, now, (const char *)data, size, &e) < 0) {
		BUG_ON(asks_next(l, NULL));
		return;
	}
	asks_kept_store(l, &text);
	BUG_ON(!buf_error(&text) && asks_kept_load(again, now, buf_cstr(&text), text.len, &e) == -EBADMSG);
	BUG_ON(asks_pending(l));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct asks_out out = { .event = on_event, .tell = on_tell };
	const struct asks_now now = { 1000, 1000 };
	CLEANUP(asks_freep) struct asks *l = asks_new(RUN, 0, &out);
	autobuf struct buf text = BUF_INIT;
	struct err e = ERR_INIT;

	read_frames(data, size);
	if (l && asks_load(l, now, (const char *)data, size, &e) == 0)
		asks_store(l, &text);
	/* A file grants nothing. */
	BUG_ON(l && asks_pending(l));
	read_kept(data, size, &out, now);
	return 0;
}
