/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the guard and the two programs that it starts, coffer-egress and coffer-dial:
 * descriptors at fixed numbers, and small messages over the control socket (SOCK_SEQPACKET).
 *
 * A program is started with an empty environment and one argument: in hex, a mask of the descriptors that are
 * real. The others below its END are open on /dev/null, so that none of these numbers is ever free.
 */
#ifndef EGRESS_FDS_H
#define EGRESS_FDS_H

#include <assert.h>
#include <stdint.h>

enum egress_fd {
	EGRESS_FD_BUNDLE = 3,  /* compiled policy: a sealed memfd */
	EGRESS_FD_JOURNAL = 4, /* O_APPEND */
	EGRESS_FD_DIAL = 5,    /* SOCK_SEQPACKET to coffer-dial: dialproto.h */
	EGRESS_FD_CONTROL = 6, /* SOCK_SEQPACKET to the guard */
	EGRESS_FD_TCP4 = 7,    /* listeners with IP_TRANSPARENT: every port */
	EGRESS_FD_TCP6 = 8,
	EGRESS_FD_DNS_UDP4 = 9, /* egress itself sets IP_PKTINFO and IPV6_RECVPKTINFO */
	EGRESS_FD_DNS_UDP6 = 10,
	EGRESS_FD_DNS_TCP4 = 11,
	EGRESS_FD_DNS_TCP6 = 12,
	EGRESS_FD_NFLOG = 13,	/* netlink, bound to its group: packets that the wall refused */
	EGRESS_FD_NAMES = 14,	/* memfd, empty at the first start: egress_names.h */
	EGRESS_FD_CA = 15,	/* memfd, empty at the first start */
	EGRESS_FD_STORE = 16,	/* certificates to trust upstream, PEM, read-only */
	EGRESS_FD_SECRETS = 17, /* memfd: which secrets the sandbox may use, struct secrets_head */
	EGRESS_FD_VAULT = 18,	/* SOCK_SEQPACKET to coffer-vault: vault/common/vaultproto.h */
	EGRESS_FD_END,		/* of those that a wall on this machine needs */
	/*
	 * For a wall elsewhere, instead of EGRESS_FD_TCP4 to EGRESS_FD_NFLOG: SOCK_SEQPACKET to its forwarder,
	 * wallmsg.h.
	 */
	EGRESS_FD_WALL = EGRESS_FD_END,
};

enum dial_fd {
	DIAL_FD_BUNDLE = 3,
	DIAL_FD_JOURNAL = 4,
	DIAL_FD_EGRESS = 5,
	DIAL_FD_CONTROL = 6,
	DIAL_FD_PROXY_SETS = 7, /* memfd: proxies with their credentials */
	DIAL_FD_RESOLV = 8,	/* memfd: the contents of resolv.conf */
	DIAL_FD_SECRETS = 9,	/* memfd: which secrets are for which proxies, struct secrets_head */
	DIAL_FD_VAULT = 10,	/* SOCK_SEQPACKET to coffer-vault: vault/common/vaultproto.h */
	DIAL_FD_END
};

/* In front of packed grants (vault/common/grants.h). */
struct secrets_head {
	char magic[4];	  /* SECRETS_MAGIC */
	uint32_t len;	  /* of what follows */
	uint64_t by_line; /* bit i: grant i was named on the command line, and needs no rule that names it */
	/*
	 * Marker words of placeholders that belong to other sandboxes (vault/common/mark.h); empty: none. A
	 * list that has only markers comes without grants and without a vault.
	 */
	char marks[9][14];
	char reserved[2]; /* 0 */
};
#define SECRETS_MAGIC "CSG2"

static_assert(sizeof(struct secrets_head) == 144, "no padding");

#define FDS_BIT(fd) (1u << (fd))

/* The wall on this machine: at least one of its sockets, without nflog. */
#define EGRESS_FDS_SOCKETS                                                                 \
	(FDS_BIT(EGRESS_FD_TCP4) | FDS_BIT(EGRESS_FD_TCP6) | FDS_BIT(EGRESS_FD_DNS_UDP4) | \
	 FDS_BIT(EGRESS_FD_DNS_UDP6) | FDS_BIT(EGRESS_FD_DNS_TCP4) | FDS_BIT(EGRESS_FD_DNS_TCP6))

/* Without these, and without exactly one kind of wall, egress does not start. */
#define EGRESS_FDS_NEEDED                                                                   \
	(FDS_BIT(EGRESS_FD_BUNDLE) | FDS_BIT(EGRESS_FD_JOURNAL) | FDS_BIT(EGRESS_FD_DIAL) | \
	 FDS_BIT(EGRESS_FD_CONTROL))

/*
 * Control messages: a head, then for some types a text without a NUL. Every request gets one reply, in order.
 */
enum ctl_type {
	/* From the guard. */
	CTL_NEW_BUNDLE =
		1, /* one descriptor: a sealed memfd. Reply: CTL_OK or CTL_ERROR; after an error everything is denied */
	CTL_STATS = 2,	  /* reply: CTL_STATS with a JSON object */
	CTL_QUIT = 3,	  /* no reply: closes all connections, writes their journal lines and exits with 0 */
	CTL_PING = 4,	  /* reply: CTL_OK */
	CTL_NEW_DIAL = 5, /* egress only; one descriptor: a new coffer-dial. Reply: CTL_OK or CTL_ERROR */
	CTL_NEW_VAULT =
		6, /* two descriptors: EGRESS_FD_SECRETS, EGRESS_FD_VAULT; DIAL_FD_SECRETS, DIAL_FD_VAULT. Reply as above */
	CTL_ANSWER =
		7, /* egress only; struct ctl_answer: a person's answer to a CTL_ASK. No reply, but see CTL_ASK_TAKEN */
	CTL_ASKED =
		8, /* egress only; struct ctl_answer with ticket, id and left: a CTL_ASK is pending under this id. No reply */
	/* To the guard. */
	CTL_OK = 101,
	CTL_ERROR = 102, /* text: why */
	CTL_READY = 103, /* unsolicited, once: the process is confined and serves */
	CTL_CA =
		104, /* unsolicited, once, before CTL_READY or CTL_OK where the policy needs a CA: its certificate as PEM */
	CTL_FAIL = 105,	    /* unsolicited: the process cannot start or continue, and exits; text: why */
	CTL_FOLD = 106,	    /* unsolicited: the journal has a line that must reach the log at once */
	CTL_ASK = 107,	    /* unsolicited: a person has to be asked; a struct askmsg (askmsg.h) */
	CTL_ASK_DROP = 108, /* unsolicited; a ticket (u64): its asker no longer waits */
	CTL_ASK_TAKEN =
		109, /* unsolicited; a ticket that was allowed: the connection or request is being sent */
	CTL_ASK_UNUSED = 110, /* the same, but nothing was sent: the client had disconnected */
};

struct ctl_head {
	uint32_t type; /* enum ctl_type */
	uint32_t
		generation; /* of the policy: the one sent with CTL_NEW_BUNDLE, else the one in force; 0: no policy */
};

static_assert(sizeof(struct ctl_head) == 8, "no padding");

enum ctl_allow { CTL_NO, CTL_YES, CTL_LATE /* no: the ask timed out */ };

/* Follows the head of a CTL_ANSWER. Texts need no NUL. */
struct ctl_answer {
	uint64_t ticket;
	uint32_t allow; /* enum ctl_allow; anything but CTL_YES: no */
	uint32_t left;	/* of a pending ask: seconds until it is denied; 0: unknown */
	char id[28];	/* of the ask, for the journal and for the client that is denied */
	char why[196];	/* a sentence */
};

static_assert(sizeof(struct ctl_answer) == 240, "no padding");

#define CTL_TEXT_MAX (64u << 10) /* after the head, at most */

#endif
