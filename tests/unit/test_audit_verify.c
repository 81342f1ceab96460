/* SPDX-License-Identifier: Apache-2.0 */
/* Each way of tampering is found and named; a break that was accepted is reported as such for ever. */
#include "audit/anchor.h"
#include "audit/heads.h"
#include "audit/segment.h"
#include "test_audit_log.h"

static struct audit_verdict verdict(struct test_log *t)
{
	struct audit_verdict v = AUDIT_VERDICT_INIT;
	struct err e = ERR_INIT;

	if (audit_verify(t->state_fd, &v, &e) < 0) {
		printf("# %s\n", e.msg);
		v.ok = true; /* wrong for every caller here */
	}
	return v;
}

/* Exactly one finding, of this kind, about these events. */
static void expect(struct test_log *t, enum audit_break kind, uint64_t from, uint64_t to, const char *what)
{
	CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(t);
	const struct audit_finding *f = v.findings;

	CHECKF(!v.ok && v.n_findings == 1 && f->kind == kind && f->from == from && f->to == to,
	       "%s is found: %s", what, v.n_findings ? f->text : "(nothing)");
	for (size_t i = 0; v.n_findings != 1 && i < v.n_findings; i++)
		printf("# %s %llu-%llu: %s\n", audit_break_name(v.findings[i].kind),
		       (unsigned long long)v.findings[i].from, (unsigned long long)v.findings[i].to,
		       v.findings[i].text);
}

/* Nobody may append to a log that does not fit its anchor, and the error says what to do. */
static void expect_refused(struct test_log *t)
{
	struct err e = ERR_INIT;
	int r = log_fill(t, 1, NULL, &e);

	CHECKF(r == -EUCLEAN && strstr(e.hint, "coffer audit verify") && strstr(e.msg, "does not match"),
	       "a broken log is not appended to: %s", e.msg);
}

static void edit_line(struct test_log *t, const char *file, int i, const char *from, const char *to)
{
	autobuf struct buf b = log_read(t, file), out = BUF_INIT;
	size_t len;
	char *p = line_at(&b, i, &len), *at = memmem(p, len, from, strlen(from));

	if (!at) {
		CHECKF(false, "line %d of %s contains %s", i, file, from);
		return;
	}
	buf_add(&out, b.data, (size_t)(at - b.data));
	buf_adds(&out, to);
	buf_adds(&out, at + strlen(from));
	log_write(t, file, out.data, out.len);
}

static void drop_lines(struct test_log *t, const char *file, int i, int n)
{
	autobuf struct buf b = log_read(t, file), out = BUF_INIT;
	size_t len = 0, total = 0;
	char *p = line_at(&b, i, &len);

	for (int k = 0; k < n; k++) {
		line_at(&b, i + k, &len);
		total += len;
	}
	buf_add(&out, b.data, (size_t)(p - b.data));
	buf_adds(&out, p + total);
	log_write(t, file, buf_cstr(&out), out.len);
}

static void swap_lines(struct test_log *t, const char *file, int i)
{
	autobuf struct buf b = log_read(t, file), out = BUF_INIT;
	size_t la, lb;
	char *pa = line_at(&b, i, &la), *pb = line_at(&b, i + 1, &lb);

	buf_add(&out, b.data, (size_t)(pa - b.data));
	buf_add(&out, pb, lb);
	buf_add(&out, pa, la);
	buf_adds(&out, pb + lb);
	log_write(t, file, out.data, out.len);
}

static void cut_bytes(struct test_log *t, const char *file, size_t n)
{
	autobuf struct buf b = log_read(t, file);

	log_write(t, file, b.data, b.len - n);
}

static size_t last_line_len(struct test_log *t)
{
	autobuf struct buf b = log_read(t, "log.jsonl");
	const char *nl = memrchr(b.data, '\n', b.len - 1);

	return (size_t)(b.data + b.len - nl - 1);
}

/* 20 events "n":0 … 19 have the numbers 2 … 21. */
static void test_edits(void)
{
	CLEANUP(log_free) struct test_log a = log_with(20);
	CHECKF(log_is_ok(&a), "an untouched log verifies");
	edit_line(&a, "log.jsonl", 4, "something", "Something");
	expect(&a, AUDIT_EDIT, 5, 5, "an edit of the same length");

	CLEANUP(log_free) struct test_log b = log_with(20);
	edit_line(&b, "log.jsonl", 4, "something", "nothing");
	expect(&b, AUDIT_EDIT, 5, 5, "an edit of another length");
	expect_refused(&b);

	CLEANUP(log_free) struct test_log c = log_with(20);
	edit_line(&c, "log.jsonl", 4, "\"seq\":5,", "\"seq\":9,");
	expect(&c, AUDIT_EDIT, 5, 5, "a changed number");

	CLEANUP(log_free) struct test_log d = log_with(20);
	edit_line(&d, "log.jsonl", 4, "{\"seq\"", "{\"sex\"");
	expect(&d, AUDIT_EDIT, 5, 5, "a line made unreadable");

	CLEANUP(log_free) struct test_log l = log_with(20);
	edit_line(&l, "log.jsonl", 20, "something", "Something");
	expect(&l, AUDIT_EDIT, 21, 21, "an edit of the last line");

	CLEANUP(log_free) struct test_log f = log_with(20);
	edit_line(&f, "log.jsonl", 0, "audit.begin", "audit.bogin");
	expect(&f, AUDIT_EDIT, 1, 1, "an edit of the first line");

	CLEANUP(log_free) struct test_log z = log_with(20);
	edit_line(&z, "log.jsonl", 0, "{\"seq\":1,", "\n\n");
	CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(&z);
	CHECKF(!v.ok, "a first line in pieces is found");
}

static void test_deletes(void)
{
	CLEANUP(log_free) struct test_log a = log_with(20);
	drop_lines(&a, "log.jsonl", 4, 1);
	expect(&a, AUDIT_DELETE, 5, 5, "a deleted line");
	expect_refused(&a);

	CLEANUP(log_free) struct test_log b = log_with(20);
	drop_lines(&b, "log.jsonl", 4, 7);
	expect(&b, AUDIT_DELETE, 5, 11, "seven deleted lines");

	CLEANUP(log_free) struct test_log c = log_with(20);
	drop_lines(&c, "log.jsonl", 0, 1);
	expect(&c, AUDIT_DELETE, 1, 1, "a deleted first line");
}

static void test_reorders(void)
{
	CLEANUP(log_free) struct test_log a = log_with(20);
	swap_lines(&a, "log.jsonl", 4);
	expect(&a, AUDIT_REORDER, 5, 5, "a swap of two lines");

	CLEANUP(log_free) struct test_log l = log_with(20);
	swap_lines(&l, "log.jsonl", 19);
	expect(&l, AUDIT_REORDER, 20, 20, "a swap of the last two lines");

	/* A copy of lines 2 to 4 at the end. */
	CLEANUP(log_free) struct test_log b = log_with(20);
	autobuf struct buf log = log_read(&b, "log.jsonl");
	size_t len;
	char *from = line_at(&log, 1, &len), *to = line_at(&log, 4, &len);
	autobuf struct buf copy = BUF_INIT;
	buf_add(&copy, log.data, log.len);
	buf_add(&copy, from, (size_t)(to - from));
	log_write(&b, "log.jsonl", copy.data, copy.len);
	expect(&b, AUDIT_REORDER, 2, 4, "a copy of three lines at the end");
	expect_refused(&b);
}

static void test_cuts(void)
{
	CLEANUP(log_free) struct test_log a = log_with(20);
	drop_lines(&a, "log.jsonl", 20, 1);
	expect(&a, AUDIT_CUT, 21, 21, "a cut of one line");
	expect_refused(&a);

	CLEANUP(log_free) struct test_log b = log_with(20);
	drop_lines(&b, "log.jsonl", 15, 6);
	expect(&b, AUDIT_CUT, 16, 21, "a cut of six lines");

	CLEANUP(log_free) struct test_log c = log_with(20);
	cut_bytes(&c, "log.jsonl", 100);
	expect(&c, AUDIT_CUT, 21, 21, "a cut of half a line");
	expect_refused(&c);

	/* Half a line that the anchor already covers, and a whole one before it. */
	CLEANUP(log_free) struct test_log d = log_with(20);
	cut_bytes(&d, "log.jsonl", last_line_len(&d) + 100);
	expect(&d, AUDIT_CUT, 20, 21, "a cut of one and a half lines");

	CLEANUP(log_free) struct test_log n = log_with(20);
	cut_bytes(&n, "log.jsonl", 1);
	expect(&n, AUDIT_CUT, 21, 21, "a cut of the last newline");

	CLEANUP(log_free) struct test_log e = log_with(20);
	log_write(&e, "log.jsonl", "", 0);
	expect(&e, AUDIT_CUT, 1, 21, "a cut of everything");
	expect_refused(&e);

	CLEANUP(log_free) struct test_log f = log_with(20);
	CHECK(unlinkat(f.dir_fd, "log.jsonl", 0) == 0);
	expect(&f, AUDIT_CUT, 1, 21, "a log that is gone");
	expect_refused(&f);
}

static void test_anchors(void)
{
	CLEANUP(log_free) struct test_log a = log_with(10);
	autobuf struct buf old = log_read(&a, "anchor");
	struct err e = ERR_INIT;
	CHECK(log_fill(&a, 10, NULL, &e) == 0);
	log_write(&a, "anchor", old.data, old.len);
	expect(&a, AUDIT_ANCHOR, 11, 21, "an older anchor put back");
	expect_refused(&a);

	CLEANUP(log_free) struct test_log b = log_with(10), other = log_with(10);
	autobuf struct buf theirs = log_read(&other, "anchor");
	log_write(&b, "anchor", theirs.data, theirs.len);
	expect(&b, AUDIT_ANCHOR, 0, 0, "the anchor of another log");

	CLEANUP(log_free) struct test_log c = log_with(10);
	edit_line(&c, "anchor", 0, "\"hash\":\"", "\"hash\":\"0");
	expect(&c, AUDIT_ANCHOR, 0, 0, "a damaged anchor");
	expect_refused(&c);

	CLEANUP(log_free) struct test_log d = log_with(10);
	CHECK(unlinkat(d.dir_fd, "anchor", 0) == 0);
	expect(&d, AUDIT_ANCHOR, 0, 0, "a missing anchor");
	expect_refused(&d);

	/* Well-formed, of this log, and naming another event 5. */
	CLEANUP(log_free) struct test_log f = log_with(10);
	autobuf struct buf text = log_read(&f, "anchor");
	char out[ANCHOR_SIZE + 1];
	struct anchor an;
	CHECK(anchor_parse(text.data, text.len, &an) == 0);
	an.seq = 5;
	anchor_format(&an, out);
	log_write(&f, "anchor", out, ANCHOR_SIZE);
	expect(&f, AUDIT_ANCHOR, 5, 5, "a forged anchor");

	/* Log and anchor both gone, the key still there. */
	CLEANUP(log_free) struct test_log g = log_with(10);
	CHECK(unlinkat(g.dir_fd, "anchor", 0) == 0 && unlinkat(g.dir_fd, "log.jsonl", 0) == 0);
	expect(&g, AUDIT_ANCHOR, 0, 0, "log and anchor gone");
	expect_refused(&g);
}

static const struct audit_settings small = { .segment_size = 4096, .keep = 100, .head_every = 10 };

static struct test_log log_rotated(int n)
{
	struct test_log t = log_new();
	struct err e = ERR_INIT;

	CHECKF(log_fill(&t, n, &small, &e) == 0 && log_is_ok(&t), "a log of several segments verifies");
	return t;
}

static void test_segments(void)
{
	CLEANUP(log_free) struct test_log a = log_rotated(60);
	edit_line(&a, "log.000002.jsonl", 3, "something", "Something");
	CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(&a);
	CHECKF(!v.ok && v.n_findings == 1 && v.findings[0].kind == AUDIT_EDIT,
	       "an edit in a rotated segment is found: %s", v.n_findings ? v.findings[0].text : "(nothing)");

	CLEANUP(log_free) struct test_log b = log_rotated(60);
	CHECK(unlinkat(b.dir_fd, "log.000002.jsonl", 0) == 0);
	CLEANUP(audit_verdict_release) struct audit_verdict w = verdict(&b);
	CHECK(!w.ok && w.findings[0].kind == AUDIT_DELETE);

	CLEANUP(log_free) struct test_log c = log_rotated(60);
	CHECK(renameat2(c.dir_fd, "log.000002.jsonl", c.dir_fd, "log.000003.jsonl", RENAME_EXCHANGE) == 0);
	CLEANUP(audit_verdict_release) struct audit_verdict x = verdict(&c);
	CHECKF(!x.ok && x.n_findings == 1 && x.findings[0].kind == AUDIT_REORDER,
	       "an exchange of segments is found: %s", x.n_findings ? x.findings[0].text : "(nothing)");

	CLEANUP(log_free) struct test_log d = log_rotated(60);
	cut_bytes(&d, "log.000002.jsonl", 50);
	CLEANUP(audit_verdict_release) struct audit_verdict y = verdict(&d);
	CHECK(!y.ok && y.findings[0].kind == AUDIT_CUT && strstr(y.findings[0].text, "incomplete line"));

	/* The same lines in other files: the chain holds, the files do not. */
	CLEANUP(log_free) struct test_log f = log_rotated(60);
	autobuf struct buf one = log_read(&f, "log.jsonl");
	size_t len;
	char *p = line_at(&one, 2, &len);
	autobuf struct buf closed = BUF_INIT;
	buf_add(&closed, one.data, (size_t)(p - one.data));
	struct segment_list l;
	char name[SEGMENT_NAME_LEN];
	CHECK(segment_list(f.dir_fd, &l, NULL) == 0);
	segment_name(l.n[l.count - 1] + 1, name);
	log_write(&f, name, closed.data, closed.len);
	log_write(&f, "log.jsonl", p, one.len - closed.len);
	CLEANUP(audit_verdict_release) struct audit_verdict z = verdict(&f);
	CHECKF(!z.ok && z.n_findings == 1 && z.findings[0].kind == AUDIT_ANCHOR,
	       "a moved boundary of segments is found: %s", z.n_findings ? z.findings[0].text : "(nothing)");
	expect_refused(&f);
}

static bool has_kind(const struct audit_verdict *v, enum audit_break kind)
{
	for (size_t i = 0; i < v->n_findings; i++) {
		if (v->findings[i].kind == kind && !v->findings[i].accepted_by)
			return true;
	}
	return false;
}

static void test_heads(void)
{
	CLEANUP(log_free) struct test_log a = log_rotated(60);
	edit_line(&a, "heads", 1, "\"sig\":\"", "\"sig\":\"00");
	CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(&a);
	CHECKF(!v.ok && has_kind(&v, AUDIT_HEAD), "a head that cannot be parsed is found");

	CLEANUP(log_free) struct test_log b = log_rotated(60);
	autobuf struct buf heads = log_read(&b, "heads");
	size_t len;
	char *p = line_at(&heads, 1, &len);
	p[len - 4] = p[len - 4] == '0' ? '1' : '0';
	log_write(&b, "heads", heads.data, heads.len);
	CLEANUP(audit_verdict_release) struct audit_verdict w = verdict(&b);
	CHECKF(!w.ok && w.n_findings == 1 && strstr(w.findings[0].text, "wrong signature"),
	       "a wrong signature is found");

	CLEANUP(log_free) struct test_log c = log_rotated(60);
	CHECK(unlinkat(c.dir_fd, "heads", 0) == 0);
	CLEANUP(audit_verdict_release) struct audit_verdict x = verdict(&c);
	CHECKF(!x.ok && has_kind(&x, AUDIT_HEAD), "heads that are missing are found");

	/* An attacker who rewrites the anchor too is still betrayed by a head that he cannot sign. */
	CLEANUP(log_free) struct test_log d = log_with(300);
	autobuf struct buf log = log_read(&d, "log.jsonl"), at = log_read(&d, "anchor");
	struct anchor an;
	char out[ANCHOR_SIZE + 1], *line = line_at(&log, 99, &len);
	CHECK(anchor_parse(at.data, at.len, &an) == 0 && an.head == 256);
	an.seq = 100;
	an.size = (uint64_t)(line - log.data) + len;
	an.head = 0;
	hash_sha256_hex(line, len - 1, an.hash);
	anchor_format(&an, out);
	log_write(&d, "anchor", out, ANCHOR_SIZE);
	log_write(&d, "log.jsonl", log.data, an.size);
	expect(&d, AUDIT_HEAD, 256, 256, "a tail cut together with the anchor");

	CLEANUP(log_free) struct test_log k = log_rotated(60);
	CHECK(unlinkat(k.dir_fd, "key", 0) == 0);
	CLEANUP(audit_verdict_release) struct audit_verdict y = verdict(&k);
	CHECK(!y.ok && has_kind(&y, AUDIT_KEY));
	struct err e = ERR_INIT;
	CHECKF(log_fill(&k, 60, &small, &e) == -ENOENT, "no head is signed without its key: %s", e.msg);
}

/* Accepts what is there, and looks at it again later. */
static void accept_and_check(struct test_log *t, enum audit_break kind, const char *what)
{
	struct err e = ERR_INIT;
	uint64_t seq = 0;
	int r = audit_accept(t->state_fd, "looked at it \"closely\"", &seq, &e);
	bool named = false;

	CHECKF(r == 0 && seq > 0, "%s can be accepted %s", what, e.msg);
	CHECKF(log_is_ok(t), "%s: the log verifies again", what);
	CHECKF(log_fill(t, 30, &small, &e) == 0, "%s: the accepted log can be appended to %s", what, e.msg);
	CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(t);
	for (size_t i = 0; i < v.n_findings; i++)
		named = named || (v.findings[i].kind == kind && v.findings[i].accepted_by == seq);
	CHECKF(v.ok && named, "%s: the accepted break stays on record", what);
	CHECKF(audit_accept(t->state_fd, "again", NULL, &e) == -EALREADY,
	       "%s: a second acceptance is refused", what);
}

static void test_accept(void)
{
	struct err e = ERR_INIT;
	CLEANUP(log_free) struct test_log ok = log_with(10);
	CHECK(audit_accept(ok.state_fd, "why not", NULL, &e) == -EALREADY);
	CHECK(audit_accept(ok.state_fd, "", NULL, &e) == -EINVAL);

	CLEANUP(log_free) struct test_log a = log_with(20);
	drop_lines(&a, "log.jsonl", 15, 6);
	accept_and_check(&a, AUDIT_CUT, "a cut tail");
	/* A second break, elsewhere, is not covered by the first yes. */
	edit_line(&a, "log.000001.jsonl", 4, "something", "Something");
	CLEANUP(audit_verdict_release) struct audit_verdict again = verdict(&a);
	CHECKF(!again.ok && has_kind(&again, AUDIT_EDIT), "a later edit is found beside an accepted break");
	accept_and_check(&a, AUDIT_EDIT, "a second break");
	/* A second edit of the same line is another finding. */
	edit_line(&a, "log.000001.jsonl", 4, "Something", "Anything");
	CLEANUP(audit_verdict_release) struct audit_verdict more = verdict(&a);
	CHECKF(!more.ok && has_kind(&more, AUDIT_EDIT), "a second edit of an accepted line is found");

	CLEANUP(log_free) struct test_log b = log_with(20);
	cut_bytes(&b, "log.jsonl", 100);
	accept_and_check(&b, AUDIT_CUT, "half a line");

	CLEANUP(log_free) struct test_log c = log_with(20);
	drop_lines(&c, "log.jsonl", 4, 2);
	accept_and_check(&c, AUDIT_DELETE, "a deletion");

	CLEANUP(log_free) struct test_log d = log_with(20);
	swap_lines(&d, "log.jsonl", 4);
	accept_and_check(&d, AUDIT_REORDER, "a reordering");

	CLEANUP(log_free) struct test_log f = log_with(20);
	CHECK(unlinkat(f.dir_fd, "anchor", 0) == 0);
	accept_and_check(&f, AUDIT_ANCHOR, "a missing anchor");

	CLEANUP(log_free) struct test_log g = log_with(20);
	CHECK(unlinkat(g.dir_fd, "log.jsonl", 0) == 0);
	accept_and_check(&g, AUDIT_CUT, "a lost log");

	CLEANUP(log_free) struct test_log h = log_with(20);
	CHECK(unlinkat(h.dir_fd, "key", 0) == 0);
	accept_and_check(&h, AUDIT_KEY, "a lost key");

	CLEANUP(log_free) struct test_log k = log_rotated(60);
	CHECK(unlinkat(k.dir_fd, "heads", 0) == 0);
	accept_and_check(&k, AUDIT_HEAD, "lost heads");

	CLEANUP(log_free) struct test_log o = log_with(20), other = log_with(50);
	autobuf struct buf theirs = log_read(&other, "anchor");
	log_write(&o, "anchor", theirs.data, theirs.len);
	accept_and_check(&o, AUDIT_ANCHOR, "another log's anchor");
}

/* Killed between the event and the new anchor: the break is still there, and accepting is done again. */
static void test_accept_broken_off(void)
{
	CLEANUP(log_free) struct test_log t = log_with(20);
	autobuf struct buf old = log_read(&t, "anchor");
	struct err e = ERR_INIT;

	drop_lines(&t, "log.jsonl", 15, 6);
	CHECK(audit_accept(t.state_fd, "seen", NULL, &e) == 0);
	log_write(&t, "anchor", old.data, old.len);
	CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(&t);
	CHECK(!v.ok);
	expect_refused(&t);
	accept_and_check(&t, AUDIT_ANCHOR, "a yes that was broken off");
}

/* A process that has the log open goes on where audit_accept() began anew, not where it was. */
static void test_accept_under_a_writer(void)
{
	CLEANUP(log_free) struct test_log t = log_with(20);
	CLEANUP(audit_freep) struct audit *a = NULL;
	struct err e = ERR_INIT;

	CHECK(audit_open(&a, t.state_fd, &e) == 0);
	CHECK(audit_append(a, "test.before", NULL, NULL, &e) == 0);
	edit_line(&t, "log.jsonl", 4, "something", "Something");
	CHECK(audit_append(a, "test.between", NULL, NULL, &e) == 0);
	CHECK(audit_accept(t.state_fd, "seen", NULL, &e) == 0);
	CHECK(audit_append(a, "test.after", NULL, NULL, &e) == 0);
	CHECK(log_is_ok(&t));
}

/* Accepted breaks that are pruned away leave nothing behind, and the log stays good. */
static void test_accept_and_prune(void)
{
	CLEANUP(log_free) struct test_log t = log_with(20);
	struct audit_settings few = { .segment_size = 4096, .keep = 3, .head_every = 7 };
	struct err e = ERR_INIT;
	bool ok = true;

	drop_lines(&t, "log.jsonl", 15, 6);
	CHECK(audit_accept(t.state_fd, "seen", NULL, &e) == 0);
	for (int i = 0; i < 20; i++)
		ok = ok && log_fill(&t, 5, &few, &e) == 0 && log_is_ok(&t);
	CHECK(ok);
	CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(&t);
	CHECK(v.ok && v.n_findings == 0 && v.pruned_through > 21);
}

static void test_hostile(void)
{
	CLEANUP(log_free) struct test_log t = log_with(5);
	autobuf struct buf junk = BUF_INIT;
	struct err e = ERR_INIT;

	/* 3 MiB without a newline, then thousands of lines that are none */
	for (int i = 0; i < 3 << 20; i++)
		buf_addc(&junk, '{');
	for (int i = 0; i < 5000; i++)
		buf_adds(&junk, "\n{}");
	log_write(&t, "log.jsonl", junk.data, junk.len);
	CLEANUP(audit_verdict_release) struct audit_verdict v = verdict(&t);
	CHECK(!v.ok && v.n_findings == AUDIT_FINDINGS_MAX && v.more > 0);
	CHECK(audit_accept(t.state_fd, "seen", NULL, &e) == -E2BIG);

	CLEANUP(log_free) struct test_log s = log_with(5);
	CHECK(unlinkat(s.dir_fd, "log.jsonl", 0) == 0 &&
	      symlinkat("/etc/passwd", s.dir_fd, "log.jsonl") == 0);
	CHECKF(log_fill(&s, 1, NULL, &e) < 0, "a log that is a symlink is not followed: %s", e.msg);
}

static bool bytes_are_ok(const struct audit_bytes *in)
{
	CLEANUP(audit_verdict_release) struct audit_verdict v = AUDIT_VERDICT_INIT;

	return audit_verify_bytes(in, &v, NULL) == 0 && v.ok;
}

/* How many of all one-bit changes of a file go unnoticed. */
static int unnoticed(const struct audit_bytes *in, char *data, size_t len)
{
	int n = 0;

	for (size_t i = 0; i < len; i++) {
		data[i] ^= 1;
		if (bytes_are_ok(in)) {
			printf("# a change of byte %zu is not found\n", i);
			n++;
		}
		data[i] ^= 1;
	}
	return n;
}

static void test_every_byte(void)
{
	CLEANUP(log_free) struct test_log t = log_new();
	struct audit_settings set = { .segment_size = 1 << 20, .keep = 2, .head_every = 2 };
	struct err e = ERR_INIT;
	int kept = 0;

	CHECK(log_fill(&t, 6, &set, &e) == 0);
	autobuf struct buf log = log_read(&t, "log.jsonl"), anchor = log_read(&t, "anchor"),
			   heads = log_read(&t, "heads");
	struct audit_bytes in = { log.data, anchor.data, heads.data, log.len, anchor.len, heads.len };
	CHECKF(bytes_are_ok(&in), "the untouched bytes of a log verify");
	CHECKF(unnoticed(&in, log.data, log.len) == 0, "every changed byte of the log is found (%zu)",
	       log.len);
	CHECKF(unnoticed(&in, anchor.data, anchor.len) == 0,
	       "every changed byte of the anchor is found (%zu)", anchor.len);
	CHECKF(unnoticed(&in, heads.data, heads.len) == 0, "every changed byte of the heads is found (%zu)",
	       heads.len);
	CHECKF(bytes_are_ok(&in), "the restored bytes of the log verify");
	for (in.log_len = 0; in.log_len < log.len; in.log_len++)
		kept += bytes_are_ok(&in);
	CHECKF(kept == 0, "a cut at every byte of the log is found");
}

int main(void)
{
	test_every_byte();
	test_edits();
	test_deletes();
	test_reorders();
	test_cuts();
	test_anchors();
	test_segments();
	test_heads();
	test_accept();
	test_accept_broken_off();
	test_accept_under_a_writer();
	test_accept_and_prune();
	test_hostile();
	return tap_done();
}
