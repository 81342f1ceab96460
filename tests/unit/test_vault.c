/* SPDX-License-Identifier: Apache-2.0 */
/* coffer-vault itself, started as a sandbox's guard starts it, and a coffer-egress that asks it. The program is the one of this
 * build. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "crypto/secmem.h"
#include "ipc/fdpass.h"
#include "tap.h"
#include "vault/client/client.h"
#include "vault/common/shape.h"
#include "vault/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TOKEN "ghp_1a2B3c4D5e6F7g8H9i0J1k2L3m4N5o6P7q8R"
#define PATIENCE_MS 60000

static int exe = -1, state = -1;
static struct vault_files files;
static struct vault_proc proc;
static struct err err;

static void find_program(const char *self)
{
	char path[4096];
	const char *slash = strrchr(self, '/');

	snprintf(path, sizeof(path), "%.*s/../../coffer-vault", slash ? (int)(slash - self) : 1,
		 slash ? self : ".");
	exe = open(path, O_PATH | O_CLOEXEC);
	if (exe < 0) {
		printf("Bail out! %s is not built\n", path);
		exit(1);
	}
}

static int say(struct vault_msg *m, const int *fds, size_t n_fds)
{
	err = ERR_INIT;
	return vault_call(&proc, m, fds, n_fds, NULL, NULL, NULL, NULL, &err);
}

static int set(const char *name, const char *value, unsigned flags)
{
	struct vault_msg m = { .type = VAULT_SET, .num = { flags } };
	int p[2], r;

	BUG_ON(pipe2(p, O_CLOEXEC) < 0 || fd_write_all(p[1], value, strlen(value)) < 0);
	fd_close(p[1]);
	m.text[0] = slice_of(name);
	r = say(&m, p, 1);
	fd_close(p[0]);
	return r;
}

static int bind_to(const char *name, const char *host)
{
	autobuf struct buf b = BUF_INIT;
	struct vault_msg m = { .type = VAULT_BIND };
	struct binding at = { 0 };

	BUG_ON(binding_parse_host(host, strlen(host), 0, &at, NULL) < 0 ||
	       binding_parse_as("bearer", 6, &at, NULL) < 0 || bindings_pack(&at, 1, &b) < 0);
	m.text[0] = slice_of(name);
	m.text[1] = (struct slice){ b.data, b.len };
	return say(&m, NULL, 0);
}

static void open_again(unsigned file_flags, unsigned flags)
{
	struct vault_key_want want = VAULT_KEY_WANT_INIT;

	vault_end(&proc);
	vault_files_close(&files);
	err = ERR_INIT;
	CHECKF(vault_files_open(&files, state, &want, file_flags, &err) == 0 &&
		       vault_start(&proc, exe, &err) == 0 && vault_open(&proc, &files, flags, &err) == 0,
	       "the vault opens for the test %s", err.msg);
}

static void test_make(void)
{
	open_again(VAULT_FILES_WRITE | VAULT_FILES_NEW, 0);
	CHECK(files.made_key && proc.counter == 0);
	CHECKF(set("github", TOKEN, 0) == 0, "a token is set in the vault %s", err.msg);
	CHECKF(set("proxy", "ann:a password of a proxy", 0) == 0, "a password is set in the vault %s",
	       err.msg);
	CHECK(set("github", TOKEN, 0) == -EEXIST && proc.fault == VAULT_FAULT_EXISTS && err.hint[0]);
	CHECK(set("short", "x", 0) < 0 && proc.fault == VAULT_FAULT_VALUE);
	CHECKF(bind_to("github", "api.github.com") == 0 && bind_to("nosuch", "api.github.com") == -ENOENT,
	       "a secret is bound, and a missing secret is not %s", err.msg);
	err = ERR_INIT;
	CHECKF(vault_save(&proc, &files, &err) == 0 && proc.counter == 1, "the vault is saved: %s", err.msg);
}

/* Plays coffer-egress: asks, and waits for the answer. */
static uint32_t ask(int fd, struct vault_msg *m, char *ret, size_t size)
{
	uint8_t out[4096], in[8192];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct vault_msg back;
	size_t len = 0;
	long n = vault_msg_pack(VAULT_FROM_CLIENT, m, out, sizeof(out));

	if (n < 0 || fdpass_send(fd, out, (size_t)n, NULL, 0) < 0 || poll(&p, 1, PATIENCE_MS) != 1 ||
	    fdpass_recv_some(fd, in, sizeof(in), &len, NULL, 0) < 0 ||
	    vault_msg_parse(VAULT_TO_CLIENT, in, len, 0, &back) < 0 || back.id != m->id)
		return 0;
	snprintf(ret, size, "%.*s", (int)back.text[0].len, back.text[0].p);
	return back.type;
}

static uint32_t render(int fd, uint32_t handle, const char *host, char *ret, size_t size)
{
	struct vault_msg m = { .type = VAULT_RENDER, .id = handle + 1000, .num = { handle, 443 } };

	m.text[0] = slice_of(host);
	m.text[1] = slice_of("/user");
	return ask(fd, &m, ret, size);
}

static int grant(const char *sandbox, const char *name, struct vault_grants *ret, int *ret_fd)
{
	autogrants struct vault_grants want = GRANTS_INIT;
	int pair[2], r;

	snprintf(grants_add(&want)->name, sizeof(want.v[0].name), "%s", name);
	BUG_ON(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0);
	err = ERR_INIT;
	r = vault_grant(&proc, sandbox, &want, pair[1], -1, ret, &err);
	fd_close(pair[1]);
	*ret_fd = r < 0 ? fd_close(pair[0]) : pair[0];
	return r;
}

/* Does the other side end it? */
static bool ends(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c;

	return poll(&p, 1, PATIENCE_MS) == 1 && recv(fd, &c, 1, 0) <= 0;
}

static void test_grant(void)
{
	autogrants struct vault_grants a = GRANTS_INIT, b = GRANTS_INIT, no = GRANTS_INIT;
	char got[256];
	int fd_a, fd_b, fd_no;

	open_again(0, VAULT_OPEN_READ_ONLY);
	CHECK(proc.counter == 1 && files.may_reopen);
	CHECKF(grant("aaaa", "github", &a, &fd_a) == 0 && a.n == 1 && str_starts(a.v[0].placeholder, "ghp_"),
	       "a secret is granted with a placeholder of its kind %s", err.msg);
	CHECKF(grant("bbbb", "github", &b, &fd_b) == 0 && !str_eq(a.v[0].placeholder, b.v[0].placeholder),
	       "each sandbox gets a placeholder of its own");
	CHECKF(grant("cccc", "nosuch", &no, &fd_no) == -ENOENT,
	       "a secret that does not exist is not granted: %s", err.msg);
	CHECKF(grant("cccc", "proxy", &no, &fd_no) == -EACCES,
	       "a secret without a binding is not granted: %s", err.msg);
	CHECK(render(fd_a, a.v[0].handle, "api.github.com", got, sizeof(got)) == VAULT_RENDERED &&
	      str_eq(got, TOKEN));
	CHECKF(render(fd_a, b.v[0].handle, "api.github.com", got, sizeof(got)) == VAULT_REFUSED,
	       "a secret is not rendered by the handle of another sandbox");
	CHECK(render(fd_a, a.v[0].handle, "evil.example.com", got, sizeof(got)) == VAULT_REFUSED);
	CHECKF(fdpass_send(fd_a, "nonsense", 8, NULL, 0) == 0 && ends(fd_a),
	       "a bad message ends its channel");
	CHECKF(render(fd_b, b.v[0].handle, "api.github.com", got, sizeof(got)) == VAULT_RENDERED,
	       "a bad message ends no other channel");
	CHECKF(fdpass_send(fd_b, "x", 1, &exe, 1) == 0 && ends(fd_b),
	       "a message with a descriptor ends its channel");
	fd_close(fd_a);
	fd_close(fd_b);
	CHECK(grant("dddd", "github", &no, &fd_no) == 0 && vault_ungrant(&proc, "dddd", &err) == 0 &&
	      ends(fd_no));
	fd_close(fd_no);
}

/* --- cofferd's vault ------------------------------------------------------------------------------------------- */

/* As cofferd does it: a channel for the guard of one sandbox, for one secret. */
static int hold(const char *sandbox, const char *name, struct vault_proc *ret)
{
	autogrants struct vault_grants want = GRANTS_INIT;
	int pair[2], r;

	snprintf(grants_add(&want)->name, sizeof(want.v[0].name), "%s", name);
	BUG_ON(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0);
	err = ERR_INIT;
	r = vault_hold(&proc, sandbox, &want, pair[1], &err);
	fd_close(pair[1]);
	*ret = VAULT_PROC_INIT;
	ret->control = pair[0];
	return r;
}

static int grant_by(struct vault_proc *by, const char *sandbox, const char *name, const char *host,
		    struct vault_grants *ret, int *ret_fd)
{
	autogrants struct vault_grants want = GRANTS_INIT;
	struct vault_grant *g = grants_add(&want);
	int pair[2], r;

	snprintf(g->name, sizeof(g->name), "%s", name);
	if (host)
		BUG_ON(binding_parse_host(host, strlen(host), BINDING_ASKED, &g->bindings[g->n_bindings++],
					  NULL) < 0);
	BUG_ON(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0);
	err = ERR_INIT;
	r = vault_grant(by, sandbox, &want, pair[1], -1, ret, &err);
	fd_close(pair[1]);
	*ret_fd = pair[0];
	return r;
}

static int count_items(const struct vault_msg *m, void *ctx)
{
	*(int *)ctx += m->type == VAULT_ITEM && slice_eq(m->text[0], "github") ? 1 : 100;
	return 0;
}

static void test_hold(void)
{
	struct vault_msg list = { .type = VAULT_LIST };
	struct vault_proc a, b;
	autogrants struct vault_grants g = GRANTS_INIT, again = GRANTS_INIT;
	char got[256];
	int fd, n = 0;

	CHECKF(hold("aaaa", "github", &a) == 0 && hold("bbbb", "github", &b) == 0,
	       "two sandboxes hold channels of the vault %s", err.msg);
	CHECK(vault_call(&a, &list, NULL, 0, count_items, &n, NULL, NULL, &err) == 0);
	CHECKF(n == 1, "a holder sees only its own secret: %d", n);
	CHECK(grant_by(&a, "aaaa", "github", NULL, &g, &fd) == 0 &&
	      render(fd, g.v[0].handle, "api.github.com", got, sizeof(got)) == VAULT_RENDERED &&
	      str_eq(got, TOKEN));
	vault_end(&a);
	CHECKF(ends(fd), "a grant ends with its channel");
	fd_close(fd);
	CHECK(grant_by(&b, "bbbb", "github", NULL, &again, &fd) == 0);
	fd_close(fd);
	vault_end(&b);
}

/* H1, H2: each of these ends the channel that it came over, and nothing else. */
static void test_hold_refused(void)
{
	static const struct {
		const char *what, *sandbox, *name, *host;
	} tries[] = {
		{ "another sandbox", "cccc", "github", NULL },
		{ "another sandbox's coffer-dial", "cccc.dial", "github", NULL },
		{ "a sandbox whose name begins so", "aaaab", "github", NULL },
		{ "a channel that nobody has", "aaaa.egress", "github", NULL },
		{ "another secret", "aaaa", "proxy", NULL },
		{ "other hosts than were said", "aaaa", "github", "api.github.com" },
	};
	struct vault_msg rm = { .type = VAULT_RM }, list = { .type = VAULT_LIST };
	struct vault_proc a;
	int fd;

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		autogrants struct vault_grants g = GRANTS_INIT;

		BUG_ON(hold("aaaa", "github", &a) < 0);
		CHECKF(grant_by(&a, tries[i].sandbox, tries[i].name, tries[i].host, &g, &fd) == -EPIPE &&
			       ends(a.control),
		       "a request for %s ends the holder's channel: %s", tries[i].what, err.msg);
		fd_close(fd);
		vault_end(&a);
	}
	rm.text[0] = slice_of("github");
	BUG_ON(hold("aaaa", "github", &a) < 0);
	CHECKF(fdpass_send(a.control, "nonsense", 8, NULL, 0) == 0 && ends(a.control),
	       "a message that cannot be parsed ends the holder's channel");
	vault_end(&a);
	BUG_ON(hold("aaaa", "github", &a) < 0);
	err = ERR_INIT;
	CHECKF(vault_call(&a, &rm, NULL, 0, NULL, NULL, NULL, NULL, &err) == -EPIPE,
	       "a holder's channel ends when it asks to remove a secret");
	vault_end(&a);
	CHECKF(say(&list, NULL, 0) == 0, "the vault goes on after bad holders: %s", err.msg);
}

static void add_issuer(struct vault_grants *to, const char *issue)
{
	struct vault_grant *g = grants_add(to);

	g->kind = GRANT_ISSUER;
	snprintf(g->name, sizeof(g->name), "login");
	snprintf(g->issue, sizeof(g->issue), "%s", issue);
	BUG_ON(binding_parse_host("api.example.com", 15, 0, &g->bindings[g->n_bindings], NULL) < 0 ||
	       binding_parse_as("bearer", 6, &g->bindings[g->n_bindings++], NULL) < 0);
}

static uint32_t capture(int fd, uint32_t issuer, char *ret, size_t size)
{
	struct vault_msg m = { .type = VAULT_CAPTURE, .id = 7, .num = { issuer, 3600, 0 } };

	m.text[0] = slice_of("a-credential-that-a-server-has-issued");
	m.text[1] = slice_of("access_token");
	return ask(fd, &m, ret, size);
}

static int grant_list(struct vault_proc *by, const char *sandbox, const struct vault_grants *want,
		      struct vault_grants *ret, int *ret_fd)
{
	int pair[2], r;

	BUG_ON(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0);
	err = ERR_INIT;
	r = vault_grant(by, sandbox, want, pair[1], -1, ret, &err);
	fd_close(pair[1]);
	*ret_fd = pair[0];
	return r;
}

static void begin_hold(const struct vault_grants *want, struct vault_proc *ret)
{
	int pair[2];

	BUG_ON(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0);
	err = ERR_INIT;
	CHECKF(vault_hold(&proc, "aaaa", want, pair[1], &err) == 0, "a holder is accepted by the vault %s",
	       err.msg);
	fd_close(pair[1]);
	*ret = VAULT_PROC_INIT;
	ret->control = pair[0];
}

#define ISSUE "POST auth.example.com:443/oauth/token access_token"

/* A sandbox with two channels, and what servers issue to it. */
static void test_hold_issued(void)
{
	autogrants struct vault_grants all = GRANTS_INIT, login = GRANTS_INIT, other = GRANTS_INIT,
				       g = GRANTS_INIT, d = GRANTS_INIT, again = GRANTS_INIT,
				       none = GRANTS_INIT;
	struct vault_proc a;
	char got[256];
	int fd, dial, next;

	add_issuer(&login, ISSUE);
	add_issuer(&other, ISSUE " refresh");
	add_issuer(&all, ISSUE);
	/* The same secret twice: for rules, narrowed, and for a pool. */
	for (int i = 0; i < 2; i++)
		snprintf(grants_add(&all)->name, sizeof(all.v[0].name), "github");
	BUG_ON(binding_parse_host("api.github.com", 14, BINDING_ASKED, &all.v[1].bindings[0], NULL) < 0);
	all.v[1].n_bindings = 1;
	begin_hold(&all, &a);
	CHECKF(grant_list(&a, "aaaa", &login, &g, &fd) == 0 && g.n == 1,
	       "the issuer is granted to its sandbox %s", err.msg);
	CHECKF(grant_by(&a, "aaaa.dial", "github", NULL, &d, &dial) == 0,
	       "a second grant of one secret is found: %s", err.msg);
	CHECK(render(dial, d.v[0].handle, "api.github.com", got, sizeof(got)) == VAULT_RENDERED);
	CHECK(capture(fd, g.v[0].handle, got, sizeof(got)) == VAULT_CAPTURED);
	fd_close(fd);
	CHECKF(grant_list(&a, "aaaa", &login, &again, &next) == 0 && again.n == 2 &&
		       again.v[1].kind == GRANT_ISSUED,
	       "the next coffer-egress gets the issued credential: %s", err.msg);
	CHECKF(render(next, again.v[1].handle, "api.example.com", got, sizeof(got)) == VAULT_RENDERED &&
		       str_eq(got, "a-credential-that-a-server-has-issued"),
	       "the next coffer-egress may send an issued credential");
	CHECKF(grant_list(&a, "aaaa", &other, &none, &fd) == -EPIPE && ends(a.control),
	       "a different issuer of one name ends the holder: %s", err.msg);
	CHECKF(ends(next) && ends(dial), "the channels of a holder end with it");
	fd_close(fd);
	fd_close(next);
	fd_close(dial);
	vault_end(&a);
	grants_release(&again);
	again = GRANTS_INIT;
	begin_hold(&all, &a);
	CHECKF(grant_list(&a, "aaaa", &login, &again, &fd) == 0 && again.n == 1,
	       "an issued credential is gone with its holder: %s", err.msg);
	fd_close(fd);
	vault_end(&a);
}

static void test_reload(void)
{
	struct vault_proc a, b;

	BUG_ON(hold("aaaa", "github", &a) < 0);
	err = ERR_INIT;
	CHECKF(vault_reload(&proc, &files, &err) == 0 && proc.counter == 1 && ends(a.control),
	       "a reloaded vault ends all channels: %s", err.msg);
	vault_end(&a);
	CHECK(hold("aaaa", "github", &a) == 0 && hold("aaaa", "github", &b) == 0);
	CHECKF(ends(a.control), "a second holder for one sandbox replaces the first");
	vault_end(&a);
	vault_end(&b);
}

/* An egress that asks and never takes its answers costs nothing but itself. */
static void test_flood(void)
{
	autogrants struct vault_grants a = GRANTS_INIT, b = GRANTS_INIT;
	struct vault_msg m = { .type = VAULT_GRANTS, .id = 1 };
	uint8_t out[64];
	char got[256];
	int fd_a, fd_b, sent = 0;
	long n = vault_msg_pack(VAULT_FROM_CLIENT, &m, out, sizeof(out));

	CHECK(grant("aaaa", "github", &a, &fd_a) == 0 && grant("bbbb", "github", &b, &fd_b) == 0);
	BUG_ON(!b.v);
	BUG_ON(fd_set_nonblock(fd_a, true) < 0);
	while (sent < 100000 && fdpass_send(fd_a, out, (size_t)n, NULL, 0) == 0)
		sent++;
	CHECKF(sent < 100000, "a client that takes no responses is not read for ever: %d", sent);
	CHECK(render(fd_b, b.v[0].handle, "api.github.com", got, sizeof(got)) == VAULT_RENDERED);
	fd_close(fd_a);
	fd_close(fd_b);
}

static void test_scan(void)
{
	struct vault_msg m = { 0 };
	autoclose int file = memfd_create("file", MFD_CLOEXEC);

	BUG_ON(fd_write_all(file, "..." TOKEN, strlen(TOKEN) + 3) < 0);
	m = (struct vault_msg){ .type = VAULT_SCAN, .num = { 10 } };
	CHECK(say(&m, &file, 1) == 0);
}

/* As many secrets as one request may name, each with a long placeholder and with long hosts: together too long
 * for the response. */
static int grant_too_many(const char *sandbox)
{
	autogrants struct vault_grants want = GRANTS_INIT, got = GRANTS_INIT;
	char value[SHAPE_MAX + 1], label[61], host[256];
	int pair[2], r;

	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	memset(label, 'h', sizeof(label) - 1);
	label[sizeof(label) - 1] = '\0';
	for (int i = 0; i < GRANTS_MAX; i++) {
		struct vault_grant *g = grants_add(&want);

		snprintf(g->name, sizeof(g->name), "long%d", i);
		BUG_ON(set(g->name, value, 0) < 0);
		for (int k = 0; k < 9; k++) {
			snprintf(host, sizeof(host), "%s.%s.%s.h%d.example.com", label, label, label, k);
			BUG_ON(binding_parse_host(host, strlen(host), BINDING_ASKED,
						  &g->bindings[g->n_bindings++], NULL) < 0);
		}
	}
	BUG_ON(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0);
	err = ERR_INIT;
	r = vault_grant(&proc, sandbox, &want, pair[1], -1, &got, &err);
	fd_close(pair[1]);
	fd_close(pair[0]);
	return r;
}

static void test_failed_grant_keeps_first(void)
{
	autogrants struct vault_grants g = GRANTS_INIT;
	char got[256];
	int fd, r;

	open_again(VAULT_FILES_WRITE, 0);
	CHECKF(grant("aaaa", "github", &g, &fd) == 0, "a secret is granted again %s", err.msg);
	r = grant_too_many("aaaa");
	CHECKF(r == -E2BIG, "too many grants are refused: %d %s", r, err.msg);
	CHECKF(render(fd, g.v[0].handle, "api.github.com", got, sizeof(got)) == VAULT_RENDERED &&
		       str_eq(got, TOKEN),
	       "a sandbox keeps its grants when a second request for them fails");
	fd_close(fd);
	open_again(0, VAULT_OPEN_READ_ONLY);
}

/* C2: a message that is not legal now, or cannot be parsed, ends the channel. */
static void test_protocol(void)
{
	struct vault_msg list = { .type = VAULT_LIST }, rm = { .type = VAULT_RM };

	rm.text[0] = slice_of("github");
	CHECKF(say(&rm, NULL, 0) == -EPIPE, "a vault that is open read-only ends the channel at a removal");
	vault_end(&proc);
	CHECK(vault_start(&proc, exe, &err) == 0);
	CHECKF(say(&list, NULL, 0) == -EPIPE, "a vault that is not open lists no secrets");
	vault_end(&proc);
	CHECK(vault_start(&proc, exe, &err) == 0 && kill(proc.pid, SIGSTOP) == 0);
	proc.patience = 200;
	CHECKF(say(&list, NULL, 0) == -EPIPE, "a vault that does not respond is not waited for");
	proc.patience = 0;
	vault_end(&proc);
	CHECK(vault_start(&proc, exe, &err) == 0 && fdpass_send(proc.control, "garbage", 7, NULL, 0) == 0 &&
	      ends(proc.control));
	vault_end(&proc);
	/* By hand it says what it is. */
	CHECK(proc.pid == -1);
}

static void test_killed(void)
{
	autogrants struct vault_grants a = GRANTS_INIT;
	char got[256];
	int fd;

	open_again(0, VAULT_OPEN_READ_ONLY);
	CHECK(grant("aaaa", "github", &a, &fd) == 0);
	kill(proc.pid, SIGKILL);
	CHECKF(ends(fd) && render(fd, a.v[0].handle, "api.github.com", got, sizeof(got)) == 0,
	       "a killed vault renders no secret");
	fd_close(fd);
	vault_end(&proc);
	grants_release(&a);
	/* The same descriptors again. */
	CHECK(vault_start(&proc, exe, &err) == 0 &&
	      vault_open(&proc, &files, VAULT_OPEN_READ_ONLY, &err) == 0);
	CHECK(grant("aaaa", "github", &a, &fd) == 0 &&
	      render(fd, a.v[0].handle, "api.github.com", got, sizeof(got)) == VAULT_RENDERED &&
	      str_eq(got, TOKEN));
	fd_close(fd);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/test_vault.XXXXXX";

	(void)argc;
	find_program(argv[0]);
	BUG_ON(!mkdtemp(dir) || setenv("XDG_CONFIG_HOME", dir, 1) < 0);
	unsetenv("CREDENTIALS_DIRECTORY");
	state = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	files = VAULT_FILES_INIT;
	proc = VAULT_PROC_INIT;
	test_make();
	test_grant();
	test_hold();
	test_hold_refused();
	test_hold_issued();
	test_reload();
	test_flood();
	test_scan();
	test_failed_grant_keeps_first();
	test_protocol();
	test_killed();
	vault_end(&proc);
	vault_files_close(&files);
	CHECK(fd_rm_rf(AT_FDCWD, dir, NULL) == 0);
	return tap_done();
}
