/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The starter's side of coffer-vault: starts the process, sends requests and waits for responses, and puts a
 * saved file in place. Secrets pass through this process only as descriptors.
 */

#include "vault/client/client.h"

#include "base/clock.h"
#include "base/fd.h"
#include "ipc/fdpass.h"
#include "sys/spawn.h"
#include "vault/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define OWN_ID 65533	      /* an unused user id: even for the host's root it does not run as root */
#define END_PATIENCE_MS 10000 /* time for it to notice that its channel has ended */

/* --- the process ----------------------------------------------------------------------------------------------- */

/* The vault is not killed together with its starter: it notices the end of its channel, and first restores a
 * terminal whose echo it has switched off. It may lock memory beyond the usual limit, for that is its
 * purpose. */
static int start_coffer_vault(struct vault_proc *p, int exe, int control, struct err *e)
{
	char *argv[] = { (char *)"coffer-vault", NULL };
	const int fds[] = { SPAWN_NULL, SPAWN_NULL, SPAWN_NULL, [VAULT_FD_CONTROL] = control };
	const struct spawn s = { .exe = exe,
				 .argv = argv,
				 .fds = fds,
				 .n_fds = ARRAY_SIZE(fds),
				 .id = OWN_ID,
				 .flags = SPAWN_OUTLIVES | SPAWN_MEMLOCK };
	struct spawned got = SPAWNED_INIT;
	int r = spawn_start(&s, &got, e);

	if (r < 0)
		return r;
	p->pid = got.pid;
	p->pidfd = got.pidfd;
	return 0;
}

/* Waits for the process to end, and closes its pidfd. */
static void reap_vault(struct vault_proc *p)
{
	siginfo_t si;

	while (waitid(P_PIDFD, (id_t)p->pidfd, &si, WEXITED) < 0 && errno == EINTR)
		;
	p->pidfd = fd_close(p->pidfd);
	p->pid = -1;
}

void vault_end(struct vault_proc *p)
{
	struct pollfd pfd = { .fd = p->pidfd, .events = POLLIN };

	p->control = fd_close(p->control);
	if (p->pid < 0)
		return;
	if (poll(&pfd, 1, END_PATIENCE_MS) != 1)
		syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0);
	reap_vault(p);
}

/* --- asking ---------------------------------------------------------------------------------------------------- */

/* A vault that does not answer in time is killed: its caller has other work, and requests that need a secret
 * are denied meanwhile. */
static int wait_for_answer(const struct vault_proc *p)
{
	struct pollfd pfd = { .fd = p->control, .events = POLLIN };
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + (uint64_t)p->patience * NSEC_PER_MSEC;
	int n;

	do {
		uint64_t now = clock_nsec(CLOCK_MONOTONIC);

		n = poll(&pfd, 1, now >= end ? 0 : (int)((end - now) / NSEC_PER_MSEC) + 1);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0);
	return n == 1 ? 0 : -EPIPE;
}

/*
 * Waits without a timeout, because a person may be typing. If a signal arrives, the vault must restore the terminal before this
 * process dies of the signal: a shell that got the terminal back earlier would have its settings overwritten and lose
 * typed input.
 */
static int wait_for_typing(struct vault_proc *p)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct pollfd pfd[2] = { { .fd = p->control, .events = POLLIN }, { .fd = -1, .events = POLLIN } };
	autoclose int fd = -1;
	sigset_t set, was;
	int n;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		sigaddset(&set, ends[i]);
	sigprocmask(SIG_BLOCK, &set, &was);
	pfd[1].fd = fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		sigprocmask(SIG_SETMASK, &was, NULL);
	do {
		n = poll(pfd, 2, -1);
	} while (n < 0 && errno == EINTR);
	if (n > 0 && !pfd[0].revents)
		vault_end(p);
	/* The signal was blocked and not read; it is delivered now. */
	sigprocmask(SIG_SETMASK, &was, NULL);
	return n > 0 && pfd[0].revents ? 0 : -EPIPE;
}

/* Receives one message. Its length is peeked first, because it may be long. */
static int receive_message(struct vault_proc *p, struct buf *mem, struct vault_msg *ret)
{
	size_t got = 0;
	ssize_t n;
	char *to;
	int r = p->patience ? wait_for_answer(p) : wait_for_typing(p);

	if (r < 0)
		return r;
	do {
		n = recv(p->control, NULL, 0, MSG_PEEK | MSG_TRUNC);
	} while (n < 0 && errno == EINTR);
	if (n <= 0 || n > (ssize_t)VAULT_MSG_MAX)
		return -EPIPE;
	buf_clear(mem);
	to = buf_reserve(mem, (size_t)n);
	if (!to)
		return -ENOMEM;
	r = fdpass_recv_some(p->control, to, (size_t)n, &got, NULL, 0);
	if (r < 0)
		return r == -ECONNRESET ? -EPIPE : r;
	mem->len = got;
	return vault_msg_parse(VAULT_TO_STARTER, mem->data, got, 0, ret);
}

/* Packs and sends one request with its descriptors. */
static int send_request(struct vault_proc *p, const struct vault_msg *m, const int *fds, size_t n_fds,
			struct err *e)
{
	size_t size = vault_msg_size(VAULT_FROM_STARTER, m);
	autofree uint8_t *out = malloc(size ? size : 1);
	long n;

	if (!out)
		return err_set(e, -ENOMEM, "out of memory");
	n = vault_msg_pack(VAULT_FROM_STARTER, m, out, size);
	if (n < 0)
		return err_set(e, -EINVAL,
			       "the request to the vault is malformed or a part of it is too long");
	n = fdpass_send(p->control, out, (size_t)n, fds, n_fds);
	return n < 0 ? err_set(e, -EPIPE, "coffer-vault has ended") : 0;
}

/* Copies a text of a message, truncated to the buffer. */
static void copy_error_text(char *to, size_t size, struct slice t)
{
	size_t n = t.len < size - 1 ? t.len : size - 1;

	if (n)
		memcpy(to, t.p, n);
	to[n] = '\0';
}

/* Turns a VAULT_ERROR or VAULT_FAIL into an error of this process. */
static int take_error_response(struct vault_proc *p, const struct vault_msg *m, struct err *e)
{
	p->fault = m->type == VAULT_ERROR ? (enum vault_fault)m->num[0] : VAULT_FAULT_OTHER;
	if (e) {
		e->code = m->type == VAULT_ERROR ? m->status : -EIO;
		copy_error_text(e->msg, sizeof(e->msg), m->text[0]);
		copy_error_text(e->hint, sizeof(e->hint), m->text[1]);
	}
	return m->type == VAULT_ERROR ? m->status : -EIO;
}

static int report_no_answer(int r, struct err *e)
{
	if (r == -EPIPE)
		return err_set(e, r, "coffer-vault has ended without a response");
	return err_sys(e, r, "the response of coffer-vault is malformed");
}

/* NOLINTNEXTLINE(readability-function-size): as many parts as a request has */
int vault_call(struct vault_proc *p, struct vault_msg *ask, const int *fds, size_t n_fds, vault_each *each,
	       void *ctx, struct buf *mem, struct vault_msg *ret, struct err *e)
{
	autobuf struct buf own = BUF_INIT;
	struct vault_msg m;
	int bad = 0, r;

	ask->id = ++p->last_id;
	p->fault = VAULT_FAULT_OTHER;
	r = send_request(p, ask, fds, n_fds, e);
	while (r == 0) {
		r = receive_message(p, mem ? mem : &own, &m);
		if (r < 0)
			return report_no_answer(r, e);
		if (m.type != VAULT_FAIL && m.id != ask->id)
			return report_no_answer(-EPROTO, e);
		if (m.type == VAULT_FAIL || m.type == VAULT_ERROR)
			return take_error_response(p, &m, e);
		if (m.type == VAULT_OK || m.type == VAULT_GRANTED)
			break;
		if (each && bad == 0)
			bad = each(&m, ctx);
	}
	if (r == 0 && ret)
		*ret = m;
	if (bad < 0 && (!e || !e->code))
		err_set(e, bad, "out of memory");
	return r < 0 ? r : bad;
}

/* Waits for VAULT_READY: the vault is confined, and can lock memory. */
static int wait_until_ready(struct vault_proc *p, struct err *e)
{
	autobuf struct buf mem = BUF_INIT;
	struct vault_msg m;
	int r = receive_message(p, &mem, &m);

	if (r < 0)
		return err_set(e, r, "coffer-vault could not be started");
	if (m.type != VAULT_READY)
		return take_error_response(p, &m, e);
	return 0;
}

int vault_start(struct vault_proc *p, int exe_fd, struct err *e)
{
	int pair[2], r, patience = p->patience;

	*p = VAULT_PROC_INIT;
	p->patience = patience;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, -errno, "cannot start coffer-vault");
	r = start_coffer_vault(p, exe_fd, pair[1], e);
	fd_close(pair[1]);
	if (r < 0) {
		fd_close(pair[0]);
		return r;
	}
	p->control = pair[0];
	r = wait_until_ready(p, e);
	if (r < 0)
		vault_end(p);
	return r;
}

int vault_open(struct vault_proc *p, const struct vault_files *f, unsigned flags, struct err *e)
{
	struct vault_msg ask = { .type = VAULT_OPEN, .num = { f->kind, flags } }, ok = { 0 };
	int fds[2] = { f->key, f->file };
	int r;

	ask.num[1] |= (f->file < 0 ? VAULT_OPEN_NEW : 0) | (f->is_terminal ? VAULT_OPEN_TERMINAL : 0);
	ask.text[0] = slice_of("of the vault");
	r = vault_call(p, &ask, fds, f->file < 0 ? 1 : 2, NULL, NULL, NULL, &ok, e);
	if (r == 0)
		p->counter = ok.num[0];
	return r;
}

int vault_grant(struct vault_proc *p, const char *sandbox, const struct vault_grants *ask, int client_fd,
		int keep_fd, struct vault_grants *ret, struct err *e)
{
	struct vault_msg m = { .type = VAULT_GRANT }, got;
	const int fds[2] = { client_fd, keep_fd };
	autobuf struct buf b = BUF_INIT, mem = BUF_INIT;
	int r = grants_pack(ask, GRANTS_ASKED, &b);

	if (r < 0)
		return err_set(e, r, "the request to the vault is malformed or too large");
	m.text[0] = slice_of(sandbox);
	m.text[1] = (struct slice){ buf_cstr(&b), b.len };
	r = vault_call(p, &m, fds, keep_fd < 0 ? 1 : 2, NULL, NULL, &mem, &got, e);
	if (r < 0)
		return r;
	if (got.type != VAULT_GRANTED ||
	    grants_unpack(ret, GRANTS_GRANTED, got.text[0].p, got.text[0].len) < 0)
		return report_no_answer(-EPROTO, e);
	return 0;
}

int vault_agent(struct vault_proc *p, const char *sandbox, const struct vault_grants *ask, int agent_fd,
		size_t *ret_n, struct err *e)
{
	struct vault_msg m = { .type = VAULT_AGENT }, got;
	autobuf struct buf b = BUF_INIT, mem = BUF_INIT;
	int r = grants_pack(ask, GRANTS_ASKED, &b);

	if (r < 0)
		return err_set(e, r, "the request to the vault is malformed or too large");
	m.text[0] = slice_of(sandbox);
	m.text[1] = (struct slice){ buf_cstr(&b), b.len };
	r = vault_call(p, &m, &agent_fd, 1, NULL, NULL, &mem, &got, e);
	if (r == 0)
		*ret_n = (size_t)got.num[0];
	return r;
}

int vault_ungrant(struct vault_proc *p, const char *sandbox, struct err *e)
{
	struct vault_msg m = { .type = VAULT_UNGRANT };

	m.text[0] = slice_of(sandbox);
	return vault_call(p, &m, NULL, 0, NULL, NULL, NULL, NULL, e);
}

int vault_hold(struct vault_proc *p, const char *sandbox, const struct vault_grants *ask, int channel,
	       struct err *e)
{
	struct vault_msg m = { .type = VAULT_HOLD };
	autobuf struct buf b = BUF_INIT;
	int r = grants_pack(ask, GRANTS_ASKED, &b);

	if (r < 0)
		return err_set(e, r, "the request to the vault is malformed or too large");
	m.text[0] = slice_of(sandbox);
	m.text[1] = (struct slice){ buf_cstr(&b), b.len };
	return vault_call(p, &m, &channel, 1, NULL, NULL, NULL, NULL, e);
}

int vault_reload(struct vault_proc *p, const struct vault_files *f, struct err *e)
{
	struct vault_msg m = { .type = VAULT_RELOAD }, ok = { 0 };
	int r = vault_call(p, &m, &f->file, 1, NULL, NULL, NULL, &ok, e);

	if (r == 0)
		p->counter = ok.num[0];
	return r;
}

/* --- saving ---------------------------------------------------------------------------------------------------- */

static int sync_vault_dir(const struct vault_files *f, struct err *e)
{
	return fsync(f->dir) < 0 ? err_sys(e, -errno, "cannot sync the vault's directory") : 0;
}

/* The new file was read back. The old one is kept under another name until the new one is found in its
 * place. */
static int replace_vault_file(const struct vault_files *f, int fd, struct err *e)
{
	struct stat mine, there;
	int r;

	unlinkat(f->dir, "secrets.old", 0);
	if (f->file >= 0 && linkat(f->dir, "secrets", f->dir, "secrets.old", 0) < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot keep a copy of the old vault file");
	if (renameat(f->dir, "secrets.new", f->dir, "secrets") < 0)
		return err_sys(e, -errno, "cannot put the new vault file in its place");
	r = sync_vault_dir(f, e);
	if (r < 0)
		return r;
	if (fstat(fd, &mine) < 0 || fstatat(f->dir, "secrets", &there, AT_SYMLINK_NOFOLLOW) < 0 ||
	    mine.st_ino != there.st_ino || mine.st_dev != there.st_dev)
		return err_set(e, -EIO,
			       "the new vault file is not in its place; the old one is vault/secrets.old");
	/* Rotated or removed secrets must not remain in an old file. */
	if (unlinkat(f->dir, "secrets.old", 0) < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot remove the old vault file");
	return sync_vault_dir(f, e);
}

/* Stores the save counter beside the file, to detect later that an old file was put back. */
static int write_save_counter(const struct vault_proc *p, const struct vault_files *f, struct err *e)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)p->counter);
	int r = fd_replace_file(f->dir, "saved", text, (size_t)n, 0600);

	return r < 0 ? err_sys(e, r, "the vault is saved, but its save counter could not be written") : 0;
}

int vault_save(struct vault_proc *p, const struct vault_files *f, struct err *e)
{
	struct vault_msg m = { .type = VAULT_SAVE }, ok = { 0 };
	autoclose int fd = -1;
	int r;

	BUG_ON(f->lock < 0);
	unlinkat(f->dir, "secrets.new", 0);
	fd = openat(f->dir, "secrets.new", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, -errno, "cannot make a new vault file");
	r = vault_call(p, &m, &fd, 1, NULL, NULL, NULL, &ok, e);
	if (r == 0)
		r = replace_vault_file(f, fd, e);
	if (r < 0) {
		unlinkat(f->dir, "secrets.new", 0);
		return r;
	}
	p->counter = ok.num[0];
	return write_save_counter(p, f, e);
}

/* Opens the current file: it is not the one that was opened at first if it was saved since. */
int vault_revert(struct vault_proc *p, const struct vault_files *f, struct err *e)
{
	struct vault_msg m = { .type = VAULT_REVERT }, ok = { 0 };
	autoclose int fd =
		openat(f->dir, "secrets", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
	int r;

	BUG_ON(f->lock < 0);
	if (fd < 0 && errno != ENOENT)
		return err_sys(e, -errno, "cannot open the vault file");
	r = vault_call(p, &m, &fd, fd < 0 ? 0 : 1, NULL, NULL, NULL, &ok, e);
	if (r == 0)
		p->counter = ok.num[0];
	return r;
}
