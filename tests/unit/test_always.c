/* SPDX-License-Identifier: Apache-2.0 */
/* Which rule an approval for good becomes: of each kind, and what is refused. */
#include "always/always.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/alwaystest.XXXXXX";
static char file[64];
static int fd;
static struct err last;
static struct buf result;

static const char policy[] = "version: 1\n"
			     "allow:\n"
			     "  - domain: git.test\n"
			     "    http:\n"
			     "      - allow: GET /**\n"
			     "      - ask: DELETE /x/**\n"
			     "    graphql:\n"
			     "      - allow: query *\n"
			     "      - ask: mutation *\n"
			     "    git:\n"
			     "      - allow: fetch **\n"
			     "      - ask: push o/* refs/heads/**\n"
			     "      - ask: fetch o/secret\n"
			     "  - domain: \"*.many.test\"\n"
			     "    http:\n"
			     "      - ask: GET /**\n"
			     "  - domain: plain.test\n"
			     "ask:\n"
			     "  - domain: \"*.slow.test\"\n"
			     "    limits: {connections: 2}\n"
			     "  - domain: all.test\n"
			     "    depth: inspect\n"
			     "  - address: 192.88.98.0/24\n"
			     "  - address: 198.51.99.7\n"
			     "presets: [npm]\n"
			     "deny:\n"
			     "  - domain: bad.test\n";

static void write_file(const char *text)
{
	(void)unlink(file);
	if (fd_replace_file(fd, "p.yaml", text, strlen(text), 0644) < 0)
		perror("p.yaml");
}

/* 0, or why not; what is to be written is in `result`. */
static int open_it(const char *ask)
{
	CLEANUP(always_release) struct always a = ALWAYS_INIT;
	json_t *o = json_loads(ask, 0, NULL);
	int r;

	last = ERR_INIT;
	buf_clear(&result);
	r = always_open(&a, fd, o, &last);
	if (r == 0 && a.needed)
		buf_add(&result, a.after.data, a.after.len);
	json_decref(o);
	return r;
}

/* The lines that came behind the one that begins with `behind`, and nothing else. */
static bool adds(const char *ask, const char *behind, const char *lines)
{
	autobuf struct buf wanted = BUF_INIT;
	const char *at = strstr(policy, behind);
	size_t n = at ? (size_t)(at - policy) + strcspn(at, "\n") + 1 : 0;
	int r = open_it(ask);

	buf_add(&wanted, policy, n);
	buf_adds(&wanted, lines);
	buf_adds(&wanted, policy + n);
	if (r == 0 && at && str_eq(buf_cstr(&wanted), buf_cstr(&result)))
		return true;
	printf("# %d %s\n# %s\n", r, last.msg, buf_cstr(&result));
	return false;
}

static bool refused(const char *ask, const char *words)
{
	int r = open_it(ask);

	if (r < 0 && strstr(last.msg, words) && !result.len)
		return true;
	printf("# %d '%s', wanted '%s'\n", r, last.msg, words);
	return false;
}

#define HEAD "{\"id\":\"abcdef-1\",\"sandbox\":\"abcdef012345\",\"port\":443,\"tls\":true,"
#define GIT \
	HEAD "\"kind\":\"git\",\"host\":\"git.test\",\"method\":\"POST\",\"path\":\"/o/r.git/git-receive-pack\",\"what\":"
#define GQL \
	HEAD "\"kind\":\"graphql\",\"host\":\"git.test\",\"method\":\"POST\",\"path\":\"/graphql\",\"what\":"

static void test_kinds(void)
{
	CHECK(adds(HEAD
		   "\"kind\":\"request\",\"host\":\"git.test\",\"method\":\"DELETE\",\"path\":\"/x/1?y=2\"}",
		   "      - ask: DELETE", "      - allow: DELETE /x/1\n"));
	CHECK(adds(GQL "\"mutation addStar\"}", "      - ask: mutation",
		   "      - allow: mutation addStar\n"));
	CHECKF(adds(GQL "\"mutation a, b; query c; x-y: 1; mutation evil; headers 0123\"}",
		    "      - ask: mutation", "      - allow: mutation b\n      - allow: mutation a\n"),
	       "text in a header is no GraphQL operation");
	CHECK(adds(
		GIT "\"create refs/heads/x, push (maybe forced) refs/heads/y\"}", "      - ask: push",
		"      - allow: push o/r refs/heads/y force\n      - allow: push o/r refs/heads/x create\n"));
	CHECK(adds(GIT "\"delete refs/heads/x; headers 01\"}", "      - ask: push",
		   "      - allow: push o/r refs/heads/x delete\n"));
	CHECKF(open_it(HEAD
		       "\"kind\":\"git\",\"host\":\"git.test\",\"method\":\"POST\",\"path\":\"/o/secret/git-upload-pack\",\"what\":\"\"}") ==
			       0 &&
		       strstr(buf_cstr(&result), "      - allow: fetch o/secret\n") &&
		       !strstr(buf_cstr(&result), "ask: fetch"),
	       "an ask line for exactly this fetch becomes an allow line");
	CHECK(adds(HEAD "\"kind\":\"connect\",\"host\":\"192.88.98.4\"}", "  - domain: plain.test",
		   "  - address: \"192.88.98.4\"\n    port: 443\n"));
	CHECKF(open_it(HEAD "\"kind\":\"connect\",\"host\":\"198.51.99.7\"}") == 0 &&
		       strstr(buf_cstr(&result), "  - domain: plain.test\n  - address: 198.51.99.7\nask:\n"),
	       "a rule for an address moves to 'allow:' as one for a name does");
	CHECKF(open_it(HEAD "\"kind\":\"connect\",\"host\":\"plain.test\"}") == 0 && !result.len,
	       "an act that is allowed changes nothing");
}

static void test_widen(void)
{
	CHECK(adds(HEAD "\"kind\":\"widen\",\"what\":\"new.test\"}", "  - domain: plain.test",
		   "  - domain: new.test\n    port: 443\n"));
	CHECK(adds(HEAD "\"kind\":\"widen\",\"what\":\"new.test:8443\"}", "  - domain: plain.test",
		   "  - domain: new.test\n    port: 8443\n"));
	CHECK(adds(HEAD "\"kind\":\"widen\",\"what\":\"*.new.test:443\"}", "  - domain: plain.test",
		   "  - domain: \"*.new.test\"\n    port: 443\n"));
	CHECK(adds(HEAD "\"kind\":\"widen\",\"what\":\"POST https://new.test/a\"}", "  - domain: plain.test",
		   "  - domain: new.test\n    port: 443\n    http:\n      - allow: POST /a\n"));
	CHECK(adds(HEAD "\"kind\":\"widen\",\"what\":\"GET,POST http://new.test/v1/**\"}",
		   "  - domain: plain.test",
		   "  - domain: new.test\n    port: 80\n    http:\n      - allow: \"GET,POST /v1/**\"\n"));
	CHECK(adds(HEAD "\"kind\":\"widen\",\"what\":\"PATCH https://git.test/a\"}", "      - ask: DELETE",
		   "      - allow: PATCH /a\n"));
	CHECK(refused(HEAD "\"kind\":\"widen\",\"what\":\"*\"}", "not for one host"));
	CHECK(refused(HEAD "\"kind\":\"widen\",\"what\":\"*.com\"}", "public suffix"));
	CHECK(refused(HEAD "\"kind\":\"widen\",\"what\":\"new.test:any\"}", "not for one host"));
	CHECK(refused(HEAD "\"kind\":\"widen\",\"what\":\"@npm\"}", "not for one host"));
	CHECK(refused(HEAD "\"kind\":\"widen\",\"what\":\"GET https://new.test/a b\"}", "not have a form"));
	CHECK(refused(HEAD "\"kind\":\"widen\",\"what\":\"bad.test\"}", "denied"));
	CHECK(refused(HEAD "\"kind\":\"widen\",\"what\":\"192.168.0.1\"}", "private address"));
	CHECKF(refused(HEAD "\"kind\":\"widen\",\"what\":\"POST https://x.many.test/a\"}", "would narrow it"),
	       "a request rule that takes from another rule is refused");
}

static void test_refused(void)
{
	CHECK(refused(HEAD "\"kind\":\"connect\",\"host\":\"a.slow.test\"}", "the rule also sets"));
	CHECK(refused(HEAD "\"kind\":\"request\",\"host\":\"all.test\",\"method\":\"GET\",\"path\":\"/x\"}",
		      "all requests to the host"));
	CHECK(refused(HEAD "\"kind\":\"connect\",\"host\":\"bad.test\"}", "denied"));
	CHECK(refused(HEAD "\"kind\":\"connect\",\"host\":\"unknown.test\"}", "denied"));
	CHECK(refused(
		HEAD
		"\"kind\":\"request\",\"host\":\"git.test\",\"method\":\"DELETE\",\"path\":\"/x/a%2Fb\"}",
		"two ways"));
	CHECK(refused(HEAD
		      "\"kind\":\"request\",\"host\":\"git.test\",\"method\":\"DELETE\",\"path\":\"/x/**\"}",
		      "pattern"));
	CHECK(refused(HEAD "\"kind\":\"question\",\"what\":\"x\"}", "has no rules for questions"));
	CHECK(refused(HEAD "\"kind\":\"sign\",\"what\":\"x\"}", "has no rules for questions"));
	CHECK(refused(GIT "\"push\"}", "cannot name this ref"));
	CHECK(refused(GIT "\"create refs/heads/x, delete everything\"}", "cannot name this ref"));
	CHECK(refused(GQL "\"x-a: mutation evil\"}", "its operations cannot"));
	CHECK(refused(GQL "\"mutation a b\"}", "cannot name this operation"));
	write_file("allow: [\n");
	CHECK(refused(GQL "\"mutation a\"}", "the policy file is invalid"));
	write_file("allow:\n- domain: git.test\n  graphql:\n  - ask: mutation a,b\n");
	CHECK(refused(GQL "\"mutation a\"}", "several operations"));
	CHECK(fchmodat(fd, "p.yaml", 0666, 0) == 0 && refused(GQL "\"mutation a\"}", "others may write"));
	write_file(policy);
}

/* The file becomes `wanted`. */
static bool becomes(const char *text, const char *ask, const char *wanted)
{
	int r;

	write_file(text);
	r = open_it(ask);
	write_file(policy);
	if (r == 0 && str_eq(buf_cstr(&result), wanted))
		return true;
	printf("# %d %s\n# %s\n", r, last.msg, buf_cstr(&result));
	return false;
}

static bool stays(const char *text, const char *ask, const char *words)
{
	bool ok;

	write_file(text);
	ok = refused(ask, words);
	write_file(policy);
	return ok;
}

#define TOOL(what) HEAD "\"kind\":\"tool\",\"what\":\"" what "\"}"

static void test_tools(void)
{
	CHECK(becomes("tools:\n- allow: \"*\"\n- ask: deploy\n", TOOL("deploy"),
		      "tools:\n- allow: \"*\"\n- allow: deploy\n"));
	CHECK(becomes("tools:\n- ask: [deploy, \"rm_*\"]\n", TOOL("deploy"),
		      "tools:\n- ask: [\"rm_*\"]\n- allow: deploy\n"));
	CHECK(becomes("tools:\n- ask: [deploy, \"rm_*\"]\n", TOOL("rm_x"),
		      "tools:\n- ask: [deploy, \"rm_*\"]\n- allow: rm_x\n"));
	CHECK(becomes(
		"tools:\n- ask: deploy\n  when: {env: p*}\n- deny: deploy\n  when: {env: p*, force: true}\n",
		TOOL("deploy when env=p*"),
		"tools:\n- allow: deploy\n  when: {env: p*}\n- deny: deploy\n  when: {env: p*, force: true}\n"));
	CHECK(becomes(
		"tools:\n- ask: \"d*\"\n  when: {env: p*}\n- deny: \"*\"\n", TOOL("deploy when env=p*"),
		"tools:\n- ask: \"d*\"\n  when: {env: p*}\n- allow: deploy\n  when: {\"env\": \"p*\"}\n- deny: \"*\"\n"));
	CHECKF(becomes("tools:\n- ask: [\"d*\", \"*y\"]\n", TOOL("deploy"),
		       "tools:\n- ask: [\"d*\", \"*y\"]\n- allow: deploy\n"),
	       "two patterns of one rule that ask the same become one allow line");
	CHECKF(becomes("tools:\n- allow: deploy\n", TOOL("deploy"), ""),
	       "a tool that is allowed changes nothing");
	/* Changes that would widen more. */
	CHECK(stays("tools:\n- ask: \"d*\"\n- deny: \"d*\"\n  when: {env: production}\n", TOOL("deploy"),
		    "would override deny: d* when env=production"));
	CHECK(stays("tools:\n- ask: \"d*\"\n- deny: \"dep*\"\n  when: {env: production}\n", TOOL("deploy"),
		    "would override deny"));
	CHECK(stays("tools:\n- ask: \"d*\"\n- ask: \"d*\"\n  when: {env: production}\n", TOOL("deploy"),
		    "would override ask"));
	CHECKF(stays("tools:\n- ask: \"d*\"\n  when: {env: a}\n- deny: \"d*\"\n  when: {env: b}\n",
		     TOOL("deploy when env=a"), "would override deny"),
	       "a deny that may match the same call stays: {env: a, ENV: b}");
	CHECK(stays("tools:\n- ask: deploy\n", TOOL("Deploy"), "spells the name"));
	CHECK(stays("tools:\n- ask: deploy\n- deny: deploy\n", TOOL("deploy"), "denied"));
	CHECK(stays("tools:\n- ask: deploy\n- ask: deploy\n  when: {a: b}\n", TOOL("deploy when a=c"),
		    "under these conditions"));
	CHECK(stays("tools:\n- ask: deploy\n- ask: deploy\n", TOOL("deploy"), "would not end the question"));
	CHECK(stays("tools:\n- ask: d\n  when: {a: \"1, b=2\"}\n- ask: d\n  when: {a: 1, b: 2}\n",
		    TOOL("d when a=1, b=2"), "two rules"));
	CHECK(stays("tools:\n- ask: \"*\"\n", TOOL("*"), "cannot name this tool"));
	CHECK(stays("tools:\n- ask: \"*\"\n", TOOL("a b"), "cannot name this tool"));
	CHECK(stays("tools:\n- ask: \"*\"\n", TOOL("a\\n- allow: b"), "cannot name this tool"));
	CHECK(stays("tools:\n- allow: x\n", TOOL("deploy"), "asks about this tool"));
	CHECKF(refused(TOOL("deploy"), "asks about this tool"), "a policy file without tools is refused");
}

#define PUT(host, port, path)                                                                                     \
	"{\"id\":\"abcdef-1\",\"sandbox\":\"abcdef012345\",\"tls\":true,\"kind\":\"request\",\"method\":\"PUT\"," \
	"\"host\":\"" host "\",\"port\":" port ",\"path\":\"" path "\"}"
#define MANY "- domain: \"*.m.test\"\n  http:\n  - allow: GET /**\n  - ask: PUT /x/*\n  - deny: GET /y\n"
#define ONE                                                                                                      \
	"- domain: a.m.test\n  port: 443\n  http:\n  - allow: GET /**\n  - ask: PUT /x/*\n  - allow: PUT /x/1\n" \
	"  - deny: GET /y\n"

/* A rule for many hosts or ports: one like it for this one. */
static void test_many(void)
{
	CHECK(becomes("allow:\n" MANY, PUT("a.m.test", "443", "/x/1"), "allow:\n" MANY ONE));
	CHECKF(becomes("allow:\n" MANY ONE, PUT("a.m.test", "443", "/x/2"),
		       "allow:\n" MANY "- domain: a.m.test\n  port: 443\n  http:\n  - allow: GET /**\n"
		       "  - ask: PUT /x/*\n  - allow: PUT /x/2\n  - allow: PUT /x/1\n  - deny: GET /y\n"),
	       "the next request goes into the rule of its own host");
	CHECK(becomes("allow:\n- domain: a.m.test\n  ports: 8000-8500\n  http:\n  - ask: PUT /x\n",
		      PUT("a.m.test", "8443", "/x"),
		      "allow:\n- domain: a.m.test\n  ports: 8000-8500\n  http:\n  - ask: PUT /x\n"
		      "- domain: a.m.test\n  ports: 8443\n  http:\n  - allow: PUT /x\n"));
	CHECK(becomes("allow:\n- domain: a.m.test\n  ports: [443, 8443]\n  http:\n  - ask: PUT /*\n",
		      PUT("a.m.test", "8443", "/x"),
		      "allow:\n- domain: a.m.test\n  ports: [443, 8443]\n  http:\n  - ask: PUT /*\n"
		      "- domain: a.m.test\n  ports: 8443\n  http:\n  - ask: PUT /*\n  - allow: PUT /x\n"));
	CHECKF(stays("allow:\n- domain: a.m.test\n  ports: [443, 8443]\n  http:\n  - ask: PUT /x\n",
		     PUT("a.m.test", "8443", "/x"), "would still ask"),
	       "each port of a list is as specific as one");
	/* Rules that the copy would overrule. */
	CHECK(stays("allow:\n" MANY
		    "deny:\n- domain: \"*.m.test\"\n  port: 443\n  http:\n  - deny: GET /admin\n",
		    PUT("a.m.test", "443", "/x/1"), "another rule matches this one too"));
	CHECK(stays("allow:\n" MANY "deny:\n- domain: a.m.test\n  http:\n  - deny: GET /admin\n",
		    PUT("a.m.test", "443", "/x/1"), "another rule matches this one too"));
	CHECK(stays("allow:\n" MANY MANY, PUT("a.m.test", "443", "/x/1"),
		    "another rule matches this one too"));
	CHECK(stays("allow:\n" MANY "  limits: {connections: 2}\n", PUT("a.m.test", "443", "/x/1"),
		    "limits or secret"));
	CHECK(stays("allow:\n" MANY "  secret: s\n", PUT("a.m.test", "443", "/x/1"), "limits or secret"));
	CHECK(stays("allow:\n- address: 192.88.98.0/24\n  http:\n  - ask: PUT /**\n",
		    PUT("192.88.98.4", "443", "/x"), "another rule matches this one too"));
	CHECKF(becomes("allow:\n" MANY "deny:\n- domain: \"*\"\n", PUT("a.m.test", "443", "/x/1"),
		       "allow:\n" MANY ONE "deny:\n- domain: \"*\"\n"),
	       "a less specific deny does not prevent the new rule");
}

#define APPLY HEAD "\"kind\":\"apply\",\"what\":\"3 changes\",\"rule\":"

static void test_apply(void)
{
	CHECK(becomes("tools: []\napply: ask # who\n", APPLY "\"apply: ask\"}",
		      "tools: []\napply: allow # who\n"));
	CHECK(becomes("apply: allow\n", APPLY "\"apply: ask\"}", ""));
	CHECK(stays("apply: ask\n", APPLY "\"coffer apply --ask\"}", "made by --ask"));
	CHECK(stays("apply: deny\n", APPLY "\"apply: ask\"}", "no longer contains"));
	CHECK(stays("tools: []\n", APPLY "\"apply: ask\"}", "no longer contains"));
}

#define SECRET(host, name) HEAD "\"kind\":\"secret\",\"host\":\"" host "\",\"what\":\"" name "\"}"

static void test_secret(void)
{
	static const char
		below[] = "- domain: \"*.s.test\"\n  secret: {name: s, ask: true}\n",
		both[] = "allow:\n- domain: a.s.test\n  secret: {name: s, ask: true}\n"
			 "- domain: a.s.test\n  http:\n  - allow: GET /**\n  secret: {name: s, ask: true}\n";
	autobuf struct buf text = BUF_INIT, wanted = BUF_INIT;

	buf_addf(&text, "allow:\n- domain: a.s.test\n  secret: {name: s, ask: true}\n%s", below);
	buf_addf(&wanted, "allow:\n- domain: a.s.test\n  secret: {name: s, ask: false}\n%s", below);
	CHECKF(becomes(buf_cstr(&text), SECRET("a.s.test", "s"), buf_cstr(&wanted)),
	       "the rule for one host changes although one for many asks as well");
	CHECK(stays(buf_cstr(&text), SECRET("b.s.test", "s"), "covers other hosts or ports"));
	CHECK(stays(both, SECRET("a.s.test", "s"), "other rules ask about it too"));
	CHECK(becomes("allow:\n- domain: a.s.test\n  secret: {name: s, ask: true}\n- domain: b.s.test\n"
		      "  secret: {name: s, ask: true}\n",
		      SECRET("a.s.test", "s"),
		      "allow:\n- domain: a.s.test\n  secret: {name: s, ask: false}\n- domain: b.s.test\n"
		      "  secret: {name: s, ask: true}\n"));
	CHECK(becomes("allow:\n- domain: a.s.test\n  secret: {name: s, ask: false}\n",
		      SECRET("a.s.test", "s"), ""));
	CHECK(stays("allow:\n- domain: a.s.test\n  ports: [443, 8443]\n  secret: {name: s, ask: true}\n",
		    SECRET("a.s.test", "s"), "covers other hosts or ports"));
	CHECK(stays("allow:\n- domain: a.s.test\n  secret: {name: s, ask: true}\n",
		    SECRET("a.s.test", "other"), "about another secret"));
	CHECK(stays("allow:\n- domain: a.s.test\n  secret: {name: s, ask: true}\n", SECRET("c.s.test", "s"),
		    "denied"));
	CHECKF(stays("allow:\n- addresses: [192.88.98.4, 192.88.98.5]\n  secret: {name: s, ask: true}\n",
		     SECRET("192.88.98.4", "s"), "change other decisions"),
	       "the line of two addresses is not changed for one of them");
}

static int log_nothing(void *ctx, struct err *e)
{
	return *(int *)ctx < 0 ? err_set(e, *(int *)ctx, "not logged") : 0;
}

static void test_file(void)
{
	autobuf struct buf old = BUF_INIT, new = BUF_INIT, now = BUF_INIT;
	struct stat before, after;
	int r = 0;

	buf_adds(&old, policy);
	buf_adds(&new, "allow: []\n");
	CHECK(stat(file, &before) == 0);
	r = -EIO;
	CHECKF(always_file_write(file, &old, &new, log_nothing, &r, &last) == -EIO &&
		       always_file_read(file, &now, &last) == 0 && str_eq(buf_cstr(&now), policy) &&
		       faccessat(fd, ".p.yaml.coffer-new", F_OK, 0) < 0,
	       "a change that cannot be logged is not written");
	r = 0;
	CHECKF(always_file_write(file, &new, &old, log_nothing, &r, &last) == -EAGAIN,
	       "a change of an outdated file is not written");
	/* A file that a killed process has left. */
	CHECK(symlinkat("/etc/passwd", fd, ".p.yaml.coffer-new") == 0);
	CHECK(fchmodat(fd, "p.yaml", 0640, 0) == 0);
	buf_clear(&now);
	CHECK(always_file_write(file, &old, &new, log_nothing, &r, &last) == 0 &&
	      always_file_read(file, &now, &last) == 0 && str_eq(buf_cstr(&now), "allow: []\n"));
	CHECK(stat(file, &after) == 0 && (after.st_mode & 07777) == 0640 && after.st_uid == before.st_uid &&
	      after.st_gid == before.st_gid &&
	      faccessat(fd, ".p.yaml.coffer-new", F_OK, AT_SYMLINK_NOFOLLOW) < 0);
}

/* A directory on the way that has become a link, and a file that has: neither is read, nor written. */
static void test_links(void)
{
	autobuf struct buf old = BUF_INIT, new = BUF_INIT, now = BUF_INIT;
	char below[96], path[128], to[96];
	int r = 0;

	buf_adds(&old, "allow: []\n");
	buf_adds(&new, "allow: [x.test]\n");
	snprintf(below, sizeof(below), "%s/below", dir);
	snprintf(to, sizeof(to), "%s/to", dir);
	snprintf(path, sizeof(path), "%s/in/p.yaml", below);
	CHECK(mkdirat(fd, "to", 0700) == 0 && mkdirat(fd, "to/in", 0700) == 0 &&
	      fd_replace_file(fd, "to/in/p.yaml", old.data, old.len, 0600) == 0);
	CHECK(symlinkat("to", fd, "below") == 0);
	CHECK(always_file_read(path, &now, &last) == -ELOOP && strstr(last.msg, "symbolic link") && !now.len);
	CHECK(always_file_write(path, &old, &new, log_nothing, &r, &last) == -ELOOP);
	CHECK(unlinkat(fd, "below", 0) == 0 && renameat(fd, "to", fd, "below") == 0);
	CHECK(always_file_read(path, &now, &last) == 0 &&
	      str_eq(buf_cstr(&now), "allow: []\n")); /* control */
	CHECK(renameat(fd, "below/in/p.yaml", fd, "below/in/q.yaml") == 0 &&
	      symlinkat("q.yaml", fd, "below/in/p.yaml") == 0);
	CHECK(always_file_read(path, &now, &last) == -ELOOP);
	CHECK(always_file_write(path, &old, &new, log_nothing, &r, &last) == -ELOOP);
	buf_clear(&now);
	CHECK(fd_read_file(fd, "below/in/q.yaml", 100, &now) == 0 && str_eq(buf_cstr(&now), "allow: []\n"));
	CHECK(fd_rm_rf(fd, "below", &last) == 0);
}

int main(void)
{
	struct net_plan plan = NET_PLAN_INIT;
	struct err e = ERR_INIT;

	if (!mkdtemp(dir))
		return 99;
	snprintf(file, sizeof(file), "%s/p.yaml", dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	write_file(policy);
	plan.file = strdup(file);
	CHECK(refused(GQL "\"mutation a\"}", "which policy the sandbox has"));
	CHECK(net_plan_store(&plan, fd) == 0);
	test_kinds();
	test_widen();
	test_refused();
	test_many();
	test_tools();
	test_apply();
	test_secret();
	test_file();
	test_links();
	free(plan.file);
	plan.file = NULL;
	CHECK(net_plan_store(&plan, fd) == 0 && refused(GQL "\"mutation a\"}", "started without --policy") &&
	      strstr(last.hint, "--sandbox"));
	buf_release(&result);
	close(fd);
	CHECK(fd_rm_rf(AT_FDCWD, dir, &e) == 0);
	return tap_done();
}
