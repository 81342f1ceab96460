/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "crypto/seal.h"
#include "tap.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_bytes(void)
{
	autosecmem struct secmem m = SECMEM_INIT;

	CHECK(secmem_new(&m, 8, NULL) == 0 && m.len == 0 && m.cap == 8);
	CHECK(secmem_add(&m, "abcd", 4) == 0 && secmem_add(&m, "efgh", 4) == 0 && m.len == 8);
	CHECKF(secmem_add(&m, "i", 1) == -ENOSPC && m.len == 8, "secret memory does not grow");
	CHECK(secmem_eq(&m, "abcdefgh", 8) && !secmem_eq(&m, "abcdefgX", 8) && !secmem_eq(&m, "abcdefg", 7));
	secmem_clear(&m);
	CHECKF(m.len == 0 && m.p[0] == 0 && m.p[7] == 0, "bytes of cleared secret memory are zero");
	secmem_release(&m);
	CHECK(m.p == NULL && m.len == 0);
	CHECKF(secmem_new(&m, 0, NULL) == 0, "secret memory of no bytes can be made");
}

/* In a child, for it is to die: what it touches lies beyond the end. */
static int touch_beyond(size_t off)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct secmem m = SECMEM_INIT;
		struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGSEGV, SIG_DFL);
		if (secmem_new(&m, 64, NULL) < 0)
			_exit(3);
		_exit(((volatile uint8_t *)m.p)[off] == 255 ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void test_guard_page(void)
{
	int in = touch_beyond(63), beyond = touch_beyond(64);

	CHECKF(WIFEXITED(in) && WEXITSTATUS(in) < 2, "the last byte of secret memory can be read");
	CHECKF(!WIFEXITED(beyond) || WEXITSTATUS(beyond) > 1, "the byte behind secret memory cannot be read");
}

/* The failure of an ordinary user with a small limit. Root is not limited, so this one is not root. */
static void test_cannot_lock(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct rlimit small = { 8192, 8192 };
		struct secmem a = SECMEM_INIT, b = SECMEM_INIT;
		struct err e = ERR_INIT;

		if (setrlimit(RLIMIT_MEMLOCK, &small) < 0 || (geteuid() == 0 && setuid(20001) < 0))
			_exit(3);
		if (secmem_new(&a, 16, &e) < 0)
			_exit(4);
		if (secmem_new(&b, 65536, &e) != -ENOMEM || b.p)
			_exit(5);
		_exit(strstr(e.msg, "lock") && e.hint[0] ? 0 : 6);
	}
	waitpid(pid, &status, 0);
	CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	       "memory that cannot be locked is refused with a reason (exit %d)", WEXITSTATUS(status));
}

int main(void)
{
	CHECK(secmem_begin(NULL) == 0);
	test_bytes();
	test_guard_page();
	test_cannot_lock();
	return tap_done();
}
