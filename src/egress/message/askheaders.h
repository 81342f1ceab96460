/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renders the headers of a request for the person who is asked about it, and computes the digest that the
 * answer is bound to. Pure.
 *
 * Invariants
 *  H1  Every header that may tell what the request does is shown, or named as hidden; when not even the names
 *      fit, no person can be asked.
 *  H2  All of them, names and values, are bound by a whole SHA-256. Values of credentials are only in that
 *      digest.
 *  H3  A value cannot look like another header: a value with a ';' is quoted, a value with a quote is not
 *      shown.
 *  H4  Headers that are neither shown nor named (Accept, User-Agent and the like) are short: at most a
 *      kilobyte of them leaves with an approval.
 */
#ifndef EGRESS_ASKHEADERS_H
#define EGRESS_ASKHEADERS_H

#include "egress/message/http_msg.h"

/*
 * Appends "x-target: Describe; headers hidden (1): authorization; headers SHA256" to *what, up to `max` bytes
 * in all. -E2BIG: it does not fit.
 */
int askheaders_add(const struct http_fields *f, size_t max, struct buf *what) MUST_CHECK;

#endif
