/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the messages between cofferd and its clients. Pure; both directions are treated as hostile. */
#include "base/cleanup.h"
#include "cofferdc/cofferd_int.h"
#include "cofferdc/webctl.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

static bool is_string_list(const char *p, size_t len)
{
	const char *end = p + len;

	if (len == 0 || len > COFFERD_TEMPLATE_MAX || end[-1] != '\0')
		return false;
	for (; p < end; p += strlen(p) + 1) {
		if (!*p)
			return false;
	}
	return true;
}

static bool is_run_id(const char *p, size_t len)
{
	return len == RUN_ID_LEN + 1 && p[RUN_ID_LEN] == '\0' && strspn(p, "0123456789abcdef") == RUN_ID_LEN;
}

static bool is_terminated(const char *s, size_t size)
{
	return memchr(s, '\0', size) != NULL;
}

int webctl_parse(const void *data, size_t len, struct webctl *ret)
{
	struct webctl c;

	if (len != sizeof(c))
		return -EPROTO;
	memcpy(&c, data, sizeof(c));
	if (c.op == 0 || c.op >= WEBCTL_OP_COUNT || c.role >= WEB_ROLE_COUNT || c.is_public > 1 ||
	    !is_terminated(c.name, sizeof(c.name)) || !is_terminated(c.listen, sizeof(c.listen)) ||
	    !is_terminated(c.hosts, sizeof(c.hosts)))
		return -EPROTO;
	*ret = c;
	return 0;
}

static bool is_id_and_grants(const char *p, size_t len)
{
	return len > RUN_ID_LEN + 1 && len <= RUN_ID_LEN + 1 + GRANTS_PACK_MAX &&
	       is_run_id(p, RUN_ID_LEN + 1);
}

static bool is_empty_body(const char *p, size_t len)
{
	(void)p;
	return len == 0;
}

static bool is_webctl(const char *p, size_t len)
{
	return webctl_parse(p, len, &(struct webctl){ 0 }) == 0;
}

/* The body that each request may have. */
static bool (*const body_checks[])(const char *p, size_t len) = {
	[COFFERD_TAKE] = is_string_list,    [COFFERD_STOP] = is_empty_body,
	[COFFERD_STAT] = is_empty_body,	    [COFFERD_KEEP] = is_run_id,
	[COFFERD_STATUS] = is_empty_body,   [COFFERD_RELOAD] = is_empty_body,
	[COFFERD_STAY] = is_empty_body,	    [COFFERD_DROP] = is_empty_body,
	[COFFERD_HOLD] = is_id_and_grants,  [COFFERD_UNLOCK] = is_empty_body,
	[COFFERD_UNLOCKED] = is_empty_body, [COFFERD_LOCK] = is_empty_body,
	[COFFERD_WEB] = is_webctl,
};
static_assert(ARRAY_SIZE(body_checks) == COFFERD_WANT_END, "one for each");

int cofferd_msg_parse(const void *data, size_t len, struct cofferd_msg *ret)
{
	struct cofferd_msg m;

	if (len < sizeof(m.head))
		return -EPROTO;
	memcpy(&m.head, data, sizeof(m.head));
	m.body = (const char *)data + sizeof(m.head);
	m.len = len - sizeof(m.head);
	if (m.head.magic != COFFERD_MAGIC || m.head.want == 0 || m.head.want >= COFFERD_WANT_END ||
	    !body_checks[m.head.want](m.body, m.len))
		return -EPROTO;
	*ret = m;
	return 0;
}

int cofferd_reply_parse(void *data, size_t len, struct cofferd_reply *ret)
{
	unsigned char *p = data;

	if (len != sizeof(*ret))
		return -EPROTO;
	/* A bool read from outside must be 0 or 1: another value is undefined behaviour. */
	p[offsetof(struct cofferd_reply, has)] &= 1;
	p[offsetof(struct cofferd_reply, stays)] &= 1;
	p[offsetof(struct cofferd_reply, leaves)] &= 1;
	memcpy(ret, data, sizeof(*ret));
	ret->id[RUN_ID_LEN] = '\0';
	ret->why[sizeof(ret->why) - 1] = '\0';
	ret->hint[sizeof(ret->hint) - 1] = '\0';
	return ret->magic == COFFERD_MAGIC && ret->error <= 0 ? 0 : -EPROTO;
}
