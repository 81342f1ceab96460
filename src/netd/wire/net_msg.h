/* SPDX-License-Identifier: Apache-2.0 */
/* The messages between the launcher and the guard about a run's network, over a SOCK_SEQPACKET; netd/serve/net.h has their order. */
#ifndef NETD_NET_MSG_H
#define NETD_NET_MSG_H

#include <stdint.h>

#define NET_MSG_TEXT 512

enum net_msg_type {
	NET_END = 1, /* to the guard: the command has ended: end both, fold all, answer NET_ENDED */
	NET_ROOM,    /* to the guard: two files inside, to which the certificate is appended when it comes */
	NET_CA,	     /* the sandbox's CA: a memfd with the certificate (PEM), sealed */
	NET_SAY,     /* a line for the terminal of `coffer run`; level: enum net_level */
	NET_FAILED,  /* why there is no network: the sandbox is to be ended */
	NET_AGENT,   /* a channel of the ssh-agent of a vault that was started again */
	NET_ENDED,   /* a memfd: members of the "network" object of the report, JSON */
	/* A person is asked before a key signs (net_sign.h). `level` is the launcher's ticket. */
	NET_SIGN,	 /* to the guard: struct net_sign */
	NET_SIGN_DROP,	 /* to the guard: who wanted it has gone */
	NET_SIGN_TAKEN,	 /* to the guard: it was allowed, and signed */
	NET_SIGN_UNUSED, /* to the guard: it was allowed, and nothing was signed */
	NET_ALLOW,	 /* text: the question's id */
	NET_DENY,	 /* text: the question's id or nothing, a space, why */
	NET_ASKED, /* something waits for a person: as NET_SAY, for a launcher that does not ask them itself */
	NET_MSG_COUNT
};

enum net_level { NET_LEVEL_NOTE, NET_LEVEL_WARN };

/* What a line of NET_SAY is about, so that lines about one thing can be told as one. */
#define NET_SAY_PLAIN 0u	/* nothing that is counted: the text is all of it */
#define NET_SAY_REST UINT32_MAX /* denials that no line names */

struct net_msg {
	uint32_t type;
	uint32_t level;
	uint32_t about; /* NET_SAY: NET_SAY_PLAIN, NET_SAY_REST, or a number that each denied thing has */
	uint32_t again; /* it was told before */
	uint64_t count; /* so many times */
	char text[NET_MSG_TEXT]; /* ends with NUL; nothing in it that a terminal would act on */
};

/* The whole line of a NET_SAY. */
void net_say_format(const struct net_msg *m, char out[NET_MSG_TEXT]);

#endif
