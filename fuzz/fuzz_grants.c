/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed grants and bindings, as coffer-egress reads them from the guard and the vault from its starter: what unpacks packs to
 * the same bytes; a placeholder is found where a plain search finds it.
 */
#include "base/cleanup.h"
#include "vault/common/grants.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void find(const struct vault_grants *g, const char *text, size_t len)
{
	size_t at = 0, first = len, which = g->n;
	const struct vault_grant *found = grants_find_placeholder(g, text, len, &at);

	for (size_t i = 0; i < g->n; i++) {
		const char *p = memmem(text, len, g->v[i].placeholder, g->v[i].placeholder_len);

		if (p && (size_t)(p - text) < first) {
			first = (size_t)(p - text);
			which = i;
		}
	}
	BUG_ON(!found != (which == g->n));
	BUG_ON(found && (found != &g->v[which] || at != first));
}

static void check_grant(const struct vault_grants *g, struct vault_grant *v, enum grants_kind kind)
{
	BUG_ON(grants_by_handle(g, v->handle) == NULL || grants_by_name(g, v->name) == NULL);
	BUG_ON(kind == GRANTS_GRANTED && !v->n_bindings);
	for (size_t k = 0; kind == GRANTS_GRANTED && k < v->n_bindings; k++)
		BUG_ON(!grants_binding(v, v->bindings[k].host, v->bindings[k].port,
				       slice_of(v->bindings[k].path), BINDING_AS_ANY, NULL));
}

static void unpack(const uint8_t *data, size_t size, enum grants_kind kind)
{
	autogrants struct vault_grants g = GRANTS_INIT;
	autobuf struct buf again = BUF_INIT;

	if (grants_unpack(&g, kind, data, size) < 0)
		return;
	BUG_ON(grants_pack(&g, kind, &again) < 0 || again.len != size || memcmp(again.data, data, size) != 0);
	for (size_t i = 0; i < g.n; i++)
		check_grant(&g, &g.v[i], kind);
	if (kind == GRANTS_GRANTED)
		find(&g, (const char *)data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct binding b[GRANTS_BINDINGS_MAX];
	autobuf struct buf again = BUF_INIT;
	size_t n = 0;

	unpack(data, size, GRANTS_GRANTED);
	unpack(data, size, GRANTS_ASKED);
	if (bindings_unpack(b, &n, data, size) == 0)
		BUG_ON(bindings_pack(b, n, &again) < 0 || again.len != size ||
		       memcmp(again.data, data, size) != 0);
	return 0;
}
