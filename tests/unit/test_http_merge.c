/* SPDX-License-Identifier: Apache-2.0 */
/* Which merges name the commit that they merge. */
#include "base/cleanup.h"
#include "egress/message/http_merge.h"
#include "tap.h"

#define OID "0123456789abcdef0123456789abcdef01234567"
#define TWO "89abcdef0123456789abcdef0123456789abcdef"

static bool bound(const char *doc, const char *op, const char *variables)
{
	static struct graphql_doc g;
	json_t *v = variables ? json_loads(variables, JSON_REJECT_DUPLICATES, NULL) : NULL;
	struct err e = ERR_INIT;
	bool yes;

	if (graphql_parse(doc, strlen(doc), op, op ? strlen(op) : 0, &g, &e) < 0) {
		printf("# %s\n", e.msg);
		json_decref(v);
		return false;
	}
	yes = merge_is_bound(&g, doc, strlen(doc), op, op ? strlen(op) : 0, v);
	json_decref(v);
	return yes;
}

#define M(input) "mutation { mergePullRequest(input: " input ") { clientMutationId } }"

static void test_bound(void)
{
	CHECK(bound("{ viewer { login } }", NULL, NULL)); /* nothing is merged */
	CHECK(bound(M("{pullRequestId: \"x\", expectedHeadOid: \"" OID "\"}"), NULL, NULL));
	CHECK(bound(M("{expectedHeadOid: $o}"), NULL, "{\"o\":\"" OID "\"}"));
	CHECK(bound(M("$i"), NULL, "{\"i\":{\"pullRequestId\":\"x\",\"expectedHeadOid\":\"" OID "\"}}"));
	CHECK(bound(
		"mutation { ...F } fragment F on Mutation { mergePullRequest(input: {expectedHeadOid: \"" OID
		"\"}) { x } }",
		NULL, NULL));
	CHECK(bound("mutation { enablePullRequestAutoMerge(input: {expectedHeadOid: \"" OID "\"}) { x } }",
		    NULL, NULL));
	/* Of another operation than the one that runs. */
	CHECK(bound("mutation A { mergePullRequest(input: {}) { x } } query B { viewer { login } }", "B",
		    NULL));
}

static void test_unbound(void)
{
	CHECK(!bound(M("{pullRequestId: \"x\"}"), NULL, NULL));
	CHECK(!bound("mutation { mergePullRequest { x } }", NULL, NULL));
	CHECK(!bound(M("{expectedHeadOid: \"abc\"}"), NULL, NULL));
	CHECK(!bound(M("{expectedHeadOid: null}"), NULL, NULL));
	CHECK(!bound(M("{expectedHeadOid: \"\\u0030123456789abcdef0123456789abcdef01234567\"}"), NULL, NULL));
	CHECK(!bound(M("{expectedHeadOid: \"\"\"" OID "\"\"\"}"), NULL, NULL));
	/* The text is there, and not where it counts. */
	CHECK(!bound("mutation { mergePullRequest(input: {commitBody: \"expectedHeadOid: " OID "\"}) { x } }",
		     NULL, NULL));
	CHECK(!bound(
		"mutation { mergePullRequest(input: {pullRequestId: \"x\"}) { expectedHeadOid(oid: \"" OID
		"\") } }",
		NULL, NULL));
	CHECK(!bound(M("{nested: {expectedHeadOid: \"" OID "\"}}"), NULL, NULL));
	CHECK(!bound("mutation { mergePullRequest(other: {expectedHeadOid: \"" OID "\"}, input: {}) { x } }",
		     NULL, NULL));
	CHECK(!bound("# expectedHeadOid: " OID "\n" M("{}"), NULL, NULL));
	/* A variable that has it, and another that is used. */
	CHECK(!bound(M("$i"), NULL, "{\"i\":{},\"j\":{\"expectedHeadOid\":\"" OID "\"}}"));
	CHECK(!bound(M("$i"), NULL, "{\"expectedHeadOid\":\"" OID "\"}"));
	CHECK(!bound(M("{expectedHeadOid: $o}"), NULL, "{\"p\":\"" OID "\"}"));
	CHECK(!bound(M("{expectedHeadOid: $o}"), NULL, NULL));
	CHECK(!bound(M("{expectedHeadOid: $o}"), NULL, "{\"o\":[\"" OID "\"]}"));
	CHECK(!bound("mutation M($o: ID = \"" OID
		     "\") { mergePullRequest(input: {expectedHeadOid: $o}) { x } }",
		     NULL, NULL));
	CHECK(!bound("mutation M($i: I = {expectedHeadOid: \"" OID
		     "\"}) { mergePullRequest(input: $i) { x } }",
		     NULL, NULL));
	/* Twice. */
	CHECK(!bound(M("{expectedHeadOid: \"" OID "\", expectedHeadOid: \"" TWO "\"}"), NULL, NULL));
	CHECK(!bound("mutation { mergePullRequest(input: {expectedHeadOid: \"" OID "\"}, input: {}) { x } }",
		     NULL, NULL));
	CHECK(!bound(M("$i"), NULL,
		     "{\"i\":{\"expectedHeadOid\":\"" OID "\",\"expectedHeadOid\":\"" TWO "\"}}"));
	/* Two of them, which people would be shown as one. */
	CHECK(!bound("mutation { a: mergePullRequest(input: {expectedHeadOid: \"" OID
		     "\"}) { x } b: mergePullRequest(input: {expectedHeadOid: \"" TWO "\"}) { x } }",
		     NULL, NULL));
	CHECK(!bound("mutation { mergePullRequest(input: {expectedHeadOid: \"" OID
		     "\"}) { x } enqueuePullRequest(input: {expectedHeadOid: \"" TWO "\"}) { x } }",
		     NULL, NULL));
	/* A commit for one of several merges is not enough. */
	CHECK(!bound("mutation { a: mergePullRequest(input: {expectedHeadOid: \"" OID
		     "\"}) { x } b: mergePullRequest(input: {}) { x } }",
		     NULL, NULL));
	CHECK(!bound(
		"mutation { a: mergePullRequest(input: {expectedHeadOid: \"" OID
		"\"}) { x } ...F } fragment F on Mutation { mergePullRequest(input: {pullRequestId: \"y\"}) { x } }",
		NULL, NULL));
	CHECK(!bound("mutation { mergePullRequest(input: {expectedHeadOid: \"" OID
		     "\"}) { x } enqueuePullRequest(input: {}) { x } }",
		     NULL, NULL));
	CHECK(!bound("mutation { notAMerge: mergePullRequest(input: {}) { x } }", NULL, NULL));
}

/* Other mutations that merge, and the member of each. */
static void test_members(void)
{
	CHECK(bound("mutation { mergeBranch(input: {base: \"main\", head: \"" OID "\"}) { x } }", NULL,
		    NULL));
	CHECK(!bound("mutation { mergeBranch(input: {base: \"main\", head: \"topic\"}) { x } }", NULL, NULL));
	CHECK(!bound("mutation { mergeBranch(input: {expectedHeadOid: \"" OID "\", head: \"topic\"}) { x } }",
		     NULL, NULL));
	CHECK(bound("mutation { mergeRequestAccept(input: $i) { errors } }", NULL,
		    "{\"i\":{\"iid\":\"7\",\"sha\":\"" OID "\"}}"));
	CHECK(!bound("mutation { mergeRequestAccept(input: $i) { errors } }", NULL,
		     "{\"i\":{\"iid\":\"7\",\"expectedHeadOid\":\"" OID "\"}}"));
	CHECK(merge_is_named("mutation{a:mergeBranch", 22) && merge_is_named("mergeRequestAccept", 18));
	CHECK(!merge_is_named("mutation{addComment", 19) && !merge_is_named("mergeBranch", 10) &&
	      !merge_is_named(NULL, 0));
}

static const char *lacks(const char *target, const char *type, const char *body)
{
	const char *q = strchr(target, '?');
	const struct merge_call c = { .path = { target, q ? (size_t)(q - target) : strlen(target) },
				      .query = q ? slice_of(q + 1) : SLICE_NONE,
				      .type = type ? slice_of(type) : SLICE_NONE,
				      .body = slice_of(body) };

	return merge_call_lacks(&c);
}

#define JSON "application/json"
#define FORM "application/x-www-form-urlencoded"

static bool asks_for(const char *target, const char *type, const char *body, const char *member)
{
	const char *why = lacks(target, type, body);

	return why && strstr(why, member);
}

static void test_github(void)
{
	static const char *const paths[] = {
		"/repos/o/r/pulls/7/merge",	  "/api/v3/repos/o/r/pulls/7/merge",
		"/repositories/12/pulls/7/merge", "/Repos/o/r/PULLS/7/Merge/",
		"/repos/o/r;x/pulls/7/merge;y",	  "/repos/o/r/pulls%2F7%2fmerge",
		"/repos/o/r/pulls/7/merge.json"
	};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		CHECKF(asks_for(paths[i], JSON, "{}", "\"sha\" in the body"),
		       "a merge that does not name its commit lacks it: %s", paths[i]);
		CHECKF(!lacks(paths[i], NULL, "{\"sha\":\"" OID "\"}"),
		       "a merge with its commit lacks nothing: %s", paths[i]);
	}
	CHECK(lacks(paths[0], JSON, ""));
	CHECK(lacks(paths[0], JSON, "{\"sha\":\"main\"}"));
	CHECK(lacks(paths[0], JSON, "{\"sha\":\"" OID "\",\"sha\":\"" TWO "\"}"));
	CHECK(lacks(paths[0], JSON, "{\"head_commit_id\":\"" OID "\"}"));
	CHECK(lacks("/repos/o/r/pulls/7/merge?sha=" TWO, JSON, "{\"sha\":\"" OID "\"}"));
	CHECK(lacks("/repos/o/r/pulls/7/merge?sha=" OID, JSON, ""));
	CHECK(asks_for("/repos/o/r/merges", JSON, "{\"base\":\"main\",\"head\":\"topic\"}", "\"head\""));
	CHECK(!lacks("/repos/o/r/merges", JSON, "{\"base\":\"main\",\"head\":\"" OID "\"}"));
	CHECK(lacks("/repos/o/r/merges?head=topic", JSON, "{\"base\":\"main\",\"head\":\"" OID "\"}"));
	CHECK(lacks("/repositories/12/merges/", JSON, "{\"head\":\"topic\"}"));
	/* None of them is a merge. */
	CHECK(!lacks("/repos/o/r/pulls/7", JSON, "{}") && !lacks("/repos/o/r/pulls/7/merged", JSON, "{}"));
	CHECK(!lacks("/repos/o/r/contents/doc/merges", JSON, "{}") && !lacks("/merge", JSON, "{}"));
	CHECK(!lacks("/repos/o/r/contents/merges.md", JSON, "{}") && !lacks("/", JSON, "") &&
	      !lacks("", JSON, ""));
}

static void test_gitlab(void)
{
	static const char path[] = "/api/v4/projects/g%2Fp/merge_requests/7/merge";
	static const char query[] = "/api/v4/projects/1/merge_requests/7/merge?sha=" OID;

	CHECK(asks_for(path, JSON, "{}", "\"sha\", once") && asks_for(path, NULL, "", "in the query"));
	CHECK(!lacks(path, JSON, "{\"sha\":\"" OID "\"}") &&
	      !lacks(path, JSON ";charset=utf-8", "{\"sha\":\"" OID "\"}"));
	CHECK(!lacks(path, FORM, "squash=true&sha=" OID) && !lacks(query, NULL, "") &&
	      !lacks(query, JSON, "{\"squash\":true}"));
	/* A body in another format than announced names no commit. */
	CHECK(lacks(path, FORM, "{\"sha\":\"" OID "\"}") && lacks(path, NULL, "{\"sha\":\"" OID "\"}"));
	CHECK(lacks(path, "multipart/form-data", "sha=" OID) && lacks(path, FORM, "sha=" OID "&sha=" TWO));
	CHECK(lacks(path, FORM, "sha[]=" OID) && lacks(path, FORM, "sha=" OID "%00"));
	CHECK(lacks(query, JSON, "{\"sha\":\"" TWO "\"}") && lacks(query, FORM, "sha=" TWO) &&
	      lacks(query, NULL, "x"));
	CHECK(lacks("/api/v4/projects/1/merge_requests/7/merge?sha=" OID "&SHA=" TWO, NULL, ""));
	CHECK(lacks("/api/v4/projects/1/merge_requests/7/merge.json", JSON, "{}"));
	CHECK(lacks("/api/v4/projects/1/merge_trains/merge_requests/7", JSON, "{}"));
	CHECK(!lacks("/api/v4/projects/1/merge_requests/7/notes", JSON, "{}"));
}

static void test_gitea(void)
{
	static const char path[] = "/api/v1/repos/o/r/pulls/7/merge";

	CHECK(asks_for(path, JSON, "{\"Do\":\"merge\"}", "head_commit_id"));
	CHECK(asks_for(path, JSON, "{\"Do\":\"merge\",\"sha\":\"" OID "\"}", "head_commit_id"));
	CHECK(asks_for("/git/API/V1/repos/o/r/pulls/7/merge/", JSON, "{\"sha\":\"" OID "\"}",
		       "head_commit_id"));
	CHECK(!lacks(path, JSON, "{\"Do\":\"merge\",\"head_commit_id\":\"" OID "\"}"));
	CHECK(!lacks(path, JSON, "{\"head_commit_id\":\"" OID "\",\"merge_when_checks_succeed\":false}"));
	CHECK(lacks(path, JSON, "{\"head_commit_id\":\"" OID "\",\"merge_when_checks_succeed\":true}"));
	CHECK(lacks(path, JSON, "{\"head_commit_id\":\"" OID "\",\"MERGE_when_checks_succeed\":true}"));
	CHECK(lacks(path, JSON, "{\"head_commit_id\":\"" OID "\",\"merge_when_checks_\u017fucceed\":true}"));
	CHECK(lacks(path, JSON, "{\"head_commit_id\":\"" OID "\",\"Head_Commit_ID\":\"\"}"));
	CHECK(lacks(path, FORM, "{\"head_commit_id\":\"" OID "\"}") &&
	      lacks(path, FORM, "head_commit_id=" OID));
	CHECK(lacks("/api/v1/repos/o/r/pulls/7/merge?head_commit_id=", JSON,
		    "{\"head_commit_id\":\"" OID "\"}"));
}

static void test_paths(void)
{
	CHECK(merge_is_graphql_path(slice_of("/graphql")) &&
	      merge_is_graphql_path(slice_of("/api/GraphQL/")));
	CHECK(merge_is_graphql_path(slice_of("/api;x/graphql;y")) &&
	      merge_is_graphql_path(slice_of("/graphql.json")));
	CHECK(merge_is_graphql_path(slice_of("/api%2fgraphql")) &&
	      !merge_is_graphql_path(slice_of("/graphqlx")));
	CHECK(!merge_is_graphql_path(slice_of("/repos/o/graphql/issues")) &&
	      !merge_is_graphql_path(slice_of("/")));
}

int main(void)
{
	test_bound();
	test_unbound();
	test_members();
	test_github();
	test_gitlab();
	test_gitea();
	test_paths();
	return tap_done();
}
