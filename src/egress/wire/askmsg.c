/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec of askmsg.h. Unpacking reads bytes from a process that may be compromised: it checks every length
 * before use, and does no I/O.
 */
#include "egress/wire/askmsg.h"

#include "base/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct askmsg_head {
	uint64_t ticket, body_len;
	uint32_t generation, preview_bytes;
	uint16_t port;
	uint8_t kind;
	uint8_t flags;
	uint32_t zero; /* so that there is no padding */
	unsigned char body[HASH_LEN];
};

static_assert(sizeof(struct askmsg_head) == 32 + HASH_LEN, "no padding");

enum { FLAG_TLS = 1, FLAG_BODY = 2 };

static const size_t text_at[] = {
	offsetof(struct askmsg, host),	 offsetof(struct askmsg, method), offsetof(struct askmsg, path),
	offsetof(struct askmsg, what),	 offsetof(struct askmsg, type),	  offsetof(struct askmsg, rule),
	offsetof(struct askmsg, reason),
};

int askmsg_pack(const struct askmsg *m, struct buf *out)
{
	struct askmsg_head h = { .ticket = m->ticket,
				 .body_len = m->body_len,
				 .generation = m->generation,
				 .preview_bytes = m->preview_bytes,
				 .port = m->port,
				 .kind = (uint8_t)m->kind,
				 .flags =
					 (uint8_t)((m->tls ? FLAG_TLS : 0) | (m->has_body ? FLAG_BODY : 0)) };

	memcpy(h.body, m->body, sizeof(h.body));
	buf_add(out, &h, sizeof(h));
	for (size_t i = 0; i < ARRAY_SIZE(text_at); i++) {
		const char *s;

		memcpy(&s, (const char *)m + text_at[i], sizeof(s));
		buf_add(out, s ? s : "", s ? strlen(s) + 1 : 1);
	}
	buf_add(out, m->preview, m->preview_len);
	if (m->preview_len > ASKMSG_PREVIEW_MAX || out->len > ASKMSG_MAX)
		return -E2BIG;
	return buf_error(out);
}

int askmsg_unpack(const void *data, size_t len, struct askmsg *ret)
{
	const char *p = data, *end = p + len;
	struct askmsg m = { 0 };
	struct askmsg_head h;

	if (len < sizeof(h) || len > ASKMSG_MAX)
		return -EPROTO;
	memcpy(&h, p, sizeof(h));
	p += sizeof(h);
	if (h.kind >= ASKMSG_KIND_COUNT || h.flags & ~(FLAG_TLS | FLAG_BODY) || h.zero || !h.ticket ||
	    h.ticket >> 62)
		return -EPROTO;
	m = (struct askmsg){ .ticket = h.ticket,
			     .kind = (enum askmsg_kind)h.kind,
			     .generation = h.generation,
			     .preview_bytes = h.preview_bytes,
			     .port = h.port,
			     .tls = h.flags & FLAG_TLS,
			     .has_body = h.flags & FLAG_BODY,
			     .body_len = h.body_len };
	memcpy(m.body, h.body, sizeof(m.body));
	for (size_t i = 0; i < ARRAY_SIZE(text_at); i++) {
		const char *nul = memchr(p, '\0', (size_t)(end - p));

		if (!nul)
			return -EPROTO;
		memcpy((char *)&m + text_at[i], &p, sizeof(p));
		p = nul + 1;
	}
	m.preview = p;
	m.preview_len = (size_t)(end - p);
	if (m.preview_len > ASKMSG_PREVIEW_MAX || m.preview_bytes > m.preview_len ||
	    m.preview_bytes > m.body_len)
		return -EPROTO;
	*ret = m;
	return 0;
}
