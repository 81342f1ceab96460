/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/http_merge.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>

#define USES_MAX 2
#define ARG "input"
#define MEMBER "expectedHeadOid"

static const char *const mutations[] = { "mergePullRequest", "enqueuePullRequest",
					 "enablePullRequestAutoMerge" };

bool merge_is_oid(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	return (n == 40 || n == 64) && strspn(s, "0123456789abcdefABCDEF") == n;
}

static const json_t *variable(const json_t *variables, struct slice name)
{
	char key[129];

	if (name.len >= sizeof(key))
		return NULL;
	snprintf(key, sizeof(key), "%.*s", (int)name.len, name.p);
	return json_object_get(variables, key);
}

static bool is_bound(const struct graphql_use *u, const json_t *variables)
{
	char oid[65];

	switch (u->from) {
	case GRAPHQL_TEXT:
		if (u->text.len >= sizeof(oid))
			return false;
		snprintf(oid, sizeof(oid), "%.*s", (int)u->text.len, u->text.p);
		return merge_is_oid(oid);
	case GRAPHQL_MEMBER:
		return merge_is_oid(json_string_value(variable(variables, u->text)));
	case GRAPHQL_ARGUMENT:
		return merge_is_oid(json_string_value(json_object_get(variable(variables, u->text), MEMBER)));
	default:
		return false;
	}
}

static bool has_field(const struct graphql_doc *g, const char *name)
{
	const struct graphql_op *op = &g->ops[g->selected];

	for (unsigned i = 0; i < op->n_fields; i++) {
		if (slice_eq(g->fields[op->first_field + i], name))
			return true;
	}
	return false;
}

bool merge_is_bound(const struct graphql_doc *g, const char *doc, size_t len, const char *op, size_t op_len,
		    const json_t *variables)
{
	struct graphql_use uses[USES_MAX];
	bool merges = false;

	for (size_t i = 0; i < ARRAY_SIZE(mutations); i++) {
		const struct graphql_seek s = { mutations[i], ARG, MEMBER, uses, USES_MAX };
		int n;

		if (!has_field(g, mutations[i]))
			continue;
		n = graphql_uses(doc, len, op, op_len, &s, NULL);
		/* People are shown that a document merges, not how often. */
		if (n != 1 || merges || !is_bound(&uses[0], variables))
			return false;
		merges = true;
	}
	return true;
}
