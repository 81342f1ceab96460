/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "tap.h"
#include "vault/serve/vaultfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define VALUE "a value that is looked for in the file"

static struct store store;
static struct secmem key;

static void set_up(void)
{
	struct store_set set = { .name = "a", .now = 1 };
	struct secmem m = SECMEM_INIT;
	struct store_entry *n;
	enum vault_fault f;

	BUG_ON(seal_key_new(&key, NULL) < 0 || secmem_new(&m, strlen(VALUE), NULL) < 0 ||
	       secmem_add(&m, VALUE, strlen(VALUE)) < 0 || store_set(&store, &set, &m, &n, &f, NULL) < 0);
}

static enum vault_fault open_fault(const void *data, size_t len, const struct secmem *with, int *ret_r)
{
	CLEANUP(store_release) struct store s = STORE_INIT;
	enum vault_fault f = VAULT_FAULT_OTHER;
	struct err e = ERR_INIT;

	*ret_r = file_open(data, len, with, &s, &f, &e);
	if (*ret_r < 0 && !e.msg[0])
		tap_ok(false, __FILE__, __LINE__, "a refused file has an error message");
	return f;
}

static void test_faults(void)
{
	autosecmem struct secmem other = SECMEM_INIT;
	autobuf struct buf b = BUF_INIT;
	struct file_head h;
	unsigned opened = 0, told = 0;
	int r;

	file_head_new(&h, VAULT_KEY_FILE);
	CHECK(file_seal(&h, &store, &key, &b, NULL) == 0 && h.counter == 1);
	CHECKF(!memmem(b.data, b.len, VALUE, 8), "the file contains no value");
	open_fault(b.data, b.len, &key, &r);
	CHECKF(r == 0, "the file opens with its key");
	CHECK(seal_key_new(&other, NULL) == 0);
	CHECK(open_fault(b.data, b.len, &other, &r) == VAULT_FAULT_KEY && r < 0);
	for (size_t i = 0; i < b.len; i++) {
		b.data[i] ^= 0x10;
		told += open_fault(b.data, b.len, &key, &r) != VAULT_FAULT_OTHER;
		opened += r == 0;
		b.data[i] ^= 0x10;
	}
	CHECKF(opened == 0 && told == b.len,
	       "a file with any byte changed is refused with a fault (%u of %zu)", told, b.len);
	b.data[b.len - 1] ^= 1;
	CHECK(open_fault(b.data, b.len, &key, &r) == VAULT_FAULT_TAMPERED);
	b.data[b.len - 1] ^= 1;
	told = 0;
	for (size_t n = 1; n < b.len; n++)
		told += open_fault(b.data, n, &key, &r) == VAULT_FAULT_TRUNCATED;
	CHECKF(told == b.len - 1, "a file that is cut at any place is reported as cut");
	buf_addc(&b, 'x');
	CHECK(open_fault(b.data, b.len, &key, &r) == VAULT_FAULT_TAMPERED);
	CHECK(open_fault("not a vault at all", 18, &key, &r) == VAULT_FAULT_FORMAT);
	CHECK(open_fault("COFFERV1\x02", 9, &key, &r) == VAULT_FAULT_TRUNCATED);
}

static void test_versions(void)
{
	autobuf struct buf b = BUF_INIT;
	struct file_head h;
	int r;

	file_head_new(&h, VAULT_KEY_PASSPHRASE);
	CHECK(h.cost.passes == SEAL_PASSES && file_seal(&h, &store, &key, &b, NULL) == 0);
	BUG_ON(b.len < 9);
	b.data[8] = 2;
	CHECKF(open_fault(b.data, b.len, &key, &r) == VAULT_FAULT_FORMAT,
	       "a file of a later version is reported as such");
	b.data[8] = 1;
	open_fault(b.data, b.len, &key, &r);
	CHECK(r == 0);
	secmem_wipe(key.p, 1);
	CHECK(open_fault(b.data, b.len, &key, &r) == VAULT_FAULT_PASSPHRASE);
}

static void test_save(void)
{
	CLEANUP(store_release) struct store back = STORE_INIT;
	autoclose int fd = memfd_create("file", MFD_CLOEXEC);
	autobuf struct buf b = BUF_INIT;
	struct rlimit was, small;
	struct file_head h;
	struct err e = ERR_INIT;
	enum vault_fault f = VAULT_FAULT_OTHER;

	file_head_new(&h, VAULT_KEY_FILE);
	CHECK(file_save(fd, &h, &store, &key, &f, NULL) == 0 && h.counter == 1);
	CHECK(file_read(fd, FILE_MAX, &b, NULL) == 0 && file_open(b.data, b.len, &key, &back, &f, NULL) == 0);
	CHECK(back.n == 1 && secmem_eq(&back.v[0]->value, VALUE, strlen(VALUE)));
	/* As on a full disk: the file can grow to a part of what is written. */
	signal(SIGXFSZ, SIG_IGN);
	BUG_ON(getrlimit(RLIMIT_FSIZE, &was) < 0 || ftruncate(fd, 0) < 0);
	small = (struct rlimit){ 64, was.rlim_max };
	BUG_ON(setrlimit(RLIMIT_FSIZE, &small) < 0);
	CHECK(file_save(fd, &h, &store, &key, &f, &e) < 0 && h.counter == 1);
	BUG_ON(setrlimit(RLIMIT_FSIZE, &was) < 0);
	CHECKF(e.msg[0] && strstr(e.hint, "old one"), "the failure names the old file %s", e.msg);
}

int main(void)
{
	CHECK(secmem_begin(NULL) == 0);
	set_up();
	test_faults();
	test_save();
	test_versions();
	store_release(&store);
	secmem_release(&key);
	return tap_done();
}
