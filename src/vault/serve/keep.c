/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores issued credentials in a sealed file with two places, written in turn (keep.h). A damaged or foreign
 * file counts as empty: no grant fails because of it.
 */

#include "vault/serve/keep.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "crypto/seal.h"
#include "vault/common/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "COFFERK1"
#define ABOUT_LEN 24
#define CONTEXT "issuedkp"

static_assert(KEEP_HEAD_LEN == ABOUT_LEN + SEAL_NONCE_LEN &&
		      KEEP_MAX + SEAL_TAG_LEN + KEEP_HEAD_LEN == KEEP_PLACE,
	      "a place has room for the largest");

struct keep {
	int fd;
	const struct secmem *key;
	uint64_t number;      /* of the newest valid save; 0: there is none */
	unsigned at;	      /* the place of that save */
	struct secmem others; /* records of issuers that are not granted now */
	bool waits;	      /* the list is newer than the file */
	bool failed;	      /* the last save failed */
	unsigned tokens;      /* saves that may be made at once */
	uint64_t tokens_at;   /* ns, monotonic */
};

struct keep *keep_new(int fd, const struct secmem *key)
{
	struct keep *k = calloc(1, sizeof(*k));

	if (!k) {
		fd_close(fd);
		return NULL;
	}
	k->fd = fd;
	k->key = key;
	k->at = 1; /* so that the first save uses place 0 */
	k->tokens = KEEP_BURST;
	return k;
}

void keep_free(struct keep *k)
{
	if (!k)
		return;
	secmem_release(&k->others);
	fd_close(k->fd);
	free(k);
}

/* --- records ---------------------------------------------------------------------------------------------------- */

/* An issuer as it was, and a credential that it issued; on the heap, because a grant is large. */
struct record {
	struct vault_grant issuer;
	char member[ISSUE_MEMBER_MAX + 1];
	enum issue_how how;
	uint64_t expires;
	struct slice placeholder, value; /* point into the bytes that were read */
};

static struct slice get_sized(struct wire_in *in)
{
	return wire_get_bytes(in, wire_get(in, 4));
}

static void put_sized(struct wire_out *out, const void *data, size_t len)
{
	wire_put(out, len, 4);
	wire_put_bytes(out, data, len);
}

static bool record_names_member(const struct record *r)
{
	const struct issue_member *m;
	struct issue spec;

	if (issue_parse(r->issuer.issue, &spec) < 0)
		return false;
	m = issue_find(&spec, slice_of(r->member));
	return m && m->how == r->how;
}

/* Reads one record of put_record(); -EBADMSG for anything else. */
static int get_record(struct slice text, struct record *ret)
{
	struct wire_in in = { (const uint8_t *)text.p, text.len, false };
	struct slice issue, bindings;

	memset(ret, 0, sizeof(*ret));
	ret->issuer.kind = GRANT_ISSUER;
	wire_get_text(&in, ret->issuer.name, sizeof(ret->issuer.name));
	issue = get_sized(&in);
	bindings = get_sized(&in);
	wire_get_text(&in, ret->member, sizeof(ret->member));
	ret->how = (enum issue_how)wire_get(&in, 1);
	ret->expires = wire_get(&in, 8);
	ret->placeholder = get_sized(&in);
	ret->value = get_sized(&in);
	if (in.bad || in.left || issue.len > ISSUE_TEXT_MAX || ret->how >= ISSUE_HOW_COUNT ||
	    ret->placeholder.len < GRANTS_PLACEHOLDER_MIN || ret->placeholder.len > GRANTS_PLACEHOLDER_MAX ||
	    !ret->value.len || ret->value.len > ISSUED_VALUE_MAX)
		return -EBADMSG;
	memcpy(ret->issuer.issue, issue.p, issue.len);
	if (bindings_unpack(ret->issuer.bindings, &ret->issuer.n_bindings, bindings.p, bindings.len) < 0)
		return -EBADMSG;
	return record_names_member(ret) ? 0 : -EBADMSG;
}

static void put_record(struct wire_out *out, const struct vault_grant *issuer, const struct issued *x,
		       const struct buf *bindings)
{
	wire_put_text(out, issuer->name);
	put_sized(out, issuer->issue, strlen(issuer->issue));
	put_sized(out, bindings->data, bindings->len);
	wire_put_text(out, x->member);
	wire_put(out, x->how, 1);
	wire_put(out, x->grant.expires, 8);
	put_sized(out, x->grant.placeholder, x->grant.placeholder_len);
	put_sized(out, x->value.p, x->value.len);
}

/* Appends a record after its length. -ENOSPC if it does not fit. */
static int add_record(struct secmem *to, const struct vault_grant *issuer, const struct issued *x)
{
	autobuf struct buf bindings = BUF_INIT;
	struct wire_out out = { .p = NULL };
	int r = bindings_pack(issuer->bindings, issuer->n_bindings, &bindings);

	if (r < 0)
		return r;
	put_record(&out, issuer, x, &bindings);
	if (out.len + 4 > to->cap - to->len)
		return -ENOSPC;
	out = (struct wire_out){ .p = to->p + to->len, .cap = to->cap - to->len };
	wire_put(&out, 0, 4);
	put_record(&out, issuer, x, &bindings);
	if (out.bad)
		return -ENOSPC;
	struct wire_out len = { .p = to->p + to->len, .cap = 4 };

	wire_put(&len, out.len - 4, 4);
	to->len += out.len;
	return 0;
}

/* --- places ----------------------------------------------------------------------------------------------------- */

static bool read_all_at(int fd, void *to, size_t len, size_t at)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = pread(fd, (char *)to + got, len - got, (off_t)(at + got));

		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		got += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static bool write_all_at(int fd, const void *from, size_t len, size_t at)
{
	for (size_t put = 0; put < len;) {
		ssize_t n = pwrite(fd, (const char *)from + put, len - put, (off_t)(at + put));

		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		put += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* Reads and unseals one place; 0 if it is valid. Only then *ret_number is set. */
static int read_place(const struct keep *k, unsigned place, uint64_t *ret_number, struct secmem *ret)
{
	autosecmem struct secmem key = SECMEM_INIT, text = SECMEM_INIT;
	uint8_t head[KEEP_HEAD_LEN];
	struct wire_in in = { head + 8, 16, false };
	autofree uint8_t *sealed = NULL;
	uint64_t number, len;
	int r;

	if (!read_all_at(k->fd, head, sizeof(head), (size_t)place * KEEP_PLACE) ||
	    memcmp(head, MAGIC, 8) != 0)
		return -EBADMSG;
	number = wire_get(&in, 8);
	len = wire_get(&in, 8);
	if (!number || len < SEAL_TAG_LEN || len > KEEP_MAX + SEAL_TAG_LEN)
		return -EBADMSG;
	sealed = malloc(len);
	if (!sealed || !read_all_at(k->fd, sealed, len, (size_t)place * KEEP_PLACE + KEEP_HEAD_LEN))
		return -EBADMSG;
	r = seal_key_derive(&key, k->key, CONTEXT, NULL);
	if (r == 0)
		r = secmem_new(&text, len - SEAL_TAG_LEN + 1, NULL);
	if (r == 0)
		r = seal_open(text.p, sealed, len, head, ABOUT_LEN, head + ABOUT_LEN, &key);
	if (r < 0)
		return r;
	text.len = len - SEAL_TAG_LEN;
	*ret_number = number;
	*ret = text;
	text = SECMEM_INIT;
	return 0;
}

/* keep.K1: writes the place that does not have the newest valid save, and syncs it before it counts. */
static int write_place(struct keep *k, const struct secmem *text)
{
	autosecmem struct secmem key = SECMEM_INIT;
	size_t len = text->len + SEAL_TAG_LEN;
	autofree uint8_t *all = malloc(KEEP_HEAD_LEN + len);
	unsigned place = !k->at;
	struct wire_out head = { .p = all, .cap = ABOUT_LEN };
	int r = all ? seal_key_derive(&key, k->key, CONTEXT, NULL) : -ENOMEM;

	if (r < 0)
		return r;
	wire_put_bytes(&head, MAGIC, 8);
	wire_put(&head, k->number + 1, 8);
	wire_put(&head, len, 8);
	seal_nonce_new(all + ABOUT_LEN);
	seal_close(all + KEEP_HEAD_LEN, text->p, text->len, all, ABOUT_LEN, all + ABOUT_LEN, &key);
	if (!write_all_at(k->fd, all, KEEP_HEAD_LEN + len, (size_t)place * KEEP_PLACE) || fsync(k->fd) < 0)
		return -EIO;
	k->number++;
	k->at = place;
	return 0;
}

/* --- loading ---------------------------------------------------------------------------------------------------- */

/* The newest valid save; empty if there is none (keep.K3). */
static void read_newest(struct keep *k, struct secmem *ret)
{
	k->number = 0;
	for (unsigned place = 0; place < 2; place++) {
		autosecmem struct secmem text = SECMEM_INIT;
		uint64_t number = 0;

		if (read_place(k, place, &number, &text) < 0 || number <= k->number)
			continue;
		secmem_release(ret);
		*ret = text;
		text = SECMEM_INIT;
		k->number = number;
		k->at = place;
	}
}

/* 1: taken, or no longer useful. 0: it belongs to another issuer. */
static int take_record(struct issued_list *l, const struct vault_grants *g, const struct record *rec,
		       uint32_t *handles, uint64_t now)
{
	const struct vault_grant *issuer = issued_find_issuer(g, &rec->issuer);

	if (rec->expires && rec->expires <= now)
		return 1;
	return issuer ? issued_restore(l, g, issuer, rec->member, rec->how, rec->expires, rec->placeholder,
				       rec->value, handles)
		      : 0;
}

void keep_load(struct keep *k, struct issued_list *l, const struct vault_grants *g, uint32_t *handles,
	       uint64_t now)
{
	autosecmem struct secmem text = SECMEM_INIT;
	autofree struct record *rec = malloc(sizeof(*rec));
	struct wire_in in = { 0 };

	secmem_release(&k->others);
	read_newest(k, &text);
	/* Records of other issuers are at most all of the file. */
	if (!rec || !text.len || secmem_new(&k->others, text.len, NULL) < 0)
		return;
	in = (struct wire_in){ text.p, text.len, false };
	while (in.left && !in.bad) {
		const uint8_t *start = in.p;
		struct slice one = get_sized(&in);

		if (in.bad || get_record(one, rec) < 0)
			break;
		if (take_record(l, g, rec, handles, now) == 0)
			(void)!secmem_add(&k->others, start, one.len + 4);
	}
	secmem_wipe(rec, sizeof(*rec));
}

/* --- saving ----------------------------------------------------------------------------------------------------- */

/* Packs the credentials and the untouched records of other issuers, and writes them. */
static int save_issued(struct keep *k, const struct issued_list *l, const struct vault_grants *g)
{
	autosecmem struct secmem text = SECMEM_INIT;
	size_t want = k->others.len;
	int r;

	for (size_t i = 0; i < l->n; i++)
		want += l->v[i]->value.len + l->v[i]->grant.placeholder_len + sizeof(struct vault_grant);
	r = secmem_new(&text, want < KEEP_MAX ? want + 1 : KEEP_MAX, NULL);
	for (size_t i = 0; r == 0 && i < l->n; i++) {
		const struct vault_grant *issuer = grants_by_handle(g, l->v[i]->grant.of);

		r = issuer ? add_record(&text, issuer, l->v[i]) : 0;
	}
	/* Records of other issuers are dropped only if they do not fit. */
	if (r == 0 && k->others.len && secmem_add(&text, k->others.p, k->others.len) < 0)
		secmem_release(&k->others);
	return r < 0 ? r : write_place(k, &text);
}

/* Token bucket of saves (keep.K4). */
static bool is_save_due(struct keep *k, uint64_t mono)
{
	uint64_t more = mono > k->tokens_at ? (mono - k->tokens_at) / (KEEP_EVERY * NSEC_PER_MSEC) : 0;

	if (more) {
		k->tokens = more < KEEP_BURST - k->tokens ? k->tokens + (unsigned)more : KEEP_BURST;
		k->tokens_at = mono;
	}
	return k->tokens > 0;
}

bool keep_tick(struct keep *k, const struct issued_list *l, const struct vault_grants *g, uint64_t mono,
	       bool end)
{
	if (!k || !k->waits || (!is_save_due(k, mono) && !end))
		return k && k->waits;
	k->tokens -= k->tokens > 0;
	k->waits = false;
	k->failed = save_issued(k, l, g) < 0;
	return false;
}

bool keep_changed(struct keep *k, const struct issued_list *l, const struct vault_grants *g, uint64_t mono)
{
	if (!k)
		return false;
	k->waits = true;
	(void)keep_tick(k, l, g, mono, false);
	return !k->failed;
}
