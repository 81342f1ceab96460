/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of coffer-vault (vaultproto.h), as one table: their fields with bounds, their sender, their
 * descriptors. Pure. Client messages are hostile input; no field is used before is_valid_message() has
 * checked it.
 */

#include "vault/common/vaultproto.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "codec/net/host.h"
#include "vault/common/forms.h"
#include "vault/common/grants.h"
#include "vault/common/wire.h"

#include <errno.h>

enum kind {
	T_NONE,
	T_NAME,	   /* of a secret */
	T_NAME_OR, /* or empty */
	T_ASK,	   /* to or from the ssh-agent; may be empty */
	T_HOST,	   /* canonical */
	T_HOST_OR, /* or empty */
	T_PATH,
	T_VALUE, /* a secret's bytes */
	T_TEXT,	 /* for people; may be empty */
	T_TOKEN, /* a placeholder */
	T_BLOB,	 /* packed; checked when it is unpacked */
	T_COMMAND,
};

struct spec {
	enum vault_side side;
	bool has_status;
	uint8_t fds_min, fds_max;
	uint8_t n_nums;
	enum kind texts[VAULT_TEXTS];
	uint64_t most[VAULT_NUMS]; /* upper bound of each number; 0: none */
	uint8_t nonzero;	   /* bit i: number i may not be 0 */
};

#define U32 UINT32_MAX

static const struct spec specs[VAULT_TYPE_END] = {
	[VAULT_RENDER] = { VAULT_FROM_CLIENT, .n_nums = 2, .texts = { T_HOST, T_PATH },
			   .most = { U32, 65535 }, .nonzero = 3 },
	[VAULT_CAPTURE] = { VAULT_FROM_CLIENT, .n_nums = 3, .texts = { T_VALUE, T_NAME },
			    .most = { U32, GRANT_LIFE_MAX, U32 }, .nonzero = 1 },
	[VAULT_GRANTS] = { VAULT_FROM_CLIENT, .n_nums = 0 },
	[VAULT_ASK] = { VAULT_FROM_CLIENT, .n_nums = 2, .texts = { T_ASK }, .most = { U32, 1 },
			.nonzero = 1 },
	[VAULT_SAID] = { VAULT_TO_CLIENT, .n_nums = 3,
			 .texts = { T_ASK, T_NAME_OR, T_HOST_OR, T_TEXT, T_TEXT, T_TEXT, T_TEXT },
			 .most = { U32, VAULT_SAID_COUNT - 1, 65535 }, .nonzero = 1 },
	[VAULT_RENDERED] = { VAULT_TO_CLIENT, .texts = { T_VALUE } },
	[VAULT_REFUSED] = { VAULT_TO_CLIENT, .has_status = true, .texts = { T_TEXT } },
	[VAULT_CAPTURED] = { VAULT_TO_CLIENT, .n_nums = 4, .texts = { T_TOKEN, T_NAME },
			     .most = { U32, U32, 0, 1 }, .nonzero = 1 },
	/* To a client and to the starter; see may_send(). */
	[VAULT_GRANTED] = { VAULT_TO_CLIENT, .texts = { T_BLOB } },
	[VAULT_OPEN] = { VAULT_FROM_STARTER, .fds_min = 1, .fds_max = 2, .n_nums = 2, .texts = { T_TEXT },
			 .most = { VAULT_KEY_END - 1, 7 }, .nonzero = 1 },
	[VAULT_SET] = { VAULT_FROM_STARTER, .fds_min = 1, .fds_max = 1, .n_nums = 3,
			.texts = { T_NAME, T_COMMAND }, .most = { 15 } },
	[VAULT_RM] = { VAULT_FROM_STARTER, .texts = { T_NAME } },
	[VAULT_CHANGE] = { VAULT_FROM_STARTER, .n_nums = 3, .texts = { T_NAME, T_COMMAND }, .most = { 3 },
			   .nonzero = 1 },
	[VAULT_BIND] = { VAULT_FROM_STARTER, .texts = { T_NAME, T_BLOB, T_BLOB } },
	[VAULT_UNBIND] = { VAULT_FROM_STARTER, .n_nums = 1, .texts = { T_NAME, T_HOST_OR },
			   .most = { 65535 } },
	[VAULT_LIST] = { VAULT_FROM_STARTER, .n_nums = 0 },
	[VAULT_SAVE] = { VAULT_FROM_STARTER, .fds_min = 1, .fds_max = 1 },
	[VAULT_REKEY] = { VAULT_FROM_STARTER, .fds_min = 1, .fds_max = 1, .n_nums = 2, .texts = { T_TEXT },
			  .most = { VAULT_KEY_END - 1, 7 }, .nonzero = 1 },
	[VAULT_SCAN] = { VAULT_FROM_STARTER, .fds_min = 1, .fds_max = 1, .n_nums = 1, .most = { U32 } },
	[VAULT_GRANT] = { VAULT_FROM_STARTER, .fds_min = 1, .fds_max = 2, .texts = { T_NAME, T_BLOB } },
	[VAULT_UNGRANT] = { VAULT_FROM_STARTER, .texts = { T_NAME } },
	[VAULT_REVERT] = { VAULT_FROM_STARTER, .fds_min = 0, .fds_max = 1 },
	[VAULT_HOLD] = { VAULT_FROM_STARTER, .fds_min = 1, .fds_max = 1, .texts = { T_NAME, T_BLOB } },
	[VAULT_RELOAD] = { VAULT_FROM_STARTER, .fds_min = 1, .fds_max = 1 },
	[VAULT_AGENT] = { VAULT_FROM_STARTER, .fds_min = 1, .fds_max = 1, .texts = { T_NAME, T_BLOB } },
	[VAULT_READY] = { VAULT_TO_STARTER, .n_nums = 0 },
	[VAULT_OK] = { VAULT_TO_STARTER, .n_nums = 2 },
	[VAULT_ERROR] = { VAULT_TO_STARTER, .has_status = true, .n_nums = 1, .texts = { T_TEXT, T_TEXT },
			  .most = { VAULT_FAULT_COUNT - 1 } },
	[VAULT_ITEM] = { VAULT_TO_STARTER, .n_nums = 6, .texts = { T_NAME, T_BLOB, T_COMMAND, T_BLOB },
			 .most = { VAULT_SECRET_MAX, 0, 0, 0, 0, 63 } },
	[VAULT_HIT] = { VAULT_TO_STARTER, .n_nums = 2, .texts = { T_NAME }, .most = { 0, FORM_COUNT - 1 } },
	[VAULT_FAIL] = { VAULT_TO_STARTER, .texts = { T_TEXT, T_TEXT } },
};

static bool has_no_fields(const struct spec *s)
{
	/* Types without any field are listed by name in is_bare_type(). */
	return !s->has_status && !s->fds_max && !s->n_nums && s->texts[0] == T_NONE;
}

static bool is_bare_type(uint32_t type)
{
	return type == VAULT_GRANTS || type == VAULT_LIST || type == VAULT_READY;
}

/* The row of a message type; NULL if there is no such type. */
static const struct spec *spec_of(uint32_t type)
{
	if (type == 0 || type >= VAULT_TYPE_END)
		return NULL;
	return has_no_fields(&specs[type]) && !is_bare_type(type) ? NULL : &specs[type];
}

/* May this side send a message of this type? */
static bool may_send(enum vault_side side, uint32_t type, const struct spec *s)
{
	if (side == VAULT_FROM_HOLDER)
		return type == VAULT_LIST || type == VAULT_GRANT || type == VAULT_UNGRANT ||
		       type == VAULT_AGENT;
	return s->side == side || (type == VAULT_GRANTED && side == VAULT_TO_STARTER);
}

static bool is_printable_text(struct slice t, size_t most)
{
	for (size_t i = 0; i < t.len; i++) {
		if ((unsigned char)t.p[i] < 0x20 || t.p[i] == 0x7f)
			return false;
	}
	return t.len <= most;
}

static bool is_secret_name(struct slice t)
{
	char name[VAULT_NAME_MAX + 1];

	if (t.len == 0 || t.len > VAULT_NAME_MAX || memchr(t.p, '\0', t.len))
		return false;
	memcpy(name, t.p, t.len);
	name[t.len] = '\0';
	return str_is_name(name);
}

static bool is_canonical_host(struct slice t)
{
	struct host h;

	return t.len > 0 && host_canon(t.p, t.len, &h, NULL) == 0 && slice_eq(t, h.text);
}

/* The sender makes it canonical; here it matters that nothing else can hide in it. */
static bool is_request_path(struct slice t)
{
	for (size_t i = 0; i < t.len; i++) {
		if (t.p[i] <= 0x20 || t.p[i] > 0x7e || t.p[i] == '?' || t.p[i] == '#')
			return false;
	}
	return t.len > 0 && t.len <= VAULT_PATH_MAX && t.p[0] == '/';
}

/* Is the text of the kind that the table requires? */
static bool is_valid_text(enum kind k, struct slice t)
{
	switch (k) {
	case T_NONE:
		return t.len == 0;
	case T_NAME:
		return is_secret_name(t);
	case T_NAME_OR:
		return t.len == 0 || is_secret_name(t);
	case T_ASK:
		return t.len <= VAULT_ASK_MAX;
	case T_HOST_OR:
		return t.len == 0 || is_canonical_host(t);
	case T_HOST:
		return is_canonical_host(t);
	case T_PATH:
		return is_request_path(t);
	case T_VALUE:
		return t.len > 0 && t.len <= VAULT_SECRET_MAX;
	case T_TEXT:
		return is_printable_text(t, (size_t)VAULT_WHY_MAX * 2);
	case T_TOKEN:
		return is_printable_text(t, GRANTS_PLACEHOLDER_MAX) && t.len >= GRANTS_PLACEHOLDER_MIN;
	case T_BLOB:
		return t.len <= GRANTS_PACK_MAX;
	case T_COMMAND:
		return is_printable_text(t, VAULT_COMMAND_MAX);
	}
	return false;
}

/* vaultproto.V1: every field within its bounds, unused ones zero or empty. */
static bool is_valid_message(const struct spec *s, const struct vault_msg *m)
{
	if (s->has_status ? m->status >= 0 : m->status != 0)
		return false;
	for (unsigned i = 0; i < VAULT_NUMS; i++) {
		if (i >= s->n_nums ? m->num[i] != 0 : s->most[i] && m->num[i] > s->most[i])
			return false;
		if (s->nonzero & (1u << i) && m->num[i] == 0)
			return false;
	}
	for (unsigned i = 0; i < VAULT_TEXTS; i++) {
		if (!is_valid_text(s->texts[i], m->text[i]))
			return false;
	}
	return true;
}

static unsigned spec_texts(const struct spec *s)
{
	unsigned n = 0;

	while (n < VAULT_TEXTS && s->texts[n] != T_NONE)
		n++;
	return n;
}

int vault_msg_parse(enum vault_side side, const void *data, size_t len, unsigned n_fds, struct vault_msg *ret)
{
	struct wire_in in = { .p = data, .left = len };
	const struct spec *s;
	struct vault_msg m = { 0 };

	if (len > VAULT_MSG_MAX)
		return -EPROTO;
	m.type = (uint32_t)wire_get(&in, 4);
	m.id = (uint32_t)wire_get(&in, 4);
	m.status = (int32_t)wire_get(&in, 4);
	if (wire_get(&in, 4) != 0 || in.bad)
		return -EPROTO;
	s = spec_of(m.type);
	if (!s || !may_send(side, m.type, s) || n_fds < s->fds_min || n_fds > s->fds_max)
		return -EPROTO;
	for (unsigned i = 0; i < s->n_nums; i++)
		m.num[i] = wire_get(&in, 8);
	for (unsigned i = 0; i < spec_texts(s); i++)
		m.text[i] = wire_get_bytes(&in, (size_t)wire_get(&in, 4));
	if (in.bad || in.left || !is_valid_message(s, &m))
		return -EPROTO;
	*ret = m;
	return 0;
}

size_t vault_msg_size(enum vault_side side, const struct vault_msg *m)
{
	const struct spec *s = spec_of(m->type);
	size_t n;

	if (!s || !may_send(side, m->type, s))
		return 0;
	n = sizeof(struct vault_head) + s->n_nums * sizeof(uint64_t);
	for (unsigned i = 0; i < spec_texts(s); i++)
		n += sizeof(uint32_t) + m->text[i].len;
	return n;
}

long vault_msg_pack(enum vault_side side, const struct vault_msg *m, void *out, size_t cap)
{
	struct wire_out w = { .p = out, .cap = cap };
	const struct spec *s = spec_of(m->type);

	if (!s || !may_send(side, m->type, s) || !is_valid_message(s, m) ||
	    vault_msg_size(side, m) > VAULT_MSG_MAX)
		return -EINVAL;
	wire_put(&w, m->type, 4);
	wire_put(&w, m->id, 4);
	wire_put(&w, (uint32_t)m->status, 4);
	wire_put(&w, 0, 4);
	for (unsigned i = 0; i < s->n_nums; i++)
		wire_put(&w, m->num[i], 8);
	for (unsigned i = 0; i < spec_texts(s); i++) {
		wire_put(&w, m->text[i].len, 4);
		wire_put_bytes(&w, m->text[i].p, m->text[i].len);
	}
	return w.bad ? -ENOSPC : (long)w.len;
}

void vault_msg_fds(uint32_t type, unsigned *ret_min, unsigned *ret_max)
{
	const struct spec *s = spec_of(type);

	*ret_min = s ? s->fds_min : 0;
	*ret_max = s ? s->fds_max : 0;
}
