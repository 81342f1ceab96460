/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt to open a tunnel through one proxy: resolve the proxy's own name if necessary, connect, perform
 * the handshake.
 *
 * Not a byte after the handshake is read: bytes are peeked at first, and only those that belong to the
 * handshake are taken.
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
#define TUNNEL_ANSWER_MS 15000 /* until it reports that the target is connected */

/* The result of an attempt, with the side that caused a failure. */
enum tunnel_end {
	TUNNEL_OPEN,	/* fd is the tunnel */
	TUNNEL_FAULT,	/* the proxy's fault */
	TUNNEL_REFUSED, /* an orderly refusal by the proxy: because of the server, or its own rules */
	TUNNEL_SILENT,	/* it accepted the request and never replied: the fault of either */
	TUNNEL_OURS,	/* our own failure: no memory, no descriptors */
};

struct tunnel {
	void (*done)(struct tunnel *t, enum tunnel_end end, int status, int fd, const char *why);
	void *ctx;
	struct loop *loop;
	struct resolver *resolver;
	const struct policy_proxy *proxy;
	const char *user, *password;
	const char *secret; /* fetched from the vault once the proxy is connected; NULL: none */
	struct dial_vault *vault;
	struct host target;
	uint16_t port;

	struct vaultc_request fetch;
	struct buf credential; /* from the vault, until the handshake is over */
	struct resolve_lookup lookup;
	struct race race;
	struct watch w; /* fd: ours once it is connected */
	struct timer deadline;
	size_t taken;	       /* bytes of the handshake */
	bool is_greeting_only; /* a check without a target: TUNNEL_OPEN with fd -1 when the proxy is connected */
	struct buf in;	       /* taken, not yet parsed */
	struct buf out;
	size_t out_off;
	struct socks socks;
	struct connect_reply reply;
};

/*
 * The caller sets everything up to `port`; its pointers must stay valid until done(), which may free the
 * tunnel.
 */
void tunnel_start(struct tunnel *t);
void tunnel_cancel(struct tunnel *t);

#endif
