/* SPDX-License-Identifier: Apache-2.0 */
/* VAULT_SCAN: finds secrets in a file, in any form (forms.h). The vault reads the file itself, so that no
 * other process needs to know what to search for. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "vault/common/forms.h"
#include "vault/serve/serve_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (1u << 20)
/* Of a longer secret only the beginning is searched: all forms of 64 KiB would need megabytes of locked
 * memory. */
#define LOOKED_FOR 1024u

struct scan {
	const struct vault *v;
	uint32_t id;
	uint64_t most, n;
};

static int report_hit(struct scan *s, const char *name, uint64_t at, enum form_kind kind)
{
	struct vault_msg m = { .type = VAULT_HIT, .id = s->id, .num = { at, kind } };

	m.text[0] = slice_of(name);
	s->n++;
	return starter_send(s->v, &m);
}

/* Reports hits that begin within the first `own` bytes; the bytes after those belong to the next piece,
 * too. */
static int scan_for_secret(struct scan *s, const struct store_entry *n, const struct forms *f,
			   const uint8_t *text, size_t len, size_t own, uint64_t base)
{
	size_t from = 0;
	int r = 0;

	while (from < own && s->n < s->most && r == 0) {
		const struct form *form = NULL;
		long at = forms_find(f, text + from, len - from, &form);

		if (at < 0 || from + (size_t)at >= own)
			break;
		r = report_hit(s, n->name, base + from + (size_t)at, form->kind);
		from += (size_t)at + form->len;
	}
	return r;
}

/* Searches one piece of the file for every secret. */
static int scan_piece(struct scan *s, const uint8_t *text, size_t len, size_t own, uint64_t base,
		      struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < s->v->store.n && r == 0; i++) {
		const struct store_entry *n = s->v->store.v[i];
		size_t look = n->value.len < LOOKED_FOR ? n->value.len : LOOKED_FOR;
		autosecmem struct secmem mem = SECMEM_INIT;
		struct forms f;

		r = secmem_new(&mem, forms_size(look), e);
		if (r == 0)
			r = forms_make(&f, n->value.p, look, mem.p, mem.cap);
		if (r == 0)
			r = scan_for_secret(s, n, &f, text, len, own, base);
	}
	return r;
}

int vault_scan_file(const struct vault *v, uint32_t id, int fd, uint64_t most, uint64_t *ret_n, struct err *e)
{
	/* How far a hit can extend beyond the end of its piece. */
	const size_t over = LOOKED_FOR * 6 + 16;
	struct scan s = { .v = v, .id = id, .most = most };
	autofree uint8_t *text = malloc(CHUNK + 2 * over);
	uint64_t at = 0, from, to;
	ssize_t got;
	int r = 0;

	if (!text)
		return err_set(e, -ENOMEM, "out of memory");
	while (r == 0 && s.n < most && fd_next_data(fd, at, CHUNK, &from, &to)) {
		/* A secret may begin with zeros, and these may be in the hole before the data. */
		from -= from - at < over ? from - at : over;
		got = fd_read_at(fd, text, (size_t)(to - from) + over, from);
		if (got <= 0) {
			r = got < 0 ? err_sys(e, (int)got, "cannot read it") : 0;
			break;
		}
		r = scan_piece(&s, text, (size_t)got, (size_t)(to - from), from, e);
		at = to;
	}
	/* The searched text may contain a secret. */
	secmem_wipe(text, CHUNK + 2 * over);
	*ret_n = s.n;
	return r;
}
