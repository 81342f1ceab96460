/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting coffer-courier for one call and waiting for what came of it. Whoever calls this holds no secret: a key comes to the
 * courier as a descriptor, or from coffer-vault over a channel of its own that ends with the call.
 */
#ifndef NOTIFY_COURIER_START_H
#define NOTIFY_COURIER_START_H

#include "courier/courier_job.h"
#include "vault/common/binding.h"

struct courier_call {
	struct courier_job job; /* flags, but for COURIER_HAS_PIN, are filled in here */
	const char *secret;	/* of the vault; NULL or "" for none */
	const char *key_file;	/* which only its owner may read; NULL: none */
	const char *ca;		/* a PEM file; NULL: the system's certificates */
};

/* The path that a grant of the call's secret is for: the target without its query. A segment with a '%' may be read in two ways and
 * is no part of a binding (B3 of vault/common/binding.h); then it is the directory before that segment. */
int courier_grant_path(struct slice target, char ret[BINDING_PATH_MAX + 1]) MUST_CHECK;

/* Blocks for as long as the job's time limit and a little more; the courier is gone when it returns. 0: *ret has what the courier
 * said, be it a failure. Negative: there was no courier, and `e` says why. */
int courier_carry(int state_fd, struct courier_call *c, struct courier_result *ret, struct err *e) MUST_CHECK;

#endif
