/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between launcher and guard: a key of the ssh-agent whose binding says "ask" is to sign
 * (vault/serve/agent.h, agent.A7). The launcher has the program's message and holds back its response; the
 * guard has the list of approvals (asks.h).
 *
 * Invariants (cited elsewhere as net_sign.N1 …)
 * N1  Nothing is signed before NET_ALLOW has come for that ticket. If the guard is gone, does not take the
 *     question or denies it, the program gets a failure, and the reason is logged.
 * N2  Everything shown to the person comes from the vault, which has checked it: the key's name and
 *     fingerprint, the server by the key with which it signed the session, the user. The only text of the
 *     program is the user's name, as printable characters.
 * N3  A program that has gone before the answer signs nothing (NET_SIGN_DROP); an approval that was not used
 *     is given back (NET_SIGN_UNUSED).
 * N4  A login is identified by key, server, port and user, not by its session: `once` is one login, and an
 *     approval that came too late for its session is valid for the next one within ASKS_PARKED_FOR. A
 *     signature for git is identified by its digest.
 */
#ifndef NETD_NET_SIGN_H
#define NETD_NET_SIGN_H

#include <stdint.h>

struct net_sign {
	uint32_t type; /* NET_SIGN */
	uint32_t ticket;
	uint32_t port; /* 0: the server is unknown */
	char host[256];
	char key[64];	/* the secret's name */
	char print[96]; /* its fingerprint */
	char what[256]; /* "log in as git" */
};

#endif
