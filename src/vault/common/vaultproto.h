/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of coffer-vault, over three kinds of SOCK_SEQPACKET channels: `control`, from the process that started it;
 * `holder`, from the guard of a sandbox that uses the vault of cofferd; and `client`, one for each sandbox's coffer-egress,
 * which is as hostile as the traffic that it handles. Pure.
 *
 * A message is a head (struct vault_head), then the 8-byte numbers that its type has, then its texts, each after a 4-byte
 * length; little-endian. One table (vaultproto.c) says how many there are, what they may contain, who may send the message
 * and with how many descriptors.
 *
 * Invariants
 *  V1  A message has exactly the fields of its type, each within its bounds and of its kind, and no trailing byte. Anything
 *      else is -EPROTO and ends the channel; on the control channel it ends the process.
 *  V2  A client's request gets one response, with its id, in order. Several may be in flight; the vault stops reading
 *      while its responses are not read.
 *  V3  Only VAULT_RENDERED contains a secret's bytes, and only a client receives it. Only VAULT_CAPTURE brings one in; for SET
 *      the vault reads from a descriptor instead. Code that packs or parses these two uses memory that is locked
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

	/* Asks for a secret's bytes. num: handle, port; text: host, path. Both are canonical; the path has no query and is as the
	 * agent sent it, including the placeholder. Only for a connection whose certificate was verified. */
	VAULT_RENDER = 1,
	/* Hands over a credential that a server issued. num: the issuer's handle, lifetime in seconds (0: unlimited), handle of
	 * an issued credential that the request carried (0: none); text: the value, the member of the response
	 * ("access_token"). */
	VAULT_CAPTURE,
	/* On an agent's channel only. num: number of the connection inside, 1 if a person has allowed the message for which
	 * VAULT_SAID_ASKS came back; text: one message of the ssh-agent protocol without its length. Empty: the connection
	 * has ended. Response: VAULT_SAID. */
	VAULT_ASK,
	/* Asks for all grants of this channel, captured ones included; for a restarted egress. */
	VAULT_GRANTS,

	/* To a client. */

	VAULT_RENDERED = 32, /* text: the secret */
	/* status: -EACCES not bound there, -ENOENT no such grant (any more), -EKEYEXPIRED, -EBUSY too many requests, -ENOSPC,
	 * -EINVAL; text: the reason, for people and logs. */
	VAULT_REFUSED,
	/* num: handle of the issued credential, handle of the one it replaces (0: none), when it expires (s since the epoch;
	 * 0: never), 1 if it is stored in the grant's file; text: placeholder, name. */
	VAULT_CAPTURED,
	VAULT_GRANTED, /* text: packed grants (grants.h). Also the response to VAULT_GRANT */
	/* num: the connection, enum vault_said, port; text: the agent's response (empty: none), then for the log: the secret's
	 * name, host, user, key's fingerprint, digest of the session, reason of the refusal or what needs approval. */
	VAULT_SAID,

	/* From the starter. Each gets one response, in order: VAULT_OK or VAULT_ERROR unless noted otherwise. */

	/* Must come first. num: enum vault_key, flags; text: subject of the passphrase prompt. Descriptors: key, file.
	 * VAULT_OK has the file's save counter. */
	VAULT_OPEN = 64,
	/* num: flags, expires, every; text: name, command. Descriptor: source of the value. Response: VAULT_ITEM of the
	 * secret, then VAULT_OK. */
	VAULT_SET,
	VAULT_RM,     /* text: name */
	VAULT_CHANGE, /* num: which (VAULT_CHANGE_*), expires, every; text: name, command */
	/* text: name, one packed binding (grants.h: bindings_pack()), packed keys of its host (sshhosts.h) or empty. */
	VAULT_BIND,
	VAULT_UNBIND, /* num: port (0: any); text: name, host (empty: all). VAULT_OK has how many were removed */
	VAULT_LIST, /* one VAULT_ITEM for each secret, then VAULT_OK */
	/* Descriptor: a new empty file, open for reading and writing. VAULT_OK, with the new save counter: the file is on the
	 * disk and was read back. */
	VAULT_SAVE,
	VAULT_REKEY, /* num: enum vault_key, flags; text: prompt's subject. Descriptor: the key for the next SAVE */
	VAULT_SCAN, /* num: maximum of hits. Descriptor: a file. VAULT_HIT for each, then VAULT_OK */
	/* text: sandbox's id, packed grant requests. Descriptors: the client's channel, and optionally the file that stores
	 * credentials which servers issue (keep.h). Response: VAULT_GRANTED or VAULT_ERROR. */
	VAULT_GRANT,
	VAULT_UNGRANT, /* text: sandbox's id */
	/* Undoes all changes since the last SAVE. Descriptor: the current file; none: there is no file yet. */
	VAULT_REVERT,
	/* text: sandbox's id, packed grant requests. Descriptor: a non-blocking channel for a holder, which may send
	 * VAULT_LIST, VAULT_GRANT, VAULT_UNGRANT and VAULT_AGENT for that sandbox and those secrets. */
	VAULT_HOLD,
	/* Descriptor: the current file, opened with the key that the vault has. VAULT_OK has the save counter; all other
	 * channels end. */
	VAULT_RELOAD,
	/* text: sandbox's id, packed grant requests. Descriptor: the channel of its ssh-agent. A secret that is missing or
	 * not bound is no error: it signs nothing. VAULT_OK has the number of usable keys. */
	VAULT_AGENT,

	/* To the starter. */

	VAULT_READY = 96, /* unsolicited, once: the process is confined and can lock memory */
	VAULT_OK,	  /* num: see the request */
	VAULT_ERROR,	  /* status; num: enum vault_fault; text: what failed and why, what to do */
	/* num: length, created, changed, expires, every, flags; text: name, packed bindings, command, packed host keys. */
	VAULT_ITEM,
	VAULT_HIT,  /* num: offset, enum form_kind; text: name */
	VAULT_FAIL, /* unsolicited: the vault cannot start or continue, and ends; text: why, what to do */

	VAULT_SSH_FIRST = 128, /* from here on reserved for the ssh-agent's channel */
	VAULT_TYPE_END = 160
};

/* VAULT_SAID: what the log must record before the response is passed on. */
enum vault_said {
	VAULT_SAID_NOTHING,
	VAULT_SAID_SIGNED,
	VAULT_SAID_REFUSED,
	/* It can be signed once a person approves. Nothing was signed, and the response is a failure, which
	 * is passed on unless a person approves. The same message, sent again with num[1] set, is judged
	 * again and then signed. */
	VAULT_SAID_ASKS,
	VAULT_SAID_COUNT
};

/* Where the key that seals the file comes from. */
enum vault_key {
	VAULT_KEY_FILE = 1,   /* 32 bytes in a file */
	VAULT_KEY_CREDENTIAL, /* the same, passed by systemd */
	VAULT_KEY_PASSPHRASE, /* a line from a terminal or pipe, stretched by Argon2id */
	VAULT_KEY_END
};

/* VAULT_OPEN */
#define VAULT_OPEN_NEW 1ull	  /* there is no file yet: no second descriptor */
#define VAULT_OPEN_READ_ONLY 2ull /* no SET, SAVE and so on will follow: for starters that only grant */
#define VAULT_OPEN_TERMINAL 4ull  /* the passphrase is typed; also in VAULT_REKEY */

/* VAULT_SET and VAULT_ITEM */
#define VAULT_SET_WEAK 1ull /* fewer than VAULT_STRONG_MIN bytes are intended */
/* the secret must exist; all but the value is kept. Without the flag it must not exist */
#define VAULT_SET_ROTATE 2ull
#define VAULT_SET_REPLACE 4ull	 /* the secret may exist; nothing of it is kept */
#define VAULT_SET_TERMINAL 8ull	 /* the descriptor is a terminal: read one line without echo */
#define VAULT_ITEM_LINES 16ull	 /* it has control bytes: no header can carry it */
#define VAULT_ITEM_TRIMMED 32ull /* a trailing line break was dropped */
#define VAULT_STRONG_MIN 16

/* VAULT_CHANGE: which of the numbers and texts apply */
#define VAULT_CHANGE_EXPIRES 1ull
#define VAULT_CHANGE_SCHEDULE 2ull /* every and command */

/* The reason of a VAULT_ERROR, as far as callers react differently. */
enum vault_fault {
	VAULT_FAULT_OTHER,
	VAULT_FAULT_KEY,	/* wrong key */
	VAULT_FAULT_PASSPHRASE, /* wrong passphrase */
	VAULT_FAULT_TAMPERED,	/* the file differs from what was sealed */
	VAULT_FAULT_TRUNCATED,
	VAULT_FAULT_FORMAT,   /* not a vault file, or of a later version */
	VAULT_FAULT_KEY_KIND, /* sealed with another kind of key */
	VAULT_FAULT_NO_SUCH,
	VAULT_FAULT_EXISTS,
	VAULT_FAULT_VALUE, /* the value is refused: too long, too short, a NUL, empty */
	VAULT_FAULT_SPACE, /* the disk is full */
	VAULT_FAULT_COUNT
};

/* A holder receives the same messages as the starter. */
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
	uint32_t id;	/* chosen by the sender of the request */
	int32_t status; /* negative in VAULT_REFUSED and VAULT_ERROR, otherwise 0 */
	uint64_t num[VAULT_NUMS];
	struct slice text[VAULT_TEXTS];
};

/* Parses one message from `side` with n_fds descriptors, checked as V1 requires. Texts point into data. */
int vault_msg_parse(enum vault_side side, const void *data, size_t len, unsigned n_fds,
		    struct vault_msg *ret) MUST_CHECK;

/* The packed length; 0 if `side` may not send such a message. */
size_t vault_msg_size(enum vault_side side, const struct vault_msg *m);

/* Packs; -EINVAL if parsing would refuse it, -ENOSPC. Returns the length. */
long vault_msg_pack(enum vault_side side, const struct vault_msg *m, void *out, size_t cap) MUST_CHECK;

/* The minimum and maximum number of descriptors of a type. */
void vault_msg_fds(uint32_t type, unsigned *ret_min, unsigned *ret_max);

#endif
