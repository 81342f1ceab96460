/* SPDX-License-Identifier: Apache-2.0 */
/* The proxies' credentials on their way to coffer-dial: in its memory file, and nowhere in the memory of the process that made it. */
#include "base/fd.h"
#include "netd/serve/net_int.h"
#include "sys/fence/seccomp_list.h"
#include "tap.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#define LINES 2000 /* more than fits into a first buffer, or into a second */

/* As realloc() may do at any time: what it is given moves, and the bytes stay behind in freed memory. */
void *realloc(void *p, size_t n)
{
	size_t have = p ? malloc_usable_size(p) : 0;
	void *q = malloc(n);

	if (q && p) {
		memcpy(q, p, have < n ? have : n);
		free(p);
	}
	return q;
}

/* A piece of the passwords, made on the stack; `xor` keeps it from being found in this program itself. */
static void make_word(char out[16])
{
	static const unsigned char mixed[] = { 0x29, 0x24, 0x39, 0x3d, 0x35, 0x23, 0x3a, 0x36, 0x2d, 0x3e };

	for (size_t i = 0; i < sizeof(mixed); i++)
		out[i] = (char)(mixed[i] ^ 0x55);
	out[sizeof(mixed)] = '\0';
}

static bool write_file(int fd, const char *word)
{
	char line[64];

	for (unsigned i = 0; i < LINES; i++) {
		int n = snprintf(line, sizeof(line), "user%u:%s-%u\n", i, word, i);

		if (write(fd, line, (size_t)n) != n)
			return false;
	}
	return true;
}

/* How often the heap has it, in use or not. */
static unsigned count_in_heap(const char *word)
{
	static char maps[1 << 16];
	autoclose int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	unsigned long from = 0, to = 0;
	unsigned n = 0;
	size_t len = 0;
	ssize_t got;
	char *heap, *end;

	while (fd >= 0 && (got = read(fd, maps + len, sizeof(maps) - 1 - len)) > 0)
		len += (size_t)got;
	heap = strstr(maps, "[heap]");
	while (heap && heap > maps && heap[-1] != '\n')
		heap--;
	if (!heap)
		return 0;
	from = strtoul(heap, &end, 16);
	to = *end == '-' ? strtoul(end + 1, &end, 16) : from;
	// NOLINTNEXTLINE(performance-no-int-to-ptr): an address that the kernel wrote as text
	for (const char *p = (const char *)from; (p = memmem(p, to - (size_t)p, word, strlen(word))) != NULL;
	     p++)
		n++;
	return n;
}

int main(void)
{
	char path[] = "/tmp/test_net_give-XXXXXX", word[16];
	struct config_proxy_secret s = { .proxy_set = "eu", .file = path };
	struct config_policy cp = { .proxy_secrets = &s, .n_proxy_secrets = 1 };
	struct err e = ERR_INIT;
	autoclose int fd = mkstemp(path), mem = -1;
	char *control;

	if (SANITIZED) {
		tap_skip("no credential is left in freed memory",
			 "a sanitizer's allocator has a heap of its own");
		return unlink(path) == 0 ? tap_done() : 1;
	}
	make_word(word);
	control = strdup(word);
	CHECKF(control && count_in_heap(word) == 1, "control: a word in the heap is found");
	memset(control, 0, strlen(word));
	__asm__ volatile("" : : "r"(control) : "memory");
	free(control);
	CHECK(fd >= 0 && write_file(fd, word));
	mem = memfile_make("proxy-sets", NULL, 0, false, &e);
	CHECKF(mem >= 0 && net_give_proxies(mem, &cp, &e) == 0 && lseek(mem, 0, SEEK_END) > (off_t)LINES * 20,
	       "the memory file of the process is readable %s", e.msg);
	CHECKF(count_in_heap(word) == 0, "no credential is left in freed memory: %u are",
	       count_in_heap(word));
	CHECK(unlink(path) == 0);
	return tap_done();
}
