/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that the sandbox has requested at http://coffer.internal/v1/access, and the state of each as far as
 * this process knows. Whether a rule is in force is decided by the policy alone; nothing here opens anything.
 *
 * Bounded: ACCESS_PENDING_MAX pending requests, ACCESS_KEPT_MAX in all, ACCESS_POLLS_MAX connections that
 * wait for an answer.
 */
#ifndef EGRESS_ACCESS_H
#define EGRESS_ACCESS_H

#include "base/buf.h"
#include "base/json.h"
#include "egress/core/access_body.h"
#include "egress/core/egress.h"

#define ACCESS_PENDING_MAX 16
#define ACCESS_KEPT_MAX 64
#define ACCESS_POLLS_MAX 32

struct access; /* one requested rule */

/*
 * Asks a person, or joins a pending ask for the same rule. NULL: nobody can be asked, and *ret_why says why.
 */
struct access *access_ask(struct egress *eg, const struct access_body *b, const char **ret_why);
/* Finds a request by the id of its ask. */
struct access *access_find(const struct egress *eg, const char *id, size_t len);
bool access_is_decided(const struct access *a);
bool access_is_known(const struct access *a); /* it has an id, or is decided */
/* The HTTP status for its state; access_json() has the state itself. */
unsigned access_status(const struct access *a);
void access_json(const struct egress *eg, const struct access *a, struct json *j, const char *key);
void access_list(const struct egress *eg, struct json *j, const char *key);
void access_close(struct egress *eg);

/* page.c: responds to the connections that wait for this one, where its state permits. */
void page_access_changed(struct egress *eg, const struct access *a);

#endif
