/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of coffer-vault share: serve.c has the loop, vault_control.c what its starter asks for, hold.c the sandboxes. */
#ifndef VAULT_SERVE_INT_H
#define VAULT_SERVE_INT_H

#include "vault/serve/agent.h"
#include "vault/serve/grant.h"
#include "vault/serve/store.h"
#include "vault/serve/vaultfile.h"

/* Which requests are legal when: see vault_control.c. */
enum vault_state { VAULT_STATE_LOCKED, VAULT_STATE_READING, VAULT_STATE_WRITING };

/*
 * The launcher or guard of one sandbox, with a vault that cofferd keeps for many: it asks as a starter would, for its own
 * sandbox alone.
 *
 *  H1  It hears of no secret, and is granted none, but those that were named when its channel was made, and each within
 *      what was said then; over the channels of its own sandbox, which are coffer-egress's (by the sandbox's name) and
 *      coffer-dial's (ID.dial).
 *  H2  What is not for its own sandbox, or breaks the protocol, ends its channel, and with it what its sandbox was granted.
 *      So does its end. Nobody else notices.
 *  H3  Its channel does not block: an answer that it does not take ends it.
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
	uint32_t handles; /* the last that was given out */
};

void vault_release(struct vault *v);

/* What is being answered. */
struct request {
	struct vault *v;
	struct holder *by; /* NULL: the starter */
	struct vault_msg m;
	int *fds;
	unsigned n_fds;
	enum vault_fault fault;
	uint64_t ok[2]; /* for VAULT_OK */
	bool answered;	/* by something else than VAULT_OK */
	bool gone;	/* whoever asked is */
};

/* One message of the starter's, or a holder's, with its descriptors, which are closed or kept. An error ends the process
 * (serve.C2), or the holder (H2). */
int control_take(struct vault *v, struct holder *by, const void *data, size_t len, int *fds,
		 unsigned n_fds) MUST_CHECK;

/* An answer to whoever asked. */
int request_say(struct request *q, const struct vault_msg *m) MUST_CHECK;
/* A text of a message, which fits: vaultproto.c has seen to that. */
void request_text(struct slice t, char *out, size_t size);

/* hold.c: what is asked for sandboxes. */
int hold_grant(struct request *q, struct err *e) MUST_CHECK;
int hold_ungrant(struct request *q, struct err *e) MUST_CHECK;
int hold_agent(struct request *q, struct err *e) MUST_CHECK;
int hold_begin(struct request *q, struct err *e) MUST_CHECK;
bool holder_may_list(const struct holder *h, const char *name);
void holder_end(struct vault *v, size_t i);
void hold_end_all(struct vault *v); /* holders, clients and agents */

/* To the starter; an answer that cannot be sent ends the process. */
int control_say(const struct vault *v, const struct vault_msg *m) MUST_CHECK;

/* VAULT_SCAN: how many hits there were. */
int scan_file(const struct vault *v, uint32_t id, int fd, uint64_t most, uint64_t *ret_n,
	      struct err *e) MUST_CHECK;

#endif
