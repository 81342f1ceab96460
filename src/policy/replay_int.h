/* SPDX-License-Identifier: Apache-2.0 */
/* What replay.c and replay_rows.c share. */
#ifndef POLICY_REPLAY_INT_H
#define POLICY_REPLAY_INT_H

#include "policy/replay.h"

#define REPLAY_PUSH_MAX (REPLAY_ACT_MAX / 8)
#define REPLAY_ALSO_MAX 8

struct replay {
	const struct policy *p;

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
	uint32_t *index; /* open addressing over rows, place + 1; a power of two */
	size_t n_index;
	struct buf key;
	struct replay_sums sums;
};

#endif
