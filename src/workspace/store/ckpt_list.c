/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoints of one run as they lie in its directory: checkpoints/N-HASH, each a manifest that is named by its own hash.
 * Reads only; making and removing checkpoints is the checkpoint room's work.
 */
#include "workspace/store/ckpt_list.h"

#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
#define HEAD_MAX 512

void ckpts_release(struct ckpts *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].label);
	free(l->v);
	*l = (struct ckpts){ 0 };
}

int ckpt_open_dir(int run_fd, bool make, struct err *e)
{
	int fd = openat(run_fd, "checkpoints", DIR_FLAGS);

	if (fd < 0 && errno == ENOENT && make) {
		if (mkdirat(run_fd, "checkpoints", 0700) < 0 && errno != EEXIST)
			return err_sys(e, -errno, "cannot make a place for the run's checkpoints");
		fd = openat(run_fd, "checkpoints", DIR_FLAGS);
	}
	return fd < 0 ? err_sys(e, -errno, "cannot open the run's checkpoints") : fd;
}

void ckpt_file_name(uint32_t number, const unsigned char hash[HASH_LEN], char out[CKPT_FILE_MAX])
{
	int n = snprintf(out, 16, "%u-", number);

	hash_hex(hash, HASH_LEN, out + n);
}

void ckpt_mark_name(uint32_t number, const unsigned char hash[HASH_LEN], char out[CKPT_MARK_MAX])
{
	ckpt_file_name(number, hash, out);
	memcpy(out + strlen(out), ".auto", sizeof(".auto"));
}

/* "3-HASH" */
static bool parse_ckpt_name(const char *name, struct ckpt *ret)
{
	char digits[11] = "", again[CKPT_FILE_MAX];
	size_t n = strspn(name, "0123456789");
	uint64_t number;

	if (n == 0 || n >= sizeof(digits) || name[n] != '-' || strlen(name + n + 1) != HASH_HEX_LEN)
		return false;
	memcpy(digits, name, n);
	if (str_to_u64(digits, &number) < 0 || number == 0 || number > UINT32_MAX - 1 ||
	    hash_unhex(name + n + 1, HASH_LEN, ret->hash) < 0)
		return false;
	ret->number = (uint32_t)number;
	ckpt_file_name(ret->number, ret->hash, again);
	return str_eq(again, name);
}

static int read_manifest_head(int dir_fd, const char *name, struct ckpt *c)
{
	autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct manifest_head h;
	char head[HEAD_MAX], mark[CKPT_MARK_MAX];
	ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head));

	if (n < 0)
		return -errno;
	if (manifest_peek(head, (size_t)n, &h) < 0 || h.number != c->number)
		return -EBADMSG;
	c->time = h.time;
	c->flags = h.flags;
	ckpt_mark_name(c->number, c->hash, mark);
	c->automatic = faccessat(dir_fd, mark, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	c->label = strdup(h.label);
	return c->label ? 0 : -ENOMEM;
}

static int compare_ckpt_numbers(const void *a, const void *b)
{
	const struct ckpt *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

static int add_ckpt(struct ckpts *l, const struct ckpt *c)
{
	if (VEC_MORE(l->v, l->n, VEC_NO_MAX) < 0)
		return -ENOMEM;
	l->v[l->n++] = *c;
	return 0;
}

int ckpt_list(int dir_fd, struct ckpts *ret, struct err *e)
{
	int fd = openat(dir_fd, ".", DIR_FLAGS), r = 0;
	autoclosedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct ckpts l = { 0 };
	const struct dirent *de;

	if (!d) {
		fd_close(fd);
		return err_sys(e, -errno, "cannot list the run's checkpoints");
	}
	while (r == 0 && (de = readdir(d))) {
		struct ckpt c = { 0 };

		if (!parse_ckpt_name(de->d_name, &c))
			continue;
		r = read_manifest_head(fd, de->d_name, &c);
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		r = r < 0 ? r : add_ckpt(&l, &c);
	}
	if (r < 0) {
		ckpts_release(&l);
		return r == -EBADMSG
			       ? err_set(e, r, "a checkpoint of this run is damaged: its head cannot be read")
			       : err_sys(e, r, "cannot list the run's checkpoints");
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), compare_ckpt_numbers);
	*ret = l;
	return 0;
}

int ckpt_list_read(int dir_fd, const struct ckpt *c, struct buf *ret, struct err *e)
{
	unsigned char hash[HASH_LEN];
	char name[CKPT_FILE_MAX];
	int n;

	ckpt_file_name(c->number, c->hash, name);
	n = fd_read_file(dir_fd, name, CHECKPOINT_MANIFEST_MAX, ret);
	if (n < 0)
		return err_sys(e, n, "cannot read checkpoint c%u", c->number);
	hash_blake_once(buf_cstr(ret), ret->len, hash);
	if (memcmp(hash, c->hash, HASH_LEN) != 0)
		return err_set(e, -EBADMSG, "checkpoint c%u is damaged: its hash does not match", c->number);
	return 0;
}
