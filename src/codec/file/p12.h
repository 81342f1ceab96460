/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificates of a PEM bundle as a PKCS #12 file (RFC 7292), which is what Java wants its trust store to be. Nothing in
 * it is encrypted and it has no MAC, so whatever password a program gives opens it. Each is marked with the attribute that
 * makes it a trusted one to Java. Pure.
 */
#ifndef CODEC_P12_H
#define CODEC_P12_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

#define P12_CERT_MAX (16u << 10)

/*
 * Adds the file, of at most `cap` bytes: certificates that do not fit any more are left out, as is what is no
 * certificate or over P12_CERT_MAX bytes. How many are in it, or -ENOMEM.
 */
int p12_add_trusted(struct buf *out, const char *pem, size_t len, size_t cap) MUST_CHECK;

#endif
