/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes from the host into coffer-init's loop, with commands that exist only in name: a start succeeds or fails
 * by its first letter, and output and input go to pipes of the target's own.
 */
#include "sandbox/init/init.c" // NOLINT(bugprone-suspicious-include): its static functions are the target

#include "base/cleanup.h"

#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int cmd_start(struct init *in, struct cmd *c, const struct proto_start *s)
{
	struct proto_body body;
	int r = proto_body_split(c->body.data, c->body.len, s, &body);
	bool fails;
	int p[2];

	if (r == 0 && s->flags & (PROTO_F_CAP | PROTO_F_DETACH))
		proto_body_release(&body);
	if (s->flags & (PROTO_F_CAP | PROTO_F_DETACH) || r == -EPROTO)
		return -EPROTO;
	c->state = CMD_RUNNING;
	c->flags = s->flags & ~(unsigned)(PROTO_F_TTY | PROTO_F_PIDS);
	c->credit = c->in_room = PROTO_WINDOW;
	c->chunk = INIT_CHUNK;
	in->bodies -= c->body.len;
	fails = r < 0 || body.argv[0][0] == 'x';
	if (r == 0)
		proto_body_release(&body);
	buf_release(&c->body);
	if (fails) {
		const struct proto_exit end = { PROTO_NOT_STARTED, ENOENT, PROTO_WHAT_EXEC };

		cmd_ended(in, c, &end);
		return 0;
	}
	if (s->flags & PROTO_F_STDIN && pipe2(p, O_CLOEXEC | O_NONBLOCK) == 0) {
		c->in = p[1];
		/* Nobody reads it, so that it fills; some close it at once. */
		if (c->chan % 2)
			close(p[0]);
		else
			c->out[1] = p[0];
	}
	proto_add_u32(&in->out, PROTO_STARTED, c->chan, 1);
	return 0;
}

/* A port that is there, or is not, by its number; nothing outside is connected to. */
int cmd_dial(struct init *in, struct cmd *c, uint16_t port)
{
	int p[2];

	c->state = CMD_RUNNING;
	c->flags = PROTO_F_STDIN | CMD_F_DIAL;
	c->credit = c->in_room = PROTO_WINDOW;
	c->chunk = INIT_CHUNK;
	if (port % 3 == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) < 0) {
		const struct proto_exit end = { PROTO_NOT_STARTED, ECONNREFUSED, PROTO_WHAT_REQUEST };

		cmd_ended(in, c, &end);
		return 0;
	}
	c->in = p[0];
	c->out[0] = port % 2 ? dup(p[0]) : -1;
	close(p[1]);
	proto_add_u32(&in->out, PROTO_STARTED, c->chan, 0);
	return 0;
}

/* A socket at which somebody is always waiting, or which could not be made, by the path's second letter. */
int agent_listen(struct init *in, const uint8_t *path, uint32_t len)
{
	if (in->agent_fd || len < 2 || path[0] != '/')
		return -EPROTO;
	in->agent_fd = path[1] == 'x' ? -EEXIST : open("/dev/null", O_RDONLY | O_CLOEXEC);
	return 0;
}

int cmd_accept(struct init *in, struct cmd *c)
{
	return cmd_dial(in, c, in->agent_fd > 0 ? 5 : 3);
}

void cmd_accepted(struct init *in, struct cmd *c)
{
	cmd_dialled(in, c);
}

void cmd_dialled(struct init *in, struct cmd *c)
{
	(void)in;
	(void)c;
}

void cmd_dial_end_input(const struct cmd *c)
{
	(void)c;
}

void cmd_dial_close(struct init *in, struct cmd *c)
{
	const struct proto_exit end = { PROTO_EXITED, 0, PROTO_WHAT_NONE };

	c->out[0] = fd_close(c->out[0]);
	cmd_ended(in, c, &end);
}

void cmd_signal(struct cmd *c, int sig)
{
	(void)c;
	(void)sig;
}

void cmd_reap(struct init *in)
{
	(void)in;
}

static void clear(struct init *in)
{
	for (unsigned i = 0; i < in->n_cmd; i++) {
		struct cmd *c = &in->cmd[i];

		fd_close(c->in);
		fd_close(c->out[0]);
		fd_close(c->out[1]);
		buf_release(&c->body);
		buf_release(&c->inq);
	}
	for (unsigned i = 0; i < in->n_leftover; i++)
		fd_close(in->leftover[i]);
	buf_release(&in->out);
	in->n_cmd = in->n_leftover = in->next_leftover = 0;
	in->last_chan = 0;
	in->bodies = in->in_len = in->out_off = 0;
	if (in->agent_fd > 0)
		fd_close(in->agent_fd);
	in->agent_fd = 0;
	in->any_parked = in->reap_again = in->main_ended = false;
}

/* The end of a command, as a signal from outside would bring it. */
static void end_one(struct init *in, uint8_t which)
{
	struct cmd *c = in->n_cmd ? &in->cmd[which % in->n_cmd] : NULL;
	const struct proto_exit end = { PROTO_EXITED, which, 0 };

	if (c && c->state == CMD_RUNNING)
		cmd_ended(in, c, &end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct init *in = &the_init;
	int p[2], r = 0;
	size_t off = 0;

	signal(SIGPIPE, SIG_IGN); /* held by the real one */
	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return 0;
	in->in_fd = p[0];
	in->out_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	in->sig_fd = -1;
	while (r == 0 && off < size) {
		size_t n = size - off > 4096 ? 4096 : size - off;

		if (write(p[1], data + off, n) != (ssize_t)n)
			break;
		off += n;
		r = read_host_stream(in);
		drop_gone_cmds(in);
		BUG_ON(in->n_cmd > PROTO_CHANNELS || in->bodies > PROTO_BODIES_MAX);
		end_one(in, data[off - 1]);
		drop_gone_cmds(in);
		if (flush_host_stream(in) < 0)
			break;
	}
	clear(in);
	close(p[0]);
	close(p[1]);
	close(in->out_fd);
	return 0;
}
