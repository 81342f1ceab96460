/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grants of each sandbox, and the holders that act for sandboxes (serve_int.H1 to serve_int.H3). grant.c decides the uses
 * that a grant allows. A holder must not get a secret that was not stated when its channel was made.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "vault/serve/serve_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void drop_client_at(struct vault *v, size_t i)
{
	client_release(v->clients[i]);
	free(v->clients[i]);
	v->clients[i] = v->clients[--v->n_clients];
}

static struct client *find_client(const struct vault *v, const char *sandbox)
{
	for (size_t i = 0; i < v->n_clients; i++) {
		if (str_eq(v->clients[i]->sandbox, sandbox))
			return v->clients[i];
	}
	return NULL;
}

static void drop_clients_of(struct vault *v, const char *sandbox)
{
	for (size_t i = v->n_clients; i-- > 0;) {
		if (str_eq(v->clients[i]->sandbox, sandbox))
			drop_client_at(v, i);
	}
}

/* A sandbox's coffer-dial has a channel beside coffer-egress, named ID.dial. */
static bool is_channel_of(const char *channel, const char *sandbox)
{
	size_t n = strlen(sandbox);

	return strncmp(channel, sandbox, n) == 0 && (!channel[n] || str_eq(channel + n, ".dial"));
}

static int report_too_many(int r, struct err *e)
{
	return err_set(e, r, "there are too many grants for one message");
}

/* Can the response name the requested grants at least? */
static int check_grants_fit(const struct client *c, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = grants_pack(&c->grants, GRANTS_GRANTED, &b);

	return r < 0 ? report_too_many(r, e) : 0;
}

/* Packs all grants for the response: the requested ones, then the issued credentials. *ret_fit is false if the
 * latter do not fit into one message and were left out. */
static int pack_granted(const struct client *c, struct buf *ret, bool *ret_fit, struct err *e)
{
	autogrants struct vault_grants all = GRANTS_INIT;
	int r = client_grants(c, &all);

	if (r == 0)
		r = grants_pack(&all, GRANTS_GRANTED, ret);
	*ret_fit = r != -E2BIG || !c->issued.n;
	if (!*ret_fit)
		r = grants_pack(&c->grants, GRANTS_GRANTED, ret);
	return r < 0 ? report_too_many(r, e) : 0;
}

static int respond_granted(struct request *q, const struct buf *packed)
{
	struct vault_msg m = { .type = VAULT_GRANTED, .id = q->m.id };

	m.text[0] = (struct slice){ packed->data, packed->len };
	q->answered = true;
	return request_respond(q, &m);
}

static void client_freep(struct client **c)
{
	if (*c)
		client_release(*c);
	free(*c);
}

bool holder_may_list(const struct holder *h, const char *name)
{
	for (size_t i = 0; i < h->ask.n; i++) {
		if (h->ask.v[i].kind == GRANT_SECRET && str_eq(h->ask.v[i].name, name))
			return true;
	}
	return false;
}

/* serve_int.H1: exactly as it was stated when the channel was made. A secret may be listed twice: for rules,
 * and for a proxy set. */
static bool holder_may_have(const struct holder *h, const struct vault_grant *want)
{
	for (size_t i = 0; i < h->ask.n; i++) {
		if (grants_eq(&h->ask.v[i], want))
			return true;
	}
	return false;
}

/* Does the request stay within its holder's sandbox and secrets? The starter may request anything. */
static bool is_own_request(const struct request *q, const char *sandbox, const struct vault_grants *ask)
{
	if (q->by && !is_channel_of(sandbox, q->by->sandbox))
		return false;
	for (size_t i = 0; q->by && ask && i < ask->n; i++) {
		if (!holder_may_have(q->by, &ask->v[i]))
			return false;
	}
	return true;
}

/* Uses the file that came with the request, if any, to store issued credentials. */
static int open_keep_file(struct request *q, struct client *c, struct err *e)
{
	if (q->n_fds < 2)
		return 0;
	c->keep = keep_new(TAKE_FD(q->fds[1]), &q->v->key);
	return c->keep ? 0 : err_set(e, -ENOMEM, "out of memory");
}

int hold_grant(struct request *q, struct err *e)
{
	CLEANUP(client_freep) struct client *c = calloc(1, sizeof(*c));
	autogrants struct vault_grants ask = GRANTS_INIT;
	autobuf struct buf packed = BUF_INIT;
	struct vault *v = q->v;
	struct client *old;
	uint64_t now = clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
	size_t inherited = 0;
	bool issued_fit;
	int r;

	if (!c)
		return err_set(e, -ENOMEM, "out of memory");
	c->fd = -1;
	request_text(q->m.text[0], c->sandbox, sizeof(c->sandbox));
	if (grants_unpack(&ask, GRANTS_ASKED, q->m.text[1].p, q->m.text[1].len) < 0 ||
	    !is_own_request(q, c->sandbox, &ask))
		return -EPROTO;
	r = client_grant(c, &v->store, &ask, &v->handles, &q->fault, e);
	if (r < 0)
		return r;
	r = open_keep_file(q, c, e);
	if (r == 0)
		r = check_grants_fit(c, e);
	if (r < 0)
		return r;
	old = find_client(v, c->sandbox);
	if (!old && v->n_clients == GRANT_CLIENTS_MAX)
		return err_set(e, -ENOSPC, "%d sandboxes use the vault, which is the limit",
			       GRANT_CLIENTS_MAX);
	/* A second grant for the same sandbox replaces the first: its egress was restarted. Credentials that
	 * servers issued to it are kept (grant.R4). A request that fails leaves the first as it was. */
	if (old)
		inherited = client_inherit(c, old, now);
	if (c->keep)
		keep_load(c->keep, &c->issued, &c->grants, &v->handles, now);
	r = pack_granted(c, &packed, &issued_fit, e);
	if (r < 0) {
		if (old)
			client_give_back(c, old, inherited);
		return r;
	}
	if (!issued_fit)
		issued_release(&c->issued);
	drop_clients_of(v, c->sandbox);
	c->fd = TAKE_FD(q->fds[0]);
	v->clients[v->n_clients++] = TAKE_PTR(c);
	/* If this fails the requester has gone, and its grants end with its channel. */
	return respond_granted(q, &packed);
}

int hold_ungrant(struct request *q, struct err *e)
{
	char sandbox[VAULT_NAME_MAX + 1];

	(void)e;
	request_text(q->m.text[0], sandbox, sizeof(sandbox));
	if (!is_own_request(q, sandbox, NULL))
		return -EPROTO;
	drop_clients_of(q->v, sandbox);
	return 0;
}

/* --- ssh-agents ------------------------------------------------------------------------------------------------ */

static void drop_agents_of(struct vault *v, const char *sandbox)
{
	for (size_t i = v->n_agents; i-- > 0;) {
		if (!str_eq(v->agents[i]->sandbox, sandbox))
			continue;
		agent_release(v->agents[i]);
		free(v->agents[i]);
		v->agents[i] = v->agents[--v->n_agents];
	}
}

static void agent_freep(struct agent **a)
{
	if (*a)
		agent_release(*a);
	free(*a);
}

/* A sandbox has one agent, which ends with its holder; the channel of its coffer-dial has none. */
static bool may_have_agent(const struct request *q, const struct agent *a)
{
	return is_own_request(q, a->sandbox, &a->ask) && (!q->by || str_eq(a->sandbox, q->by->sandbox));
}

/* Independent of the grants of its coffer-egress; replaces an earlier agent of the sandbox. */
int hold_agent(struct request *q, struct err *e)
{
	CLEANUP(agent_freep) struct agent *a = calloc(1, sizeof(*a));
	struct vault *v = q->v;

	if (!a)
		return err_set(e, -ENOMEM, "out of memory");
	a->fd = -1;
	request_text(q->m.text[0], a->sandbox, sizeof(a->sandbox));
	if (grants_unpack(&a->ask, GRANTS_ASKED, q->m.text[1].p, q->m.text[1].len) < 0 ||
	    !may_have_agent(q, a))
		return -EPROTO;
	drop_agents_of(v, a->sandbox);
	if (v->n_agents == GRANT_CLIENTS_MAX)
		return err_set(e, -ENOSPC, "%d sandboxes use the vault, which is the limit",
			       GRANT_CLIENTS_MAX);
	q->ok[0] = agent_count(a, &v->store, clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC);
	a->fd = TAKE_FD(q->fds[0]);
	v->agents[v->n_agents++] = TAKE_PTR(a);
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
	for (size_t k = v->n_clients; k-- > 0;) {
		if (is_channel_of(v->clients[k]->sandbox, v->holders[i]->sandbox))
			drop_client_at(v, k);
	}
	drop_agents_of(v, v->holders[i]->sandbox);
	holder_free(v->holders[i]);
	v->holders[i] = v->holders[--v->n_holders];
}

void hold_end_all(struct vault *v)
{
	while (v->n_holders)
		holder_end(v, v->n_holders - 1);
	while (v->n_clients)
		drop_clients_of(v, v->clients[0]->sandbox);
	while (v->n_agents)
		drop_agents_of(v, v->agents[0]->sandbox);
}

int hold_add_holder(struct request *q, struct err *e)
{
	CLEANUP(holder_freep) struct holder *h = calloc(1, sizeof(*h));
	struct vault *v = q->v;

	if (!h)
		return err_set(e, -ENOMEM, "out of memory");
	h->fd = -1;
	request_text(q->m.text[0], h->sandbox, sizeof(h->sandbox));
	if (grants_unpack(&h->ask, GRANTS_ASKED, q->m.text[1].p, q->m.text[1].len) < 0)
		return -EPROTO;
	/* One holder for each sandbox: an earlier one, of a launcher that died unnoticed, is dropped. */
	for (size_t i = v->n_holders; i-- > 0;) {
		if (str_eq(v->holders[i]->sandbox, h->sandbox))
			holder_end(v, i);
	}
	if (v->n_holders == HOLDERS_MAX)
		return err_set(e, -ENOSPC, "%d sandboxes use the vault, which is the limit", HOLDERS_MAX);
	h->fd = TAKE_FD(q->fds[0]);
	v->holders[v->n_holders++] = TAKE_PTR(h);
	return 0;
}
