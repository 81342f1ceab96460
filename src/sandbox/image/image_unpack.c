/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds one archive to coffer-unpack and hashes it on the way (image.I1). The reply of coffer-unpack is untrusted
 * (unpack.K2). The digest of the archive is never taken from it.
 */
#include "base/fd.h"
#include "crypto/hash.h"
#include "sandbox/engine/helper.h"
#include "sandbox/image/image_store.h"
#include "sys/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#define CHUNK (256u << 10)

/* The limits that the user did not set: 95 % of the free space and inodes of the disk, and UNPACK_ENTRIES_MAX entries. */
void image_unpack_caps(const struct image_store *s, const struct image_import *o,
		       const struct store_layer *used, struct unpack_opts *ret)
{
	uint64_t entries = o->entries_max ? o->entries_max : UNPACK_ENTRIES_MAX;
	struct statvfs v;

	*ret = (struct unpack_opts){ .entries_max = UNPACK_ENTRIES_MAX,
				     .bytes_max = UINT64_MAX / 2,
				     .owners = s->host_root };
	if (fstatvfs(s->fd, &v) == 0) {
		uint64_t free = (uint64_t)v.f_bavail * (v.f_frsize ? v.f_frsize : v.f_bsize);

		/* f_blocks is 0 on file systems without a size of their own, f_files on those that make inodes on demand. */
		if (v.f_blocks)
			ret->bytes_max = free - free / 20;
		if (v.f_files && v.f_favail < ret->entries_max)
			ret->entries_max = v.f_favail - v.f_favail / 20;
	}
	/* No underflow: image_check_limits() has refused figures above the limits. */
	if (o->entries_max || entries - used->entries < ret->entries_max)
		ret->entries_max = entries - used->entries;
	if (o->bytes_max && o->bytes_max - used->bytes < ret->bytes_max)
		ret->bytes_max = o->bytes_max - used->bytes;
	/* With an explicit size the ratio is not limited: a log file of zeros may be legitimate. */
	ret->ratio_max = o->bytes_max ? 0 : UNPACK_RATIO_MAX;
}

/* Started with our own identity, because root has to set owners; it confines itself before it reads a byte (unpack.K1). */
static int start_unpacker(int in, int dir, int reply, const struct unpack_opts *o, struct spawned *ret,
			  struct err *e)
{
	autoclose int program = helper_open("coffer-unpack", e);
	char entries[24], bytes[24], ratio[24], before_in[24], before_out[24];
	char *argv[] = { (char *)"coffer-unpack",
			 entries,
			 bytes,
			 ratio,
			 before_in,
			 before_out,
			 (char *)(o->owners ? "owners" : "single"),
			 NULL };
	const int fds[] = {
		[UNPACK_IN] = in, SPAWN_NULL, SPAWN_NULL, [UNPACK_DIR] = dir, [UNPACK_REPLY] = reply
	};
	const struct spawn s = {
		.exe = program, .argv = argv, .fds = fds, .n_fds = ARRAY_SIZE(fds), .flags = SPAWN_SAME_ID
	};

	if (program < 0)
		return program;
	snprintf(entries, sizeof(entries), "%llu", (unsigned long long)o->entries_max);
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)o->bytes_max);
	snprintf(ratio, sizeof(ratio), "%llu", (unsigned long long)o->ratio_max);
	snprintf(before_in, sizeof(before_in), "%llu", (unsigned long long)o->before_in);
	snprintf(before_out, sizeof(before_out), "%llu", (unsigned long long)o->before_out);
	return spawn_start(&s, ret, e);
}

/* Sends all of src to the unpacker. A failed send() is no error: the unpacker has ended early, and its reply tells why. */
static int feed_unpacker(int src, int sock, struct hash_stream *h, uint64_t *ret_len, struct err *e)
{
	autofree char *data = malloc(CHUNK);
	bool gave_up = false;

	if (!data)
		return err_set(e, -ENOMEM, "out of memory");
	while (!gave_up) {
		ssize_t n = read(src, data, CHUNK), at = 0;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, -errno, "cannot read the archive");
		if (n == 0)
			return 0;
		hash_stream_add(h, data, (size_t)n);
		*ret_len += (uint64_t)n;
		while (at < n && !gave_up) {
			ssize_t sent = send(sock, data + at, (size_t)(n - at), MSG_NOSIGNAL);

			if (sent < 0 && errno != EINTR)
				gave_up = true;
			at += sent > 0 ? sent : 0;
		}
	}
	return 0;
}

static int judge_unpacker(int status, ssize_t got, struct unpack_reply *reply, struct err *e)
{
	char shown[sizeof(reply->msg) * 4];

	if (got != (ssize_t)sizeof(*reply) || reply->magic != UNPACK_MAGIC)
		return err_set(e, -EIO,
			       "the archive made the unpacker fail (%s %d): it is damaged or hostile",
			       WIFSIGNALED(status) ? "signal" : "exit",
			       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	reply->msg[sizeof(reply->msg) - 1] = '\0';
	reply->hint[sizeof(reply->hint) - 1] = '\0';
	if (reply->code < 0) {
		int code = reply->code > -4096 ? reply->code : -EIO;

		err_set(e, code, "%s", str_safe(reply->msg, shown, sizeof(shown)));
		if (reply->hint[0])
			return err_hint(e, code, "%s", str_safe(reply->hint, shown, sizeof(shown)));
		if (code == -EFBIG)
			return err_hint(e, code,
					"--max-size SIZE raises the limit, if the disk has the space");
		if (code == -ENOSPC || code == -EDQUOT)
			return err_hint(e, code,
					"free some space, or name another place with COFFER_STATE=DIR");
		return code;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : err_set(e, -EIO, "the unpacker failed");
}

static ssize_t read_unpack_reply(int fd, struct unpack_reply *reply)
{
	size_t at = 0;
	ssize_t n;

	while (at < sizeof(*reply) && (n = read(fd, (char *)reply + at, sizeof(*reply) - at)) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		at += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)at;
}

int image_check_limits(const struct image_import *o, const struct store_layer *used, struct err *e)
{
	uint64_t entries = o->entries_max ? o->entries_max : UNPACK_ENTRIES_MAX;
	char size[16];

	if (used->entries > entries)
		return err_set(e, -E2BIG, "the image has more than %llu entries",
			       (unsigned long long)entries);
	if (!o->bytes_max || used->bytes <= o->bytes_max)
		return 0;
	err_set(e, -EFBIG, "the image is larger than %s", str_from_size(o->bytes_max, size));
	return err_hint(e, -EFBIG, "--max-size SIZE raises the limit, if the disk has the space");
}

int image_unpack(int src, int dir, const struct unpack_opts *caps, char ret_digest[OCI_DIGEST_LEN + 1],
		 uint64_t *ret_len, struct unpack_reply *reply, struct err *e)
{
	autoclose int ours = -1, theirs = -1, reply_in = -1, reply_out = -1;
	struct spawned unpacker = SPAWNED_INIT;
	struct hash_stream h;
	unsigned char raw[HASH_LEN];
	int sv[2], p[2], status, r;
	ssize_t got;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, -errno, "cannot make a socket pair");
	ours = sv[0];
	theirs = sv[1];
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	reply_in = p[0];
	reply_out = p[1];
	r = start_unpacker(theirs, dir, reply_out, caps, &unpacker, e);
	if (r < 0)
		return r;
	theirs = fd_close(theirs);
	reply_out = fd_close(reply_out);
	hash_stream_init(&h);
	*ret_len = 0;
	r = feed_unpacker(src, ours, &h, ret_len, e);
	ours = fd_close(ours);
	got = r < 0 ? 0 : read_unpack_reply(reply_in, reply);
	status = spawn_wait(&unpacker);
	if (r == 0)
		r = judge_unpacker(status, got, reply, e);
	if (r < 0)
		return r;
	hash_stream_end(&h, raw);
	snprintf(ret_digest, OCI_DIGEST_LEN + 1, "sha256:");
	hash_hex(raw, sizeof(raw), ret_digest + 7);
	return 0;
}
