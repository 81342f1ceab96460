/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault's file as somebody else may have left it. The bytes as a whole file; as what is sealed (a store that was read
 * packs to the same bytes); and as changes to a good file: one that differs in any bit does not open, and one that does
 * not differ does.
 */
#include "base/cleanup.h"
#include "vault/serve/vaultfile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct secmem key;
static struct buf good;

static void set_up(void)
{
	struct store_set set = { .name = "github", .now = 7, .command = "date", .every = 100 };
	CLEANUP(store_release) struct store s = STORE_INIT;
	struct secmem m = SECMEM_INIT;
	struct store_entry *n = NULL;
	struct file_head h;
	enum vault_fault fault;

	BUG_ON(secmem_begin(NULL) < 0 || secmem_new(&key, SEAL_KEY_LEN, NULL) < 0);
	memset(key.p, 7, SEAL_KEY_LEN);
	key.len = SEAL_KEY_LEN;
	BUG_ON(secmem_new(&m, 32, NULL) < 0 || secmem_add(&m, "0123456789abcdef0123456789abcdef", 32) < 0);
	BUG_ON(store_set(&s, &set, &m, &n, &fault, NULL) < 0);
	file_head_new(&h, VAULT_KEY_FILE);
	BUG_ON(file_seal(&h, &s, &key, &good, NULL) < 0);
}

static bool opens(const uint8_t *data, size_t size)
{
	CLEANUP(store_release) struct store s = STORE_INIT;
	enum vault_fault fault = VAULT_FAULT_OTHER;
	struct err e = ERR_INIT;
	int r = file_open(data, size, &key, &s, &fault, &e);

	BUG_ON(r < 0 && (!e.code || !e.msg[0]));
	return r == 0;
}

static void as_plain(const uint8_t *data, size_t size)
{
	CLEANUP(store_release) struct store s = STORE_INIT;
	autosecmem struct secmem again = SECMEM_INIT;

	if (store_unpack(&s, data, size, NULL) < 0)
		return;
	BUG_ON(store_pack(&s, &again, NULL) < 0 || !secmem_eq(&again, data, size));
}

static void as_changes(const uint8_t *data, size_t size)
{
	autofree uint8_t *file = malloc(good.len + 256);
	size_t len = good.len;

	if (!file)
		abort();
	memcpy(file, good.data, good.len);
	for (size_t i = 0; i + 2 < size && i < 60; i += 3)
		file[(data[i] | data[i + 1] << 8) % good.len] ^= data[i + 2];
	if (size % 3 == 1)
		len -= data[size - 1] % len;
	if (size % 3 == 2) {
		memset(file + len, data[size - 1], data[size - 1]);
		len += data[size - 1];
	}
	BUG_ON(opens(file, len) != (len == good.len && memcmp(file, good.data, len) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!key.len)
		set_up();
	if (size > 4096)
		return 0;
	if (size)
		BUG_ON(opens(data, size) != (size == good.len && memcmp(data, good.data, size) == 0));
	as_plain(data, size);
	as_changes(data, size);
	return 0;
}
