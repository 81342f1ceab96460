/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of coffer-vault: serve.c has the loop, vault_control.c the requests of its starter,
 * hold.c the sandboxes. */
#ifndef VAULT_SERVE_INT_H
#define VAULT_SERVE_INT_H

#include "vault/serve/agent.h"
#include "vault/serve/grant.h"
#include "vault/serve/store.h"
#include "vault/serve/vaultfile.h"

/* Each state has its own legal requests: see vault_control.c. */
enum vault_state { VAULT_STATE_LOCKED, VAULT_STATE_READING, VAULT_STATE_WRITING };

/*
 * The launcher or guard of one sandbox that uses the vault of cofferd: it sends the requests of a starter, but only for its
 * own sandbox.
 *
 *  H1  It learns of no secret and is granted none except those that were named when its channel was made, and each within
 *      the limits stated then; over the channels of its own sandbox, which are coffer-egress's (the sandbox's name) and
 *      coffer-dial's (ID.dial).
 *  H2  A request for another sandbox, or one that breaks the protocol, ends its channel, and with it the grants of its sandbox.
 *      So does the end of the channel. Other sandboxes are not affected.
 *  H3  Its channel does not block: a holder that does not read its responses loses the channel.
 */
struct holder {
	int fd;
	char sandbox[VAULT_NAME_MAX + 1];
	struct vault_grants ask;
};

#define HOLDERS_MAX GRANT_CLIENTS_MAX

struct vault {
	int control;
	enum vault_state state;
	struct file_head head;
	struct secmem key;
	struct store store;
	struct client *clients[GRANT_CLIENTS_MAX];
	size_t n_clients;
	struct agent *agents[GRANT_CLIENTS_MAX];
	size_t n_agents;
	struct holder *holders[HOLDERS_MAX];
	size_t n_holders;
	uint32_t handles; /* the last one that was assigned */
};

void vault_release(struct vault *v);

/* The request that is being handled. */
struct request {
	struct vault *v;
	struct holder *by; /* NULL: the starter */
	struct vault_msg m;
	int *fds;
	unsigned n_fds;
	enum vault_fault fault;
	uint64_t ok[2]; /* for VAULT_OK */
	bool answered;	/* by something other than VAULT_OK */
	bool gone;	/* the sender of the request has gone */
};

/* Handles one message of the starter or of a holder. Its descriptors are closed or kept. An error ends the
 * process (serve.C2), or the holder's channel (H2). */
int control_handle_message(struct vault *v, struct holder *by, const void *data, size_t len, int *fds,
			   unsigned n_fds) MUST_CHECK;

/* Sends a response to the sender of the request. */
int request_respond(struct request *q, const struct vault_msg *m) MUST_CHECK;
/* Copies a text of a message; its length was checked in vaultproto.c. */
void request_text(struct slice t, char *out, size_t size);

/* hold.c: requests for sandboxes. */
int hold_grant(struct request *q, struct err *e) MUST_CHECK;
int hold_ungrant(struct request *q, struct err *e) MUST_CHECK;
int hold_agent(struct request *q, struct err *e) MUST_CHECK;
int hold_add_holder(struct request *q, struct err *e) MUST_CHECK;
bool holder_may_list(const struct holder *h, const char *name);
void holder_end(struct vault *v, size_t i);
void hold_end_all(struct vault *v); /* holders, clients and agents */

/* Sends to the starter; a failure ends the process. */
int starter_send(const struct vault *v, const struct vault_msg *m) MUST_CHECK;

/* VAULT_SCAN; *ret_n: the number of hits. */
int vault_scan_file(const struct vault *v, uint32_t id, int fd, uint64_t most, uint64_t *ret_n,
		    struct err *e) MUST_CHECK;

#endif
