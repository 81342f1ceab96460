/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What coffer-vault is told and what it answers, over three kinds of SOCK_SEQPACKET channels: `control`, from the process
 * that started it; `holder`, from the guard of a sandbox that uses a vault which cofferd keeps; and `client`, one for each
 * sandbox's coffer-egress, which is as hostile as what that speaks with. Pure.
 *
 * A message is a head (struct vault_head), then as many numbers of 8 bytes as its type has, then its texts, each with a
 * length of 4 bytes before it; little-endian. How many there are
 * and what they may hold stands in one table (vaultproto.c), and so does who may send it and with how many descriptors.
 *
 * Invariants
 *  V1  A message has exactly the fields of its type, each within its bounds and of its kind, and not a byte more. Anything
 *      else is -EPROTO, and ends the channel; on the control channel the process.
 *  V2  A client's request is answered once, with its id, in order. It may have several in flight; the vault reads no
 *      further while its answers are not taken.
 *  V3  Only VAULT_RENDERED has a secret's bytes in it, and only a client gets one. Only VAULT_CAPTURE brings one in; SET
 *      has a descriptor that the vault reads from instead. Whoever packs or parses these two uses memory that is locked
 *      or wiped: texts point into the caller's buffer.
 */
#ifndef VAULT_VAULTPROTO_H
#define VAULT_VAULTPROTO_H

#include "base/err.h"
#include "codec/slice.h"

#include <assert.h>
#include <stdint.h>

#define VAULT_SECRET_MAX (64u << 10) /* bytes of one secret */
#define VAULT_NAME_MAX 63
#define VAULT_WHY_MAX 512
#define VAULT_COMMAND_MAX 4096
#define VAULT_PATH_MAX (32u << 10)
#define VAULT_MSG_MAX (192u << 10)
#define VAULT_ASK_MAX (16u << 10) /* bytes of one message to the ssh-agent */
#define VAULT_NUMS 8
#define VAULT_TEXTS 7

enum vault_type {
	/* From a client. */
	VAULT_RENDER =
		1, /* num: handle, port; text: host, path. Both canonical, path without query, as the agent sent
			   * it, placeholder and all. Only for a connection whose certificate was verified */
	VAULT_CAPTURE, /* a credential that a server issued. num: the issuer's handle, in how many seconds it expires (0:
			   * never), handle of an issued one that the request carried (0: none); text: the value, the member
			   * of the answer ("access_token") */
	VAULT_ASK, /* over an agent's channel only. num: which connection inside; text: one message of the ssh-agent
			   * protocol without its length. Empty: the connection has ended. num[1] is 1 when a person has allowed what
			   * VAULT_SAID_ASKS was about. Answer: VAULT_SAID */
	VAULT_GRANTS, /* everything that this channel was granted or has captured; for an egress that starts again */
	/* To a client. */
	VAULT_RENDERED = 32, /* text: the secret */
	VAULT_REFUSED, /* status: -EACCES not bound there, -ENOENT no such grant (any more), -EKEYEXPIRED,
			      * -EBUSY too many requests, -ENOSPC, -EINVAL; text: why, for people and logs */
	VAULT_CAPTURED, /* num: handle of the issued one, handle of one whose place it has taken (0: none), when it
			     * expires (s since the epoch; 0: never), 1 when it is kept in the grant's file; text: placeholder,
			     * name */
	VAULT_GRANTED, /* text: packed grants (grants.h). Also the answer to VAULT_GRANT */
	VAULT_SAID, /* num: which connection, enum vault_said, port; text: the answer (empty: none), then for the log: the
			  * secret's name, host, user, key's fingerprint, digest of the session, why it was refused or what is asked */
	/* From the starter. Every one is answered in order, by VAULT_OK or VAULT_ERROR unless said otherwise. */
	VAULT_OPEN =
		64, /* num: enum vault_key, flags; text: prompt's subject. Descriptors: key, file. First of
			  * all. Answer: VAULT_OK with how often it was saved */
	VAULT_SET, /* num: flags, expires, every; text: name, command. Descriptor: where to read the value. Answer:
			  * VAULT_ITEM of it, then VAULT_OK */
	VAULT_RM,     /* text: name */
	VAULT_CHANGE, /* num: which (VAULT_CHANGE_*), expires, every; text: name, command */
	VAULT_BIND, /* text: name, one binding packed (grants.h: bindings_pack()), keys of its host packed (sshhosts.h) or
			  * nothing */
	VAULT_UNBIND, /* num: port (0: every one); text: name, host (empty: all). Answer VAULT_OK with how many */
	VAULT_LIST, /* one VAULT_ITEM for each, then VAULT_OK */
	VAULT_SAVE, /* Descriptor: a new empty file, open for reading and writing. VAULT_OK, with how often
			  * it was saved: it is on the disk and was read back */
	VAULT_REKEY, /* num: enum vault_key, flags; text: prompt's subject. Descriptor: the new key. For the next SAVE */
	VAULT_SCAN, /* num: most hits. Descriptor: a file. VAULT_HIT for each, then VAULT_OK */
	VAULT_GRANT, /* text: sandbox's id, packed grants that ask. Descriptors: the client's channel, and perhaps a file in which
			  * what servers issue is kept (keep.h). Answer: VAULT_GRANTED or VAULT_ERROR */
	VAULT_UNGRANT, /* text: sandbox's id */
	VAULT_REVERT, /* what was done since the last SAVE is undone. Descriptor: the file as it is; none: there is none yet */
	VAULT_HOLD, /* text: sandbox's id, packed grants that ask. Descriptor: a holder's channel, which will not block.
			  * From a holder come VAULT_LIST, VAULT_GRANT, VAULT_UNGRANT and VAULT_AGENT, for that sandbox and those
			  * secrets */
	VAULT_RELOAD, /* Descriptor: the file as it is now, to be opened with the key that is here. VAULT_OK with how often
			  * it was saved; every other channel ends */
	VAULT_AGENT, /* text: sandbox's id, packed grants that ask. Descriptor: the channel of its ssh-agent. What is not there
			  * or bound to nothing is no error: it signs nothing. VAULT_OK with how many keys there are */
	/* To the starter. */
	VAULT_READY = 96, /* unasked, once: confined, memory can be locked */
	VAULT_OK,	  /* num: what the request says */
	VAULT_ERROR,	  /* status; num: enum vault_fault; text: what and why, what to do */
	VAULT_ITEM, /* num: length, created, changed, expires, every, flags; text: name, bindings packed, command,
			  * keys of hosts packed */
	VAULT_HIT,  /* num: offset, enum form_kind; text: name */
	VAULT_FAIL, /* unasked: it cannot start or go on, and ends; text: why, what to do */
	/* A sandbox's ssh-agent has a channel of its own; numbers from 128 on are kept for what is said about it here. */
	VAULT_SSH_FIRST = 128,
	VAULT_TYPE_END = 160
};

/* VAULT_SAID: what is to be written down before the answer is handed on. */
enum vault_said {
	VAULT_SAID_NOTHING,
	VAULT_SAID_SIGNED,
	VAULT_SAID_REFUSED,
	/* It would be signed if a person says so: nothing was signed, and the answer is a failure, which is handed on unless one
	 * does. The same message sent again with num[1] set is judged anew, and signed. */
	VAULT_SAID_ASKS,
	VAULT_SAID_COUNT
};

/* Where the key comes from that the file is sealed with. */
enum vault_key {
	VAULT_KEY_FILE = 1,   /* 32 bytes in a file */
	VAULT_KEY_CREDENTIAL, /* the same, handed over by systemd */
	VAULT_KEY_PASSPHRASE, /* a line from a terminal or pipe, and Argon2id */
	VAULT_KEY_END
};

/* VAULT_OPEN */
#define VAULT_OPEN_NEW 1ull	  /* there is no file yet: no second descriptor */
#define VAULT_OPEN_READ_ONLY 2ull /* no SET, SAVE and so on will come: for those who only grant */
#define VAULT_OPEN_TERMINAL 4ull  /* the passphrase is typed; VAULT_REKEY too */

/* VAULT_SET and VAULT_ITEM */
#define VAULT_SET_WEAK 1ull	 /* fewer than VAULT_STRONG_MIN bytes are meant */
#define VAULT_SET_ROTATE 2ull	 /* there is one already; all but the value stays. Else there must be none */
#define VAULT_SET_REPLACE 4ull	 /* there may be one already, of which nothing stays */
#define VAULT_SET_TERMINAL 8ull	 /* the descriptor is a terminal: one line, without echo */
#define VAULT_ITEM_LINES 16ull	 /* there are control bytes in it: no header can carry it */
#define VAULT_ITEM_TRIMMED 32ull /* a line break at its end was dropped */
#define VAULT_STRONG_MIN 16

/* VAULT_CHANGE: which of the numbers and texts count */
#define VAULT_CHANGE_EXPIRES 1ull
#define VAULT_CHANGE_SCHEDULE 2ull /* every and command */

/* Why VAULT_ERROR, where a caller would do something else for each. */
enum vault_fault {
	VAULT_FAULT_OTHER,
	VAULT_FAULT_KEY,	/* wrong key */
	VAULT_FAULT_PASSPHRASE, /* wrong passphrase */
	VAULT_FAULT_TAMPERED,	/* the file is not what was sealed */
	VAULT_FAULT_TRUNCATED,
	VAULT_FAULT_FORMAT,   /* no vault file, or of a later version */
	VAULT_FAULT_KEY_KIND, /* it is sealed with another kind of key */
	VAULT_FAULT_NO_SUCH,
	VAULT_FAULT_EXISTS,
	VAULT_FAULT_VALUE, /* the value is refused: too long, too short, a NUL, empty */
	VAULT_FAULT_SPACE, /* the disk is full */
	VAULT_FAULT_COUNT
};

/* What goes to a holder is what goes to the starter. */
enum vault_side {
	VAULT_FROM_CLIENT,
	VAULT_TO_CLIENT,
	VAULT_FROM_STARTER,
	VAULT_TO_STARTER,
	VAULT_FROM_HOLDER
};

struct vault_head {
	uint32_t type;
	uint32_t id;
	int32_t status;
	uint32_t reserved; /* 0 */
};

static_assert(sizeof(struct vault_head) == 16, "no padding");

struct vault_msg {
	uint32_t type;
	uint32_t id;	/* chosen by the asker */
	int32_t status; /* 0 but in VAULT_REFUSED and VAULT_ERROR, where it is negative */
	uint64_t num[VAULT_NUMS];
	struct slice text[VAULT_TEXTS];
};

/* One message that came from `side` with n_fds descriptors, checked as V1 says. Texts point into data. */
int vault_msg_parse(enum vault_side side, const void *data, size_t len, unsigned n_fds,
		    struct vault_msg *ret) MUST_CHECK;

/* The length that it packs to; 0 when it is no message that `side` may send. */
size_t vault_msg_size(enum vault_side side, const struct vault_msg *m);

/* Packs; -EINVAL when parsing would refuse it, -ENOSPC. Returns the length. */
long vault_msg_pack(enum vault_side side, const struct vault_msg *m, void *out, size_t cap) MUST_CHECK;

/* How many descriptors a type comes with at least and at most. */
void vault_msg_fds(uint32_t type, unsigned *ret_min, unsigned *ret_max);

#endif
