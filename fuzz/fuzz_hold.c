/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to coffer-vault from the guard of a sandbox that uses the vault which cofferd keeps: a row of raw messages
 * and of well-formed ones, for any sandbox and any secrets. It hears of no secret but those that its channel was made
 * for, never a value, and what is granted is granted to its own sandbox and not wider than was said.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "vault/serve/serve_int.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRET "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
#define OTHER "another secret, which is not this one's"

static struct vault vault = { .control = -1, .state = VAULT_STATE_READING };
static int null_fd = -1;

static void add(const char *name, const char *value, const char *host)
{
	struct store_set set = { .name = name, .now = 1000 };
	struct binding b = { 0 };
	struct secmem m = SECMEM_INIT;
	struct store_entry *n = NULL;
	enum vault_fault fault;

	BUG_ON(secmem_new(&m, strlen(value), NULL) < 0 || secmem_add(&m, value, strlen(value)) < 0);
	BUG_ON(store_set(&vault.store, &set, &m, &n, &fault, NULL) < 0);
	BUG_ON(binding_parse_host(host, strlen(host), 0, &b, NULL) < 0 ||
	       binding_parse_as("bearer", 6, &b, NULL) < 0);
	BUG_ON(store_bind(n, &b, NULL, NULL) < 0);
}

static void set_up(void)
{
	BUG_ON(secmem_begin(NULL) < 0);
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	BUG_ON(null_fd < 0);
	add("github", SECRET, "api.example.com/v1");
	add("other", OTHER, "other.example.com");
}

/* As cofferd asks for it: one secret, below one path. */
static int begin(void)
{
	autogrants struct vault_grants ask = GRANTS_INIT;
	autobuf struct buf b = BUF_INIT;
	struct request q = { .v = &vault, .m = { .type = VAULT_HOLD } };
	struct vault_grant *g = grants_add(&ask);
	struct binding at = { 0 };
	int sv[2];

	BUG_ON(!g || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0);
	BUG_ON(binding_parse_host("api.example.com/v1/a", 20, BINDING_ASKED, &at, NULL) < 0);
	snprintf(g->name, sizeof(g->name), "github");
	g->bindings[g->n_bindings++] = at;
	BUG_ON(grants_pack(&ask, GRANTS_ASKED, &b) < 0);
	q.m.text[0] = slice_of("aaaaaaaaaaaa");
	q.m.text[1] = (struct slice){ buf_cstr(&b), b.len };
	q.fds = &sv[0];
	q.n_fds = 1;
	BUG_ON(hold_add_holder(&q, NULL) < 0 || vault.n_holders != 1);
	return sv[1];
}

static void check_answers(int fd)
{
	static char in[VAULT_MSG_MAX];
	ssize_t n;

	while ((n = recv(fd, in, sizeof(in), MSG_DONTWAIT)) > 0) {
		struct vault_msg m;

		BUG_ON(vault_msg_parse(VAULT_TO_STARTER, in, (size_t)n, 0, &m) < 0);
		BUG_ON(memmem(in, (size_t)n, SECRET, strlen(SECRET)) ||
		       memmem(in, (size_t)n, OTHER, strlen(OTHER)));
		BUG_ON(m.type == VAULT_ITEM && !slice_eq(m.text[0], "github"));
	}
}

static void check_clients(void)
{
	for (size_t i = 0; i < vault.n_clients; i++) {
		const struct client *c = vault.clients[i];

		BUG_ON(!str_eq(c->sandbox, "aaaaaaaaaaaa") && !str_eq(c->sandbox, "aaaaaaaaaaaa.dial"));
		for (size_t k = 0; k < c->grants.n; k++) {
			BUG_ON(!str_eq(c->grants.v[k].name, "github") || c->grants.v[k].kind != GRANT_SECRET);
			BUG_ON(grants_binding(&c->grants.v[k], "api.example.com", 443, slice_of("/v1/b"),
					      BINDING_AS_ANY, NULL));
		}
	}
}

static void check_agents(void)
{
	for (size_t i = 0; i < vault.n_agents; i++) {
		const struct agent *a = vault.agents[i];

		BUG_ON(!str_eq(a->sandbox, "aaaaaaaaaaaa"));
		for (size_t k = 0; k < a->ask.n; k++)
			BUG_ON(!str_eq(a->ask.v[k].name, "github") || a->ask.v[k].n_bindings != 1 ||
			       !str_eq(a->ask.v[k].bindings[0].path, "/v1/a"));
	}
}

/* False: its channel has to end. */
static bool send_raw(const void *data, size_t len, unsigned n_fds)
{
	int fds[2] = { -1, -1 };

	for (unsigned i = 0; i < n_fds; i++)
		fds[i] = fcntl(null_fd, F_DUPFD_CLOEXEC, 3);
	return control_handle_message(&vault, vault.holders[0], data, len, fds, n_fds) == 0;
}

static bool send_grant(const uint8_t *p)
{
	static const char *const boxes[] = { "aaaaaaaaaaaa", "bbbbbbbbbbbb", "aaaaaaaaaaaa.dial",
					     "aaaaaaaaaaaa.dial2" },
				 *const names[] = { "github", "other" },
				 *const hosts[] = { "api.example.com/v1/a", "api.example.com/v1",
						    "other.example.com" };
	autogrants struct vault_grants ask = GRANTS_INIT;
	autobuf struct buf b = BUF_INIT;
	struct vault_msg m = { .type = !(p[0] & 1) ? VAULT_UNGRANT
				       : p[0] & 4  ? VAULT_AGENT
						   : VAULT_GRANT,
			       .id = p[1] };
	struct vault_grant *g = grants_add(&ask);
	struct binding at = { 0 };
	uint8_t packed[4096];
	long n;

	if (!g)
		return false;
	snprintf(g->name, sizeof(g->name), "%s", names[p[1] & 1]);
	if (p[1] & 4) {
		g->kind = GRANT_ISSUER;
		snprintf(g->issue, sizeof(g->issue), "POST api.example.com:443/v1/a access_token");
	}
	if (p[1] & 2 &&
	    binding_parse_host(hosts[p[1] % 3], strlen(hosts[p[1] % 3]), BINDING_ASKED, &at, NULL) == 0)
		g->bindings[g->n_bindings++] = at;
	if (grants_pack(&ask, GRANTS_ASKED, &b) < 0)
		return true;
	m.text[0] = slice_of(boxes[(p[0] >> 1) & 3]);
	if (m.type != VAULT_UNGRANT)
		m.text[1] = (struct slice){ buf_cstr(&b), b.len };
	n = vault_msg_pack(VAULT_FROM_HOLDER, &m, packed, sizeof(packed));
	return n > 0 && send_raw(packed, (size_t)n, m.type != VAULT_UNGRANT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool good = true;
	int fd;

	if (null_fd < 0)
		set_up();
	if (size > 8192)
		return 0;
	fd = begin();
	while (size > 3 && good) {
		size_t len = data[0] + 2u;

		len = len > size - 1 ? size - 1 : len;
		good = data[0] & 1 ? send_raw(data + 1, len, (data[0] >> 1) & 1) : send_grant(data + 1);
		check_answers(fd);
		check_clients();
		check_agents();
		data += 1 + len;
		size -= 1 + len;
	}
	hold_end_all(&vault);
	BUG_ON(vault.n_clients || vault.n_agents || vault.n_holders);
	fd_close(fd);
	return 0;
}
