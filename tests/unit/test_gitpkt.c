/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/body/gitpkt.h"
#include "tap.h"

#include <errno.h>

#define A40 "1111111111111111111111111111111111111111"
#define B40 "2222222222222222222222222222222222222222"
#define Z40 "0000000000000000000000000000000000000000"
#define A64 A40 "333333333333333333333333"
#define Z64 Z40 "000000000000000000000000"

static void add_pkt(struct buf *b, const char *text, size_t len)
{
	buf_addf(b, "%04x", (unsigned)len + 4);
	buf_add(b, text, len);
}

#define PKT(b, text) add_pkt(b, text, sizeof(text) - 1)

static int feed(struct gitpkt_push *g, const struct buf *b, size_t step)
{
	int r = 0;

	for (size_t n = step; r == 0 && n < b->len + step; n += step)
		r = gitpkt_push_feed(g, b->data, n < b->len ? n : b->len);
	return r;
}

static void test_push(void)
{
	autobuf struct buf b = BUF_INIT;
	size_t list;

	PKT(&b, "shallow " A40 "\n");
	PKT(&b,
	    A40 " " B40
		" refs/heads/main\0 report-status side-band-64k atomic object-format=sha1 agent=git/2.39");
	PKT(&b, Z40 " " B40 " refs/heads/new\n");
	PKT(&b, A40 " " Z40 " refs/tags/v1");
	buf_adds(&b, "0000");
	list = b.len;
	buf_adds(&b, "PACK....");
	for (size_t step = 1; step < 400; step += 37) {
		CLEANUP(gitpkt_push_release) struct gitpkt_push g = GITPKT_PUSH_INIT;

		CHECKF(feed(&g, &b, step) == 1 && g.n_commands == 3 && g.size == list && g.atomic &&
			       !g.sha256,
		       "a push is parsed in steps of %zu bytes", step);
		if (g.n_commands != 3)
			continue;
		CHECK(slice_eq(g.commands[0].ref, "refs/heads/main") && !g.commands[0].is_create &&
		      !g.commands[0].is_delete);
		CHECK(slice_eq(g.commands[1].ref, "refs/heads/new") && g.commands[1].is_create);
		CHECK(slice_eq(g.commands[2].ref, "refs/tags/v1") && g.commands[2].is_delete);
	}
}

static void test_others(void)
{
	CLEANUP(gitpkt_push_release)
	struct gitpkt_push g = GITPKT_PUSH_INIT, s = GITPKT_PUSH_INIT, o = GITPKT_PUSH_INIT;
	autobuf struct buf b = BUF_INIT;

	buf_adds(&b, "0000");
	CHECKF(feed(&g, &b, 1) == 1 && g.n_commands == 0, "a flush alone is the probe of git");
	buf_clear(&b);
	PKT(&b, Z64 " " A64 " refs/heads/x\0object-format=sha256");
	buf_adds(&b, "0000");
	CHECK(feed(&s, &b, 7) == 1 && s.sha256 && s.commands[0].is_create);
	buf_clear(&b);
	PKT(&b, A40 " " B40 " refs/heads/x\0push-options");
	buf_adds(&b, "0000");
	CHECK(gitpkt_push_feed(&o, b.data, b.len) == 0);
	PKT(&b, "ci.skip");
	buf_adds(&b, "0000PACK");
	CHECK(gitpkt_push_feed(&o, b.data, b.len) == 1 && o.size == b.len - 4 && o.has_options &&
	      o.n_commands == 1);
}

/* To some servers an option is a command of its own. */
static void test_options(void)
{
	static const char *const options[] = { "merge_request.merge_when_pipeline_succeeds",
					       "merge_request.create",
					       "submit",
					       "ci.skip ",
					       "CI.SKIP",
					       "ci.skip\0x" };
	CLEANUP(gitpkt_push_release) struct gitpkt_push one = GITPKT_PUSH_INIT;
	autobuf struct buf b = BUF_INIT;

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		CLEANUP(gitpkt_push_release) struct gitpkt_push g = GITPKT_PUSH_INIT;

		buf_clear(&b);
		PKT(&b, A40 " " B40 " refs/heads/x\0push-options");
		buf_adds(&b, "0000");
		add_pkt(&b, options[i], i == 5 ? 9 : strlen(options[i]));
		buf_adds(&b, "0000");
		CHECKF(gitpkt_push_feed(&g, b.data, b.len) == -EBADMSG && g.why,
		       "a push is refused with the option %s", options[i]);
	}
	buf_clear(&b);
	PKT(&b, A40 " " B40 " refs/heads/x\0push-options");
	buf_adds(&b, "0000");
	PKT(&b, "ci.skip\n");
	PKT(&b, "ci.skip");
	buf_adds(&b, "0000");
	CHECK(gitpkt_push_feed(&one, b.data, b.len) == 1 && one.n_commands == 1);
}

static int push_of(const char *line, size_t len)
{
	CLEANUP(gitpkt_push_release) struct gitpkt_push g = GITPKT_PUSH_INIT;
	autobuf struct buf b = BUF_INIT;

	add_pkt(&b, line, len);
	buf_adds(&b, "0000");
	return gitpkt_push_feed(&g, b.data, b.len);
}

#define PUSH(line) push_of(line, sizeof(line) - 1)

static void test_lines_refused(void)
{
	CHECK(PUSH(A40 " " B40 " refs/heads/main") == 1);
	CHECK(PUSH(A40 " " B40) == -EBADMSG && PUSH(A40 " " B40 " ") == -EBADMSG);
	CHECK(PUSH(A40 "  " B40 " refs/heads/x") == -EBADMSG &&
	      PUSH(A40 " " A64 " refs/heads/x") == -EBADMSG);
	CHECK(PUSH("111 222 refs/heads/x") == -EBADMSG && PUSH(A40 "x " B40 " refs/heads/x") == -EBADMSG);
	CHECKF(PUSH(A64 " " A64 " refs/heads/x") == -EBADMSG,
	       "long ids without object-format=sha256 are refused");
	CHECKF(PUSH(A40 " " B40 " refs/heads/x\0object-format=sha256") == -EBADMSG,
	       "short ids with object-format=sha256 are refused");
	CHECK(PUSH(A40 " " B40 " refs/heads/x\0object-format=sha1 object-format=sha256") == -EBADMSG);
	CHECK(PUSH(A40 " " B40 " refs/heads/x\0object-format=md5") == -EBADMSG);
	CHECK(PUSH(A40 " " B40 " refs/heads/x\0atomic\0atomic") == -EBADMSG);
	CHECKF(PUSH("push-cert\0push-options") == -EBADMSG, "a signed push is refused");
	CHECK(PUSH("shallow 111") == -EBADMSG && PUSH("shallow " A40 " x") == -EBADMSG &&
	      PUSH("\n") == -EBADMSG);
}

static void test_refs(void)
{
	static const char *const bad[] = { "HEAD",
					   "heads/main",
					   "refs/",
					   "refs//x",
					   "refs/heads/",
					   "refs/heads/..",
					   "refs/heads/a..b",
					   "refs/heads/.a",
					   "refs/.a/b",
					   "refs/heads/a.lock",
					   "refs/a.lock/b",
					   "refs/heads/a b",
					   "refs/heads/a~1",
					   "refs/heads/a^",
					   "refs/heads/a:b",
					   "refs/heads/a?",
					   "refs/heads/*",
					   "refs/heads/[a",
					   "refs/heads/a\\b",
					   "refs/heads/a@{1",
					   "refs/heads/a.",
					   "refs/heads/a\x7f",
					   "refs/heads/a\x01",
					   "Refs/heads/a",
					   "refs/heads/a\nb" };
	static const char *const good[] = {
		"refs/heads/main", "refs/for/main%topic=x", "refs/heads/f\xc3\xbcr", "refs/heads/a@b",
		"refs/x",	   "refs/heads/a.b",	    "refs/heads/lock"
	};
	char line[300];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int n = snprintf(line, sizeof(line), A40 " " B40 " %s", bad[i]);

		CHECKF(push_of(line, (size_t)n) == -EBADMSG, "ref '%s' is refused", bad[i]);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		int n = snprintf(line, sizeof(line), A40 " " B40 " %s", good[i]);

		CHECKF(push_of(line, (size_t)n) == 1, "ref '%s' is accepted", good[i]);
	}
}

static int raw(const char *text)
{
	CLEANUP(gitpkt_push_release) struct gitpkt_push g = GITPKT_PUSH_INIT;

	return gitpkt_push_feed(&g, text, strlen(text));
}

static void test_packets(void)
{
	CLEANUP(gitpkt_push_release) struct gitpkt_push g = GITPKT_PUSH_INIT, h = GITPKT_PUSH_INIT;
	autobuf struct buf b = BUF_INIT;

	CHECK(raw("") == 0 && raw("00") == 0 && raw("0040 ") == 0);
	CHECK(raw("0001") == -EBADMSG && raw("0002") == -EBADMSG && raw("0003") == -EBADMSG &&
	      raw("0004") == -EBADMSG);
	CHECK(raw("PACK") == -EBADMSG && raw("fff1") == -EBADMSG && raw("+010") == -EBADMSG &&
	      raw(" 010") == -EBADMSG);
	PKT(&b, A40 " " B40 " refs/heads/a");
	PKT(&b, A40 " " B40 " refs/heads/b\0atomic");
	CHECKF(gitpkt_push_feed(&g, b.data, b.len) == -EBADMSG,
	       "capabilities behind a later command are refused");
	CHECKF(gitpkt_push_feed(&g, b.data, b.len) == -EBADMSG, "a push that was refused stays refused");
	buf_clear(&b);
	for (unsigned i = 0; i < GITPKT_COMMANDS_MAX; i++)
		PKT(&b, A40 " " B40 " refs/heads/a");
	CHECK(gitpkt_push_feed(&h, b.data, b.len) == 0 && h.n_commands == GITPKT_COMMANDS_MAX);
	PKT(&b, A40 " " B40 " refs/heads/a");
	CHECKF(gitpkt_push_feed(&h, b.data, b.len) == -EBADMSG, "a push with too many commands is refused");
}

static enum gitpkt_service service(const char *path, const char *query, struct slice *repo)
{
	return gitpkt_service(slice_of(path), slice_of(query), repo);
}

static void test_service(void)
{
	struct slice repo;

	CHECK(service("/o/r.git/git-receive-pack", "", &repo) == GITPKT_PUSH && slice_eq(repo, "/o/r.git"));
	CHECK(service("/o/r/git-upload-pack", "", &repo) == GITPKT_FETCH && slice_eq(repo, "/o/r"));
	CHECK(service("/o/r/info/refs", "service=git-upload-pack", &repo) == GITPKT_REFS_FETCH &&
	      slice_eq(repo, "/o/r"));
	CHECK(service("/o/r/info/refs", "service=git-receive-pack", NULL) == GITPKT_REFS_PUSH);
	CHECK(service("/o/r/info/refs", "x=1&service=git%2Dreceive-pack", NULL) == GITPKT_REFS_PUSH);
	CHECK(service("/o/r/info/refs", "service=git-upload-pack&SERVICE=git-receive-pack", NULL) ==
	      GITPKT_REFS_PUSH);
	CHECK(service("/o/r/info/refs", "", NULL) == GITPKT_DUMB &&
	      service("/o/r/info/refs", "service=x", NULL) == GITPKT_DUMB);
	CHECK(service("/o/r/objects/info/packs", "", &repo) == GITPKT_DUMB && slice_eq(repo, "/o/r"));
	CHECKF(service("/o/r/Objects/INFO/packs", "", &repo) == GITPKT_DUMB && slice_eq(repo, "/o/r") &&
		       service("/o/r/objects/Pack/pack-1.pack", "", &repo) == GITPKT_DUMB,
	       "a path of the dumb protocol is recognised in whatever letter case");
	CHECK(service("/o/r/Git-Receive-Pack", "", NULL) == GITPKT_PUSH);
	CHECK(service("/o/r/git-receive-pack/", "", &repo) == GITPKT_PUSH && slice_eq(repo, "/o/r"));
	CHECK(service("/o/r/git-receive-pack;x=/", "", &repo) == GITPKT_PUSH && slice_eq(repo, "/o/r"));
	CHECK(service("/o/r/git-receive-pack.", "", NULL) == GITPKT_PUSH);
	CHECK(service("/o/r/info;a/refs;b", "service=git-receive-pack", &repo) == GITPKT_REFS_PUSH &&
	      slice_eq(repo, "/o/r"));
	CHECK(service("/o/r/info/refs/", "service=git-receive-pack", NULL) == GITPKT_REFS_PUSH);
	CHECK(service("/git-receive-pack", "", &repo) == GITPKT_PUSH && repo.len == 0);
	CHECK(service("/o/r/xgit-receive-pack", "", NULL) == GITPKT_NONE);
	CHECK(service("/o/r/xinfo/refs", "", NULL) == GITPKT_NONE);
	CHECK(service("/o/r/pulls", "service=git-receive-pack", &repo) == GITPKT_NONE && repo.len == 0);
	CHECK(service("", "", NULL) == GITPKT_NONE);
}

static void test_fetch(void)
{
	CHECK(gitpkt_fetch_kind("0011command=fetch", 17) == GITPKT_FETCH_V2);
	CHECK(gitpkt_fetch_kind("0014command=ls-refs\n", 20) == GITPKT_FETCH_V2_REFS);
	CHECK(gitpkt_fetch_kind("0018command=object-info\n", 24) == GITPKT_FETCH_V2_INFO);
	CHECK(gitpkt_fetch_kind("0032want " A40 "\n", 50) == GITPKT_FETCH_V0);
	CHECK(gitpkt_fetch_kind("0000", 4) == GITPKT_FETCH_NOTHING && gitpkt_fetch_kind("0011comm", 8) == 0);
	CHECK(gitpkt_fetch_kind("0010command=push", 16) == -EBADMSG &&
	      gitpkt_fetch_kind("0001", 4) == -EBADMSG);
	CHECK(gitpkt_fetch_kind("zzzz", 4) == -EBADMSG && gitpkt_fetch_kind("", 0) == 0);
}

int main(void)
{
	test_push();
	test_others();
	test_lines_refused();
	test_refs();
	test_packets();
	test_options();
	test_service();
	test_fetch();
	return tap_done();
}
