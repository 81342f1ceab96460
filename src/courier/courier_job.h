/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job and the result of coffer-courier, over one SOCK_SEQPACKET channel: one of each. Pure.
 *
 * A job is a head of fixed size followed by its texts. Descriptors come with it in this order, each only
 * where its flag is set: the resolvers (resolv.conf), the system's certificates, a CA for the target (PEM),
 * and then either the key as a file or a client channel of coffer-vault.
 *
 * Invariants
 *  C1  A job has exactly the parts that its head announces, within the bounds below, and not a byte more:
 *      canonical host, port, canonical target in origin form, headers that cannot end their line and that
 *      frame, direct or sign nothing. Anything else is -EBADMSG.
 *  C2  A result has a fixed size, and its texts end within it; the starter treats them as bytes from a
 *      stranger.
 */
#ifndef COURIER_COURIER_JOB_H
#define COURIER_COURIER_JOB_H

#include "base/buf.h"
#include "codec/net/host.h"
#include "codec/slice.h"

#include <assert.h>
#include <stdint.h>

#define COURIER_FD_CONTROL 3
#define COURIER_FDS_MAX 4
#define COURIER_TARGET_MAX (4u << 10)
#define COURIER_FIELDS_MAX (4u << 10)
#define COURIER_BODY_MAX (64u << 10)
#define COURIER_CA_MAX (256u << 10)
#define COURIER_KEY_MAX (4u << 10)
#define COURIER_TIMEOUT_MIN 100 /* ms */
#define COURIER_TIMEOUT_MAX 120000
#define COURIER_METHOD_MAX 7
#define COURIER_WHY_LEN 240

/* How the secret is used. */
enum courier_auth {
	COURIER_NO_AUTH,
	COURIER_BEARER, /* Authorization: Bearer SECRET */
	COURIER_SIGN,	/* Coffer-Signature: t=SECONDS,v1=HMAC-SHA256(SECRET, SECONDS "." BODY) in hex */
	COURIER_AUTH_COUNT
};

enum courier_flags {
	COURIER_HAS_RESOLV = 1,
	COURIER_HAS_STORE = 2,
	COURIER_HAS_CA = 4, /* instead of the store */
	COURIER_HAS_KEY = 8,
	COURIER_HAS_VAULT = 16,
	COURIER_HAS_PIN = 32, /* dial only this address: the one way to a special one */
	COURIER_FLAGS_ALL = 63
};

struct courier_job {
	unsigned flags;
	enum courier_auth auth;
	uint32_t handle; /* of the vault's grant; with COURIER_HAS_VAULT */
	uint32_t timeout_ms;
	struct host host;
	uint16_t port;
	struct addr pin;
	uint16_t pin_port;
	char method[COURIER_METHOD_MAX + 1];
	struct slice target; /* "/hooks/7?x=y" */
	struct slice
		fields; /* "name: value\n" for each; the courier itself adds Host, framing and credentials */
	struct slice body;
};

/* Adds the message. -EINVAL when courier_job_parse() would refuse it, -ENOMEM. */
int courier_job_pack(const struct courier_job *j, struct buf *out) MUST_CHECK;
/* Texts point into data. */
int courier_job_parse(const void *data, size_t len, size_t n_fds, struct courier_job *ret) MUST_CHECK;
/* The number of descriptors that the flags require. */
size_t courier_job_fds(unsigned flags);

#define COURIER_RESULT_MAGIC 0x31524343u /* "CCR1" */

struct courier_result {
	uint32_t magic;
	int32_t error;	      /* 0: there is a response; negative errno: there is none */
	uint32_t status;      /* of HTTP */
	uint32_t retry_after; /* seconds, from the server; 0: not given */
	uint32_t ms;	      /* duration */
	uint32_t reserved;
	char why[COURIER_WHY_LEN]; /* of the error */
	char text
		[COURIER_WHY_LEN]; /* beginning of the server's error response, made harmless; may be empty */
};

static_assert(sizeof(struct courier_result) == 24 + (size_t)2 * COURIER_WHY_LEN, "no padding");

/* courier_job.C2; -EBADMSG. */
int courier_result_check(const void *data, size_t len, struct courier_result *ret) MUST_CHECK;

#endif
