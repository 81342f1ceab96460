/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the launcher and the guard about a run's network, over a SOCK_SEQPACKET pair;
 * netd/serve/net.h has their order.
 */
#ifndef NETD_NET_MSG_H
#define NETD_NET_MSG_H

#include <stdint.h>

#define NET_MSG_TEXT 512

enum net_msg_type {
	NET_END = 1,  /* to the guard: end both programs, fold their journals, reply NET_ENDED */
	NET_CA_FILES, /* to the guard: two files inside, to append the certificate to later */
	NET_CA,	      /* the sandbox's CA: a memfd with the certificate (PEM), sealed */
	NET_SAY,      /* a line for the terminal of `coffer run`; level: enum net_level */
	NET_FAILED,   /* there is no network, with the reason: the sandbox must be ended */
	NET_AGENT,    /* a new channel of the ssh-agent, after the vault was restarted */
	NET_ENDED,    /* a memfd: members of the "network" object of the report, JSON; level: enum net_end */
	/* A key is to sign, and its binding requires a person's approval (net_sign.h). `level` is the
	 * launcher's ticket. */
	NET_SIGN,	 /* to the guard: struct net_sign */
	NET_SIGN_DROP,	 /* to the guard: the client of the ssh-agent has gone */
	NET_SIGN_TAKEN,	 /* to the guard: it was allowed, and signed */
	NET_SIGN_UNUSED, /* to the guard: it was allowed, and nothing was signed */
	NET_ALLOW,	 /* text: the question's id */
	NET_DENY,	 /* text: the question's id or nothing, a space, the reason */
	NET_ASKED,	 /* a question is pending: as NET_SAY, for a launcher that does not prompt itself */
	NET_MSG_COUNT
};

enum net_level { NET_LEVEL_NOTE, NET_LEVEL_WARN };

/* Is everything that the network did in the log, or is there a journal for net_finish()? */
enum net_end { NET_ALL_LOGGED, NET_LEFT_OVER };

/* The subject of a NET_SAY line, so that lines about one subject can be merged. */
#define NET_SAY_PLAIN 0u	/* not counted: the text is the whole line */
#define NET_SAY_REST UINT32_MAX /* denials without a line of their own */

struct net_msg {
	uint32_t type;
	uint32_t level;
	uint32_t about; /* NET_SAY: NET_SAY_PLAIN, NET_SAY_REST, or a number for each denied subject */
	uint32_t again; /* it was reported before */
	uint64_t count; /* number of times */
	char text[NET_MSG_TEXT]; /* ends with NUL; contains nothing that a terminal would act on */
};

/* Formats the whole line of a NET_SAY. */
void net_say_format(const struct net_msg *m, char out[NET_MSG_TEXT]);

#endif
