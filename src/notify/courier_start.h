/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts coffer-courier for one notification and waits for its result. The caller holds no
 * secret: the courier gets a key as a descriptor, or from coffer-vault over a channel of its own that ends
 * with the call.
 */
#ifndef NOTIFY_COURIER_START_H
#define NOTIFY_COURIER_START_H

#include "courier/courier_job.h"
#include "vault/common/binding.h"

struct courier_call {
	struct courier_job job; /* this file sets the flags, except for COURIER_HAS_PIN */
	const char *secret;	/* name of a secret in the vault; NULL or "": none */
	const char *key_file;	/* file that only its owner may read; NULL: none */
	const char *ca;		/* a PEM file; NULL: the system's certificates */
};

/* The path for the grant of the call's secret: the target without its query. A segment with a '%' can be read
 * in two ways and cannot be part of a binding (binding.B3, vault/common/binding.h); then it is the directory
 * before that segment. */
int notify_courier_grant_path(struct slice target, char ret[BINDING_PATH_MAX + 1]) MUST_CHECK;

/* Blocks up to the job's time limit plus a grace period; the courier has ended when this returns. 0: *ret has
 * the courier's result, which may be a failure. Negative: no courier was started; `e` has the reason. */
int notify_courier_carry(int state_fd, struct courier_call *c, struct courier_result *ret,
			 struct err *e) MUST_CHECK;

#endif
