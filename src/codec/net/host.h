/* SPDX-License-Identifier: Apache-2.0 */
/*
 * THE canonicaliser of host names. Policy, DNS, SNI, Host and :authority, certificate check and dial all use its one
 * output, so that no two of them can be made to disagree. Pure.
 *
 * Invariants
 *  H1  A name is in lower case, without trailing dot, 1..253 bytes; labels of 1..63 letters, digits, hyphens and
 *      underscores, no hyphen at either end. host_canon() of its own output gives the same output.
 *  H2  A label that begins with xn-- is punycode (RFC 3492) that decodes to a text with a character outside ASCII; no
 *      two such labels decode to the same text. Names in Unicode are refused, so that a name has one form only.
 *  H3  A strict address (codec/net/addr.h; IPv6 with or without brackets) is HOST_ADDR. A text that is no strict
 *      address but that another program might read as one (its last label is all digits, or 0x and hex digits) is
 *      refused: 2130706433, 0x7f.1, 0177.0.0.1, 127.1.
 *  H4  The output contains no NUL, control byte, space, percent, @, slash, colon (but in IPv6) or byte over 0x7e.
 */
#ifndef CODEC_HOST_H
#define CODEC_HOST_H

#include "base/buf.h"
#include "codec/net/addr.h"

#define HOST_MAX 253
#define HOST_LABEL_MAX 63

enum host_kind { HOST_NAME, HOST_ADDR };

struct host {
	enum host_kind kind;
	struct addr addr;	 /* HOST_ADDR */
	uint8_t len;		 /* of text */
	char text[HOST_MAX + 1]; /* canonical; an address as addr_format() writes it, without brackets */
};

/* Reads one host: a name, an IPv4 address, or an IPv6 address bare or in brackets. -EINVAL with the fault in `e`. */
int host_canon(const char *in, size_t len, struct host *ret, struct err *e) MUST_CHECK;

#define HOST_PORT_OPTIONAL (-1)
/*
 * Reads "name:443", "10.1.2.3:8443", "[::1]:443"; IPv6 needs brackets here. default_port replaces a missing port;
 * when it is 0 a port is required, and with HOST_PORT_OPTIONAL a missing port is returned as 0. A port is 1..65535 in
 * at most 5 digits, without sign or leading zero.
 */
int host_port_parse(const char *in, size_t len, int default_port, struct host *ret, uint16_t *ret_port,
		    struct err *e) MUST_CHECK;

/* A port alone, as above. */
int host_parse_port(const char *in, size_t len, uint16_t *ret, struct err *e) MUST_CHECK;

bool host_eq(const struct host *a, const struct host *b);

void host_from_addr(const struct addr *a, struct host *ret);

/* Adds the host as in a URL or Host header: IPv6 in brackets, then ":port" unless port is 0. */
void host_add(struct buf *out, const struct host *h, uint16_t port);

/* How many labels a name has; 0 for an address. */
unsigned host_labels(const struct host *h);

#endif
