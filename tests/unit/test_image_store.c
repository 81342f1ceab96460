/* SPDX-License-Identifier: Apache-2.0 */
/* The image store: a layer that is already there is held like a new one, and a name is written after its content is durable,
 * and a damaged record is told from one that cannot be read. */
#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/image/image_store.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define DIGEST "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* Takes the place of libc's: records the inodes in the order in which they are synced. */
static ino_t synced[64];
static size_t n_synced;

int fsync(int fd)
{
	struct stat st;

	if (n_synced < ARRAY_SIZE(synced) && fstat(fd, &st) == 0)
		synced[n_synced++] = st.st_ino;
	return (int)syscall(SYS_fsync, fd);
}

static size_t when_synced(int fd)
{
	struct stat st;
	size_t i = 0;

	if (fstat(fd, &st) < 0)
		return SIZE_MAX;
	while (i < n_synced && synced[i] != st.st_ino)
		i++;
	return i < n_synced ? i : SIZE_MAX;
}

/* Unpacks nothing into tmp/ID/0/tree and stores it as a layer. Returns the locked tree. */
static int put_empty_layer(struct image_store *s)
{
	struct store_layer l = { .diff_id = DIGEST, .bytes = 1, .entries = 1 };
	char tmp[STORE_TMP_LEN + 1];
	struct err e = ERR_INIT;
	autoclose int dir = image_store_tmp(s, tmp, &e);
	int r;

	if (dir < 0 || mkdirat(dir, "0", 0700) < 0 || mkdirat(dir, "0/tree", 0755) < 0)
		return -1;
	r = image_store_put_layer(s, tmp, "0", DIGEST, &l, &e);
	if (fd_rm_rf(s->tmp, tmp, NULL) < 0)
		return -1;
	return r;
}

static bool is_layer_locked(struct image_store *s)
{
	char path[96];
	autoclose int fd = -1;

	snprintf(path, sizeof(path), "%s/tree", STORE_DIGEST_HEX(DIGEST));
	fd = openat(s->layers, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static void test_layer_is_held(struct image_store *s)
{
	int first = put_empty_layer(s), second;

	CHECKF(first >= 0 && is_layer_locked(s), "a new layer is locked by its tree");
	second = put_empty_layer(s);
	fd_close(first);
	CHECKF(second >= 0 && is_layer_locked(s),
	       "a layer that exists already is locked for its second importer");
	fd_close(second);
	CHECKF(!is_layer_locked(s), "the lock ends with the descriptor");
}

static void test_name_is_last(struct image_store *s)
{
	struct image_record rec = { .name = (char *)"a:1", .source = (char *)"x" };
	struct err e = ERR_INIT;

	n_synced = 0;
	CHECK(image_store_write_blob(s, "{}", 2, rec.manifest, &e) == 0);
	CHECK(image_store_write_name(s, &rec, &e) == 0);
	CHECKF(when_synced(s->names) != SIZE_MAX, "the directory of names is synced");
	CHECKF(when_synced(s->blobs) < when_synced(s->names),
	       "the directory of blobs is synced before that of names");
	CHECKF(when_synced(s->layers) < when_synced(s->names),
	       "the directory of layers is synced before that of names");
}

/* jansson's allocations that succeed before the first that fails. */
static unsigned allocations;

static void *malloc_some(size_t n)
{
	if (!allocations) {
		errno = ENOMEM;
		return NULL;
	}
	allocations--;
	return malloc(n);
}

static int read_one_record(struct image_store *s, const char *file)
{
	CLEANUP(image_record_release) struct image_record rec = { 0 };

	return image_store_read_name(s, file, &rec, NULL);
}

static void test_damage_is_certain(struct image_store *s)
{
	static char large[65537];
	char file[HASH_HEX_LEN + 1];
	unsigned n = 0;
	int r;

	image_store_name_file("a:1", file);
	CHECKF(read_one_record(s, file) == 0, "control: an undamaged record is read");
	json_set_alloc_funcs(malloc_some, free);
	do {
		allocations = n++;
		r = read_one_record(s, file);
	} while (r == -ENOMEM);
	json_set_alloc_funcs(malloc, free);
	CHECKF(r == 0 && n > 5, "a record that does not fit the memory is not damaged: %d after %u", r, n);
	memset(large, ' ', sizeof(large));
	CHECK(fd_replace_file(s->names, file, large, sizeof(large), 0600) == 0);
	CHECKF(read_one_record(s, file) == -EBADMSG, "a record that is too large counts as damaged");
}

int main(void)
{
	char path[] = "/tmp/coffer-test-image-store-XXXXXX";
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(image_store_release) struct image_store s = STORE_INIT;
	struct err e = ERR_INIT;

	if (!mkdtemp(path))
		return 1;
	setenv("COFFER_STATE", path, 1);
	if (!CHECK(state_open(&st, &e) == 0) || !CHECK(image_store_open(&s, &st, &e) == 0))
		return tap_done();
	test_layer_is_held(&s);
	test_name_is_last(&s);
	test_damage_is_certain(&s);
	if (fd_rm_rf(AT_FDCWD, path, &e) < 0)
		printf("# %s\n", e.msg);
	return tap_done();
}
