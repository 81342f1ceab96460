/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of coffer-egress to the guard when a person is to be asked: put into the list, as the guard does it. */
#include "approval/list/asks.h"
#include "egress/wire/askmsg.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_event(void *ctx, const char *type, const struct buf *fields, uint64_t *ret_seq)
{
	(void)ctx;
	(void)ret_seq;
	BUG_ON(!type[0] || memchr(fields->data, '\n', fields->len));
	return 0;
}

static void on_tell(void *ctx, uint64_t waiter, bool allow, const char *id, const char *why)
{
	(void)ctx;
	(void)waiter;
	(void)id;
	/* Nobody has answered anything. */
	BUG_ON(allow || !why[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct asks_out out = { .event = on_event, .tell = on_tell };
	const struct asks_now now = { 1000, 1000 };
	CLEANUP(asks_freep) struct asks *l = NULL;
	autobuf struct buf b = BUF_INIT, text = BUF_INIT;
	struct ask_question q;
	struct askmsg m;

	if (askmsg_unpack(data, size, &m) < 0)
		return 0;
	BUG_ON(askmsg_pack(&m, &b) < 0 || b.len != size || memcmp(b.data, data, size) != 0);
	q = (struct ask_question){ .kind = (enum ask_kind)m.kind,
				   .generation = m.generation,
				   .port = m.port,
				   .has_body = m.has_body,
				   .host = m.host,
				   .method = m.method,
				   .path = m.path,
				   .what = m.what,
				   .type = m.type,
				   .rule = m.rule,
				   .reason = m.reason,
				   .preview = m.preview,
				   .preview_len = m.preview_len };
	l = asks_new("0123456789ab", 0, &out);
	if (!l)
		return 0;
	asks_put(l, now, &q, m.ticket, 0, NULL);
	asks_put(l, now, &q, m.ticket ^ 1, 0, NULL);
	asks_store(l, &text);
	return 0;
}
