/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt to get a tunnel through one proxy: resolve the proxy's own name where it has one, connect, shake hands.
 *
 * Not a byte behind the handshake is read: bytes are looked at first, and only those that belong to it are taken.
 */
#ifndef DIAL_PROXY_TUNNEL_H
#define DIAL_PROXY_TUNNEL_H

#include "base/buf.h"
#include "codec/http/connect.h"
#include "codec/net/socks.h"
#include "dial/connect/dial_race.h"
#include "dial/connect/resolve.h"
#include "dial/proxy/dial_vault.h"
#include "policy/policy.h"

#define TUNNEL_CONNECT_MS 5000 /* until the proxy is connected */
#define TUNNEL_ANSWER_MS 15000 /* until it says that the target is */

/* Whose doing the end is. */
enum tunnel_end {
	TUNNEL_OPEN,  /* fd is the tunnel */
	TUNNEL_FAULT, /* the proxy's own */
	TUNNEL_REFUSED, /* the proxy says in good order that it cannot or will not: the server's, or its rules' */
	TUNNEL_SILENT, /* it took the request and never answered: either's */
	TUNNEL_OURS,   /* no memory, no descriptors */
};

struct tunnel {
	void (*done)(struct tunnel *t, enum tunnel_end end, int status, int fd, const char *why);
	void *ctx;
	struct loop *loop;
	struct resolver *resolver;
	const struct policy_proxy *proxy;
	const char *user, *password;
	const char *secret; /* that the vault is asked for once the proxy is there; NULL: none */
	struct dial_vault *vault;
	struct host target;
	uint16_t port;

	struct vaultc_request ask;
	struct buf credential; /* the vault's answer, until the handshake is over */
	struct lookup lookup;
	struct race race;
	struct watch w; /* fd: ours once it is connected */
	struct timer deadline;
	size_t taken;	       /* bytes of the handshake */
	bool is_greeting_only; /* a check without a target: TUNNEL_OPEN with fd -1 when the proxy is there */
	struct buf in;	       /* taken, and not yet understood */
	struct buf out;
	size_t out_off;
	struct socks socks;
	struct connect_reply reply;
};

/* Everything in the struct up to `port` is set; what is pointed to stays until done(), which may free the tunnel. */
void tunnel_start(struct tunnel *t);
void tunnel_cancel(struct tunnel *t);

#endif
