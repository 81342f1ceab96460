/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The credentials that servers issued to one sandbox, in locked memory (issued.h). The issuer's bindings
 * decide where one may be sent, never the client that captured it.
 */

#include "vault/serve/issued.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "vault/common/shape.h"
#include "vault/serve/store.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define JWT_SIGNATURE_MIN 32

static void remove_slot(struct issued_list *l, size_t i)
{
	for (l->n--; i < l->n; i++)
		l->v[i] = l->v[i + 1];
}

static void drop_issued(struct issued_list *l, size_t i)
{
	secmem_release(&l->v[i]->value);
	free(l->v[i]);
	remove_slot(l, i);
}

void issued_release(struct issued_list *l)
{
	while (l->n)
		drop_issued(l, l->n - 1);
}

const struct issued *issued_find(const struct issued_list *l, uint32_t handle)
{
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i]->grant.handle == handle)
			return l->v[i];
	}
	return NULL;
}

void issued_expire(struct issued_list *l, uint64_t now)
{
	for (size_t i = l->n; i-- > 0;) {
		if (l->v[i]->grant.expires && l->v[i]->grant.expires <= now)
			drop_issued(l, i);
	}
}

/* --- placeholders ---------------------------------------------------------------------------------------------- */

static bool placeholders_overlap(const struct vault_grant *g, const char *p, size_t len)
{
	return g->placeholder_len && (memmem(g->placeholder, g->placeholder_len, p, len) ||
				      memmem(p, len, g->placeholder, g->placeholder_len));
}

/* Is the placeholder distinguishable from all others of the sandbox? */
static bool is_unlike_all(const struct vault_grants *g, const struct issued_list *l, const char *p,
			  size_t len)
{
	for (size_t i = 0; i < g->n; i++) {
		if (placeholders_overlap(&g->v[i], p, len))
			return false;
	}
	for (size_t i = 0; l && i < l->n; i++) {
		if (placeholders_overlap(&l->v[i]->grant, p, len))
			return false;
	}
	return true;
}

void issued_placeholder(const struct vault_grants *g, const struct issued_list *l, struct vault_grant *ret,
			const struct secmem *value, size_t keep)
{
	char text[GRANTS_PLACEHOLDER_MAX + 1];
	uint8_t seed[SHAPE_SEED_LEN];
	size_t len;

	memcpy(text, value->p, keep);
	do {
		randombytes_buf(seed, sizeof(seed));
		len = keep + shape_placeholder(value->p + keep, value->len - keep, seed, text + keep);
	} while (!is_unlike_all(g, l, text, len));
	secmem_wipe(seed, sizeof(seed));
	memcpy(ret->placeholder, text, len + 1);
	ret->placeholder_len = len;
}

/* The length of a signed token up to its signature; 0 if it is not one, or too long for a placeholder. */
static size_t claims_length(const struct secmem *v)
{
	const char *s = (const char *)v->p;
	size_t dots = 0, last = 0;

	for (size_t i = 0; i < v->len; i++) {
		bool word = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
			    (s[i] >= '0' && s[i] <= '9') || s[i] == '_' || s[i] == '-';

		if (!word && s[i] != '.')
			return 0;
		if (s[i] == '.') {
			dots++;
			last = i + 1;
		}
	}
	if (dots != 2 || v->len < last + JWT_SIGNATURE_MIN || v->len - last > SHAPE_MAX ||
	    v->len > GRANTS_PLACEHOLDER_MAX || memcmp(s, "eyJ", 3) != 0)
		return 0;
	return last;
}

/* --- taking one ------------------------------------------------------------------------------------------------ */

static bool is_member_of_issuer(const struct issued *x, uint32_t issuer, const char *member)
{
	return x->grant.of == issuer && str_eq(x->member, member);
}

static long find_same_value(const struct issued_list *l, uint32_t issuer, const char *member,
			    struct slice value)
{
	for (size_t i = 0; i < l->n; i++) {
		if (is_member_of_issuer(l->v[i], issuer, member) &&
		    secmem_eq(&l->v[i]->value, value.p, value.len))
			return (long)i;
	}
	return -1;
}

/* issued.D2: the index of the one that a new credential replaces; -1: none. */
static long find_replaced(const struct issued_list *l, uint32_t issuer, const struct issue_member *m,
			  uint32_t carried)
{
	long oldest = -1;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (!is_member_of_issuer(l->v[i], issuer, m->name))
			continue;
		if (m->how == ISSUE_REFRESH && l->v[i]->grant.handle == carried)
			return (long)i;
		oldest = n++ ? oldest : (long)i;
	}
	return n >= ISSUED_EACH ? oldest : -1;
}

/* Can the issuer's bindings carry this value? */
static bool can_be_sent(const struct vault_grant *g, const struct secmem *v)
{
	for (size_t i = 0; i < g->n_bindings; i++) {
		if (store_has_lines(v) && !binding_takes_lines(&g->bindings[i]))
			return false;
	}
	return !memchr(v->p, '\0', v->len);
}

static void issued_freep(struct issued **x)
{
	if (*x)
		secmem_release(&(*x)->value);
	free(*x);
}

/* Makes a credential with its value in locked memory and the issuer's bindings. */
static int make_issued(struct issued **ret, const struct vault_grant *issuer, const char *member,
		       enum issue_how how, struct slice value, const char **ret_why)
{
	CLEANUP(issued_freep) struct issued *x = calloc(1, sizeof(*x));

	if (!x || secmem_new(&x->value, value.len, NULL) < 0) {
		*ret_why = "no memory can be locked for it";
		return -ENOMEM;
	}
	(void)!secmem_add(&x->value, value.p, value.len);
	memcpy(x->member, member, strlen(member) + 1);
	x->how = how;
	x->grant.kind = GRANT_ISSUED;
	x->grant.of = issuer->handle;
	snprintf(x->grant.name, sizeof(x->grant.name), "%.31s.%s", issuer->name, member);
	grants_issue_bindings(issuer, how, &x->grant);
	if (!x->grant.n_bindings || !can_be_sent(&x->grant, &x->value)) {
		*ret_why = "such a value cannot be sent to the hosts that it is for";
		return -EINVAL;
	}
	*ret = TAKE_PTR(x);
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): what is kept, what it is of, what was asked, what comes of it */
static int add_issued(struct issued_list *l, const struct vault_grants *g, const struct vault_grant *issuer,
		      const struct issue_member *m, const struct vault_msg *ask, uint32_t *handles,
		      uint32_t *ret_dropped, const char **ret_why)
{
	long old = find_replaced(l, issuer->handle, m, (uint32_t)ask->num[2]);
	struct issued *x = NULL;
	int r;

	if (old < 0 && (l->n == ISSUED_MAX || g->n + l->n >= GRANTS_MAX)) {
		*ret_why = "too many credentials were issued to this sandbox";
		return -ENOSPC;
	}
	r = make_issued(&x, issuer, m->name, m->how, ask->text[0], ret_why);
	if (r < 0)
		return r;
	issued_placeholder(g, l, &x->grant, &x->value, m->how == ISSUE_CLAIMS ? claims_length(&x->value) : 0);
	x->grant.handle = ++*handles;
	if (old >= 0) {
		*ret_dropped = l->v[old]->grant.handle;
		drop_issued(l, (size_t)old);
	}
	l->v[l->n++] = x;
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): nothing here reads a clock or keeps a store */
int issued_capture(struct issued_list *l, const struct vault_grants *g, const struct vault_msg *m,
		   uint32_t *handles, uint64_t now, const struct issued **ret, uint32_t *ret_dropped,
		   const char **ret_why)
{
	const struct vault_grant *issuer = grants_by_handle(g, (uint32_t)m->num[0]);
	const struct issue_member *member;
	struct issue spec;
	long at;
	int r;

	*ret_dropped = 0;
	issued_expire(l, now);
	if (!issuer || issuer->kind != GRANT_ISSUER || issue_parse(issuer->issue, &spec) < 0 ||
	    !(member = issue_find(&spec, m->text[1]))) {
		*ret_why = "this sandbox has no grant to store such credentials";
		return -ENOENT;
	}
	if (m->text[0].len > ISSUED_VALUE_MAX) {
		*ret_why = "the value is too long for a credential";
		return -EINVAL;
	}
	at = find_same_value(l, issuer->handle, member->name, m->text[0]);
	if (at < 0) {
		r = add_issued(l, g, issuer, member, m, handles, ret_dropped, ret_why);
		if (r < 0)
			return r;
		at = (long)l->n - 1;
	}
	l->v[at]->grant.expires = m->num[1] ? now + m->num[1] : 0;
	*ret = l->v[at];
	return 0;
}

/* --- another channel for the same sandbox ---------------------------------------------------------------------- */

const struct vault_grant *issued_find_issuer(const struct vault_grants *g, const struct vault_grant *was)
{
	for (size_t i = 0; was && was->kind == GRANT_ISSUER && i < g->n; i++) {
		if (grants_eq(was, &g->v[i]))
			return &g->v[i];
	}
	return NULL;
}

void issued_inherit(struct issued_list *l, const struct vault_grants *g, struct issued_list *from,
		    const struct vault_grants *from_g)
{
	for (size_t i = 0; i < from->n && l->n < ISSUED_MAX && g->n + l->n < GRANTS_MAX;) {
		struct issued *x = from->v[i];
		const struct vault_grant *now = issued_find_issuer(g, grants_by_handle(from_g, x->grant.of));

		if (!now || !is_unlike_all(g, l, x->grant.placeholder, x->grant.placeholder_len)) {
			i++;
			continue;
		}
		x->grant.of = now->handle;
		l->v[l->n++] = x;
		remove_slot(from, i);
	}
}

void issued_give_back(struct issued_list *l, const struct vault_grants *g, size_t n, struct issued_list *to,
		      const struct vault_grants *to_g)
{
	BUG_ON(n > l->n || n > ISSUED_MAX - to->n);
	/* To the front: if not all had room, the oldest were inherited. */
	for (size_t i = to->n; i-- > 0;)
		to->v[i + n] = to->v[i];
	to->n += n;
	for (size_t i = 0; i < n; i++) {
		struct issued *x = l->v[i];
		const struct vault_grant *was = issued_find_issuer(to_g, grants_by_handle(g, x->grant.of));

		BUG_ON(!was);
		// cppcheck-suppress nullPointerRedundantCheck ; BUG_ON does not return
		x->grant.of = was->handle;
		to->v[i] = x;
	}
	l->n -= n;
	for (size_t i = 0; i < l->n; i++)
		l->v[i] = l->v[i + n];
}

static bool list_has_placeholder(const struct issued_list *l, struct slice placeholder)
{
	for (size_t i = 0; i < l->n; i++) {
		if (slice_eq(placeholder, l->v[i]->grant.placeholder))
			return true;
	}
	return false;
}

/* NOLINTNEXTLINE(readability-function-size): as many parts as it has */
int issued_restore(struct issued_list *l, const struct vault_grants *g, const struct vault_grant *issuer,
		   const char *member, enum issue_how how, uint64_t expires, struct slice placeholder,
		   struct slice value, uint32_t *handles)
{
	CLEANUP(issued_freep) struct issued *x = NULL;
	const char *why;

	if (list_has_placeholder(l, placeholder))
		return 1;
	if (l->n == ISSUED_MAX || g->n + l->n >= GRANTS_MAX ||
	    !grants_is_placeholder(placeholder.p, placeholder.len) ||
	    !is_unlike_all(g, l, placeholder.p, placeholder.len) ||
	    make_issued(&x, issuer, member, how, value, &why) < 0)
		return 0;
	memcpy(x->grant.placeholder, placeholder.p, placeholder.len);
	x->grant.placeholder_len = placeholder.len;
	x->grant.expires = expires;
	x->grant.handle = ++*handles;
	l->v[l->n++] = TAKE_PTR(x);
	return 1;
}
