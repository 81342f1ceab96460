/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges of pull requests in GraphQL documents. A digest binds the request, not what the server has: what is merged is bound only when the
 * mutation itself names the commit. Pure.
 */
#ifndef EGRESS_HTTP_MERGE_H
#define EGRESS_HTTP_MERGE_H

#include "codec/graphql.h"

#include <jansson.h>

bool merge_is_oid(const char *s); /* 40 or 64 hex digits; NULL is fine */

/*
 * `g` is the document, parsed with the same name of an operation. Does the one merge that the operation would run (mergePullRequest,
 * enqueuePullRequest, enablePullRequestAutoMerge; under any alias, through fragments) give a commit's id as expectedHeadOid of its input:
 * in the document, or by a variable that has one in `variables` (NULL: there are none)? A default value of a variable, a text with
 * escapes, a member that is there twice, a second merge beside it: no. True where nothing is merged.
 */
bool merge_is_bound(const struct graphql_doc *g, const char *doc, size_t len, const char *op, size_t op_len,
		    const json_t *variables);

#endif
