/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile program at the ssh-agent: a row of messages on four connections, raw ones and well-formed ones with any field
 * changed. A signature comes out only after the connection was bound to the one good session, for a login in that
 * session, and is over exactly those bytes; no byte of the private key ever comes out.
 */
#include "sshtest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sshtest_key key, server, evil;
static struct store store;
static const struct slice session = { "0123456789abcdef0123456789abcdef", 32 };

static void set_up(void)
{
	BUG_ON(secmem_begin(NULL) < 0);
	sshtest_key(&key, 1);
	sshtest_key(&server, 2);
	sshtest_key(&evil, 3);
	sshtest_put(&store, "key", &key, "git.example.com", "ssh", "git", &server);
}

/* Signed data must be the one login that may be. */
static void check_signed(const uint8_t *ask, size_t len, bool bound)
{
	struct wire_in in = { .p = ask, .left = len };
	uint8_t login[2][512];
	size_t n[2];
	struct slice data;

	BUG_ON(!bound || ssh_get_byte(&in) != 13);
	(void)ssh_get(&in);
	data = ssh_get(&in);
	n[0] = sshtest_login(login[0], sizeof(login[0]), &key, session, "git", NULL);
	n[1] = sshtest_login(login[1], sizeof(login[1]), &key, session, "git", &server);
	BUG_ON(!slice_same(data, sshtest_slice(login[0], n[0])) &&
	       !slice_same(data, sshtest_slice(login[1], n[1])));
}

static bool allowed; /* as if a person had said so */

/* A key that asks signs nothing without an answer; with one nothing is asked. */
static void check_asked(const struct agent *a, const struct vault_msg *said)
{
	if (said->num[1] == VAULT_SAID_SIGNED)
		BUG_ON(a->ask.v[0].n_bindings && !allowed);
	if (said->num[1] == VAULT_SAID_ASKS)
		BUG_ON(allowed || said->text[0].len != 1 || said->text[0].p[0] != 5);
}

static void say(struct agent *a, uint32_t conn, const uint8_t *m, size_t len, bool *bound)
{
	struct vault_msg q = { .type = VAULT_ASK, .id = 1, .num = { conn, allowed } }, said;
	autosecmem struct secmem out = SECMEM_INIT;
	static uint64_t mono = 1;
	uint8_t packed[VAULT_ASK_MAX + 64], good[512];
	size_t n_good = sshtest_bind(good, sizeof(good), &server, session, false);
	long n;

	q.text[0] = sshtest_slice(m, len);
	n = vault_msg_pack(VAULT_FROM_CLIENT, &q, packed, sizeof(packed));
	BUG_ON(n < 0);
	mono += 1000000000;
	BUG_ON(agent_handle_message(a, &store, packed, (size_t)n, 2000, mono, &out) < 0);
	BUG_ON(vault_msg_parse(VAULT_TO_CLIENT, out.p, out.len, 0, &said) < 0 || said.num[0] != conn);
	BUG_ON(memmem(out.p, out.len, key.sk, 32));
	if (len == 0)
		bound[conn] = false;
	/* ed25519 signatures are not malleable here: only the very message binds. */
	if (len && said.text[0].len == 1 && said.text[0].p[0] == 6) {
		BUG_ON(!slice_same(sshtest_slice(m, len), sshtest_slice(good, n_good)));
		bound[conn] = true;
	}
	if (said.num[1] == VAULT_SAID_SIGNED || said.num[1] == VAULT_SAID_ASKS)
		check_signed(m, len, bound[conn]);
	check_asked(a, &said);
}

/* A good message, with a byte of it changed where the input says so. */
static size_t make(const uint8_t *p, uint8_t *m, size_t cap)
{
	uint8_t d[512];
	const struct sshtest_key *who = p[0] & 0x40 ? &evil : &server;
	size_t n;

	switch ((p[0] >> 2) & 3) {
	case 0:
		n = sshtest_bind(m, cap, who, session, p[0] & 0x80);
		break;
	case 1:
		n = sshtest_login(d, sizeof(d), &key, session, p[0] & 0x80 ? "root" : "git",
				  p[0] & 0x20 ? who : NULL);
		if (p[1])
			d[p[1] % n] ^= p[2];
		return sshtest_sign(m, cap, &key, sshtest_slice(d, n));
	case 2:
		m[0] = 11;
		return 1;
	default:
		return 0;
	}
	if (p[1])
		m[p[1] % n] ^= p[2];
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct agent a = { .fd = -1 };
	bool bound[5] = { false };

	if (!store.n)
		set_up();
	memcpy(grants_add(&a.ask)->name, "key", 4);
	/* Every other input is of a sandbox whose key is asked for. */
	if (size && data[0] & 1) {
		a.ask.v[0].bindings[0] = (struct binding){
			.host = "git.example.com", .as = BINDING_AS_SSH, .path = "/", .word = "ask"
		};
		a.ask.v[0].n_bindings = 1;
	}
	while (size > 3) {
		allowed = data[3] & 1;
		uint32_t conn = 1 + (data[0] & 3);
		uint8_t m[1024];
		size_t len;

		if ((data[0] & 0x1c) == 0x10) {
			len = data[1] < size - 2 ? data[1] : size - 2;
			say(&a, conn, data + 2, len, bound);
			data += 2 + len;
			size -= 2 + len;
			continue;
		}
		len = make(data, m, sizeof(m));
		say(&a, conn, m, len, bound);
		data += 3;
		size -= 3;
	}
	agent_release(&a);
	return 0;
}
