/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "tap.h"
#include "vault/common/vaultproto.h"

#include <errno.h>
#include <stdlib.h>

static uint8_t out[VAULT_MSG_MAX];

static struct vault_msg render(void)
{
	struct vault_msg m = { .type = VAULT_RENDER, .id = 9, .num = { 3, 443 } };

	m.text[0] = slice_of("api.example.com");
	m.text[1] = slice_of("/v1/x");
	return m;
}

static bool good(struct vault_msg m)
{
	struct vault_msg back;
	long n = vault_msg_pack(VAULT_FROM_CLIENT, &m, out, sizeof(out));

	return n > 0 && vault_msg_parse(VAULT_FROM_CLIENT, out, (size_t)n, 0, &back) == 0 &&
	       back.id == m.id && slice_same(back.text[0], m.text[0]);
}

static struct vault_msg with_text(unsigned i, const char *text)
{
	struct vault_msg m = render();

	m.text[i] = slice_of(text);
	return m;
}

static void test_render(void)
{
	static const char *const bad_hosts[] = { "", "API.example.com", "api.example.com.", "a b", "127.1" };
	static const char *const bad_paths[] = { "", "v1", "/a b", "/a?b", "/a#b", "/\x7f" };
	struct vault_msg m = render();

	CHECK(good(m));
	for (size_t i = 0; i < ARRAY_SIZE(bad_hosts); i++)
		CHECKF(!good(with_text(0, bad_hosts[i])), "a message with the wrong host '%s' is refused",
		       bad_hosts[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad_paths); i++)
		CHECKF(!good(with_text(1, bad_paths[i])), "a message with the wrong path '%s' is refused",
		       bad_paths[i]);
	m.num[0] = 0;
	CHECKF(!good(m), "a message without a handle is refused");
	m.num[0] = 1ull << 32;
	CHECKF(!good(m), "a message with a handle that is too large is refused");
	m = render();
	m.num[1] = 65536;
	CHECKF(!good(m), "a message with a port over 65535 is refused");
	m = render();
	m.num[2] = 1;
	CHECKF(!good(m), "a message with an unused number is refused");
	m = render();
	m.status = -1;
	CHECKF(!good(m), "a request with a status is refused");
	CHECKF(good(with_text(0, "10.0.0.1")), "a message with an address for the host is accepted");
}

static void test_bytes(void)
{
	struct vault_msg m = render(), back;
	long n = vault_msg_pack(VAULT_FROM_CLIENT, &m, out, sizeof(out));
	unsigned opened = 0;

	CHECK((size_t)n == vault_msg_size(VAULT_FROM_CLIENT, &m));
	for (long i = 0; i < n; i++)
		opened += vault_msg_parse(VAULT_FROM_CLIENT, out, (size_t)i, 0, &back) == 0;
	CHECKF(opened == 0, "a message that is cut at any place is refused");
	out[n] = 0;
	CHECKF(vault_msg_parse(VAULT_FROM_CLIENT, out, (size_t)n + 1, 0, &back) == -EPROTO,
	       "a message with a byte more is refused");
	CHECKF(vault_msg_parse(VAULT_FROM_STARTER, out, (size_t)n, 0, &back) == -EPROTO,
	       "a client's message is refused from the starter");
	CHECKF(vault_msg_parse(VAULT_FROM_CLIENT, out, (size_t)n, 1, &back) == -EPROTO,
	       "a message with an unexpected descriptor is refused");
	CHECK(vault_msg_pack(VAULT_FROM_CLIENT, &m, out, 20) == -ENOSPC);
	out[12] = 1;
	CHECKF(vault_msg_parse(VAULT_FROM_CLIENT, out, (size_t)n, 0, &back) == -EPROTO,
	       "a message with an unused field that is not zero is refused");
}

/* A client may say three things, and a holder three others; all else is for others. */
static void test_sides(void)
{
	unsigned n[5] = { 0 };

	for (uint32_t type = 0; type < 300; type++) {
		struct vault_msg m = { .type = type };

		for (unsigned side = VAULT_FROM_CLIENT; side <= VAULT_FROM_HOLDER; side++)
			n[side] += vault_msg_size(side, &m) > 0;
	}
	CHECKF(n[VAULT_FROM_CLIENT] == 4 && n[VAULT_TO_CLIENT] == 5,
	       "the client's channel has 4 requests and 5 responses: %u and %u", n[0], n[1]);
	CHECKF(n[VAULT_FROM_STARTER] == 16 && n[VAULT_TO_STARTER] == 7,
	       "the starter's channel has 16 requests and 7 responses: %u and %u", n[2], n[3]);
	CHECKF(n[VAULT_FROM_HOLDER] == 4, "the holder's channel has 4 requests: %u", n[VAULT_FROM_HOLDER]);
}

static void test_values(void)
{
	static char big[VAULT_SECRET_MAX + 1];
	struct vault_msg m = { .type = VAULT_RENDERED, .id = 1 };
	unsigned least, most;

	memset(big, 'x', sizeof(big));
	m.text[0] = (struct slice){ big, VAULT_SECRET_MAX };
	CHECK(vault_msg_pack(VAULT_TO_CLIENT, &m, out, sizeof(out)) > 0);
	m.text[0].len++;
	CHECKF(vault_msg_pack(VAULT_TO_CLIENT, &m, out, sizeof(out)) == -EINVAL,
	       "a response with a secret that is too long is not packed");
	m.text[0].len = 0;
	CHECKF(vault_msg_pack(VAULT_TO_CLIENT, &m, out, sizeof(out)) == -EINVAL,
	       "a response with an empty secret is not packed");
	m = (struct vault_msg){ .type = VAULT_RM };
	m.text[0] = slice_of("no name!");
	CHECK(vault_msg_pack(VAULT_FROM_STARTER, &m, out, sizeof(out)) == -EINVAL);
	vault_msg_fds(VAULT_OPEN, &least, &most);
	CHECK(least == 1 && most == 2);
	vault_msg_fds(9999, &least, &most);
	CHECK(least == 0 && most == 0);
}

int main(void)
{
	test_render();
	test_bytes();
	test_sides();
	test_values();
	return tap_done();
}
