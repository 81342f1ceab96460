/* SPDX-License-Identifier: Apache-2.0 */
/* The messages between cofferd and its clients, as bytes. Pure. */
#include "gateway/cofferd_int.h"
#include "gateway/webd.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static bool are_strings(const char *p, size_t len)
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

static bool is_id(const char *p, size_t len)
{
	return len == RUN_ID_LEN + 1 && p[RUN_ID_LEN] == '\0' && strspn(p, "0123456789abcdef") == RUN_ID_LEN;
}

static bool ends(const char *s, size_t size)
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
	    !ends(c.name, sizeof(c.name)) || !ends(c.listen, sizeof(c.listen)) ||
	    !ends(c.hosts, sizeof(c.hosts)))
		return -EPROTO;
	*ret = c;
	return 0;
}

int cofferd_msg_parse(const void *data, size_t len, struct cofferd_msg *ret)
{
	struct cofferd_msg m;
	bool good = false;

	if (len < sizeof(m.head))
		return -EPROTO;
	memcpy(&m.head, data, sizeof(m.head));
	m.body = (const char *)data + sizeof(m.head);
	m.len = len - sizeof(m.head);
	if (m.head.magic != COFFERD_MAGIC)
		return -EPROTO;
	switch (m.head.want) {
	case COFFERD_TAKE:
		good = are_strings(m.body, m.len);
		break;
	case COFFERD_KEEP:
		good = is_id(m.body, m.len);
		break;
	case COFFERD_WEB:
		good = webctl_parse(m.body, m.len, &(struct webctl){ 0 }) == 0;
		break;
	case COFFERD_STOP:
	case COFFERD_STAT:
	case COFFERD_STATUS:
	case COFFERD_RELOAD:
	case COFFERD_STAY:
	case COFFERD_DROP:
		good = m.len == 0;
		break;
	default:
		break;
	}
	if (!good)
		return -EPROTO;
	*ret = m;
	return 0;
}

int cofferd_reply_parse(void *data, size_t len, struct cofferd_reply *ret)
{
	unsigned char *p = data;

	if (len != sizeof(*ret))
		return -EPROTO;
	/* A truth value has two representations; another one from outside has none. */
	p[offsetof(struct cofferd_reply, has)] &= 1;
	p[offsetof(struct cofferd_reply, stays)] &= 1;
	p[offsetof(struct cofferd_reply, leaves)] &= 1;
	memcpy(ret, data, sizeof(*ret));
	ret->id[RUN_ID_LEN] = '\0';
	ret->why[sizeof(ret->why) - 1] = '\0';
	return ret->magic == COFFERD_MAGIC && ret->error <= 0 ? 0 : -EPROTO;
}
