/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ssh-agent of one sandbox: its programs connect to a socket inside, coffer-init and the launcher carry each message here,
 * and only public keys and signatures leave. Every message is hostile.
 *
 * Invariants
 *  A1  A key signs only if both the sandbox's grant and the secret's own bindings allow it at that moment: a secret that was
 *      unbound, removed or has expired since is refused.
 *  A2  Only a login is signed (SSH_MSG_USERAUTH_REQUEST by that very key, with the binding's user if it names one), and
 *      only in a session that the client has bound to this connection (session-bind@openssh.com): the server's signature
 *      over the session id must be by a host key that was sealed with the binding, and the data must have the same id. So a
 *      signature is worthless at any other server. A binding may allow more: `ssh:sshsig`, `ssh:unbound` (binding.h).
 *  A3  A connection that was bound to a forwarded agent, to two sessions, to an unknown host or by a wrong signature signs
 *      nothing any more.
 *  A4  Host keys of strangers are only compared with the known ones, never parsed; only a known key verifies a signature.
 *  A5  Everything except listing keys, signing and binding a session fails: no key is added, removed or locked from inside.
 *  A6  A sandbox costs bounded memory and time: AGENT_CONNS connections, of which the one that was silent longest is
 *      forgotten, and a limited rate of messages and of signatures.
 *  A7  A key whose binding, or whose grant, says "ask" does not sign by itself: the result is that approval is needed
 *      (VAULT_SAID_ASKS), and the program gets a failure. Only the same message, sent again by the launcher with the mark that a
 *      person allowed it, is signed, and it is judged again by A1 to A3. If several bindings cover a login, one that asks is
 *      enough.
 */
#ifndef VAULT_AGENT_H
#define VAULT_AGENT_H

#include "vault/serve/store.h"
#include "vault/ssh/sshsign.h"

#define AGENT_CONNS 32
#define AGENT_SESSION_MAX 64 /* bytes of a session id */
#define AGENT_RATE 200	     /* messages per second */
#define AGENT_BURST 400
#define AGENT_SIGN_RATE 10 /* signatures per second, given or refused */
#define AGENT_SIGN_BURST 50
#define AGENT_USER_MAX 64 /* of a user name in the log */

enum agent_bound {
	AGENT_FRESH,
	AGENT_BOUND,
	AGENT_SPOILT, /* see A3 */
};

struct agent_conn {
	uint32_t id;   /* 0: free */
	uint64_t used; /* value of `turns` when it was last used */
	enum agent_bound bound;
	const char *why; /* AGENT_SPOILT */
	uint8_t session[AGENT_SESSION_MAX];
	size_t session_len;
	uint8_t host[SSHHOSTS_KEY_MAX]; /* the server's public key */
	size_t host_len;
};

struct agent_bucket {
	double tokens;
	uint64_t at; /* CLOCK_MONOTONIC ns; 0: full */
};

struct agent {
	int fd;
	char sandbox[VAULT_NAME_MAX + 1];
	struct vault_grants ask; /* names, and the bindings they are narrowed to */
	struct agent_conn conns[AGENT_CONNS];
	uint64_t turns;
	struct agent_bucket messages, signatures;
	struct secmem pending; /* a response that the socket did not accept yet */
};

void agent_release(struct agent *a);

/* The number of keys that it can use now. */
size_t agent_count(const struct agent *a, const struct store *s, uint64_t now);

/* Handles one message of its channel and packs the response into *ret. -EPROTO: the channel must end. `now`
 * in seconds, `mono` in nanoseconds. */
int agent_handle_message(struct agent *a, const struct store *s, const void *data, size_t len, uint64_t now,
			 uint64_t mono, struct secmem *ret) MUST_CHECK;

#endif
