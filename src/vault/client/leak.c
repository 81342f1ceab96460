/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches a file for credentials: known shapes here, the vault's secrets by coffer-vault (leak.h). Never
 * reports their bytes.
 */

#include "vault/client/leak.h"

#include "base/fd.h"
#include "vault/common/forms.h"
#include "vault/common/shape.h"

#include <errno.h>
#include <string.h>

#define CHUNK (1u << 20)

struct look {
	leak_found *found;
	void *ctx;
};

static int on_hit(const struct vault_msg *m, void *ctx)
{
	const struct look *l = ctx;
	char name[VAULT_NAME_MAX + 1];
	struct leak leak = { .name = name, .what = form_name((enum form_kind)m->num[1]), .at = m->num[0] };

	if (m->type != VAULT_HIT)
		return -EPROTO;
	memcpy(name, m->text[0].p, m->text[0].len);
	name[m->text[0].len] = '\0';
	return l->found(&leak, l->ctx);
}

static int find_vault_secrets(int fd, struct vault_proc *p, unsigned most, struct look *l, struct err *e)
{
	struct vault_msg ask = { .type = VAULT_SCAN, .num = { most } };

	return vault_call(p, &ask, &fd, 1, on_hit, l, NULL, NULL, e);
}

/* Each piece is read with one byte before it, which decides whether a word begins there. No shape begins in a hole. */
static int find_shapes(int fd, unsigned most, struct look *l, struct err *e)
{
	autofree char *text = malloc(CHUNK + SHAPE_FIND_MAX + 1);
	struct shape_hit hit;
	uint64_t at, to = 0;
	unsigned n = 0;
	ssize_t got;
	int r = 0;

	if (!text)
		return err_set(e, -ENOMEM, "out of memory");
	while (r == 0 && n < most && fd_next_data(fd, to, CHUNK, &at, &to)) {
		size_t before = at > 0, from = before, own = (size_t)(to - at);

		got = fd_read_at(fd, text, own + SHAPE_FIND_MAX + before, at - before);
		if (got < 0)
			return err_sys(e, (int)got, "cannot read it");
		if ((size_t)got <= before)
			break;
		while (r == 0 && n < most && shape_find(text, (size_t)got, from, &hit) &&
		       hit.at < own + before) {
			struct leak leak = { .what = hit.shape->what, .at = at - before + hit.at };

			hash_blake_once(text + hit.at, hit.len, leak.digest);
			r = l->found(&leak, l->ctx);
			from = hit.at + hit.len;
			n++;
		}
	}
	return r;
}

int leak_find(int fd, struct vault_proc *p, unsigned most, leak_found *found, void *ctx, struct err *e)
{
	struct look l = { .found = found, .ctx = ctx };
	int r = p ? find_vault_secrets(fd, p, most, &l, e) : 0;

	return r < 0 ? r : find_shapes(fd, most, &l, e);
}
