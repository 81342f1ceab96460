/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes in the files of the log: the reader and verify must neither crash nor grow. The input is an
 * anchor, heads and a log, separated by lines that hold only "--"; what is missing is empty.
 */
#include "audit/anchor.h"
#include "audit/heads.h"
#include "audit/line.h"
#include "audit/verify.h"
#include "base/cleanup.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Up to the separator; moves *p behind it. */
static size_t part(const char **p, const char *end)
{
	const char *start = *p;
	const char *sep = memmem(start, (size_t)(end - start), "--\n", 3);

	*p = sep ? sep + 3 : end;
	return (size_t)((sep ? sep : end) - start);
}

/*
 * No mutation finds a SHA-256, so everything behind a good link would stay unseen: gives each line the hash of the one
 * before it, and the anchor that belongs to the last. A line whose clock says so keeps
 * its own (a break).
 */
static void mend(char *log, size_t len, struct anchor *an)
{
	char *p = log, *end = log + len, *nl;

	memcpy(an->hash, LINE_HASH_NONE, sizeof(an->hash));
	while (p < end && (nl = memchr(p, '\n', (size_t)(end - p)))) {
		struct line l;

		if (line_parse(p, (size_t)(nl - p), &l) == 0) {
			if (l.boot % 8)
				memcpy(p + (l.prev - p), an->hash, HASH_HEX_LEN);
			an->seq = l.seq;
		}
		hash_sha256_hex(p, (size_t)(nl - p), an->hash);
		p = nl + 1;
	}
	an->size = (uint64_t)(p - log);
}

static void check_verdict(const struct audit_verdict *v)
{
	bool open = v->more > 0;

	if (v->n_findings > AUDIT_FINDINGS_MAX)
		abort();
	for (size_t i = 0; i < v->n_findings; i++)
		open = open || !v->findings[i].accepted_by;
	if (open == v->ok)
		abort();
}

static void run_mended(const struct audit_bytes *given, const char *log_id)
{
	CLEANUP(audit_verdict_release) struct audit_verdict v = AUDIT_VERDICT_INIT;
	autofree char *log = malloc(given->log_len + 1);
	struct anchor an = { .segment = 1 };
	struct audit_bytes in = *given;
	char text[ANCHOR_SIZE + 1];

	if (!log)
		abort();
	memcpy(log, given->log, given->log_len);
	mend(log, given->log_len, &an);
	snprintf(an.log, sizeof(an.log), "%s",
		 strlen(log_id) == ANCHOR_LOG_LEN ? log_id : "0123456789abcdef");
	anchor_format(&an, text);
	in.log = log;
	in.anchor = text;
	in.anchor_len = ANCHOR_SIZE;
	if (audit_verify_bytes(&in, &v, NULL) == 0)
		check_verdict(&v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(audit_verdict_release) struct audit_verdict v = AUDIT_VERDICT_INIT;
	const char *p = (const char *)data, *end = p + size;
	struct audit_bytes in = { 0 };
	struct anchor an;
	struct line l;
	struct head h;

	if (line_parse(p, size, &l) == 0 && (l.fields < p || l.fields + l.fields_len > end))
		abort();
	if (head_parse(p, size, &h) == 0 && strlen(h.key) != HEADS_PUB_HEX)
		abort();
	if (anchor_parse(p, size, &an) == 0 && strlen(an.hash) != HASH_HEX_LEN)
		abort();
	in.anchor = p;
	in.anchor_len = part(&p, end);
	in.heads = p;
	in.heads_len = part(&p, end);
	in.log = p;
	in.log_len = (size_t)(end - p);
	if (in.anchor_len == 0)
		in.anchor = NULL;
	if (audit_verify_bytes(&in, &v, NULL) == 0)
		check_verdict(&v);
	run_mended(&in, v.log);
	return 0;
}
