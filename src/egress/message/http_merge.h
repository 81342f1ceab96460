/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges, as forges take them: GraphQL mutations, and calls by path. A digest binds the request, not what the server has: what is merged is
 * bound only when the request itself names the commit, where the server looks for it. Pure.
 */
#ifndef EGRESS_HTTP_MERGE_H
#define EGRESS_HTTP_MERGE_H

#include "codec/body/graphql.h"

#include <jansson.h>

bool merge_is_oid(const char *s); /* 40 or 64 hex digits; NULL is fine */

/*
 * `g` is the document, parsed with the same name of an operation. Does the one merge that the operation would run (mergePullRequest,
 * enqueuePullRequest, enablePullRequestAutoMerge, mergeBranch, GitLab's mergeRequestAccept; under any alias, through fragments) give a
 * commit's id as the member of its input that binds it (expectedHeadOid, head, sha): in the document, or by a variable that has one in
 * `variables` (NULL: there are none)? A default value of a variable, a text with escapes, a member that is there twice, a second merge
 * beside it: no. True where nothing is merged.
 */
bool merge_is_bound(const struct graphql_doc *g, const char *doc, size_t len, const char *op, size_t op_len,
		    const json_t *variables);

/* Is the name of such a mutation anywhere in the text? A document without one merges nothing, whatever else it is. */
bool merge_is_named(const char *doc, size_t len);

/* A request that may be a forge's call to merge, by its path. */
struct merge_call {
	struct slice path;  /* canonical, without the query */
	struct slice query; /* without its "?" */
	struct slice type;  /* Content-Type; p NULL: none */
	struct slice body;
};

/*
 * Why nobody can be asked about it, static: it merges, and does not say which commit. NULL: it does, or is no such call. Paths are read as
 * generously as a rule that asks: in any case, with a slash or a format (".json") behind, parameters anywhere. Known are
 *	GitHub		.../repos/O/R/pulls/N/merge, /repositories/ID/pulls/N/merge: `sha`; .../repos/O/R/merges: `head`, a commit's id
 *	GitLab		.../merge_requests/N/merge, .../merge_trains/merge_requests/N: `sha`, in the query or the body
 *	Gitea, Forgejo	.../api/v1/repos/O/R/pulls/N/merge: `head_commit_id`, and no merge at a later time
 */
const char *merge_call_lacks(const struct merge_call *c);

/* Does the path end in /graphql, read as generously? */
bool merge_is_graphql_path(struct slice path);

#endif
