/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the guard and coffer-netd, which reads the journals of a run's network and is as hostile as they are: it may be
 * owned by whoever wrote them. One SOCK_SEQPACKET socket; every message has a fixed layout, and none has a descriptor.
 *
 * Invariants (cited elsewhere as netd_proto.P1 ...)
 * P1  Each message is taken only in the states of the table below. An unknown type, a wrong length, a text without its NUL, a number out
 *     of range, or a message that the state does not allow is -EPROTO: the guard kills coffer-netd.
 * P2  An event of a line names the journal and the offset after the line. The offset is beyond that of the line before and within
 *     the journal. The guard keeps it across restarts, and in a file for whoever goes on after its own death. So no line is an event
 *     of the log twice, and there are no more such events than lines.
 * P3  Lines have a pace, beyond which they stay in the socket (netd_peer_has_pace()). Events that are no line (counts), and lines for
 *     the terminal, have a budget. Beyond it: P1.
 * P4  A part of a journal is given back to the disk only when coffer-netd has said that all of its lines are in the log or in counts that
 *     are in the log. An owned coffer-netd can so drop lines of the run that owns it; it cannot touch another run's, nor any event of
 *     another kind.
 * P5  The guard adds the run's id and the time. No message has either, nor a path, a user or a descriptor.
 *
 *			 starting   up	      ending	over
 *   NETD_READY		 -> up	    -	      -		-
 *   NETD_EVENT		 -	    yes	      yes	-
 *   NETD_COUNTED	 -	    yes	      yes	-
 *   NETD_SAYS		 -	    yes	      yes	-
 *   NETD_CAUGHT_UP	 -	    if asked  if asked	-
 *   NETD_DONE		 -	    -	      -> over	-
 *   NETD_FAIL		 yes	    yes	      yes	-
 */
#ifndef NETD_NETD_PROTO_H
#define NETD_NETD_PROTO_H

#include "base/bucket.h"
#include "netd/wire/netd_event.h"

/* coffer-netd's descriptors. Its one argument is a mask of the real ones, as in egress/wire/fds.h. */
enum netd_fd {
	NETD_FD_CONTROL = 3, /* SOCK_SEQPACKET to the guard */
	NETD_FD_EGRESS = 4,  /* journals, read-only, in the order of enum net_from */
	NETD_FD_DIAL = 5,
	NETD_FD_REPORT = 6, /* netd_report.h */
	NETD_FD_END
};

/* From the guard. */
enum netd_ask_type {
	NETD_BEGIN = 1, /* once, before anything else: both offsets of each journal */
	NETD_LOOK,	/* there is something in a journal that must be in the log soon */
	NETD_CATCH_UP, /* what is in the journals now, and with `all` the counts too; answered with NETD_CAUGHT_UP(nonce) */
	NETD_QUIT, /* nobody writes the journals any more: read them to their end; answered with NETD_DONE */
	NETD_ASK_END
};

struct netd_ask {
	uint32_t type; /* enum netd_ask_type */
	uint32_t nonce;
	uint32_t all, reserved;
	uint64_t counted[NET_FROM_COUNT]; /* the journal is read from here on */
	uint64_t logged[NET_FROM_COUNT];  /* lines up to here may be in the log already */
};

/* To the guard. */
enum netd_type {
	NETD_READY = 101, /* it is fenced and serves */
	NETD_EVENT,	  /* a packed event (netd_event.h) follows the head */
	NETD_COUNTED,	  /* struct netd_counted: P4 */
	NETD_SAYS,	  /* struct netd_said follows the head */
	NETD_CAUGHT_UP,	  /* `off` is the nonce */
	NETD_DONE,
	NETD_FAIL, /* a text without NUL follows the head, NETD_FAIL_MAX bytes at most: it cannot go on, and exits */
	NETD_TYPE_END
};

struct netd_head {
	uint32_t type; /* enum netd_type */
	uint32_t from; /* of an event: enum net_from; NET_FROM_COUNT: it is no line */
	uint64_t off;  /* P2 */
};

struct netd_counted {
	struct netd_head h;
	uint64_t counted[NET_FROM_COUNT];
};

#define NETD_FAIL_MAX 192
#define NETD_SAID_KEYS 64u

/* A line for the terminal of `coffer run`. */
enum netd_said_kind { NETD_SAID_DENIED, NETD_SAID_FAILED, NETD_SAID_ALERT, NETD_SAID_REST, NETD_SAID_KINDS };

struct netd_said {
	uint32_t kind; /* enum netd_said_kind */
	uint32_t
		about; /* the same number for the same subject, from 1 to NETD_SAID_KEYS; NETD_SAID_REST: 0 */
	uint32_t again; /* 1: it was said before */
	uint32_t port;	/* 0: none */
	uint64_t count; /* number of times, at least 1 */
	char name[NET_NAME_MAX + 1];
	char method[16]; /* of a request; empty: it was none */
	char path[64];
	char why[256];
};

#define NETD_MESSAGE_MAX (sizeof(struct netd_head) + NETD_EVENT_MAX)

/* Where the reading of both journals is, for whoever goes on with it when the guard is dead: a file beside them. */
struct netd_place {
	uint64_t logged[NET_FROM_COUNT], counted[NET_FROM_COUNT];
};

enum netd_state { NETD_IS_STARTING, NETD_IS_UP, NETD_IS_ENDING, NETD_IS_OVER, NETD_STATES };

/* What the guard knows of a coffer-netd and its journals. */
struct netd_peer {
	enum netd_state state;
	uint64_t logged[NET_FROM_COUNT];  /* P2; outlives a coffer-netd */
	uint64_t counted[NET_FROM_COUNT]; /* P4; outlives a coffer-netd */
	uint64_t size[NET_FROM_COUNT];	  /* of each journal, when it was last looked at */
	uint32_t asked, answered;	  /* nonces */
	uint64_t bytes;			  /* of all lines that were events */
	struct bucket lines, late, counts, said;
};

/* What is done with a message that was taken. */
struct netd_calls {
	uint64_t (*size)(void *ctx, enum net_from from); /* of a journal, now */
	/* Writes an event into the log. Negative: it was not written; netd_take() returns that. */
	int (*event)(void *ctx, const void *packed, size_t len);
	void (*logged)(void *ctx);  /* `logged` of the peer has grown */
	void (*counted)(void *ctx); /* `counted` of the peer has grown */
	void (*said)(void *ctx, const struct netd_said *s);
	void (*fail)(void *ctx, const char *text, size_t len);
	void *ctx;
};

/* A new coffer-netd over the same journals. */
void netd_peer_begin(struct netd_peer *p, uint64_t now);

/* May a line be taken now? Otherwise its message stays in the socket: P2's events have a pace. */
bool netd_peer_has_pace(struct netd_peer *p, uint64_t now);

/* Takes one message: 0, -EPROTO (P1), -EIO (NETD_FAIL), or the log's error. */
int netd_take(struct netd_peer *p, const void *message, size_t len, uint64_t now,
	      const struct netd_calls *c) MUST_CHECK;

#endif
