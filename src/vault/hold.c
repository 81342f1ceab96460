/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes: what they are granted, and who holds that for them. H1 to H3 stand in serve_int.h. */
#include "base/fd.h"
#include "base/str.h"
#include "vault/serve_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void drop_client(struct vault *v, const char *sandbox)
{
	for (size_t i = v->n_clients; i-- > 0;) {
		if (!str_eq(v->clients[i]->sandbox, sandbox))
			continue;
		client_release(v->clients[i]);
		free(v->clients[i]);
		v->clients[i] = v->clients[--v->n_clients];
	}
}

static int say_granted(struct request *q, const struct vault_grants *g, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct vault_msg m = { .type = VAULT_GRANTED, .id = q->m.id };
	int r = grants_pack(g, GRANTS_GRANTED, &b);

	if (r < 0)
		return err_set(e, r, "more is granted than can be told");
	m.text[0] = (struct slice){ buf_cstr(&b), b.len };
	q->answered = true;
	return request_say(q, &m);
}

static void client_freep(struct client **c)
{
	if (*c)
		client_release(*c);
	free(*c);
}

bool holder_may_list(const struct holder *h, const char *name)
{
	return grants_by_name(&h->ask, name) != NULL;
}

/* H1: word for word what was said when the channel was made. */
static bool may_have(const struct holder *h, const struct vault_grant *want)
{
	const struct vault_grant *own = grants_by_name(&h->ask, want->name);

	if (!own || own->n_bindings != want->n_bindings)
		return false;
	for (size_t i = 0; i < own->n_bindings; i++) {
		if (!binding_eq(&own->bindings[i], &want->bindings[i]))
			return false;
	}
	return true;
}

static bool is_own(const struct request *q, const char *sandbox, const struct vault_grants *ask)
{
	if (q->by && !str_eq(q->by->sandbox, sandbox))
		return false;
	for (size_t i = 0; q->by && ask && i < ask->n; i++) {
		if (!may_have(q->by, &ask->v[i]))
			return false;
	}
	return true;
}

int hold_grant(struct request *q, struct err *e)
{
	CLEANUP(client_freep) struct client *c = calloc(1, sizeof(*c));
	autogrants struct vault_grants ask = GRANTS_INIT;
	struct vault *v = q->v;
	int r;

	if (!c)
		return err_set(e, -ENOMEM, "out of memory");
	c->fd = -1;
	request_text(q->m.text[0], c->sandbox, sizeof(c->sandbox));
	if (grants_unpack(&ask, GRANTS_ASKED, q->m.text[1].p, q->m.text[1].len) < 0 ||
	    !is_own(q, c->sandbox, &ask))
		return -EPROTO;
	/* A second grant for one sandbox takes the place of the first: its egress was started again. */
	drop_client(v, c->sandbox);
	if (v->n_clients == GRANT_CLIENTS_MAX)
		return err_set(e, -ENOSPC, "%d sandboxes use the vault, which is as many as may",
			       GRANT_CLIENTS_MAX);
	r = client_grant(c, &v->store, &ask, &v->handles, &q->fault, e);
	if (r == 0)
		r = say_granted(q, &c->grants, e);
	if (r < 0)
		return r;
	c->fd = TAKE_FD(q->fds[0]);
	v->clients[v->n_clients++] = TAKE_PTR(c);
	return 0;
}

int hold_ungrant(struct request *q, struct err *e)
{
	char sandbox[VAULT_NAME_MAX + 1];

	(void)e;
	request_text(q->m.text[0], sandbox, sizeof(sandbox));
	if (!is_own(q, sandbox, NULL))
		return -EPROTO;
	drop_client(q->v, sandbox);
	return 0;
}

/* --- holders --------------------------------------------------------------------------------------------------- */

static void holder_free(struct holder *h)
{
	if (!h)
		return;
	fd_close(h->fd);
	grants_release(&h->ask);
	free(h);
}

static void holder_freep(struct holder **h)
{
	holder_free(*h);
}

void holder_end(struct vault *v, size_t i)
{
	drop_client(v, v->holders[i]->sandbox);
	holder_free(v->holders[i]);
	v->holders[i] = v->holders[--v->n_holders];
}

void hold_end_all(struct vault *v)
{
	while (v->n_holders)
		holder_end(v, v->n_holders - 1);
	while (v->n_clients)
		drop_client(v, v->clients[0]->sandbox);
}

int hold_begin(struct request *q, struct err *e)
{
	CLEANUP(holder_freep) struct holder *h = calloc(1, sizeof(*h));
	struct vault *v = q->v;

	if (!h)
		return err_set(e, -ENOMEM, "out of memory");
	h->fd = -1;
	request_text(q->m.text[0], h->sandbox, sizeof(h->sandbox));
	if (grants_unpack(&h->ask, GRANTS_ASKED, q->m.text[1].p, q->m.text[1].len) < 0)
		return -EPROTO;
	/* One sandbox, one holder: that of a launcher which died, and was not seen to, goes. */
	for (size_t i = v->n_holders; i-- > 0;) {
		if (str_eq(v->holders[i]->sandbox, h->sandbox))
			holder_end(v, i);
	}
	if (v->n_holders == HOLDERS_MAX)
		return err_set(e, -ENOSPC, "%d sandboxes use the vault, which is as many as may",
			       HOLDERS_MAX);
	h->fd = TAKE_FD(q->fds[0]);
	v->holders[v->n_holders++] = TAKE_PTR(h);
	return 0;
}
