/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by replay.c, replay_rows.c and replay_acts.c. */
#ifndef POLICY_REPLAY_INT_H
#define POLICY_REPLAY_INT_H

#include "policy/replay/replay.h"

#define REPLAY_PUSH_MAX (REPLAY_ACT_MAX / 8)
#define REPLAY_ALSO_MAX 8

struct replay {
	const struct policy *p;
	const struct acts *acts;
	char list[ACTS_DIGEST_LEN + 1]; /* digest of acts */

	/* Of the request that is being decided: its `act`, and its paths. */
	struct graphql_doc docs[GRAPHQL_TYPE_COUNT];
	const struct graphql_doc *gql[GRAPHQL_TYPE_COUNT];
	size_t n_gql;
	struct policy_push push[REPLAY_PUSH_MAX];
	size_t n_push;
	struct slice also[REPLAY_ALSO_MAX];
	size_t n_also;
	struct slice query;
	bool has_push, has_service, is_cut;
	struct buf path, slashed;

	struct replay_row *rows;
	size_t n_rows;
	uint32_t *index; /* open addressing over rows, position + 1; the size is a power of two */
	size_t n_index;
	struct buf key;
	struct replay_sums sums;
	uint64_t again[REPLAY_KIND_COUNT][POLICY_ALLOW + 1]; /* from replay_add_again() */
	bool differs[REPLAY_KIND_COUNT][POLICY_ALLOW + 1];   /* some of these changed */
};

/* replay_acts.c */
enum replay_now replay_decide_tool(const struct replay *r, const struct replay_seen *s,
				   struct policy_verdict *v, const char **ret_why);
enum replay_now replay_decide_apply(const struct replay *r, struct policy_verdict *v);

#endif
