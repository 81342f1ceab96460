/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The poll loop of coffer-init: reads frames from the stream, dispatches them, serves the pipes of commands, and writes
 * frames back (init.h). It waits for nothing but poll() (init.I1), and a frame that is not legal ends it (proto.P2).
 */
#include "sandbox/init/init.h"

#include "sandbox/init/init_int.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IDLE_MS 2000 /* after this long without work, memory that only work needs is given back */
#define IDLE_KEEP (16u << 10)
#define PARKED_MS 100	 /* a terminal that no process has open is polled again after this time, */
#define PARKED_ROUNDS 64 /* or after so many rounds of other work */
#define LAZY_MS 10	 /* the longest delay of frames that are not urgent */

/* In bss: it costs no page before that is used. */
static struct init the_init;

static struct cmd *find_cmd(struct init *in, uint32_t chan)
{
	for (unsigned i = 0; i < in->n_cmd; i++) {
		if (in->cmd[i].chan == chan && in->cmd[i].state != CMD_GONE)
			return &in->cmd[i];
	}
	return NULL;
}

/* Channel numbers only grow. NULL: the number was used before, or there are too many channels. */
static struct cmd *new_cmd_slot(struct init *in, uint32_t chan)
{
	struct cmd *c;

	if (chan <= in->last_chan || in->n_cmd == PROTO_CHANNELS)
		return NULL;
	in->last_chan = chan;
	c = &in->cmd[in->n_cmd++];
	memset(c, 0, sizeof(*c));
	c->chan = chan;
	c->in = c->out[0] = c->out[1] = -1;
	return c;
}

/* A piece of a start request, capped by proto.P1; the first one opens the channel. */
static int take_start_body(struct init *in, const struct frame *f)
{
	struct cmd *c = find_cmd(in, f->chan);

	if (!c)
		c = new_cmd_slot(in, f->chan);
	if (!c)
		return -EPROTO;
	if (c->state != CMD_BODY || f->len > PROTO_START_MAX - c->body.len ||
	    f->len > PROTO_BODIES_MAX - in->bodies)
		return -EPROTO;
	buf_add(&c->body, f->data, f->len);
	in->bodies += f->len;
	return buf_error(&c->body);
}

static int init_take_start(struct init *in, const struct frame *f)
{
	struct cmd *c = find_cmd(in, f->chan);
	struct proto_start s;
	int r;

	if (!c || c->state != CMD_BODY)
		return -EPROTO;
	r = proto_get_start(f, &s);
	return r < 0 ? r : cmd_start(in, c, &s);
}

static int init_take_dial(struct init *in, const struct frame *f)
{
	uint32_t port;
	struct cmd *c;

	if (proto_get_u32(f, &port) < 0 || port == 0 || port > UINT16_MAX)
		return -EPROTO;
	c = new_cmd_slot(in, f->chan);
	return c ? cmd_dial(in, c, (uint16_t)port) : -EPROTO;
}

static int init_take_listen(struct init *in, const struct frame *f)
{
	return f->chan == 0 ? agent_listen(in, f->data, f->len) : -EPROTO;
}

static int init_take_accept(struct init *in, const struct frame *f)
{
	struct cmd *c = f->len == 0 ? new_cmd_slot(in, f->chan) : NULL;

	return c ? cmd_accept(in, c) : -EPROTO;
}

static int init_take_ping(struct init *in, const struct frame *f)
{
	if (f->chan != 0 || f->len > PROTO_PING_MAX)
		return -EPROTO;
	frame_add(&in->out, PROTO_PONG, 0, f->data, f->len);
	return 0;
}

static int init_take_credit(struct init *in, struct cmd *c, const struct frame *f)
{
	uint32_t v;

	if (proto_get_u32(f, &v) < 0 || v < PROTO_CREDIT_MIN || v > PROTO_WINDOW - c->credit)
		return -EPROTO;
	c->credit += v;
	if (c->state == CMD_DRAINING)
		cmd_drain(in, c);
	return 0;
}

static int init_take_resize(const struct init *in, struct cmd *c, const struct frame *f)
{
	unsigned rows, cols;

	if (!cmd_has_tty(c) || proto_get_resize(f, &rows, &cols) < 0)
		return -EPROTO;
	if (c->out[0] >= 0)
		pty_resize(c->out[0], rows, cols);
	/* gVisor stores the new size without sending SIGWINCH. */
	if (in->in_gvisor && c->state == CMD_RUNNING)
		cmd_signal(c, SIGWINCH);
	return 0;
}

static int init_take_signal(struct init *in, struct cmd *c, const struct frame *f)
{
	uint32_t sig;

	if (proto_get_u32(f, &sig) < 0 || sig < 1 || sig > 64)
		return -EPROTO;
	if (c->state == CMD_RUNNING && c->flags & CMD_F_DIAL)
		cmd_dial_close(in, c);
	else if (c->state == CMD_RUNNING)
		cmd_signal(c, (int)sig);
	return 0;
}

static int reply_tty_state(struct init *in, const struct cmd *c, const struct frame *f)
{
	if (f->len || !cmd_has_tty(c))
		return -EPROTO;
	if (c->state == CMD_RUNNING)
		proto_add_u32(&in->out, PROTO_TTY_IS, c->chan, pty_is_raw(c->out[0]));
	return 0;
}

/* Frames for a running command. For one that has ended they are late, not wrong, and are ignored (proto.P2). */
static int take_cmd_frame(struct init *in, const struct frame *f)
{
	struct cmd *c = find_cmd(in, f->chan);

	if (!c)
		return f->chan != 0 && f->chan <= in->last_chan ? 0 : -EPROTO;
	if (c->state == CMD_BODY)
		return -EPROTO;
	switch (f->type) {
	case PROTO_STDIN:
		return cmd_take_stdin(in, c, f->data, f->len);
	case PROTO_SIGNAL:
		return init_take_signal(in, c, f);
	case PROTO_RESIZE:
		return init_take_resize(in, c, f);
	case PROTO_TTY_ASK:
		return reply_tty_state(in, c, f);
	default:
		return init_take_credit(in, c, f);
	}
}

static int init_take_frame(struct init *in, const struct frame *f)
{
	switch (f->type) {
	case PROTO_START_DATA:
		return f->chan ? take_start_body(in, f) : -EPROTO;
	case PROTO_START:
		return init_take_start(in, f);
	case PROTO_STDIN:
	case PROTO_SIGNAL:
	case PROTO_RESIZE:
	case PROTO_CREDIT:
	case PROTO_TTY_ASK:
		return take_cmd_frame(in, f);
	case PROTO_DIAL:
		return init_take_dial(in, f);
	case PROTO_PING:
		return init_take_ping(in, f);
	case PROTO_LISTEN:
		return init_take_listen(in, f);
	case PROTO_ACCEPT:
		return init_take_accept(in, f);
	default:
		return -EPROTO;
	}
}

static int read_host_stream(struct init *in)
{
	ssize_t n = read(in->in_fd, in->in + in->in_len, sizeof(in->in) - in->in_len);
	size_t done = 0;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EPIPE;
	in->in_len += (size_t)n;
	for (;;) {
		struct frame f;
		long took = frame_parse(in->in + done, in->in_len - done, &f);
		int r;

		if (took <= 0) {
			memmove(in->in, in->in + done, in->in_len - done);
			in->in_len -= done;
			return (int)took;
		}
		r = init_take_frame(in, &f);
		if (r < 0)
			return r;
		done += (size_t)took;
	}
}

static int flush_host_stream(struct init *in)
{
	in->lazy = 0;
	while (init_out_pending(in)) {
		ssize_t n = write(in->out_fd, in->out.data + in->out_off, init_out_pending(in));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return -errno;
		in->out_off += (size_t)n;
	}
	if (!init_out_pending(in)) {
		buf_clear(&in->out);
		in->out_off = 0;
	} else if (in->out_off > INIT_OUT_HIGH / 2) {
		buf_consume(&in->out, in->out_off);
		in->out_off = 0;
	}
	/* Out of memory: the stream has lost a frame and cannot be continued. */
	return buf_error(&in->out);
}

static unsigned poll_add(struct init *in, unsigned n, int fd, short events)
{
	in->pfd[n] = (struct pollfd){ .fd = fd, .events = events };
	return n + 1;
}

/* Three slots a command, in the order stdin, stdout, stderr; -1 where there is nothing to wait for. */
static unsigned poll_add_streams(struct init *in)
{
	unsigned n = 0;
	bool busy = init_out_pending(in) > in->lazy;

	n = poll_add(in, n, init_out_pending(in) > INIT_OUT_STOP ? -1 : in->in_fd, POLLIN);
	if (busy && in->in_fd == in->out_fd && in->pfd[0].fd >= 0)
		in->pfd[0].events |= POLLOUT;
	n = poll_add(in, n, in->sig_fd, POLLIN);
	if (busy && (in->in_fd != in->out_fd || in->pfd[0].fd < 0))
		n = poll_add(in, n, in->out_fd, POLLOUT);
	return n;
}

static unsigned poll_add_cmds(struct init *in, unsigned n)
{
	for (unsigned i = 0; i < in->n_cmd; i++) {
		const struct cmd *c = &in->cmd[i];
		bool waits = c->inq.len > c->inq_off;
		bool reads = cmd_wants_output(in, c, 0);

		if (cmd_has_tty(c)) {
			short ev = (short)((waits ? POLLOUT : 0) | (reads ? POLLIN : 0));

			n = poll_add(in, n, -1, 0);
			n = poll_add(in, n, ev ? c->out[0] : -1, ev);
		} else if (c->dialing == DIAL_ACCEPT) {
			n = poll_add(in, n, in->agent_fd, POLLIN);
			n = poll_add(in, n, -1, 0);
		} else {
			/* With no events requested, POLLERR still reports that the command closed its stdin. */
			n = poll_add(in, n, c->in, waits || c->dialing ? POLLOUT : 0);
			n = poll_add(in, n, reads ? c->out[0] : -1, POLLIN);
		}
		n = poll_add(in, n, cmd_wants_output(in, c, 1) ? c->out[1] : -1, POLLIN);
	}
	for (unsigned i = 0; i < in->n_leftover; i++)
		n = poll_add(in, n, in->leftover[i], POLLIN);
	return n;
}

static void serve_one_cmd(struct init *in, struct cmd *c, const struct pollfd *p)
{
	bool tty = cmd_has_tty(c);

	if (c->dialing) {
		if (p[0].revents && c->dialing == DIAL_ACCEPT)
			cmd_accepted(in, c);
		else if (p[0].revents)
			cmd_dialled(in, c);
		return;
	}
	if (tty ? p[1].revents & POLLOUT : p[0].revents)
		cmd_write_stdin(in, c);
	for (int i = 0; i < 2; i++) {
		short ev = p[1 + i].revents;

		if (!(ev & (POLLIN | POLLHUP | POLLERR)) || !cmd_wants_output(in, c, i))
			continue;
		/* POLLHUP without POLLIN: nothing is left to read. */
		if (ev & POLLIN)
			cmd_read_output(in, c, i);
		else
			cmd_output_ended(in, c, i);
	}
	if (c->flags & CMD_F_DIAL && c->state == CMD_RUNNING && c->out[0] < 0)
		cmd_dial_close(in, c);
	if (c->state == CMD_DRAINING)
		cmd_drain(in, c);
}

static void serve_polled_cmds(struct init *in, unsigned first, unsigned n_cmd, unsigned n_leftover)
{
	const struct pollfd *p = in->pfd + first;

	for (unsigned i = 0; i < n_cmd; i++, p += 3)
		serve_one_cmd(in, &in->cmd[i], p);
	/* From the end: a closed one is replaced by the last. */
	for (unsigned i = n_leftover; i-- > 0;) {
		if (p[i].revents)
			leftover_read(in, i);
	}
}

/* Moves the living commands over the slots of those that are gone. */
static void drop_gone_cmds(struct init *in)
{
	unsigned n = 0;

	for (unsigned i = 0; i < in->n_cmd; i++) {
		if (in->cmd[i].state == CMD_GONE)
			continue;
		if (n != i)
			in->cmd[n] = in->cmd[i];
		n++;
	}
	in->n_cmd = n;
}

/* At once while children are left to reap; soon while lazy frames or parked terminals wait; then to free memory. */
static int poll_timeout_ms(const struct init *in)
{
	if (in->reap_again)
		return 0;
	if (in->lazy)
		return LAZY_MS;
	if (in->any_parked)
		return PARKED_MS;
	return in->out.cap > IDLE_KEEP && !init_out_pending(in) ? IDLE_MS : -1;
}

static void unpark_terminals(struct init *in)
{
	for (unsigned i = 0; i < in->n_cmd; i++)
		in->cmd[i].parked = false;
	in->any_parked = false;
}

static int on_poll_timeout(struct init *in)
{
	if (in->lazy)
		return flush_host_stream(in);
	if (in->any_parked) {
		unpark_terminals(in);
	} else if (!init_out_pending(in)) {
		buf_release(&in->out);
		in->out_off = 0;
	}
	return 0;
}

/* One round of the loop: poll, serve, reap, read, write. Negative: init ends. */
static int run_one_round(struct init *in)
{
	unsigned first = poll_add_streams(in), n_cmd = in->n_cmd, n_left = in->n_leftover;
	unsigned n = poll_add_cmds(in, first);
	int r = poll(in->pfd, n, poll_timeout_ms(in));
	bool reap = in->reap_again;
	size_t lazy = in->lazy;

	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	if (r == 0 && !reap)
		return on_poll_timeout(in);
	if (in->any_parked && ++in->rounds % PARKED_ROUNDS == 0)
		unpark_terminals(in);
	/* Output before reaping: a command's output is in its pipes before its end can be seen (init.I5). */
	serve_polled_cmds(in, first, n_cmd, n_left);
	if (reap || in->pfd[1].revents)
		cmd_reap(in);
	if (in->pfd[0].revents & (POLLIN | POLLHUP | POLLERR)) {
		r = read_host_stream(in);
		if (r < 0)
			return r;
	}
	drop_gone_cmds(in);
	/* A command that was started in this round is about to print or to end: one message reports both. */
	return in->lazy > lazy && in->lazy == init_out_pending(in) ? 0 : flush_host_stream(in);
}

static void reset_signal_actions(void)
{
	/* In the kernel's layout: handler, flags, restorer, mask. Signals that the launcher's caller ignored (nohup)
	 * must not be ignored by commands. */
	static const unsigned long dfl[4];

	for (int sig = 1; sig <= 64; sig++) {
		if (sig != SIGKILL && sig != SIGSTOP)
			syscall(SYS_rt_sigaction, sig, dfl, NULL, 8);
	}
}

static int set_up_init(struct init *in)
{
	sigset_t set;

	/* Commands share our uid: they must not ptrace us or read our memory and descriptors. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	if (fcntl(in->in_fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(in->in_fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	if (in->out_fd != in->in_fd &&
	    (fcntl(in->out_fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(in->out_fd, F_SETFL, O_NONBLOCK) < 0))
		return -errno;
	syscall(SYS_close_range, (in->in_fd > in->out_fd ? in->in_fd : in->out_fd) + 1, INIT_FD_LAST, 0);
	reset_signal_actions();
	/* SIGPIPE is blocked, not ignored: commands would inherit SIG_IGN. */
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGPIPE);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return -errno;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	in->sig_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (in->sig_fd < 0)
		return -errno;
	if (getrlimit(RLIMIT_NOFILE, &in->nofile) == 0 && in->nofile.rlim_cur < in->nofile.rlim_max) {
		struct rlimit all = { in->nofile.rlim_max, in->nofile.rlim_max };

		setrlimit(RLIMIT_NOFILE, &all);
	}
	return 0;
}

/*
 * Some versions of runsc fail lgetxattr() on a symlink with EBADF, and `ls -l` then complains about every symlink. A
 * seccomp filter makes the call fail with EOPNOTSUPP there, as on a file system without attributes.
 */
static void filter_lgetxattr_bug(void)
{
	static const char *const links[] = { "/bin", "/lib", "/etc/mtab" };
	struct sock_filter insns[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_lgetxattr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = { ARRAY_SIZE(insns), insns };
	char value[64];

	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		if (syscall(SYS_lgetxattr, links[i], "security.selinux", value, sizeof(value)) < 0 &&
		    errno == EBADF) {
			syscall(SYS_seccomp, (long)SECCOMP_SET_MODE_FILTER, 0L, &prog, 0L);
			return;
		}
	}
}

/*
 * gVisor executes our program from a descriptor, so the process has no name yet. Our 0 to 2 are runsc's own, among them
 * the engine's log, which commands must not inherit.
 */
static int set_up_in_gvisor(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return -errno;
	for (int fd = 0; fd < 3; fd++) {
		if (dup2(null, fd) < 0)
			return -errno;
	}
	close(null);
	syscall(SYS_prctl, (long)PR_SET_NAME, "coffer-init", 0L, 0L);
	filter_lgetxattr_bug();
	return 0;
}

int init_main(int in_fd, int out_fd, bool now)
{
	struct init *in = &the_init;
	int r;

	in->in_fd = in_fd;
	in->out_fd = out_fd;
	in->in_gvisor = now;
	if (set_up_init(in) < 0 || (now && set_up_in_gvisor() < 0))
		return 1;
	proto_add_u32(&in->out, PROTO_HELLO, 0, PROTO_VERSION);
	if (!now)
		in->lazy = FRAME_HEAD + 4;
	r = now ? flush_host_stream(in) : buf_error(&in->out);
	while (r == 0) {
		r = run_one_round(in);
		if (in->main_ended && !init_out_pending(in))
			return 0;
	}
	return r == -EPIPE ? 0 : 1;
}
