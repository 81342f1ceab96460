/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the sealed file (vaultfile.h). A save counts only after it was read back and unsealed
 * again.
 */

#include "vault/serve/vaultfile.h"

#include "base/cleanup.h"
#include "vault/common/wire.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#define VERSION 1
#define HASHED (FILE_HEAD_LEN - 16)
static const char magic[8] = { 'C', 'O', 'F', 'F', 'E', 'R', 'V', '1' };

static void head_hash(const uint8_t *head, uint8_t ret[16])
{
	BUG_ON(crypto_generichash(ret, 16, head, HASHED, NULL, 0) != 0);
}

static void head_pack(const struct file_head *h, uint8_t out[FILE_HEAD_LEN])
{
	struct wire_out w = { .p = out, .cap = FILE_HEAD_LEN };

	wire_put_bytes(&w, magic, sizeof(magic));
	wire_put(&w, VERSION, 4);
	wire_put(&w, h->kind, 4);
	wire_put(&w, h->counter, 8);
	wire_put_bytes(&w, h->id, sizeof(h->id));
	wire_put_bytes(&w, h->cost.salt, sizeof(h->cost.salt));
	wire_put(&w, h->cost.passes, 4);
	wire_put(&w, h->cost.memory_kib, 4);
	wire_put_bytes(&w, h->nonce, sizeof(h->nonce));
	wire_put_bytes(&w, h->check, sizeof(h->check));
	wire_put(&w, h->sealed_len, 8);
	BUG_ON(w.bad || w.len != HASHED);
	head_hash(out, out + HASHED);
}

static void get_field(struct wire_in *in, void *out, size_t len)
{
	struct slice s = wire_get_bytes(in, len);

	if (s.len == len)
		memcpy(out, s.p, len);
}

static int set_fault(enum vault_fault *ret, enum vault_fault f, int code)
{
	*ret = f;
	return code;
}

static int refuse_format(enum vault_fault *ret, struct err *e, const char *why)
{
	return set_fault(ret, VAULT_FAULT_FORMAT, err_set(e, -EMEDIUMTYPE, "%s", why));
}

static int refuse_changed(enum vault_fault *ret, struct err *e)
{
	err_set(e, -EBADMSG, "the vault file was changed or damaged: its seal does not match");
	err_hint(e, -EBADMSG, "restore it from a backup; nothing in it was used");
	return set_fault(ret, VAULT_FAULT_TAMPERED, -EBADMSG);
}

static int refuse_truncated(enum vault_fault *ret, struct err *e)
{
	err_set(e, -ENODATA, "the vault file is cut off: its end is missing");
	err_hint(e, -ENODATA, "restore it from a backup; nothing in it was used");
	return set_fault(ret, VAULT_FAULT_TRUNCATED, -ENODATA);
}

static bool is_valid_cost(const struct file_head *h)
{
	const struct seal_cost *c = &h->cost;

	if (h->kind != VAULT_KEY_PASSPHRASE)
		return c->passes == 0 && c->memory_kib == 0;
	return c->passes >= 1 && c->passes <= SEAL_PASSES_MAX && c->memory_kib >= SEAL_MEMORY_KIB_MIN &&
	       c->memory_kib <= SEAL_MEMORY_KIB_MAX;
}

int file_head_parse(const void *data, size_t len, struct file_head *ret, enum vault_fault *ret_fault,
		    struct err *e)
{
	struct wire_in in = { .p = data, .left = len };
	struct file_head h = { 0 };
	uint8_t hash[16];
	size_t known = len < sizeof(magic) ? len : sizeof(magic);

	if (memcmp(data, magic, known) != 0)
		return refuse_format(ret_fault, e, "this is not a vault file");
	if (len < FILE_HEAD_LEN)
		return refuse_truncated(ret_fault, e);
	wire_get_bytes(&in, sizeof(magic));
	if (wire_get(&in, 4) != VERSION)
		return refuse_format(ret_fault, e, "the vault file was written by a later version of coffer");
	h.kind = (enum vault_key)wire_get(&in, 4);
	h.counter = wire_get(&in, 8);
	get_field(&in, h.id, sizeof(h.id));
	get_field(&in, h.cost.salt, sizeof(h.cost.salt));
	h.cost.passes = (uint32_t)wire_get(&in, 4);
	h.cost.memory_kib = (uint32_t)wire_get(&in, 4);
	get_field(&in, h.nonce, sizeof(h.nonce));
	get_field(&in, h.check, sizeof(h.check));
	h.sealed_len = wire_get(&in, 8);
	head_hash(data, hash);
	if (memcmp(hash, (const uint8_t *)data + HASHED, sizeof(hash)) != 0 || h.kind == 0 ||
	    h.kind >= VAULT_KEY_END || !is_valid_cost(&h))
		return refuse_changed(ret_fault, e);
	if (h.sealed_len > len - FILE_HEAD_LEN)
		return refuse_truncated(ret_fault, e);
	if (h.sealed_len < len - FILE_HEAD_LEN || h.sealed_len < SEAL_TAG_LEN)
		return refuse_changed(ret_fault, e);
	*ret = h;
	return 0;
}

void file_head_new(struct file_head *ret, enum vault_key kind)
{
	*ret = (struct file_head){ .kind = kind };
	randombytes_buf(ret->id, sizeof(ret->id));
	if (kind == VAULT_KEY_PASSPHRASE)
		seal_cost_new(&ret->cost);
}

int file_seal(struct file_head *h, const struct store *s, const struct secmem *key, struct buf *out,
	      struct err *e)
{
	autosecmem struct secmem plain = SECMEM_INIT, sub = SECMEM_INIT;
	struct file_head next = *h;
	uint8_t *p;
	int r = store_pack(s, &plain, e);

	if (r == 0)
		r = seal_key_derive(&sub, key, "cofseal1", e);
	if (r < 0)
		return r;
	next.counter++;
	next.sealed_len = plain.len + SEAL_TAG_LEN;
	seal_nonce_new(next.nonce);
	seal_key_check(key, next.id, sizeof(next.id), next.check);
	p = (uint8_t *)buf_reserve(out, FILE_HEAD_LEN + next.sealed_len);
	if (!p)
		return err_set(e, -ENOMEM, "out of memory");
	head_pack(&next, p);
	seal_close(p + FILE_HEAD_LEN, plain.p, plain.len, p, FILE_HEAD_LEN, next.nonce, &sub);
	out->len += FILE_HEAD_LEN + next.sealed_len;
	*h = next;
	return 0;
}

static int refuse_wrong_key(const struct file_head *h, enum vault_fault *ret, struct err *e)
{
	if (h->kind == VAULT_KEY_PASSPHRASE)
		return set_fault(ret, VAULT_FAULT_PASSPHRASE, err_set(e, -EKEYREJECTED, "wrong passphrase"));
	err_set(e, -EKEYREJECTED, "wrong key: the vault file was sealed with another one");
	err_hint(e, -EKEYREJECTED, "name the right one with --key-file");
	return set_fault(ret, VAULT_FAULT_KEY, -EKEYREJECTED);
}

int file_open(const void *data, size_t len, const struct secmem *key, struct store *ret,
	      enum vault_fault *ret_fault, struct err *e)
{
	autosecmem struct secmem plain = SECMEM_INIT, sub = SECMEM_INIT;
	uint8_t check[SEAL_CHECK_LEN];
	struct file_head h = { 0 };
	int r = file_head_parse(data, len, &h, ret_fault, e);

	if (r < 0)
		return r;
	seal_key_check(key, h.id, sizeof(h.id), check);
	if (sodium_memcmp(check, h.check, sizeof(check)) != 0)
		return refuse_wrong_key(&h, ret_fault, e);
	r = seal_key_derive(&sub, key, "cofseal1", e);
	if (r == 0)
		r = secmem_new(&plain, h.sealed_len - SEAL_TAG_LEN, e);
	if (r < 0)
		return r;
	if (seal_open(plain.p, (const uint8_t *)data + FILE_HEAD_LEN, h.sealed_len, data, FILE_HEAD_LEN,
		      h.nonce, &sub) < 0)
		return refuse_changed(ret_fault, e);
	return store_unpack(ret, plain.p, plain.cap, e);
}

static int write_and_sync(int fd, const char *p, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = pwrite(fd, p + at, len - at, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		at += (size_t)n;
	}
	return fsync(fd) < 0 ? -errno : 0;
}

int file_read(int fd, size_t cap, struct buf *out, struct err *e)
{
	for (;;) {
		char *p = buf_reserve(out, 64u << 10);
		ssize_t n = p ? pread(fd, p, 64u << 10, (off_t)out->len) : -1;

		if (!p)
			return err_set(e, -ENOMEM, "out of memory");
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, -errno, "cannot read the vault file");
		if (n == 0)
			return 0;
		out->len += (size_t)n;
		if (out->len > cap)
			return err_set(e, -EFBIG, "the vault file is larger than any that coffer writes");
	}
}

/* Compares the plain bytes, not only the sealed ones: what matters is that the file can be opened again. */
static int compare_read_back(const struct store *s, const struct buf *back, const struct secmem *key,
			     enum vault_fault *ret_fault, struct err *e)
{
	CLEANUP(store_release) struct store again = STORE_INIT;
	autosecmem struct secmem a = SECMEM_INIT, b = SECMEM_INIT;
	int r = file_open(back->data, back->len, key, &again, ret_fault, e);

	if (r == 0)
		r = store_pack(s, &a, e);
	if (r == 0)
		r = store_pack(&again, &b, e);
	if (r == 0 && !secmem_eq(&a, b.p, b.len))
		r = err_set(e, -EIO, "its contents differ from what was written");
	return r < 0 ? err_wrap(e, r, "reading the new vault file back") : 0;
}

int file_save(int fd, struct file_head *h, const struct store *s, const struct secmem *key,
	      enum vault_fault *ret_fault, struct err *e)
{
	autobuf struct buf out = BUF_INIT, back = BUF_INIT;
	struct file_head next = *h;
	int r = file_seal(&next, s, key, &out, e);

	if (r < 0)
		return r;
	r = write_and_sync(fd, out.data, out.len);
	if (r < 0) {
		*ret_fault = r == -ENOSPC || r == -EDQUOT ? VAULT_FAULT_SPACE : VAULT_FAULT_OTHER;
		err_sys(e, r, "cannot write the new vault file");
		return err_hint(e, r, "the old one is still in place, as it was");
	}
	r = file_read(fd, FILE_MAX, &back, e);
	if (r == 0 && (back.len != out.len || memcmp(back.data, out.data, out.len) != 0))
		r = err_set(
			e, -EIO,
			"the new vault file differs from what was written; the old one is still in place");
	if (r == 0)
		r = compare_read_back(s, &back, key, ret_fault, e);
	if (r == 0)
		*h = next;
	return r;
}
