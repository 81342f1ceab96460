/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises merges as forges accept them: GraphQL mutations, and calls by path. An approval's digest binds
 * the request, not the state of the server: the merged commit is bound only when the request itself names it,
 * where the server looks for it. Pure.
 */
#ifndef EGRESS_HTTP_MERGE_H
#define EGRESS_HTTP_MERGE_H

#include "codec/body/graphql.h"

#include <jansson.h>

bool merge_is_oid(const char *s); /* 40 or 64 hex digits; NULL is no oid */

/*
 * `g` is the document, parsed with the same operation name. Does the one merge that the operation runs
 * (mergePullRequest, enqueuePullRequest, enablePullRequestAutoMerge, mergeBranch, GitLab's
 * mergeRequestAccept; under any alias, through fragments) give a commit's id as the member of its input that
 * binds it (expectedHeadOid, head, sha): in the document, or by a variable that has one in `variables` (NULL:
 * there are none)? No when the id is a variable's default value or a text with escapes, when the member
 * occurs twice, or when there is a second merge. True when nothing is merged.
 */
bool merge_is_bound(const struct graphql_doc *g, const char *doc, size_t len, const char *op, size_t op_len,
		    const json_t *variables);

/*
 * Does the text contain the name of such a mutation? A document without one merges nothing, whatever else it
 * does.
 */
bool merge_is_named(const char *doc, size_t len);

/* A request that may be a forge's call to merge, by its path. */
struct merge_call {
	struct slice path;  /* canonical, without the query */
	struct slice query; /* without its "?" */
	struct slice type;  /* Content-Type; p NULL: none */
	struct slice body;
};

/*
 * Why no person can be asked about the request: it merges and does not name the commit. Static text; NULL: it
 * names one, or is no merge. Paths are matched as generously as in a rule that asks: in any letter case, with
 * a trailing slash or format (".json"), with parameters anywhere. Known calls:
 *	GitHub		.../repos/O/R/pulls/N/merge, /repositories/ID/pulls/N/merge: `sha`; .../repos/O/R/merges: `head`, a commit's id
 *	GitLab		.../merge_requests/N/merge, .../merge_trains/merge_requests/N: `sha`, in the query or the body
 *	Gitea, Forgejo	.../api/v1/repos/O/R/pulls/N/merge: `head_commit_id`, and no scheduled merge
 */
const char *merge_call_lacks(const struct merge_call *c);

/* Does the path end in /graphql, matched as generously? */
bool merge_is_graphql_path(struct slice path);

#endif
