/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of secrets and the channel to the vault, as the guard hands them over; and again when the vault is
 * replaced. No value of a secret is in the list.
 */
#include "egress/exchange/http_secret.h"

#include "base/fd.h"
#include "egress/core/control.h"
#include "egress/exchange/http_capture.h"
#include "egress/exchange/http_secret_int.h"
#include "egress/exchange/http_watch.h"
#include "egress/wire/fds.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int map_grants(int fd, struct http_secrets *s, struct marks *ret_marks, struct err *e)
{
	struct secrets_head h;
	struct stat st;
	void *p;
	int r = -EBADMSG;

	/* The C library's fstat() is another system call, one that can open paths. */
	if (syscall(SYS_fstat, fd, &st) < 0)
		return err_sys(e, -errno, "cannot get the size of the list of secrets");
	if (st.st_size < (off_t)sizeof(h) || st.st_size > (off_t)(sizeof(h) + GRANTS_PACK_MAX))
		return err_set(e, -EBADMSG, "the list of secrets has a wrong size");
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_sys(e, -errno, "cannot read the list of secrets");
	memcpy(&h, p, sizeof(h));
	if (memcmp(h.magic, SECRETS_MAGIC, sizeof(h.magic)) == 0 && h.len == (size_t)st.st_size - sizeof(h))
		r = grants_unpack(&s->grants, GRANTS_GRANTED, (const char *)p + sizeof(h), h.len);
	munmap(p, (size_t)st.st_size);
	s->by_line = h.by_line;
	static_assert(sizeof(h.marks) == sizeof(ret_marks->v), "they are the same");
	memcpy(ret_marks->v, h.marks, sizeof(h.marks));
	if (r == 0 && !marks_are_good(ret_marks))
		r = -EBADMSG;
	return r < 0 ? err_set(e, r, "the list of secrets cannot be read") : 0;
}

static void on_vault_down(struct vaultc *v, const char *why)
{
	struct http_secrets *s = v->ctx;

	egress_alert(s->in->eg, "vault", NULL,
		     "coffer-vault: %s; no secret is rendered until it is restarted", why);
}

static bool is_same_grant(const struct vault_grant *a, const struct vault_grant *b)
{
	if (strcmp(a->placeholder, b->placeholder) != 0 || strcmp(a->name, b->name) != 0 ||
	    a->n_bindings != b->n_bindings)
		return false;
	for (size_t i = 0; i < a->n_bindings; i++) {
		if (!binding_eq(&a->bindings[i], &b->bindings[i]))
			return false;
	}
	return true;
}

/* Exchanges refer to grants by index: a different list invalidates every plan made with the old one. */
static bool is_same_list(const struct vault_grants *a, const struct vault_grants *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		if (!is_same_grant(&a->v[i], &b->v[i]))
			return false;
	}
	return true;
}

static bool plan_has_grant(const struct inject_plan *p, long at)
{
	for (unsigned i = 0; i < p->n; i++) {
		if ((long)p->grant[i] == at)
			return true;
	}
	return false;
}

void secret_forget_plans(struct inspect *in, long at)
{
	for (struct exch *e = in->exchs; e; e = e->all_next) {
		if (!e->secret || (at >= 0 && !plan_has_grant(&e->secret->plan, at)))
			continue;
		e->secret->plan.n = 0;
		e->secret->is_old = true;
		e->alike = 0; /* it needs other connections now */
	}
}

int http_secrets_open(struct inspect *in, int grants_fd, int vault_fd, struct err *e)
{
	struct http_secrets fresh = { .in = in }, *s = in->secrets;
	struct marks marks = { 0 };
	int r = map_grants(grants_fd, &fresh, &marks, e), fd;

	if (r < 0) {
		grants_release(&fresh.grants);
		return r;
	}
	in->marks = marks;
	/* Only marks: there is no vault. */
	if (!s && vault_fd < 0) {
		r = fresh.grants.n ? err_set(e, -EBADMSG, "the list has secrets, but no vault was given") : 0;
		grants_release(&fresh.grants);
		return r;
	}
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s || vaultc_init(&s->vault, &in->eg->loop, e) < 0) {
			grants_release(&fresh.grants);
			free(s);
			return err_sys(e, -ENOMEM, "cannot keep the list of secrets");
		}
		s->in = in;
		s->vault.on_down = on_vault_down;
		s->vault.ctx = s;
		in->secrets = s;
	}
	if (s->by_line != fresh.by_line || !is_same_list(&s->grants, &fresh.grants))
		secret_forget_plans(in, -1);
	grants_release(&s->grants);
	s->grants = fresh.grants;
	s->by_line = fresh.by_line;
	r = capture_read_issuers(s, e);
	if (r < 0)
		return r;
	fd = dup(vault_fd);
	return fd < 0 ? err_sys(e, -errno, "cannot keep the vault's channel")
		      : vaultc_connect(&s->vault, fd, e);
}

void http_secrets_close(struct inspect *in)
{
	struct http_secrets *s = TAKE_PTR(in->secrets);

	watch_close(in);
	if (!s)
		return;
	vaultc_release(&s->vault);
	grants_release(&s->grants);
	free(s->issuers);
	free(s);
}

const struct vault_grants *http_secrets_grants(const struct inspect *in)
{
	return in->secrets ? &in->secrets->grants : NULL;
}

bool http_secrets_want(const struct inspect *in, const struct host *h, uint16_t port)
{
	const struct http_secrets *s = in->secrets;

	for (size_t i = 0; s && i < s->n_issuers; i++) {
		if (s->issuers[i].spec.port == port && host_eq(&s->issuers[i].spec.host, h))
			return true;
	}
	return s && inject_is_bound(&s->grants, h->text, port);
}
