/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that compiles a changed policy, as the guard starts it: what it hands back for good and for broken files, and
 * what somebody who has taken it over cannot do. Each act is tried without the fence first, where it must succeed.
 */
#include "base/fd.h"
#include "netd/serve/net_compile.h"
#include "netd/serve/net_int.h"
#include "sys/fence/seccomp.h"
#include "tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char dir[] = "/tmp/test_net_compile-XXXXXX";

static const char *at(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *name, const char *text)
{
	autoclose int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0);
}

static int wait_status(pid_t pid)
{
	int status = -1;

	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

/* Has it compile the file `policy.yaml`: its status, what it handed back, and the credentials. */
static int compile(struct net_plan *p, enum net_compile_job job, struct net_compiled *ret,
		   struct buf *proxies)
{
	autobuf struct buf b = BUF_INIT;
	struct err e = ERR_INIT;
	const int fds[2] = { memfile_make("compiled", NULL, 0, false, &e),
			     memfile_make("proxy-sets", NULL, 0, false, &e) };
	pid_t self = getpid(), pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		net_compile_child(p, job, fds, self);
	status = wait_status(pid);
	CHECK(lseek(fds[0], 0, SEEK_SET) == 0 && fd_read_all(fds[0], NET_COMPILED_MAX, &b) == 0);
	CHECK(lseek(fds[1], 0, SEEK_SET) == 0 && fd_read_all(fds[1], 1 << 20, proxies) == 0);
	fd_close(fds[0]);
	fd_close(fds[1]);
	CHECKF(status == 0 && net_compiled_parse(&b, ret, &e) == 0,
	       "the process ends well with a valid result: status %x %s", (unsigned)status, e.msg);
	return status;
}

static struct net_plan plan_of(const char *file)
{
	struct net_plan p = NET_PLAN_INIT;

	p.file = strdup(at(file));
	return p;
}

static void test_good(void)
{
	CLEANUP(net_plan_release) struct net_plan p = plan_of("policy.yaml");
	CLEANUP(net_compiled_release) struct net_compiled c = NET_COMPILED_INIT, again = NET_COMPILED_INIT;
	autobuf struct buf none = BUF_INIT;
	struct err e = ERR_INIT;

	put("ads.txt", "ads.example.test\n");
	put("policy.yaml", "version: 1\negress:\n  allow: [a.example.test]\n"
			   "  blocklists: [{category: ads, file: ads.txt}]\n");
	compile(&p, NET_COMPILE_POLICY, &c, &none);
	CHECKF(c.outcome == NET_COMPILED_NEW && c.files.n == 2, "a new policy comes with its two files: %zu",
	       c.files.n);
	CHECKF(net_plan_adopt(&p, &c, &e) == 1 && p.generation == 1 && p.cp.files.n == 2,
	       "the guard adopts the policy %s", e.msg);
	CHECKF(policy_blocked_by(p.cp.policy, &(struct host){ .kind = HOST_NAME,
							      .text = "ads.example.test",
							      .len = strlen("ads.example.test") }) != NULL,
	       "the adopted policy has the blocklist");
	compile(&p, NET_COMPILE_POLICY, &again, &none);
	CHECKF(again.outcome == NET_COMPILED_SAME && again.files.n == 2,
	       "a policy that is in force comes without a bundle");
	CHECKF(net_plan_adopt(&p, &again, &e) == 0 && p.generation == 1,
	       "a result without a bundle changes nothing");
	CHECK(none.len == 0);
}

static void broken(const char *file, const char *wanted)
{
	CLEANUP(net_plan_release) struct net_plan p = plan_of(file);
	CLEANUP(net_compiled_release) struct net_compiled c = NET_COMPILED_INIT;
	autobuf struct buf none = BUF_INIT;
	struct err e = ERR_INIT;

	compile(&p, NET_COMPILE_POLICY, &c, &none);
	CHECKF(c.outcome == NET_COMPILED_BROKEN && strstr(c.error, wanted),
	       "a broken policy is handed back as that, with '%s': %s", wanted, c.error);
	CHECKF(net_plan_adopt(&p, &c, &e) < 0 && str_eq(e.msg, c.error) && !p.cp.policy,
	       "the guard adopts no broken policy: %s", e.msg);
}

static void test_broken(void)
{
	put("words.yaml", "version: 1\negress:\n  alow: [a.example.test]\n");
	broken("words.yaml", "words.yaml:3");
	put("aliases.yaml", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n");
	broken("aliases.yaml", "aliases.yaml:1");
	CHECK(mkfifo(at("pipe.yaml"), 0600) == 0);
	broken("pipe.yaml", "not a regular file");
	CHECK(symlink("/dev/zero", at("endless.yaml")) == 0);
	broken("endless.yaml", "not a regular file");
	broken("missing.yaml", "No such file");
	put("large.yaml", "#");
	CHECK(truncate(at("large.yaml"), (64 << 20)) == 0);
	broken("large.yaml", "is larger than");
}

/* All that makes the compiler read: other files by links, a certificate, presets, resolvers. */
static void test_rich(void)
{
	CLEANUP(net_plan_release) struct net_plan p = plan_of("rich.yaml");
	CLEANUP(net_compiled_release) struct net_compiled c = NET_COMPILED_INIT;
	autobuf struct buf none = BUF_INIT;
	struct err e = ERR_INIT;

	put("ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
	put("real.yaml",
	    "version: 1\negress:\n  mode: enforce\n  presets: [npm, {github-triage: {repos: [o/r]}}]\n"
	    "  resolvers: [9.9.9.9]\n  allow:\n    - {domain: a.example.test, ca: ca-link.pem, http: [{allow: GET /**}]}\n"
	    "    - {domain: '*.b.example.test', limits: {requests_per_minute: 5}}\n"
	    "  blocklists: [{category: ads, file: ./ads.txt}]\n");
	CHECK(symlink("ca.pem", at("ca-link.pem")) == 0 && symlink("real.yaml", at("rich.yaml")) == 0);
	CHECK(strv_add(&p.allow, "@npm") == 0 && strv_add(&p.allow, "@policy") == 0 &&
	      strv_add(&p.resolvers, "9.9.9.9") == 0);
	compile(&p, NET_COMPILE_POLICY, &c, &none);
	CHECKF(c.outcome == NET_COMPILED_NEW && net_plan_adopt(&p, &c, &e) == 1 && p.needs_ca,
	       "a policy with every kind of file is compiled: %s%s", c.error, e.msg);
	CHECKF(p.cp.files.n >= 5, "a policy comes with its files and the links to them: %zu", p.cp.files.n);
}

/* `sudo coffer run --policy ~/p.yaml`, in a home that is open to its owner alone. */
static void test_rights(void)
{
	CLEANUP(net_plan_release) struct net_plan p = plan_of("theirs/policy.yaml");
	CLEANUP(net_compiled_release) struct net_compiled c = NET_COMPILED_INIT;
	autobuf struct buf none = BUF_INIT;
	struct err e = ERR_INIT;

	if (geteuid() != 0) {
		tap_skip("a policy in a directory that is closed to others", "not root");
		return;
	}
	CHECK(mkdir(at("theirs"), 0700) == 0);
	put("theirs/policy.yaml", "version: 1\negress:\n  allow: [a.example.test]\n");
	CHECK(chown(at("theirs"), 65534, 65534) == 0);
	compile(&p, NET_COMPILE_POLICY, &c, &none);
	CHECKF(c.outcome == NET_COMPILED_NEW && net_plan_adopt(&p, &c, &e) == 1,
	       "root's policy may be in another user's directory: %s%s", c.error, e.msg);
}

/* The guard judges where the file is, whatever the process says. */
static void test_place(void)
{
	CLEANUP(net_plan_release) struct net_plan p = plan_of("policy.yaml");
	CLEANUP(net_compiled_release) struct net_compiled c = NET_COMPILED_INIT;
	autobuf struct buf none = BUF_INIT;
	struct err e = ERR_INIT;

	compile(&p, NET_COMPILE_POLICY, &c, &none);
	CHECK(strv_add(&p.read_from, dir) == 0);
	strv_release(&c.files); /* as one that was taken over hides it */
	CHECKF(net_plan_adopt(&p, &c, &e) == -EPERM && strstr(e.msg, "could change its own policy") &&
		       !p.cp.policy,
	       "the guard adopts no policy that the sandbox can write: %s", e.msg);
}

static void test_proxies(void)
{
	CLEANUP(net_plan_release) struct net_plan p = plan_of("proxies.yaml");
	CLEANUP(net_compiled_release)
	struct net_compiled c = NET_COMPILED_INIT, alone = NET_COMPILED_INIT, refused = NET_COMPILED_INIT;
	autobuf struct buf got = BUF_INIT, again = BUF_INIT, none = BUF_INIT;
	struct err e = ERR_INIT;

	put("eu.txt", "ann:swordfish\n");
	put("proxies.yaml",
	    "version: 1\negress:\n  allow: [{domain: a.example.test, pool: eu}]\n"
	    "  proxies:\n    eu: {urls: ['http://5.5.5.5:3128'], credentials_file: eu.txt}\n");
	compile(&p, NET_COMPILE_POLICY, &c, &got);
	CHECKF(str_eq(buf_cstr(&got), "eu\tann:swordfish\n"), "the credentials come with the policy: %s",
	       c.error);
	CHECKF(!memmem(c.bytes.data, c.bytes.len, "swordfish", 9), "no credential is in the bundle");
	CHECK(net_plan_load(&p, &p.cp, &(bool){ false }, &e) == 0);
	compile(&p, NET_COMPILE_CREDENTIALS, &alone, &again);
	CHECKF(alone.outcome == NET_COMPILED_SAME && again.len == got.len, "the credentials come alone");
	CHECK(chmod(at("eu.txt"), 0644) == 0);
	compile(&p, NET_COMPILE_CREDENTIALS, &refused, &none);
	CHECKF(refused.outcome == NET_COMPILED_BROKEN && strstr(refused.error, "others may read them") &&
		       !none.len,
	       "credentials that others may read are refused: %s", refused.error);
}

/* ---- Taken over. ---- */

enum { DID = 0, FAILED = 1, NO_SETUP = 2 };

static bool read_file(void)
{
	char c;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, at("ads.txt"), O_RDONLY | O_CLOEXEC);

	return fd >= 0 && syscall(SYS_read, fd, &c, 1) == 1;
}

static bool write_file(void)
{
	return syscall(SYS_openat, AT_FDCWD, at("ads.txt"), O_WRONLY | O_CLOEXEC) >= 0;
}

static bool make_file(void)
{
	return syscall(SYS_openat, AT_FDCWD, at("made"), O_RDONLY | O_CREAT | O_CLOEXEC, 0600) >= 0;
}

static bool write_elsewhere(void)
{
	return syscall(SYS_write, STDERR_FILENO, "", 0) == 0;
}

static bool make_socket(void)
{
	return syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0) >= 0;
}

static bool make_process(void)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		syscall(SYS_exit_group, 0);
	return pid > 0;
}

static bool execute(void)
{
	return syscall(SYS_execve, "/", NULL, NULL) < 0;
}

static pid_t parent;

static bool send_signal(void)
{
	return syscall(SYS_kill, parent, 0) == 0;
}

static bool remove_file(void)
{
	return syscall(SYS_unlinkat, AT_FDCWD, at("made"), 0) == 0;
}

/* How `act` ends: DID, FAILED, or the signal, negative. */
static int attempt(bool (*act)(void), bool fenced)
{
	struct err e = ERR_INIT;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (fenced && fence_up(&net_compile_fence, &e) < 0)
			_exit(NO_SETUP);
		syscall(SYS_exit_group, act() ? DID : FAILED);
	}
	status = wait_status(pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void test_taken_over(void)
{
	static const struct {
		const char *what;
		bool (*act)(void);
	} acts[] = {
		{ "opens a file for writing", write_file },
		{ "makes a file", make_file },
		{ "writes to another descriptor than its two", write_elsewhere },
		{ "makes a socket", make_socket },
		{ "makes a process", make_process },
		{ "executes a program", execute },
		{ "sends a signal", send_signal },
		{ "removes a file", remove_file },
	};

	if (SANITIZED) {
		tap_skip("the fence of the process that compiles a policy", "no filter under sanitizers");
		return;
	}
	CHECKF(attempt(read_file, true) == DID, "control: behind the fence the process reads a file");
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
		CHECKF(attempt(acts[i].act, false) == DID, "control: without the fence the process %s",
		       acts[i].what);
		if (acts[i].act == remove_file)
			put("made", "");
		CHECKF(attempt(acts[i].act, true) == -SIGSYS, "a process behind the fence that %s is ended",
		       acts[i].what);
	}
}

int main(void)
{
	struct err e = ERR_INIT;

	parent = getpid();
	CHECK(mkdtemp(dir) != NULL);
	test_good();
	test_broken();
	test_rich();
	test_rights();
	test_place();
	test_proxies();
	test_taken_over();
	CHECKF(fd_rm_rf(AT_FDCWD, dir, &e) == 0, "the place is removed %s", e.msg);
	return tap_done();
}
