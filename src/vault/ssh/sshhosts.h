/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which keys SSH servers have: what stands in known_hosts files, for exact hosts. They are kept with a secret's bindings,
 * decide for whom a key signs (agent.h), and are shown inside a sandbox as its known_hosts. No secret is in them. Pure.
 *
 * Invariants
 *  H1  A host is canonical, a port not 0, a key one of ed25519, ECDSA (three curves) and RSA with 2048 to 8192 bits, of
 *      exactly the bytes that its kind has. No pattern, no certificate authority.
 *  H2  A file's line that cannot be understood is not taken; a key that the file revokes is taken from nowhere in it.
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

/* Is it a public key that a server may have? (H1) */
bool sshhosts_is_key(struct slice key);

/* Nothing happens when it is there already. -E2BIG past SSHHOSTS_MAX, -EINVAL by H1. */
int sshhosts_add(struct sshhosts *h, const char *host, uint16_t port, struct slice key) MUST_CHECK;
int sshhosts_join(struct sshhosts *h, const struct sshhosts *more) MUST_CHECK;

/* Those of one host and port; port 0: every one. */
void sshhosts_drop(struct sshhosts *h, const char *host, uint16_t port);
bool sshhosts_has(const struct sshhosts *h, const char *host, uint16_t port);

/* "ssh-ed25519 AAAA… comment", as in a .pub file or behind the host in known_hosts. */
int sshhosts_add_text(struct sshhosts *h, const char *host, uint16_t port, const char *text,
		      struct err *e) MUST_CHECK;

/* What a known_hosts file has for that host: plain or hashed names. How many there are, which may be 0. */
int sshhosts_add_file(struct sshhosts *h, const char *host, uint16_t port, struct slice file,
		      struct err *e) MUST_CHECK;

/* As bytes; -EBADMSG for anything that packing does not write. */
int sshhosts_pack(const struct sshhosts *h, struct buf *out) MUST_CHECK;
int sshhosts_unpack(struct sshhosts *ret, const void *data, size_t len) MUST_CHECK;

/* As known_hosts has it. */
void sshhosts_text(const struct sshhosts *h, struct buf *out);

#endif
