/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the grants for proxies, and fetches their credentials (proxy.O4). Never stores one: the caller's
 * buffer holds it for one handshake.
 */
#include "dial/proxy/dial_vault.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "dial/proxy/proxy_credentials.h"
#include "egress/wire/fds.h"

#include <errno.h>
#include <string.h>

static int read_grants_list(const void *list, size_t len, struct vault_grants *ret, struct err *e)
{
	struct secrets_head h;

	if (len < sizeof(h))
		return err_set(e, -EBADMSG, "the list of the proxies' secrets cannot be read");
	memcpy(&h, list, sizeof(h));
	if (memcmp(h.magic, SECRETS_MAGIC, sizeof(h.magic)) != 0 || h.len != len - sizeof(h) ||
	    grants_unpack(ret, GRANTS_GRANTED, (const char *)list + sizeof(h), h.len) < 0)
		return err_set(e, -EBADMSG, "the list of the proxies' secrets cannot be read");
	return 0;
}

int dial_vault_open(struct dial_vault *v, struct loop *loop, const void *list, size_t len, int channel,
		    struct err *e)
{
	struct vault_grants fresh = GRANTS_INIT;
	int r = read_grants_list(list, len, &fresh, e);

	if (r == 0 && !v->is_open)
		r = vaultc_init(&v->client, loop, e);
	if (r < 0) {
		grants_release(&fresh);
		fd_close(channel);
		return r;
	}
	v->is_open = true;
	grants_release(&v->grants);
	v->grants = fresh;
	return vaultc_connect(&v->client, channel, e);
}

void dial_vault_release(struct dial_vault *v)
{
	if (v->is_open)
		vaultc_release(&v->client);
	grants_release(&v->grants);
	v->is_open = false;
}

static const struct binding *proxy_binding(const struct vault_grant *g, const struct host *proxy,
					   uint16_t port)
{
	return g ? grants_binding(g, proxy->text, port, slice_of("/"), BINDING_AS_PROXY, NULL) : NULL;
}

int dial_vault_fetch(struct dial_vault *v, struct vaultc_request *a, const char *secret,
		     const struct host *proxy, uint16_t port, const char **why)
{
	const struct vault_grant *g = v && v->is_open ? grants_by_name(&v->grants, secret) : NULL;
	int r;

	if (!proxy_binding(g, proxy, port)) {
		*why = "the proxy's credential is not in the vault, or is not bound to the proxy";
		return -EACCES;
	}
	r = vaultc_render(&v->client, a, g->handle, proxy->text, port, slice_of("/"));
	*why = "the vault is not running, so the proxy's credential cannot be fetched";
	return r;
}

/* "USER:PASSWORD" as one text, with a NUL in place of the colon. */
/* NOLINTNEXTLINE(readability-function-size): where it goes, what came, and both halves of it */
const char *dial_vault_split(const struct dial_vault *v, const char *secret, const struct host *proxy,
			     uint16_t port, struct slice value, struct buf *mem, const char **user,
			     const char **password)
{
	const struct binding *b = proxy_binding(grants_by_name(&v->grants, secret), proxy, port);
	size_t n;

	mem->wipe = true;
	buf_clear(mem);
	if (!b)
		return "the proxy's credential is not bound to the proxy any more";
	if (b->user[0])
		buf_addf(mem, "%s:", b->user);
	buf_add(mem, value.p, value.len);
	buf_addc(mem, '\0');
	if (buf_error(mem))
		return "no memory";
	n = strcspn(mem->data, ":");
	if (strlen(mem->data) != mem->len - 1 || mem->data[n] != ':' || n == 0 || n > PROXY_CREDENTIAL_MAX ||
	    mem->len - n - 2 == 0 || mem->len - n - 2 > PROXY_CREDENTIAL_MAX)
		return "the proxy's credential in the vault is not USER:PASSWORD";
	mem->data[n] = '\0';
	*user = mem->data;
	*password = mem->data + n + 1;
	return NULL;
}
