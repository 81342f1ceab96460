/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads or creates the sandbox's CA and caches leaf certificates per host, least recently used first out. Key
 * bytes are cleansed after packing and unpacking (ca.A1). The key must not be anywhere but in this process
 * and in its memory file, and never on a disk.
 */
#include "egress/tls/ca.h"

#include "base/clock.h"
#include "base/fd.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

struct ca_leaf {
	struct ca_leaf *chain; /* of its bucket */
	struct ca_leaf *newer, *older;
	unsigned bucket;
	X509 *cert;
	char name[];
};

static uint64_t ca_now(void)
{
	return clock_nsec(CLOCK_REALTIME) / NSEC_PER_SEC;
}

static int read_stored_ca(int fd, struct mint **ret, struct err *e)
{
	char raw[MINT_PACK_MAX + 1];
	ssize_t n = pread(fd, raw, sizeof(raw), 0);
	int r = 0;

	if (n < 0)
		return err_sys(e, -errno, "cannot read the kept certificate authority");
	if (n > 0)
		r = mint_unpack(ret, raw, (size_t)n, e);
	OPENSSL_cleanse(raw, sizeof(raw));
	return r;
}

/* In one write: the next process finds all of it or nothing. */
static int store_ca(int fd, const struct mint *m, bool fenced, struct err *e)
{
	struct buf b = BUF_INIT;
	int r;

	if (fd < 0)
		return 0;
	r = mint_pack(m, &b, e);
	if (r == 0 && write(fd, b.data, b.len) != (ssize_t)b.len)
		r = err_sys(e, -EIO, "cannot keep the sandbox's certificate authority");
	/* The fence forbids fcntl(); but then only the next egress process gets this file. */
	if (r == 0 && !fenced &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		r = err_sys(e, -errno, "cannot seal the sandbox's certificate authority");
	if (b.data)
		OPENSSL_cleanse(b.data, b.cap);
	buf_release(&b);
	return r;
}

bool ca_is_kept(int fd)
{
	struct stat st;

	return fd >= 0 && syscall(SYS_fstat, fd, &st) == 0 && st.st_size > 0;
}

int ca_open(struct ca **ret, int fd, bool fenced, struct err *e)
{
	struct ca *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_sys(e, -ENOMEM, "cannot make the sandbox's certificate authority");
	r = ca_is_kept(fd) ? read_stored_ca(fd, &c->mint, e) : 0;
	if (r == 0 && !c->mint) {
		r = mint_new(&c->mint, "Cofferdam sandbox", ca_now(), CA_DAYS, e);
		if (r == 0)
			r = store_ca(fd, c->mint, fenced, e);
	}
	if (r < 0) {
		ca_close(c);
		return r;
	}
	*ret = c;
	return 0;
}

static void lru_unlink(struct ca *c, struct ca_leaf *l)
{
	*(l->newer ? &l->newer->older : &c->newest) = l->older;
	*(l->older ? &l->older->newer : &c->oldest) = l->newer;
}

static void lru_push(struct ca *c, struct ca_leaf *l)
{
	l->newer = NULL;
	l->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = l;
	c->newest = l;
}

static void leaf_free(struct ca *c, struct ca_leaf *l)
{
	for (struct ca_leaf **p = &c->buckets[l->bucket]; *p; p = &(*p)->chain) {
		if (*p == l) {
			*p = l->chain;
			break;
		}
	}
	lru_unlink(c, l);
	X509_free(l->cert);
	free(l);
	c->n--;
}

void ca_close(struct ca *c)
{
	if (!c)
		return;
	while (c->oldest)
		leaf_free(c, c->oldest);
	mint_free(c->mint);
	free(c);
}

/* FNV-1a: a collision attack gains nothing, since the cache is bounded. */
static unsigned leaf_bucket(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h % CA_BUCKETS;
}

static int mint_leaf_for(struct ca *c, const struct host *h, X509 **ret, struct err *e)
{
	bool v4;

	if (h->kind != HOST_ADDR)
		return mint_leaf_name(c->mint, h->text, ca_now(), ret, e);
	v4 = addr_is_v4(&h->addr);
	return mint_leaf_addr(c->mint, h->addr.b + (v4 ? 12 : 0), v4 ? 4 : 16, ca_now(), ret, e);
}

int ca_leaf(struct ca *c, const struct host *h, X509 **ret, struct err *e)
{
	unsigned b = leaf_bucket(h->text);
	struct ca_leaf *l;
	X509 *x = NULL;
	int r;

	for (l = c->buckets[b]; l; l = l->chain) {
		if (strcmp(l->name, h->text) != 0)
			continue;
		lru_unlink(c, l);
		lru_push(c, l);
		*ret = l->cert;
		return 0;
	}
	r = mint_leaf_for(c, h, &x, e);
	if (r < 0)
		return r;
	l = calloc(1, sizeof(*l) + strlen(h->text) + 1);
	if (!l) {
		X509_free(x);
		return err_sys(e, -ENOMEM, "cannot keep a certificate");
	}
	if (c->n >= CA_LEAVES_MAX)
		leaf_free(c, c->oldest);
	strcpy(l->name, h->text); /* NOLINT(clang-analyzer-security.insecureAPI.strcpy): made to measure */
	l->cert = x;
	l->bucket = b;
	l->chain = c->buckets[b];
	c->buckets[b] = l;
	lru_push(c, l);
	c->n++;
	c->minted++;
	*ret = x;
	return 0;
}
