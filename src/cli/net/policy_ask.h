/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hypothetical request or connection to ask a policy about, from words on a command line: "PUT
 * https://host/path", "host:port".
 */
#ifndef CLI_POLICY_ASK_H
#define CLI_POLICY_ASK_H

#include "codec/http/http1.h"
#include "policy/policy.h"

struct policy_ask {
	struct policy_target target;
	bool has_request; /* false: it is a connection */
	struct policy_request request;

	/* Storage that the members above point into. */
	struct host host;
	struct buf path, slashed;
	struct graphql_doc *gql;
	const struct graphql_doc *docs[1];
	struct policy_push push;
	char method[HTTP1_METHOD_MAX + 1];
};

#define POLICY_ASK_INIT ((struct policy_ask){ 0 })

/*
 * method, graphql and push may be NULL. A URL without a method is a GET. The struct points into itself: do
 * not move it afterwards.
 */
int cli_policy_ask_parse(struct policy_ask *a, const char *method, const char *where, const char *graphql,
			 const char *push, struct err *e) MUST_CHECK;
void cli_policy_ask_release(struct policy_ask *a);

#endif
