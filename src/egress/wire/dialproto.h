/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between coffer-egress and coffer-dial: fixed structs over one SOCK_SEQPACKET, in the host's
 * byte order (both run on one machine, from one build). Pure.
 *
 * egress requests a name or an address and a port; dial judges the request again by a policy of its own, and
 * replies once, with the connected descriptor or with the reason for the failure. Neither trusts the other:
 * egress talks to hostile peers, dial to resolvers and proxies.
 *
 * Invariants
 *  D1  A message has exactly the size of its type. Text ends with a NUL and only NULs follow it; a host is in
 *      its canonical form (codec/net/host.h); fields that a kind or flag does not use are zero. Anything else
 *      is -EPROTO, and dial exits.
 *  D2  An id identifies one request from its REQ to its REP. It may be reused only after that: -EPROTO.
 *  D3  Every REQ gets exactly one REP, also when it was cancelled (-ECANCELED, or the result it had by then).
 *      A REP with status 0 carries one descriptor unless DIAL_RESOLVE_ONLY was requested; no other message
 *      carries any.
 *  D4  A descriptor is a connected, non-blocking TCP socket. With DIAL_VIA_PROXY the tunnel through the proxy
 *      is open and no byte of it was read.
 */
#ifndef EGRESS_DIALPROTO_H
#define EGRESS_DIALPROTO_H

#include "codec/net/addr.h"
#include "codec/net/host.h"

#include <assert.h>

#define DIAL_IN_FLIGHT_MAX 4096 /* a REQ beyond that is refused with -EBUSY */
#define DIAL_TIMEOUT_MS 10000	/* from REQ to REP, in all; 30 s through a proxy */
#define DIAL_PROXY_SET_LEN 32
#define DIAL_STICKY_LEN 64
#define DIAL_PROXY_LEN 64
#define DIAL_WHY_LEN 160

enum dial_type {
	DIAL_REQ = 1,
	DIAL_REP,
	DIAL_CANCEL,
	DIAL_FAULT,
};

enum dial_kind { DIAL_NAME, DIAL_ADDR };

/* Of a request. */
#define DIAL_RESOLVE_ONLY 1u /* does the name exist, and may it be dialled? Nothing is connected */

/* Of a reply. */
#define DIAL_VIA_PROXY 1u /* through `proxy`; addr is all zero unless the proxy was given a pinned address */
#define DIAL_ONE_REQUEST 2u /* the proxy set rotates by request: send only one request over this connection */
#define DIAL_UNRESOLVED 4u  /* DIAL_RESOLVE_ONLY of a name that only a proxy will resolve: assumed to exist */
#define DIAL_PINNED 8u	    /* `to:` of a rule */

struct dial_req {
	uint32_t type; /* DIAL_REQ */
	uint32_t id;
	uint32_t generation; /* of the policy that egress judged by; for the journal: dial uses its own */
	uint16_t port;	     /* 1..65535; 0 only with DIAL_RESOLVE_ONLY: any port that the policy allows */
	uint8_t kind;	     /* enum dial_kind */
	uint8_t flags;
	char host[HOST_MAX + 3]; /* DIAL_NAME: canonical, never an address */
	uint8_t addr[16];	 /* DIAL_ADDR: as struct addr */
	/*
	 * The proxy set that the matching rule in egress's policy requires. A set that dial's own policy
	 * requires takes precedence; a set named here is never dropped in favour of a direct connection.
	 * Empty: as dial's policy says.
	 */
	char proxy_set[DIAL_PROXY_SET_LEN];
	char sticky
		[DIAL_STICKY_LEN]; /* for proxy sets with `rotate: sticky`; empty: the registrable domain of host */
};

struct dial_rep {
	uint32_t type; /* DIAL_REP */
	uint32_t id;
	/*
	 * 0, or: -ENOENT no such name; -EACCES the policy denies it; -EPERM a special address or this host
	 * itself; -ETIMEDOUT; -EBUSY too many in flight; -ECANCELED; -ENOTCONN no proxy of the set is usable;
	 * -EREMOTEIO the resolver or proxy failed; -EIO the decision could not be recorded; else the error of
	 * connect().
	 */
	int32_t status;
	uint32_t ttl; /* seconds for which the result may be cached; 0: none */
	uint32_t flags;
	uint8_t addr[16];
	char proxy[DIAL_PROXY_LEN]; /* "HOST:PORT" as in the policy, never a credential */
	char why[DIAL_WHY_LEN];	    /* for people; empty with status 0 */
};

struct dial_cancel {
	uint32_t type; /* DIAL_CANCEL */
	uint32_t id;   /* an id that is not in flight is no error: its REP may be on its way */
};

/*
 * The tunnel of an earlier REP with DIAL_VIA_PROXY failed, and the proxy is to blame: it was closed or
 * garbled before the server's first byte. Never sent for an error response of the server itself.
 */
struct dial_fault {
	uint32_t type; /* DIAL_FAULT */
	uint32_t reserved;
	char proxy_set[DIAL_PROXY_SET_LEN];
	char proxy[DIAL_PROXY_LEN];
};

static_assert(sizeof(struct dial_req) == 384, "no padding");
static_assert(sizeof(struct dial_rep) == 260, "no padding");
static_assert(sizeof(struct dial_cancel) == 8, "no padding");
static_assert(sizeof(struct dial_fault) == 104, "no padding");

union dial_msg {
	uint32_t type;
	struct dial_req req;
	struct dial_rep rep;
	struct dial_cancel cancel;
	struct dial_fault fault;
};

/*
 * Parses one received message and checks it by D1; each side accepts only the types that the other may send.
 */
int dialproto_parse_to_dial(const void *data, size_t len, union dial_msg *ret) MUST_CHECK;
int dialproto_parse_to_egress(const void *data, size_t len, union dial_msg *ret) MUST_CHECK;

/* Fills in a request, with every unused byte zero. `h` is canonical; an address becomes DIAL_ADDR. */
void dialproto_request(struct dial_req *ret, uint32_t id, const struct host *h, uint16_t port,
		       unsigned flags);

#endif
