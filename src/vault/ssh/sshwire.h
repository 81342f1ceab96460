/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields as SSH writes them (RFC 4251): big-endian numbers, strings behind a length of 4 bytes, numbers of any size. Over the
 * same sticky readers and writers as wire.h. Pure.
 */
#ifndef VAULT_SSHWIRE_H
#define VAULT_SSHWIRE_H

#include "vault/common/wire.h"

uint8_t ssh_get_byte(struct wire_in *in);
uint32_t ssh_get_u32(struct wire_in *in);
struct slice ssh_get(struct wire_in *in); /* a string */

/* A number that is not negative, without the zero bytes before it; bad when it is negative. */
struct slice ssh_get_mpint(struct wire_in *in);

/* Is there nothing more, and was all of it there? */
bool ssh_is_done(const struct wire_in *in);

void ssh_put_byte(struct wire_out *out, uint8_t v);
void ssh_put_u32(struct wire_out *out, uint32_t v);
void ssh_put(struct wire_out *out, struct slice s);
void ssh_put_text(struct wire_out *out, const char *s);
void ssh_put_mpint(struct wire_out *out, struct slice magnitude);

#endif
