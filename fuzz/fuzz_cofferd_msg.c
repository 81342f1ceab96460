/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between cofferd and its clients, in both directions. */
#include "base/err.h"
#include "cofferdc/cofferd_int.h"
#include "daemon/broker/webd.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t count(const char *p, size_t len)
{
	const char *end = p + len;
	size_t n = 0;

	for (; p < end; p += strlen(p) + 1)
		n++;
	return n;
}

static bool is_right(const struct cofferd_msg *m)
{
	if (m->head.want == COFFERD_TAKE)
		return count(m->body, m->len) > 0;
	if (m->head.want == COFFERD_KEEP)
		return strlen(m->body) == RUN_ID_LEN && !strchr(m->body, '/');
	if (m->head.want == COFFERD_HOLD)
		return strnlen(m->body, m->len) == RUN_ID_LEN && m->len > RUN_ID_LEN + 1;
	if (m->head.want == COFFERD_WEB)
		return m->len == sizeof(struct webctl);
	return m->len == 0;
}

static void check_ask(const uint8_t *data, size_t size)
{
	struct cofferd_msg m;

	if (cofferd_msg_parse(data, size, &m) < 0)
		return;
	BUG_ON(m.head.magic != COFFERD_MAGIC || size > COFFERD_ASK_MAX);
	BUG_ON(m.body != (const char *)data + sizeof(m.head) || m.len != size - sizeof(m.head));
	BUG_ON(!is_right(&m));
}

static void check_reply(const uint8_t *data, size_t size)
{
	unsigned char copy[sizeof(struct cofferd_reply) + 8];
	struct cofferd_reply r;

	if (size > sizeof(copy))
		return;
	memcpy(copy, data, size);
	if (cofferd_reply_parse(copy, size, &r) < 0)
		return;
	BUG_ON(strlen(r.why) >= sizeof(r.why) || strlen(r.hint) >= sizeof(r.hint) ||
	       strlen(r.id) > RUN_ID_LEN || r.error > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_ask(data, size);
	check_reply(data, size);
	return 0;
}
