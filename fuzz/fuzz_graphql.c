/* SPDX-License-Identifier: Apache-2.0 */
/* A GraphQL document; the first byte is how much of the rest is the operation's name. */
#include "codec/body/graphql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool inside(struct slice s, const uint8_t *data, size_t size)
{
	return s.len > 0 && s.p >= (const char *)data && s.p + s.len <= (const char *)data + size;
}

static void check_op(const struct graphql_op *op, const uint8_t *data, size_t size)
{
	BUG_ON(op->n_fields == 0 || op->type >= GRAPHQL_TYPE_COUNT);
	BUG_ON(op->name.len && !inside(op->name, data, size));
}

static void check(const struct graphql_doc *d, const uint8_t *data, size_t size)
{
	unsigned fields = 0;

	BUG_ON(d->n_ops == 0 || d->n_ops > GRAPHQL_OPS_MAX || d->selected < 0 ||
	       (unsigned)d->selected >= d->n_ops);
	for (unsigned i = 0; i < d->n_ops; i++) {
		BUG_ON(d->ops[i].first_field != fields);
		check_op(&d->ops[i], data, size);
		fields += d->ops[i].n_fields;
	}
	BUG_ON(fields != d->n_fields || fields > GRAPHQL_FIELDS_MAX);
	for (unsigned i = 0; i < fields; i++)
		BUG_ON(!inside(d->fields[i], data, size) || memchr(d->fields[i].p, '"', d->fields[i].len));
}

static void check_uses(const uint8_t *data, size_t size, size_t name)
{
	struct graphql_use uses[8];
	struct err e = ERR_INIT;
	const struct graphql_seek s = { "f", "a", "m", uses, 8 };
	int n = graphql_uses((const char *)data + name, size - name, (const char *)data, name, &s, &e);

	BUG_ON((n < 0) != (e.msg[0] != '\0'));
	for (int i = 0; i < n; i++) {
		BUG_ON(uses[i].from != GRAPHQL_NOWHERE && !inside(uses[i].text, data, size));
		BUG_ON(uses[i].from == GRAPHQL_TEXT && memchr(uses[i].text.p, '"', uses[i].text.len));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct graphql_doc d;
	struct err e = ERR_INIT;
	size_t name;
	int r;

	if (size < 1)
		return 0;
	name = data[0] % 8 < size - 1 ? data[0] % 8 : size - 1;
	data++;
	size--;
	r = graphql_parse((const char *)data + name, size - name, (const char *)data, name, &d, &e);
	BUG_ON((r < 0) != (e.msg[0] != '\0'));
	if (r < 0)
		BUG_ON(d.n_ops || d.n_fields);
	else
		check(&d, data, size);
	check_uses(data, size, name);
	return 0;
}
