/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between launcher and guard: a key of the ssh-agent whose binding says "ask" is to sign (vault/serve/agent.h, A7). The launcher has
 * the program's message and holds its answer; the guard has the list of questions (asks.h).
 *
 * Invariants
 *  N1  Nothing is signed before NET_ALLOW has come for that ticket. A guard that is gone, does not take the question or denies
 *      it: a failure for the program, and why in the log.
 *  N2  What is shown comes from the vault, which has checked it: the key's name and fingerprint, the server by the key with
 *      which it signed the session, the user. Of the program's own words only the user's name is among it, as printable
 *      characters.
 *  N3  A program that has gone before the answer signs nothing (NET_SIGN_DROP); one that was allowed and came to nothing
 *      gives its use back (NET_SIGN_UNUSED).
 *  N4  A login is known by key, server, port and user, not by its session: `once` is one login, and one that came too late
 *      for its own session is good for the next within ASKS_PARKED_FOR. A signature of git's is known by its digest.
 */
#ifndef NETD_NET_SIGN_H
#define NETD_NET_SIGN_H

#include <stdint.h>

struct net_sign {
	uint32_t type; /* NET_SIGN */
	uint32_t ticket;
	uint32_t port; /* 0: the server is not known */
	char host[256];
	char key[64];	/* the secret's name */
	char print[96]; /* its fingerprint */
	char what[256]; /* "log in as git" */
};

#endif
