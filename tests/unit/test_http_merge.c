/* SPDX-License-Identifier: Apache-2.0 */
/* Which merges name the commit that they merge. */
#include "egress/http_merge.h"
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
	/* One of several is not. */
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

int main(void)
{
	test_bound();
	test_unbound();
	return tap_done();
}
