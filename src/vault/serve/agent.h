/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ssh-agent of one sandbox: its programs ask over a socket inside, coffer-init and the launcher carry each message here,
 * and what leaves is public keys and signatures. Everything that comes is hostile.
 *
 * Invariants
 *  A1  A key signs only where both what the sandbox was given and the secret's own bindings say so, at that moment: what was
 *      unbound, removed or has expired since is refused.
 *  A2  Only a login is signed (SSH_MSG_USERAUTH_REQUEST by that very key, with the binding's user where it names one), and
 *      only in a session that the client has bound to this connection (session-bind@openssh.com): the server's signature
 *      over the session's id is that of a host key which was sealed with the binding, and the data has that same id. So a
 *      signature is worth nothing at any other server. A binding may allow more: `ssh:sshsig`, `ssh:unbound` (binding.h).
 *  A3  A connection that was bound to a forwarded agent, to two sessions, to an unknown host or by a wrong signature signs
 *      nothing any more.
 *  A4  Host keys of strangers are compared with those that are known and never parsed; only a known one checks a signature.
 *  A5  Everything but asking for keys, signing and binding a session fails: no key is added, removed or locked from inside.
 *  A7  A key whose binding, or what the sandbox was given of it, says "ask" signs nothing by itself: the answer is that a
 *      person is to be asked (VAULT_SAID_ASKS), and a failure for the program. Only the same message with the launcher's word
 *      that a person allowed it is signed, and it is judged anew by A1 to A3. Of several bindings that cover a login one that
 *      asks is enough.
 *  A6  A sandbox costs bounded memory and time: AGENT_CONNS connections, of which the one that was silent longest is forgotten, so many messages and so many signatures in a second.
 */
#ifndef VAULT_AGENT_H
#define VAULT_AGENT_H

#include "vault/serve/store.h"
#include "vault/ssh/sshsign.h"

#define AGENT_CONNS 32
#define AGENT_SESSION_MAX 64 /* bytes of a session's id */
#define AGENT_RATE 200	     /* messages in a second */
#define AGENT_BURST 400
#define AGENT_SIGN_RATE 10 /* signatures, given or refused */
#define AGENT_SIGN_BURST 50
#define AGENT_USER_MAX 64 /* of a user's name, as the log has it */

enum agent_bound {
	AGENT_FRESH,
	AGENT_BOUND,
	AGENT_SPOILT, /* A3 */
};

struct agent_conn {
	uint32_t id;   /* 0: free */
	uint64_t used; /* when it was heard of last, counted */
	enum agent_bound bound;
	const char *why; /* AGENT_SPOILT */
	uint8_t session[AGENT_SESSION_MAX];
	size_t session_len;
	uint8_t host[SSHHOSTS_KEY_MAX]; /* the server's key */
	size_t host_len;
};

struct agent_bucket {
	double tokens;
	uint64_t at; /* CLOCK_MONOTONIC ns; 0: full */
};

struct agent {
	int fd;
	char sandbox[VAULT_NAME_MAX + 1];
	struct vault_grants ask; /* names, and what they are narrowed to */
	struct agent_conn conns[AGENT_CONNS];
	uint64_t turns;
	struct agent_bucket messages, signatures;
	struct secmem pending; /* an answer that the kernel would not take yet */
};

void agent_release(struct agent *a);

/* How many keys there are for it now. */
size_t agent_count(const struct agent *a, const struct store *s, uint64_t now);

/* One message over its channel, with its answer packed into *ret. -EPROTO: the channel must end. `now` in seconds, `mono` in
 * nanoseconds. */
int agent_take(struct agent *a, const struct store *s, const void *data, size_t len, uint64_t now,
	       uint64_t mono, struct secmem *ret) MUST_CHECK;

#endif
