/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public keys of SSH servers, for exact hosts, as in known_hosts files. They are stored with a secret's bindings,
 * decide for which server a key signs (agent.h), and are shown inside a sandbox as its known_hosts. They are not secret. Pure.
 *
 * Invariants
 *  H1  A host is canonical, a port not 0, a key one of ed25519, ECDSA (three curves) and RSA with 2048 to 8192 bits, of
 *      exactly the length of its kind. No pattern, no certificate authority.
 *  H2  A line of a file that is not understood is skipped; a key that the file revokes is never taken from it.
 */
#ifndef VAULT_SSHHOSTS_H
#define VAULT_SSHHOSTS_H

#include "base/buf.h"
#include "codec/net/host.h"
#include "codec/slice.h"

#define SSHHOSTS_MAX 32
#define SSHHOSTS_KEY_MAX 1100
#define SSHHOSTS_PACK_MAX (SSHHOSTS_MAX * (SSHHOSTS_KEY_MAX + 512u))
#define SSHHOSTS_FILE_MAX (4u << 20)
#define SSHHOSTS_PORT 22

struct sshhost {
	char host[HOST_MAX + 1];
	uint16_t port;
	size_t len;
	uint8_t key[SSHHOSTS_KEY_MAX];
};

struct sshhosts {
	struct sshhost *v;
	size_t n;
};

#define SSHHOSTS_INIT ((struct sshhosts){ 0 })

void sshhosts_release(struct sshhosts *h);
#define autosshhosts CLEANUP(sshhosts_release)

/* Is it a public key that a server may have (H1)? */
bool sshhosts_is_key(struct slice key);

/* No effect if it is there already. -E2BIG past SSHHOSTS_MAX, -EINVAL if it violates H1. */
int sshhosts_add(struct sshhosts *h, const char *host, uint16_t port, struct slice key) MUST_CHECK;
int sshhosts_join(struct sshhosts *h, const struct sshhosts *more) MUST_CHECK;

/* Removes the keys of one host and port; port 0: of every port. */
void sshhosts_drop(struct sshhosts *h, const char *host, uint16_t port);
bool sshhosts_has(const struct sshhosts *h, const char *host, uint16_t port);

/* "ssh-ed25519 AAAA… comment", as in a .pub file or after the host in known_hosts. */
int sshhosts_add_text(struct sshhosts *h, const char *host, uint16_t port, const char *text,
		      struct err *e) MUST_CHECK;

/* Adds the keys that a known_hosts file has for that host, under plain or hashed names. Returns their number,
 * possibly 0. */
int sshhosts_add_file(struct sshhosts *h, const char *host, uint16_t port, struct slice file,
		      struct err *e) MUST_CHECK;

/* As bytes; -EBADMSG for bytes that packing does not write. */
int sshhosts_pack(const struct sshhosts *h, struct buf *out) MUST_CHECK;
int sshhosts_unpack(struct sshhosts *ret, const void *data, size_t len) MUST_CHECK;

/* In the format of known_hosts. */
void sshhosts_text(const struct sshhosts *h, struct buf *out);

#endif
