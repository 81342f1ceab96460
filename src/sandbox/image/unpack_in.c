/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decompresses an archive as a stream (unpack_in.h). Runs in coffer-unpack, confined, over hostile bytes: memory is bounded,
 * and the output is limited in size and in its ratio to the input.
 */
#include "sandbox/image/unpack_in.h"

#include "base/cleanup.h"
#include "sandbox/image/unpack.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define CHUNK (256u << 10)
#define ZSTD_WINDOW_LOG_MAX 27 /* 128 MiB, the default limit of zstd(1) */

struct unpack_stream {
	struct unpack_in *u;
	uint8_t *in, *out;
	size_t have; /* bytes in `in` */
	bool eof;
};

static int fill_stream(struct unpack_stream *s, struct err *e)
{
	ssize_t n;

	do {
		n = read(s->u->fd, s->in + s->have, CHUNK - s->have);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, -errno, "cannot read the archive");
	s->eof = n == 0;
	s->have += (size_t)n;
	s->u->in += (uint64_t)n;
	return 0;
}

/* Passes decompressed bytes on; limits of size and ratio stop decompression bombs here. */
static int pass_decompressed(struct unpack_in *u, const uint8_t *data, size_t len, struct err *e)
{
	u->out += len;
	if (u->out > u->out_max)
		return err_set(e, -EFBIG, "it unpacks to more than %llu MiB, the room that it may take",
			       (unsigned long long)(u->out_max >> 20));
	if (u->ratio_max && u->before_out + u->out > UNPACK_RATIO_FREE &&
	    (u->before_out + u->out) / u->ratio_max > u->before_in + u->in)
		return err_set(e, -EFBIG, "it unpacks to more than %llu times its size: a decompression bomb",
			       (unsigned long long)u->ratio_max);
	hash_stream_add(&u->hash, data, len);
	return u->sink(u->ctx, data, len, e);
}

static int read_plain(struct unpack_stream *s, struct err *e)
{
	int r = 0;

	while (r == 0 && (s->have || !s->eof)) {
		r = pass_decompressed(s->u, s->in, s->have, e);
		s->have = 0;
		if (r == 0 && !s->eof)
			r = fill_stream(s, e);
	}
	return r;
}

static int refuse_gzip(struct err *e, const z_stream *z)
{
	return err_set(e, -EBADMSG, "its gzip data is damaged or cut off%s%s", z->msg ? ": " : "",
		       z->msg ? z->msg : "");
}

/* Inflates all of `in`; *ended when the last member is complete. */
static int inflate_available(struct unpack_stream *s, z_stream *z, bool *ended, struct err *e)
{
	z->next_in = s->in;
	z->avail_in = (uInt)s->have;
	while (z->avail_in) {
		int zr, r;

		/* Concatenated gzip members are one archive. */
		if (*ended && inflateReset(z) != Z_OK)
			return refuse_gzip(e, z);
		*ended = false;
		do {
			z->next_out = s->out;
			z->avail_out = CHUNK;
			zr = inflate(z, Z_NO_FLUSH);
			if (zr != Z_OK && zr != Z_STREAM_END && zr != Z_BUF_ERROR)
				return refuse_gzip(e, z);
			r = pass_decompressed(s->u, s->out, CHUNK - z->avail_out, e);
			if (r < 0)
				return r;
		} while (zr == Z_OK && z->avail_out == 0);
		*ended = zr == Z_STREAM_END;
		if (zr == Z_BUF_ERROR && z->avail_in)
			return refuse_gzip(e, z);
	}
	s->have = 0;
	return 0;
}

static int read_gzip(struct unpack_stream *s, struct err *e)
{
	z_stream z = { 0 };
	bool ended = false;
	int r = 0;

	if (inflateInit2(&z, 15 + 16) != Z_OK)
		return err_set(e, -ENOMEM, "out of memory");
	while (r == 0 && (s->have || !s->eof)) {
		r = inflate_available(s, &z, &ended, e);
		if (r == 0 && !s->eof)
			r = fill_stream(s, e);
	}
	if (r == 0 && !ended)
		r = refuse_gzip(e, &z);
	inflateEnd(&z);
	return r;
}

static int read_zstd(struct unpack_stream *s, struct err *e)
{
	ZSTD_DCtx *d = ZSTD_createDCtx();
	size_t left = 1; /* of the frame; 0: complete */
	int r = 0;

	if (!d || ZSTD_isError(ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX)))
		r = err_set(e, -ENOMEM, "out of memory");
	while (r == 0 && (s->have || !s->eof)) {
		ZSTD_inBuffer in = { s->in, s->have, 0 };
		ZSTD_outBuffer out = { s->out, CHUNK, 0 };

		/*
		 * A full output buffer may mean that more is to come without further input, but not at the end of a frame:
		 * a call there would begin the next frame, and `left` would be the size of its header.
		 */
		while (r == 0 && (in.pos < in.size || (out.pos == out.size && left))) {
			out.pos = 0;
			left = ZSTD_decompressStream(d, &out, &in);
			r = ZSTD_isError(left) ? err_set(e, -EBADMSG, "its zstd data is damaged: %s",
							 ZSTD_getErrorName(left))
					       : pass_decompressed(s->u, s->out, out.pos, e);
		}
		s->have = 0;
		if (r == 0 && !s->eof)
			r = fill_stream(s, e);
	}
	if (r == 0 && left)
		r = err_set(e, -EBADMSG, "its zstd data is cut off");
	ZSTD_freeDCtx(d);
	return r;
}

static bool has_magic(const struct unpack_stream *s, const char *magic, size_t len)
{
	return s->have >= len && memcmp(s->in, magic, len) == 0;
}

int unpack_in_run(struct unpack_in *u, struct err *e)
{
	autofree uint8_t *in = malloc(CHUNK), *out = malloc(CHUNK);
	struct unpack_stream s = { .u = u, .in = in, .out = out };
	int r = 0;

	if (!in || !out)
		return err_set(e, -ENOMEM, "out of memory");
	hash_stream_init(&u->hash);
	while (r == 0 && s.have < 8 && !s.eof)
		r = fill_stream(&s, e);
	if (r < 0)
		return r;
	if (has_magic(&s, "\x1f\x8b", 2))
		return read_gzip(&s, e);
	if (has_magic(&s, "\x28\xb5\x2f\xfd", 4))
		return read_zstd(&s, e);
	if (has_magic(&s,
		      "\xfd"
		      "7zXZ",
		      5) ||
	    has_magic(&s, "BZh", 3))
		return err_set(e, -ENOTSUP,
			       "it is compressed with xz or bzip2; only gzip, zstd and plain tar are read");
	return read_plain(&s, e);
}
