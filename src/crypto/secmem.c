/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locked memory for secrets, over libsodium's guarded allocations. Never falls back to memory that can be
 * swapped.
 */

#include "crypto/secmem.h"

#include "base/cleanup.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int cannot_lock(struct err *e)
{
	struct rlimit l = { 0 };

	(void)!getrlimit(RLIMIT_MEMLOCK, &l);
	err_set(e, -ENOMEM, "cannot lock memory for secrets: this user may lock %llu KiB in all",
		(unsigned long long)l.rlim_cur >> 10);
	return err_hint(e, -ENOMEM,
			"raise it: LimitMEMLOCK= of the service, memlock in limits.conf, or ulimit -l");
}

int secmem_new(struct secmem *m, size_t cap, struct err *e)
{
	uint8_t *p = sodium_malloc(cap ? cap : 1);

	if (!p)
		return err_set(e, -ENOMEM, "out of memory for secrets");
	/* sodium_malloc() locks the memory, too, but ignores a failure. The system call is made directly
	 * because sanitizers turn mlock() into a no-op. */
	if (syscall(SYS_mlock, p, cap ? cap : 1) < 0) {
		sodium_free(p);
		return cannot_lock(e);
	}
	*m = (struct secmem){ .p = p, .cap = cap };
	return 0;
}

int secmem_begin(struct err *e)
{
	struct secmem probe = SECMEM_INIT;
	struct rlimit l;
	int r;

	if (sodium_init() < 0)
		return err_set(e, -EIO, "cannot set the crypto library up");
	if (getrlimit(RLIMIT_MEMLOCK, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		(void)!setrlimit(RLIMIT_MEMLOCK, &l);
	}
	r = secmem_new(&probe, 4096, e);
	secmem_release(&probe);
	return r;
}

void secmem_release(struct secmem *m)
{
	if (m->p)
		sodium_free(m->p);
	*m = SECMEM_INIT;
}

void secmem_clear(struct secmem *m)
{
	if (m->p)
		sodium_memzero(m->p, m->cap);
	m->len = 0;
}

int secmem_add(struct secmem *m, const void *data, size_t len)
{
	if (len > m->cap - m->len)
		return -ENOSPC;
	if (len)
		memcpy(m->p + m->len, data, len);
	m->len += len;
	return 0;
}

bool secmem_eq(const struct secmem *a, const void *b, size_t len)
{
	return a->len == len && (len == 0 || sodium_memcmp(a->p, b, len) == 0);
}

void secmem_wipe(void *p, size_t len)
{
	sodium_memzero(p, len);
}
