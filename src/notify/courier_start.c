/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs coffer-courier once (courier_start.h): opens the files and the vault channel that it needs, starts it
 * without privileges, hands over the job and reads its result. Must not read a secret itself.
 */
#include "notify/courier_start.h"

#include "base/clock.h"
#include "base/fd.h"
#include "egress/wire/hostfiles.h"
#include "ipc/fdpass.h"
#include "sandbox/engine/helper.h"
#include "sys/spawn.h"
#include "vault/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define OWN_ID 65532	     /* the courier's uid if started by the host's root; no user has this id */
#define GRACE_MS 5000	     /* added to the job's own limit, for starting and reporting */
#define VAULT_PATIENCE 20000 /* ms */

struct courier_run {
	struct vault_files files;
	struct vault_proc vault;
	int resolv, store, ca, key, channel;
	pid_t pid;
	int pidfd, control;
};

#define COURIER_RUN_INIT                                  \
	((struct courier_run){ .files = VAULT_FILES_INIT, \
			       .vault = VAULT_PROC_INIT,  \
			       .resolv = -1,              \
			       .store = -1,               \
			       .ca = -1,                  \
			       .key = -1,                 \
			       .channel = -1,             \
			       .pid = -1,                 \
			       .pidfd = -1,               \
			       .control = -1 })

/* Kills and reaps the courier and closes everything: no process of a call outlives it (courier.U1). */
static void courier_run_end(struct courier_run *c)
{
	siginfo_t si;

	fd_close(c->control);
	if (c->pid >= 0) {
		syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0);
		while (waitid(P_PIDFD, (id_t)c->pidfd, &si, WEXITED) < 0 && errno == EINTR)
			;
	}
	fd_close(c->pidfd);
	fd_close(c->resolv);
	fd_close(c->store);
	fd_close(c->ca);
	fd_close(c->key);
	fd_close(c->channel);
	vault_end(&c->vault);
	vault_files_close(&c->files);
}

/* --- descriptors for the courier ------------------------------------------------------------------------ */

static int open_key_file(const char *path, struct err *e)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, -errno, "cannot read the secret in %s", path);
	if (!S_ISREG(st.st_mode)) {
		err_set(e, -EPERM, "will not use the secret in %s: it is not a regular file", path);
		return err_hint(e, -EPERM, "write the secret to a file with mode 600 and name that");
	}
	if (st.st_uid != geteuid() && st.st_uid != 0) {
		err_set(e, -EPERM, "will not use the secret in %s: it belongs to another user (uid %u)", path,
			st.st_uid);
		return err_hint(e, -EPERM,
				"name a file with mode 600 that belongs to you (uid %u) or to root",
				geteuid());
	}
	if (st.st_mode & 077) {
		err_set(e, -EPERM, "will not use the secret in %s: others may read it", path);
		return err_hint(e, -EPERM, "chmod 600 %s", path);
	}
	return TAKE_FD(fd);
}

int notify_courier_grant_path(struct slice target, char ret[BINDING_PATH_MAX + 1])
{
	size_t len = 0;

	while (len < target.len && target.p[len] != '?' && target.p[len] != '%')
		len++;
	if (len < target.len && target.p[len] == '%') {
		while (len > 0 && target.p[len - 1] != '/')
			len--;
	}
	while (len > 0 && target.p[len - 1] == '/')
		len--;
	if (len > BINDING_PATH_MAX)
		return -E2BIG;
	memcpy(ret, len ? target.p : "/", len ? len : 1);
	ret[len ? len : 1] = '\0';
	return 0;
}

/* Requests the secret for this host, port and path only, whatever else it is bound to. */
static int add_secret_grant(struct courier_call *call, struct vault_grants *ask, struct err *e)
{
	struct vault_grant *g = grants_add(ask);

	if (!g || notify_courier_grant_path(call->job.target, g->bindings[0].path) < 0)
		return err_set(e, -E2BIG, "the path is too long for a secret of the vault");
	snprintf(g->name, sizeof(g->name), "%s", call->secret);
	g->n_bindings = 1;
	g->bindings[0].port = call->job.port;
	snprintf(g->bindings[0].host, sizeof(g->bindings[0].host), "%s", call->job.host.text);
	return 0;
}

struct binding_lookup {
	const char *name;
	bool unbound;
};

static int find_secret_binding(const struct vault_msg *m, void *ctx)
{
	struct binding_lookup *l = ctx;
	struct binding own[GRANTS_BINDINGS_MAX];
	size_t n = 0;

	if (m->type != VAULT_ITEM || !slice_eq(m->text[0], l->name))
		return 0;
	if (bindings_unpack(own, &n, m->text[1].p, m->text[1].len) < 0)
		return -EPROTO;
	l->unbound = n == 0;
	return 0;
}

/* A configuration that names a secret and a host does not bind one to the other: only `coffer secret bind`
 * does. */
static int check_secret_is_bound(struct courier_run *c, const struct courier_call *call, struct err *e)
{
	struct binding_lookup l = { .name = call->secret };
	struct vault_msg ask = { .type = VAULT_LIST };
	autobuf struct buf mem = BUF_INIT;
	int r = vault_call(&c->vault, &ask, NULL, 0, find_secret_binding, &l, &mem, NULL, e);

	if (r < 0 || !l.unbound)
		return r < 0 ? r : 0;
	err_set(e, -EACCES,
		"the secret '%s' is bound to no host, so it is not sent to %s: coffer secret bind %s --host %s",
		call->secret, call->job.host.text, call->secret, call->job.host.text);
	return -EACCES;
}

static int open_vault_channel(struct courier_run *c, int state_fd, struct courier_call *call, struct err *e)
{
	struct vault_key_want want = VAULT_KEY_WANT_INIT;
	autogrants struct vault_grants ask = GRANTS_INIT, got = GRANTS_INIT;
	autoclose int theirs = -1, exe = -1;
	int pair[2] = { -1, -1 }, r = vault_files_open(&c->files, state_fd, &want, 0, e);

	if (r < 0)
		return r;
	/* No person is there to type a passphrase. */
	if (!c->files.may_reopen)
		return err_set(e, -ENOKEY, "the vault needs a passphrase, which nobody can type here");
	exe = helper_open("coffer-vault", e);
	if (exe < 0)
		return exe;
	c->vault.patience = VAULT_PATIENCE;
	r = vault_start(&c->vault, exe, e);
	r = r < 0 ? r : vault_open(&c->vault, &c->files, VAULT_OPEN_READ_ONLY, e);
	r = r < 0 ? r : check_secret_is_bound(c, call, e);
	r = r < 0 ? r : add_secret_grant(call, &ask, e);
	if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		r = err_sys(e, -errno, "cannot make a channel to the vault");
	if (r < 0)
		return r;
	c->channel = pair[0];
	theirs = pair[1];
	r = vault_grant(&c->vault, "notify", &ask, theirs, -1, &got, e);
	if (r < 0)
		return r;
	if (got.n != 1 || !got.v[0].handle)
		return err_set(e, -EPROTO, "the vault granted something else than it was asked for");
	call->job.handle = got.v[0].handle;
	return 0;
}

static int open_job_files(struct courier_run *c, int state_fd, struct courier_call *call, struct err *e)
{
	unsigned *flags = &call->job.flags;
	int r = 0;

	*flags &= COURIER_HAS_PIN;
	c->resolv = hostfiles_resolv(e);
	if (c->resolv < 0)
		return c->resolv;
	*flags |= COURIER_HAS_RESOLV;
	if (call->ca) {
		c->ca = open(call->ca, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (c->ca < 0)
			return err_sys(e, -errno, "cannot read the CA in %s", call->ca);
		*flags |= COURIER_HAS_CA;
	} else {
		c->store = hostfiles_store();
		if (c->store < 0)
			return err_set(e, -ENOENT,
				       "there is no certificate store, so no server can be verified");
		*flags |= COURIER_HAS_STORE;
	}
	if (call->key_file) {
		c->key = open_key_file(call->key_file, e);
		*flags |= COURIER_HAS_KEY;
		r = c->key < 0 ? c->key : 0;
	} else if (call->secret && *call->secret) {
		r = open_vault_channel(c, state_fd, call, e);
		*flags |= COURIER_HAS_VAULT;
	}
	return r;
}

/* --- the courier process -------------------------------------------------------------------------------- */

/* The courier's only open descriptor is the control channel. */
static int start_coffer_courier(struct courier_run *c, struct err *e)
{
	autoclose int exe = helper_open("coffer-courier", e), theirs = -1;
	char *argv[] = { (char *)"coffer-courier", NULL };
	int pair[2], fds[] = { SPAWN_NULL, SPAWN_NULL, SPAWN_NULL, [COURIER_FD_CONTROL] = -1 }, r;
	const struct spawn s = {
		.exe = exe, .argv = argv, .fds = fds, .n_fds = ARRAY_SIZE(fds), .id = OWN_ID
	};
	struct spawned got = SPAWNED_INIT;

	if (exe < 0)
		return exe;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, -errno, "cannot start coffer-courier");
	c->control = pair[0];
	fds[COURIER_FD_CONTROL] = theirs = pair[1];
	r = spawn_start(&s, &got, e);
	if (r < 0)
		return r;
	c->pid = got.pid;
	c->pidfd = got.pidfd;
	return 0;
}

static int send_job(struct courier_run *c, const struct courier_call *call, struct err *e)
{
	const int all[] = { c->resolv, c->store, c->ca, c->key, c->channel };
	autobuf struct buf message = BUF_INIT;
	int fds[ARRAY_SIZE(all)];
	size_t n = 0;
	int r = courier_job_pack(&call->job, &message);

	if (r < 0)
		return err_set(e, r, "the call cannot be carried: a part of it is too long or malformed");
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (all[i] >= 0)
			fds[n++] = all[i];
	}
	r = fdpass_send(c->control, message.data, message.len, fds, n);
	return r < 0 ? err_sys(e, r, "cannot send coffer-courier its job") : 0;
}

static void set_courier_failure(struct courier_result *ret, int error, const char *why)
{
	*ret = (struct courier_result){ .magic = COURIER_RESULT_MAGIC, .error = error };
	snprintf(ret->why, sizeof(ret->why), "%s", why);
}

/* A courier that ends without a result, or sends an invalid one, is a failure like any other. */
static void await_result(struct courier_run *c, const struct courier_call *call, struct courier_result *ret)
{
	struct pollfd p = { .fd = c->control, .events = POLLIN };
	uint64_t end = clock_nsec(CLOCK_MONOTONIC) + (call->job.timeout_ms + GRACE_MS) * NSEC_PER_MSEC, now;
	char in[sizeof(struct courier_result) + 1];
	ssize_t got = -1;
	int n;

	do {
		now = clock_nsec(CLOCK_MONOTONIC);
		n = now >= end ? 0 : poll(&p, 1, (int)((end - now) / NSEC_PER_MSEC) + 1);
	} while ((n < 0 && errno == EINTR) || (n == 0 && now < end));
	if (n == 1)
		got = recv(c->control, in, sizeof(in), MSG_DONTWAIT);
	if (n == 0)
		set_courier_failure(ret, -ETIMEDOUT, "coffer-courier did not report in time");
	else if (got <= 0)
		set_courier_failure(ret, -EPIPE, "coffer-courier has ended without a result");
	else if (courier_result_check(in, (size_t)got, ret) < 0)
		set_courier_failure(ret, -EPROTO, "coffer-courier sent an invalid result");
}

int notify_courier_carry(int state_fd, struct courier_call *call, struct courier_result *ret, struct err *e)
{
	CLEANUP(courier_run_end) struct courier_run c = COURIER_RUN_INIT;
	int r = open_job_files(&c, state_fd, call, e);

	r = r < 0 ? r : start_coffer_courier(&c, e);
	r = r < 0 ? r : send_job(&c, call, e);
	if (r < 0)
		return r;
	await_result(&c, call, ret);
	return 0;
}
