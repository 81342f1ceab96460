/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of coffer-vault share: serve.c has the loop, control.c what its starter asks for. */
#ifndef VAULT_SERVE_INT_H
#define VAULT_SERVE_INT_H

#include "vault/agent.h"
#include "vault/file.h"
#include "vault/grant.h"
#include "vault/store.h"

/* Which requests are legal when: see control.c. */
enum vault_state { VAULT_STATE_LOCKED, VAULT_STATE_READING, VAULT_STATE_WRITING };

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
	uint32_t handles; /* the last that was given out */
};

void vault_release(struct vault *v);

/* One message of the starter's with its descriptors, which are closed or kept. -EPROTO ends the process (C2). */
int control_take(struct vault *v, const void *data, size_t len, int *fds, unsigned n_fds) MUST_CHECK;

/* To the starter; an answer that cannot be sent ends the process. */
int control_say(const struct vault *v, const struct vault_msg *m) MUST_CHECK;

/* VAULT_SCAN: how many hits there were. */
int scan_file(const struct vault *v, uint32_t id, int fd, uint64_t most, uint64_t *ret_n,
	      struct err *e) MUST_CHECK;

#endif
