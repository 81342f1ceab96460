/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificates of a PEM bundle as a PKCS #12 file (RFC 7292), the format of Java's trust stores. Nothing in it is
 * encrypted and it has no MAC, so it opens with any password. Each certificate has the attribute that makes Java
 * trust it. Pure.
 */
#ifndef CODEC_P12_H
#define CODEC_P12_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

#define P12_CERT_MAX (16u << 10)

/*
 * Adds the file, of at most `cap` bytes. Leaves out certificates that do not fit, blocks that are no certificate and
 * those over P12_CERT_MAX bytes. Returns the number of certificates in the file, or -ENOMEM.
 */
int p12_add_trusted(struct buf *out, const char *pem, size_t len, size_t cap) MUST_CHECK;

#endif
