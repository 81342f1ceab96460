/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request's headers say of what it does, for the person who is asked about it, and for the digest that the answer is bound to. Pure.
 *
 * Invariants
 *  H1  Every header that may say what is done is shown, or named as one that is not shown; where not even the names fit, it cannot be asked.
 *  H2  All of them, names and values, are bound by a whole SHA-256. Values of credentials are in that alone.
 *  H4  What is neither shown nor named (Accept, User-Agent and the like) is short: no more than a kilobyte of it leaves with an approval.
 *  H3  A value cannot look like another header: with a ';' in it it stands in quotes, with a quote in it is not shown.
 */
#ifndef EGRESS_ASKHEADERS_H
#define EGRESS_ASKHEADERS_H

#include "egress/message/http_msg.h"

/* "x-target: Describe; headers hidden (1): authorization; headers SHA256" behind what stands in *what, at most `max` bytes in all.
 * -E2BIG: there is not the room. */
int askheaders_add(const struct http_fields *f, size_t max, struct buf *what) MUST_CHECK;

#endif
