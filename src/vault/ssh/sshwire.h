/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SSH's wire format (RFC 4251): big-endian numbers, strings after a 4-byte length, numbers of any size. Uses the
 * readers and writers of wire.h, whose errors are sticky. Pure.
 */
#ifndef VAULT_SSHWIRE_H
#define VAULT_SSHWIRE_H

#include "vault/common/wire.h"

uint8_t ssh_get_byte(struct wire_in *in);
uint32_t ssh_get_u32(struct wire_in *in);
struct slice ssh_get(struct wire_in *in); /* a string */

/* A non-negative number without leading zero bytes; bad if it is negative. */
struct slice ssh_get_mpint(struct wire_in *in);

/* Was everything read, without an error? */
bool ssh_is_done(const struct wire_in *in);

void ssh_put_byte(struct wire_out *out, uint8_t v);
void ssh_put_u32(struct wire_out *out, uint32_t v);
void ssh_put(struct wire_out *out, struct slice s);
void ssh_put_text(struct wire_out *out, const char *s);
void ssh_put_mpint(struct wire_out *out, struct slice magnitude);

#endif
