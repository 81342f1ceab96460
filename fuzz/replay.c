/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer: every file of its corpus, then for each of them mutations by a generator with a
 * fixed seed, so that the same commit always does the same. A fault ends the process, or the sanitizer
 * ends it; a process that lives has passed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (1u << 20)
#define MUTATIONS 300

static uint64_t seed = 0x9e3779b97f4a7c15ull;

static uint32_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32);
}

/* On the heap and of the exact size, so that a sanitizer sees a read past the end. */
static void run_exact(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void mutate(const uint8_t *data, size_t size)
{
	static const uint8_t edge[] = { 0, 1, 0x7f, 0x80, 0xff, '\n', '"', '{' };
	uint8_t *m = malloc(size + 8);

	if (!m)
		abort();
	for (int i = 0; i < MUTATIONS; i++) {
		size_t n = size;

		memcpy(m, data, size);
		for (uint32_t k = next_random() % 4; n && k != UINT32_MAX; k--)
			m[next_random() % n] = next_random() & 1 ? edge[next_random() % sizeof(edge)]
								 : (uint8_t)next_random();
		if (n && next_random() % 4 == 0)
			n = next_random() % n;
		else if (next_random() % 8 == 0)
			for (uint32_t k = next_random() % 8; k; k--)
				m[n++] = (uint8_t)next_random();
		run_exact(m, n);
	}
	free(m);
}

static ssize_t read_input(int dir, const char *name, uint8_t *data)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t r = -1;

	if (fd < 0)
		return -1;
	while (n < INPUT_MAX && (r = read(fd, data + n, INPUT_MAX - n)) > 0)
		n += (size_t)r;
	close(fd);
	return r < 0 ? -1 : (ssize_t)n;
}

int main(void)
{
	uint8_t *data = malloc(INPUT_MAX);
	DIR *d = opendir(REPLAY_CORPUS);
	struct dirent *entry;
	int count = 0, bad = 0;

	if (!data || !d) {
		printf("Bail out! cannot read %s\n", REPLAY_CORPUS);
		return 1;
	}
	run_exact(data, 0);
	while ((entry = readdir(d))) { // NOLINT(concurrency-mt-unsafe): one thread
		ssize_t n;

		if (entry->d_name[0] == '.')
			continue;
		n = read_input(dirfd(d), entry->d_name, data);
		if (n >= 0) {
			run_exact(data, (size_t)n);
			mutate(data, (size_t)n);
		}
		bad += n < 0;
		printf("%sok %d - %s and %d mutations of it\n", n < 0 ? "not " : "", ++count, entry->d_name,
		       MUTATIONS);
		fflush(stdout);
	}
	printf("%sok %d - the corpus is not empty\n", count ? "" : "not ", count + 1);
	printf("1..%d\n", count + 1);
	closedir(d);
	free(data);
	return bad || !count ? 1 : 0;
}
