/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of cofferd (cofferd_client.h): one request per connection, and starting the daemon. Never trusts
 * a response beyond what cofferd_msg.c has checked.
 */
#include "cofferdc/cofferd_client.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cofferdc/activate.h"
#include "cofferdc/cofferd_int.h"
#include "cofferdc/webctl.h"
#include "ipc/fdpass.h"
#include "sandbox/engine/helper.h"
#include "sys/spawn.h"
#include "vault/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MSEC 2000
#define PATIENT_MSEC 60000
#define STATUS_MAX (64u << 20)
#define KEEP_TRIES 50 /* while one cofferd exits and the next one starts */

int cofferd_build(int fd, struct cofferd_build *ret)
{
	struct stat st, usr, root;

	if ((fd >= 0 ? fstat(fd, &st) : stat("/proc/self/exe", &st)) < 0 || stat("/usr", &usr) < 0 ||
	    stat("/", &root) < 0)
		return -errno;
	*ret = (struct cofferd_build){ .usr_dev = usr.st_dev,
				       .usr_ino = usr.st_ino,
				       .root_dev = root.st_dev,
				       .root_ino = root.st_ino,
				       .dev = st.st_dev,
				       .ino = st.st_ino,
				       .size = (uint64_t)st.st_size,
				       .mtime = (uint64_t)st.st_mtim.tv_sec * 1000000000ULL +
						(uint64_t)st.st_mtim.tv_nsec };
	return 0;
}

/* By /proc/self/fd, since the path of a state directory may be longer than a socket address. */
void cofferd_address(const struct state *st, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/cofferd.sock", st->fd);
}

int cofferd_pack(const struct strv *template, struct buf *out)
{
	for (size_t i = 0; i < template->n; i++)
		buf_add(out, template->v[i], strlen(template->v[i]) + 1);
	return buf_error(out) ? -ENOMEM : out->len > COFFERD_TEMPLATE_MAX ? -E2BIG : 0;
}

static int connect_cofferd(const struct state *st)
{
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;

	if (fd < 0)
		return -errno;
	cofferd_address(st, &a);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return errno == ENOENT ? -ECONNREFUSED : -errno;
	return TAKE_FD(fd);
}

/* Waits for a response. A cofferd that does not respond is treated as absent; registering a sandbox may wait
 * for the disk, hence PATIENT_MSEC. */
static int wait_reply(int fd, int msec)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do {
		n = poll(&p, 1, msec);
	} while (n < 0 && errno == EINTR);
	return n <= 0 ? -ETIMEDOUT : 0;
}

static int send_request(int fd, enum cofferd_want want, const struct strv *template, const char *id,
			const struct buf *more)
{
	struct cofferd_ask head = { .magic = COFFERD_MAGIC, .want = want };
	autobuf struct buf b = BUF_INIT;
	int r = cofferd_build(-1, &head.build);

	if (r < 0)
		return r;
	buf_add(&b, &head, sizeof(head));
	if (template)
		r = cofferd_pack(template, &b);
	if (id)
		buf_add(&b, id, strlen(id) + 1);
	if (more)
		buf_add(&b, more->data, more->len);
	if (r == 0)
		r = buf_error(&b);
	return r < 0 ? r : fdpass_send(fd, b.data, b.len, NULL, 0);
}

/* Receives the response to a request, with a descriptor or -1. */
static int recv_reply(int fd, int msec, struct cofferd_reply *ret, int *ret_sock)
{
	unsigned char data[sizeof(*ret)];
	autoclose int sock = -1;
	size_t len;
	int r = wait_reply(fd, msec), n;

	if (r < 0)
		return r;
	n = fdpass_recv_some(fd, data, sizeof(data), &len, &sock, 1);
	r = n < 0 ? n : cofferd_reply_parse(data, len, ret);
	if (r == 0 && ret->has != (n == 1))
		r = -EPROTO;
	if (r == 0)
		*ret_sock = TAKE_FD(sock);
	return r;
}

/* Sends one request and receives its response. */
static int call_cofferd(struct state *st, enum cofferd_want want, const struct strv *template, const char *id,
			struct cofferd_reply *ret, int *ret_sock)
{
	autoclose int fd = connect_cofferd(st);
	int r = fd < 0 ? fd : send_request(fd, want, template, id, NULL);

	return r < 0 ? r : recv_reply(fd, want == COFFERD_TAKE ? ANSWER_MSEC : PATIENT_MSEC, ret, ret_sock);
}

int cofferd_take(struct state *st, const struct strv *template, int *ret_sock, char ret_id[RUN_ID_LEN + 1])
{
	struct cofferd_reply reply;
	int r = call_cofferd(st, COFFERD_TAKE, template, NULL, &reply, ret_sock);

	if (r < 0)
		return r;
	if (!reply.has)
		return -ENOENT;
	memcpy(ret_id, reply.id, RUN_ID_LEN + 1);
	return 0;
}

int cofferd_ask(struct state *st, enum cofferd_want want, struct cofferd_reply *ret)
{
	int sock = -1, r = call_cofferd(st, want, NULL, NULL, ret, &sock);

	if (r == 0)
		fd_close(sock);
	return r;
}

/* --- a cofferd that is starting ------------------------------------------------------------------------- */

/*
 * Between the fork and the first response of a cofferd nobody listens on the socket, although a daemon is
 * coming. Therefore its starter takes a shared lock first, which the new process keeps until it serves or
 * exits.
 */
#define STARTING "cofferd.starting"
#define SETTLE_TRIES 6000
#define SETTLE_PAUSE (10 * (long)NSEC_PER_MSEC)

static int open_starting_lock(const struct state *st)
{
	int fd = openat(st->fd, STARTING, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	while (fd >= 0 && flock(fd, LOCK_SH) < 0) {
		if (errno != EINTR)
			return fd_close(fd);
	}
	return fd;
}

static void wait_until_started(const struct state *st)
{
	autoclose int fd = openat(st->fd, STARTING, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	for (int i = 0; fd >= 0 && i < SETTLE_TRIES && flock(fd, LOCK_EX | LOCK_NB) < 0; i++)
		nanosleep(&(struct timespec){ .tv_nsec = SETTLE_PAUSE }, NULL);
}

int cofferd_tell(struct state *st, enum cofferd_want want, struct cofferd_reply *ret)
{
	int r = cofferd_ask(st, want, ret);

	if (r != -ECONNREFUSED)
		return r;
	wait_until_started(st);
	return cofferd_ask(st, want, ret);
}

int cofferd_status(struct state *st, struct buf *ret, struct err *e)
{
	struct cofferd_reply reply;
	autoclose int fd = -1;
	int r = call_cofferd(st, COFFERD_STATUS, NULL, NULL, &reply, &fd);

	if (r < 0)
		return err_sys(e, r, "cofferd does not respond");
	if (reply.error)
		return err_set(e, reply.error, "%s", reply.why);
	r = fd < 0 ? -EPROTO : fd_read_all(fd, STATUS_MAX, ret);
	return r < 0 ? err_sys(e, r, "cannot read cofferd's response") : 0;
}

/* Does this result only mean that a cofferd is exiting or has just exited? */
static bool is_cofferd_exiting(int r, const struct cofferd_reply *reply)
{
	return r == -ECONNREFUSED || r == -EPIPE || r == -ECONNRESET || (r == 0 && reply->leaves);
}

static int call_cofferd_web(struct state *st, const struct webctl *c, struct cofferd_reply *ret, int *ret_fd)
{
	autobuf struct buf more = BUF_INIT;
	autoclose int fd = connect_cofferd(st);
	int r;

	buf_add(&more, c, sizeof(*c));
	r = fd < 0 ? fd : buf_error(&more);
	if (r == 0)
		r = send_request(fd, COFFERD_WEB, NULL, NULL, &more);
	return r < 0 ? r : recv_reply(fd, PATIENT_MSEC, ret, ret_fd);
}

static int set_refusal(const struct cofferd_reply *reply, struct err *e)
{
	err_set(e, reply->error, "%.*s", (int)sizeof(reply->why), reply->why);
	return reply->hint[0] ? err_hint(e, reply->error, "%.*s", (int)sizeof(reply->hint), reply->hint)
			      : reply->error;
}

int cofferd_web(struct state *st, const struct webctl *c, struct buf *ret, struct err *e)
{
	for (int i = 0; i < KEEP_TRIES; i++) {
		const struct timespec pause = { .tv_nsec = 100 * (long)NSEC_PER_MSEC };
		struct cofferd_reply reply = { 0 };
		autoclose int fd = -1;
		int r = call_cofferd_web(st, c, &reply, &fd);

		if (!is_cofferd_exiting(r, &reply)) {
			if (r < 0)
				return err_sys(e, r, "cofferd does not respond");
			if (reply.error)
				return set_refusal(&reply, e);
			r = fd < 0 ? -EPROTO : fd_read_all(fd, STATUS_MAX, ret);
			return r < 0 ? err_sys(e, r, "cannot read cofferd's response") : 0;
		}
		r = cofferd_launch(st, false, e);
		if (r < 0)
			return r;
		nanosleep(&pause, NULL);
	}
	return err_set(e, -ECONNREFUSED, "cofferd exits on every request");
}

int cofferd_keep(struct state *st, const char *id, struct err *e)
{
	for (int i = 0; i < KEEP_TRIES; i++) {
		const struct timespec pause = { .tv_nsec = 100 * (long)NSEC_PER_MSEC };
		struct cofferd_reply reply = { 0 };
		int sock = -1, r = call_cofferd(st, COFFERD_KEEP, NULL, id, &reply, &sock);

		fd_close(sock);
		if (!is_cofferd_exiting(r, &reply)) {
			if (r < 0)
				return err_sys(e, r, "cofferd does not respond");
			return reply.error ? err_set(e, reply.error, "%s", reply.why) : 0;
		}
		r = cofferd_launch(st, false, e);
		if (r < 0)
			return r;
		nanosleep(&pause, NULL);
	}
	return err_set(e, -ECONNREFUSED, "cofferd exits on every request");
}

/* --- the vault ------------------------------------------------------------------------------------------ */

static int check_reply(int r, const struct cofferd_reply *reply, struct err *e)
{
	if (r < 0)
		return err_sys(e, r, "cofferd does not respond");
	if (reply->error) {
		err_set(e, reply->error, "%s", reply->why);
		return *reply->hint ? err_hint(e, reply->error, "%s", reply->hint) : reply->error;
	}
	return reply->leaves ? err_set(e, -ECONNREFUSED, "cofferd is exiting") : 0;
}

/* NOLINTNEXTLINE(readability-function-size): what is asked for, and the two things that it is had by */
int cofferd_hold(struct state *st, const char *id, const struct vault_grants *call_cofferd, int patience,
		 struct vault_proc *ret, int *ret_lease, struct err *e)
{
	struct cofferd_reply reply = { 0 };
	autobuf struct buf packed = BUF_INIT;
	autoclose int fd = connect_cofferd(st), channel = -1;
	int r;

	if (fd < 0)
		return err_sys(e, fd, "cannot reach cofferd");
	r = grants_pack(call_cofferd, GRANTS_ASKED, &packed);
	if (r == 0)
		r = send_request(fd, COFFERD_HOLD, NULL, id, &packed);
	if (r == 0)
		r = recv_reply(fd, patience, &reply, &channel);
	r = check_reply(r, &reply, e);
	if (r == 0 && channel < 0)
		r = err_set(e, -EPROTO, "cofferd did not send a channel of the vault");
	if (r < 0)
		return r;
	*ret = VAULT_PROC_INIT;
	ret->control = TAKE_FD(channel);
	ret->patience = patience;
	ret->counter = reply.counter;
	*ret_lease = TAKE_FD(fd);
	return 0;
}

int cofferd_unlock(struct state *st, struct vault_proc *ret, int *ret_conn, struct err *e)
{
	struct cofferd_reply reply = { 0 };
	autoclose int fd = connect_cofferd(st), channel = -1;
	int r = fd < 0 ? fd : send_request(fd, COFFERD_UNLOCK, NULL, NULL, NULL);

	if (r == 0)
		r = recv_reply(fd, PATIENT_MSEC, &reply, &channel);
	r = check_reply(r, &reply, e);
	if (r < 0 || channel < 0)
		return r;
	*ret = VAULT_PROC_INIT;
	ret->control = TAKE_FD(channel);
	*ret_conn = TAKE_FD(fd);
	return 1;
}

int cofferd_unlocked(int conn, struct err *e)
{
	struct cofferd_reply reply = { 0 };
	int none = -1, r = send_request(conn, COFFERD_UNLOCKED, NULL, NULL, NULL);

	if (r == 0)
		r = recv_reply(conn, PATIENT_MSEC, &reply, &none);
	fd_close(none);
	return check_reply(r, &reply, e);
}

/* --- starting ------------------------------------------------------------------------------------------- */

/* The program, arguments and environment of cofferd: nothing else of the caller is passed on. */
struct cofferd_program {
	int cofferd, coffer;
	int starting; /* the lock that it keeps until it serves; -1: none */
	struct strv argv;
	struct strv env;
};

static void cofferd_program_release(struct cofferd_program *p)
{
	fd_close(p->cofferd);
	fd_close(p->coffer);
	fd_close(p->starting);
	strv_release(&p->argv);
	strv_release(&p->env);
}

static int cofferd_program_open(struct cofferd_program *p, const struct state *st, struct err *e)
{
	static const char *const vars[] = { "COFFER_POOL_MEMORY", "PATH", "HOME", "XDG_CONFIG_HOME",
					    "CREDENTIALS_DIRECTORY" };
	int r;

	p->coffer = p->starting = -1;
	p->cofferd = helper_open("cofferd", e);
	if (p->cofferd < 0)
		return p->cofferd;
	p->coffer = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	if (p->coffer < 0)
		return err_sys(e, -errno, "cannot open the running program");
	r = strv_add(&p->argv, "cofferd");
	if (r == 0)
		r = strv_addf(&p->env, "COFFER_STATE=%s", st->path);
	if (r == 0)
		r = spawn_env_copy(&p->env, vars, ARRAY_SIZE(vars));
	return r < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

/* Starts cofferd as an orphan, with nothing of the caller but the coffer program itself on descriptor 3, and
 * a pipe for its error message if the caller waits for one (-1: no). */
static int start_cofferd(struct cofferd_program *p, const struct state *st, int words)
{
	int fds[] = { SPAWN_NULL, SPAWN_NULL, words >= 0 ? words : SPAWN_NULL,
		      p->coffer, [COFFERD_FD_STARTING] = -1 };
	const struct spawn s = { .exe = p->cofferd,
				 .argv = p->argv.v,
				 .env = p->env.v,
				 .fds = fds,
				 .n_fds = ARRAY_SIZE(fds),
				 .flags = SPAWN_SAME_ID | SPAWN_OUTLIVES | SPAWN_MAY_GAIN | SPAWN_KEEP_UMASK |
					  SPAWN_SESSION | SPAWN_ORPHAN };
	struct spawned none = SPAWNED_INIT;

	p->starting = open_starting_lock(st);
	if (p->starting < 0)
		return -errno;
	fds[COFFERD_FD_STARTING] = p->starting;
	return spawn_start(&s, &none, NULL);
}

int cofferd_start(struct state *st, const struct strv *template)
{
	CLEANUP(cofferd_program_release) struct cofferd_program p = { 0 };
	int r = cofferd_program_open(&p, st, NULL);

	if (r == 0)
		r = strv_add(&p.argv, "--starting");
	if (r == 0)
		r = strv_add(&p.argv, "--");
	for (size_t i = 0; r == 0 && i < template->n; i++)
		r = strv_add(&p.argv, template->v[i]);
	return r < 0 ? r : start_cofferd(&p, st, -1);
}

/* cofferd closes the pipe once it serves; text before that is the reason for its failure. */
static int read_start_error(int fd, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_all(fd, sizeof(e->msg) - 1, &b);
	const char *text = buf_cstr(&b);

	if (r < 0)
		return err_sys(e, r, "cannot determine whether cofferd has started");
	if (b.len == 0)
		return 0;
	if (str_starts(text, COFFERD_SAYS))
		text += strlen(COFFERD_SAYS);
	return err_set(e, -ECHILD, "%.*s", (int)strcspn(text, "\n"), text);
}

int cofferd_launch(struct state *st, bool stay, struct err *e)
{
	CLEANUP(cofferd_program_release) struct cofferd_program p = { 0 };
	autoclose int in = -1, out = -1;
	struct cofferd_reply reply;
	struct err why = ERR_INIT;
	int fds[2], r = cofferd_program_open(&p, st, e);

	if (r == 0)
		r = strv_add(&p.argv, "--starting");
	if (r == 0)
		r = strv_add(&p.argv, "--background");
	if (r == 0 && stay)
		r = strv_add(&p.argv, "--stay");
	if (r < 0)
		return r;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	in = fds[0];
	out = fds[1];
	r = start_cofferd(&p, st, out);
	out = fd_close(out);
	if (r < 0)
		return err_sys(e, r, "cannot start cofferd");
	r = read_start_error(in, &why);
	/* Another process may have started one first. */
	if (r < 0 && cofferd_ask(st, COFFERD_STAT, &reply) < 0)
		return err_set(e, r, "%s", why.msg);
	return 0;
}

int cofferd_list_tokens(struct state *st, struct buf *ret, struct err *e)
{
	CLEANUP(cofferd_program_release) struct cofferd_program p = { 0 };
	const struct webctl c = { .op = WEBCTL_LS };
	struct cofferd_reply reply = { 0 };
	autoclose int in = -1, out = -1, said = -1;
	int pair[2], fds[] = { SPAWN_NULL, SPAWN_NULL, 2 }, status,
		     r = call_cofferd_web(st, &c, &reply, &said);
	struct spawn s = { .fds = fds, .n_fds = ARRAY_SIZE(fds), .flags = SPAWN_SAME_ID };
	struct spawned got = SPAWNED_INIT;

	if (r == 0 && !reply.error && !reply.leaves && said >= 0)
		return fd_read_all(said, STATUS_MAX, ret) < 0
			       ? err_set(e, -EIO, "cannot read cofferd's response")
			       : 0;
	r = cofferd_program_open(&p, st, e);
	if (r == 0 && strv_add(&p.argv, "--tokens") < 0)
		r = err_set(e, -ENOMEM, "out of memory");
	if (r < 0)
		return r;
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "cannot make a pipe");
	in = pair[0];
	fds[1] = out = pair[1];
	s.exe = p.cofferd;
	s.argv = p.argv.v;
	s.env = p.env.v;
	r = spawn_start(&s, &got, e);
	if (r < 0)
		return r;
	out = fd_close(out);
	r = fd_read_all(in, STATUS_MAX, ret);
	in = fd_close(in);
	status = spawn_wait(&got);
	if (r < 0 || status)
		return err_set(e, -EIO, "cannot read the list of tokens");
	return 0;
}

int cofferd_exec(struct state *st, struct err *e)
{
	CLEANUP(cofferd_program_release) struct cofferd_program p = { 0 };
	static const char *const vars[] = { "LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET" };
	int n = ACTIVATE_FIRST + (int)activate_count(), fds[SPAWN_FDS_MAX],
	    r = cofferd_program_open(&p, st, e);
	struct spawn s = { .fds = fds,
			   .n_fds = (size_t)n + 1,
			   .flags = SPAWN_SAME_ID | SPAWN_OUTLIVES | SPAWN_MAY_GAIN | SPAWN_KEEP_UMASK };

	BUG_ON(n >= SPAWN_FDS_MAX);
	if (r == 0)
		r = strv_add(&p.argv, "--stay");
	if (r == 0)
		r = spawn_env_copy(&p.env, vars, ARRAY_SIZE(vars));
	if (r < 0)
		return e->code ? r : err_set(e, r, "out of memory");
	for (int i = 0; i < n; i++)
		fds[i] = i;
	/* Right after the descriptors of the service manager. */
	fds[n] = p.coffer;
	s.exe = p.cofferd;
	s.argv = p.argv.v;
	s.env = p.env.v;
	return spawn_exec(&s, e);
}
