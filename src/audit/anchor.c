/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the anchor, the record of where the log ends (anchor.h). Only a byte-exact record is
 * accepted.
 */

#include "audit/anchor.h"

#include "audit/line.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SUM_LEN 16

void anchor_format(const struct anchor *an, char ret[ANCHOR_SIZE + 1])
{
	char sum[HASH_HEX_LEN + 1];
	int n;

	n = snprintf(ret, ANCHOR_SIZE + 1,
		     "{\"anchor\":1,\"log\":\"%s\",\"seq\":%18llu,\"hash\":\"%s\",\"segment\":%10u,"
		     "\"size\":%18llu,\"head\":%18llu,",
		     an->log, (unsigned long long)an->seq, an->hash, an->segment,
		     (unsigned long long)an->size, (unsigned long long)an->head);
	BUG_ON(n + (int)strlen("\"sum\":\"\"}\n") + SUM_LEN != ANCHOR_SIZE);
	hash_sha256_hex(ret, (size_t)n, sum);
	snprintf(ret + n, (size_t)(ANCHOR_SIZE + 1 - n), "\"sum\":\"%.*s\"}\n", SUM_LEN, sum);
}

/* Reads a number at a fixed position: spaces, then digits. */
static uint64_t padded_number_at(const char *text, const char *key, int width)
{
	const char *p = strstr(text, key);
	uint64_t v = 0;

	if (!p)
		return 0;
	p += strlen(key);
	for (int i = 0; i < width && p[i]; i++) {
		if (p[i] >= '0' && p[i] <= '9')
			v = v * 10 + (uint64_t)(p[i] - '0');
	}
	return v;
}

int anchor_parse(const char *text, size_t len, struct anchor *ret)
{
	static const char log_key[] = "{\"anchor\":1,\"log\":\"", hash_key[] = "\"hash\":\"";
	char copy[ANCHOR_SIZE + 1], again[ANCHOR_SIZE + 1];
	struct anchor an = { 0 };
	unsigned char raw[HASH_LEN];
	const char *hash;

	if (len != ANCHOR_SIZE)
		return -EBADMSG;
	memcpy(copy, text, len);
	copy[len] = '\0';
	hash = strstr(copy, hash_key);
	if (strncmp(copy, log_key, strlen(log_key)) != 0 || !hash ||
	    hash_unhex(copy + strlen(log_key), ANCHOR_LOG_LEN / 2, raw) < 0 ||
	    (size_t)(copy + len - hash) < HASH_HEX_LEN + sizeof(hash_key) ||
	    hash_unhex(hash + strlen(hash_key), HASH_LEN, raw) < 0)
		return -EBADMSG;
	memcpy(an.log, copy + strlen(log_key), ANCHOR_LOG_LEN);
	memcpy(an.hash, hash + strlen(hash_key), HASH_HEX_LEN);
	an.seq = padded_number_at(copy, "\"seq\":", 18);
	an.segment = (uint32_t)padded_number_at(copy, "\"segment\":", 10);
	an.size = padded_number_at(copy, "\"size\":", 18);
	an.head = padded_number_at(copy, "\"head\":", 18);
	if (an.seq > LINE_SEQ_MAX || an.size > LINE_SEQ_MAX || an.head > LINE_SEQ_MAX)
		return -EBADMSG;
	/* Strict: only a record that anchor_format() would have written is an anchor. */
	anchor_format(&an, again);
	if (memcmp(again, copy, ANCHOR_SIZE) != 0)
		return -EBADMSG;
	*ret = an;
	return 0;
}

int anchor_read(int fd, struct anchor *ret)
{
	char text[ANCHOR_SIZE + 1];
	ssize_t n;

	do
		/* one byte more than the record: a longer file is not an anchor */
		n = pread(fd, text, sizeof(text), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n < ANCHOR_SIZE ? -ENODATA : anchor_parse(text, (size_t)n, ret);
}

int anchor_write(int fd, const struct anchor *an)
{
	char text[ANCHOR_SIZE + 1];
	ssize_t n;

	anchor_format(an, text);
	do
		n = pwrite(fd, text, ANCHOR_SIZE, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n == ANCHOR_SIZE ? 0 : -ENOSPC;
}
