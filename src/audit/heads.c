/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log's signing key and its signed heads (heads.h). The key's bytes are wiped after use; callers must
 * hold the log's lock.
 */

#include "audit/heads.h"

#include "audit/lines.h"
#include "audit/segment.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static_assert(HEADS_PUB_HEX == 2 * SIGN_PUB_LEN, "a public key in hex");

#define HEADS_FILE_MAX (64u << 20)

/* The bytes that are signed. */
static size_t head_message(const struct head *h, char *out, size_t size)
{
	int n = snprintf(out, size, "cofferdam audit head 1\n%s\n%llu\n%s\n", h->log,
			 (unsigned long long)h->seq, h->hash);

	BUG_ON(n < 0 || (size_t)n >= size);
	return (size_t)n;
}

static size_t head_format(const struct head *h, char *out, size_t size)
{
	int n = snprintf(out, size,
			 "{\"log\":\"%s\",\"seq\":%llu,\"hash\":\"%s\",\"key\":\"%s\",\"sig\":\"%s\"}\n",
			 h->log, (unsigned long long)h->seq, h->hash, h->key, h->sig);

	BUG_ON(n < 0 || (size_t)n >= size);
	return (size_t)n;
}

/* The text of `len` bytes after `before`; NULL if the text differs. */
static const char *take_member(const char **p, const char *end, const char *before, size_t len)
{
	size_t n = strlen(before);
	const char *value;

	if ((size_t)(end - *p) < n + len || memcmp(*p, before, n) != 0)
		return NULL;
	value = *p + n;
	*p = value + len;
	return value;
}

static int take_hex_member(const char **p, const char *end, const char *before, size_t bytes, char *ret)
{
	unsigned char raw[SIGN_SIG_LEN];
	const char *value = take_member(p, end, before, 2 * bytes);

	if (!value || hash_unhex(value, bytes, raw) < 0)
		return -EINVAL;
	memcpy(ret, value, 2 * bytes);
	ret[2 * bytes] = '\0';
	return 0;
}

int head_parse(const char *text, size_t len, struct head *ret)
{
	const char *p = text, *end = text + len;
	char seq[24], again[HEADS_LINE_MAX];
	struct head h = { 0 };
	size_t digits = 0;

	if (len > HEADS_LINE_MAX - 2 ||
	    take_hex_member(&p, end, "{\"log\":\"", ANCHOR_LOG_LEN / 2, h.log) < 0 ||
	    !take_member(&p, end, "\",\"seq\":", 0))
		return -EINVAL;
	while (p < end && *p >= '0' && *p <= '9' && digits < 18)
		seq[digits++] = *p++;
	seq[digits] = '\0';
	if (str_to_u64(seq, &h.seq) < 0 || take_hex_member(&p, end, ",\"hash\":\"", HASH_LEN, h.hash) < 0 ||
	    take_hex_member(&p, end, "\",\"key\":\"", SIGN_PUB_LEN, h.key) < 0 ||
	    take_hex_member(&p, end, "\",\"sig\":\"", SIGN_SIG_LEN, h.sig) < 0)
		return -EINVAL;
	if (head_format(&h, again, sizeof(again)) != len + 1 || memcmp(again, text, len) != 0)
		return -EINVAL;
	*ret = h;
	return 0;
}

bool head_is_signed(const struct head *h)
{
	unsigned char pub[SIGN_PUB_LEN], sig[SIGN_SIG_LEN];
	char msg[HEADS_LINE_MAX];
	size_t len = head_message(h, msg, sizeof(msg));

	return hash_unhex(h->key, sizeof(pub), pub) == 0 && hash_unhex(h->sig, sizeof(sig), sig) == 0 &&
	       sign_is_valid(pub, msg, len, sig);
}

/* A file of `len` bytes in hex and a newline, like key and key.pub. */
static int read_hex_file(int dir_fd, const char *name, size_t len, unsigned char *ret)
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(dir_fd, name, 4096, &b);

	if (r == 0 && (b.len != 2 * len + 1 || b.data[2 * len] != '\n' || hash_unhex(b.data, len, ret) < 0))
		r = -EBADMSG;
	if (b.data)
		explicit_bzero(b.data, b.cap);
	return r;
}

static int write_hex_file(int dir_fd, const char *name, const unsigned char *data, size_t len, mode_t mode)
{
	char hex[2 * SIGN_SEED_LEN + 2];
	int r;

	BUG_ON(2 * len + 2 > sizeof(hex));
	hash_hex(data, len, hex);
	hex[2 * len] = '\n';
	r = fd_replace_file(dir_fd, name, hex, 2 * len + 1, mode);
	explicit_bzero(hex, sizeof(hex));
	return r;
}

static int load_signing_key(int dir_fd, struct sign_key *ret)
{
	unsigned char seed[SIGN_SEED_LEN];
	int r = read_hex_file(dir_fd, HEADS_KEY, sizeof(seed), seed);

	if (r == 0)
		r = sign_key_from_seed(ret, seed);
	explicit_bzero(seed, sizeof(seed));
	return r;
}

int heads_key_pub(int dir_fd, char ret_pub[HEADS_PUB_HEX + 1])
{
	CLEANUP(sign_key_wipe) struct sign_key key = { 0 };
	int r = load_signing_key(dir_fd, &key);

	if (r == 0)
		hash_hex(key.pub, sizeof(key.pub), ret_pub);
	return r;
}

int heads_key_ensure(int dir_fd, bool may_make, char ret_pub[HEADS_PUB_HEX + 1], struct err *e)
{
	CLEANUP(sign_key_wipe) struct sign_key key = { 0 };
	unsigned char pub[SIGN_PUB_LEN];
	bool make = false;
	int r = load_signing_key(dir_fd, &key);

	if ((r == -ENOENT || r == -EBADMSG) && may_make) {
		make = true;
		r = sign_key_new(&key);
		if (r == 0)
			r = write_hex_file(dir_fd, HEADS_KEY, key.seed, sizeof(key.seed), 0600);
	}
	if (r < 0)
		return err_sys(e, r, "cannot %s the audit log's signing key", make ? "make" : "read");
	/* The public half is derived from the other; a crash may have left only one of the two files. */
	r = read_hex_file(dir_fd, HEADS_PUB, sizeof(pub), pub);
	if (r == -ENOENT || (may_make && (r < 0 || memcmp(pub, key.pub, sizeof(pub)) != 0)))
		r = write_hex_file(dir_fd, HEADS_PUB, key.pub, sizeof(key.pub), 0644);
	if (r < 0)
		return err_sys(e, r, "cannot write the audit log's public key");
	hash_hex(key.pub, sizeof(key.pub), ret_pub);
	return make;
}

/* The offset after the last whole line: a crash may have left an incomplete head after it. */
static int whole_lines_end(int fd, uint64_t size, uint64_t *ret)
{
	char tail[HEADS_LINE_MAX];
	uint64_t from = size > sizeof(tail) ? size - sizeof(tail) : 0;
	ssize_t n = pread(fd, tail, (size_t)(size - from), (off_t)from);
	const char *nl;

	if (n < 0)
		return -errno;
	nl = n ? memrchr(tail, '\n', (size_t)n) : NULL;
	*ret = nl ? from + (uint64_t)(nl - tail) + 1 : from;
	return 0;
}

/* Appends a line to the heads file, after removing an incomplete one. */
static int append_head(int dir_fd, const char *text, size_t len)
{
	uint64_t size = 0, end = 0;
	autoclose int fd = segment_open(dir_fd, HEADS_NAME, O_RDWR | O_CREAT | O_APPEND, &size);
	int r;

	if (fd < 0)
		return fd;
	r = whole_lines_end(fd, size, &end);
	if (r < 0)
		return r;
	if (end != size && ftruncate(fd, (off_t)end) < 0)
		return -errno;
	r = fd_write_all(fd, text, len);
	if (r < 0 && ftruncate(fd, (off_t)end) < 0)
		return r; /* the next writer removes the incomplete line */
	return r;
}

int heads_sign(int dir_fd, const struct anchor *an, struct err *e)
{
	CLEANUP(sign_key_wipe) struct sign_key key = { 0 };
	unsigned char sig[SIGN_SIG_LEN];
	char text[HEADS_LINE_MAX];
	struct head h = { .seq = an->seq };
	int r = load_signing_key(dir_fd, &key);

	if (r < 0)
		return err_sys(e, r, "cannot read the audit log's signing key");
	memcpy(h.log, an->log, sizeof(h.log));
	memcpy(h.hash, an->hash, sizeof(h.hash));
	hash_hex(key.pub, sizeof(key.pub), h.key);
	r = sign_make(&key, text, head_message(&h, text, sizeof(text)), sig);
	if (r < 0)
		return err_sys(e, r, "cannot sign the audit log");
	hash_hex(sig, sizeof(sig), h.sig);
	r = append_head(dir_fd, text, head_format(&h, text, sizeof(text)));
	if (r < 0)
		return err_sys(e, r, "cannot write a signed head of the audit log");
	return 0;
}

int heads_prune(int dir_fd, uint64_t through, struct err *e)
{
	autobuf struct buf kept = BUF_INIT;
	uint64_t size = 0;
	autoclose int fd = segment_open(dir_fd, HEADS_NAME, O_RDONLY, &size);
	autolines struct lines in = LINES_FD(fd, size);
	enum lines_state state;
	const char *text;
	struct head h;
	size_t len;
	int r;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return err_sys(e, fd, "cannot read the audit log's signed heads");
	if (size > HEADS_FILE_MAX)
		return err_set(e, -EFBIG, "the file of the audit log's signed heads is too large");
	while ((r = lines_next(&in, &text, &len, &state)) > 0) {
		/* A line that is not a head stays: it is evidence, and verify reports it. */
		if (state != LINES_WHOLE || (head_parse(text, len, &h) == 0 && h.seq <= through))
			continue;
		buf_add(&kept, text, len);
		buf_addc(&kept, '\n');
	}
	if (r == 0)
		r = buf_error(&kept);
	if (r == 0)
		r = fd_replace_file(dir_fd, HEADS_NAME, buf_cstr(&kept), kept.len, 0600);
	return r < 0 ? err_sys(e, r, "cannot prune the audit log's signed heads") : 0;
}
