/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input and output of commands under credit (proto.P3), and the pipes that outlive a command (init.I5). Nothing here waits:
 * input that a command does not read is queued, output that the host has not granted stays in the pipe.
 */
#include "base/cleanup.h"
#include "sandbox/init/init_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

static void close_cmd_stdin(struct init *in, struct cmd *c, bool tell)
{
	c->in = fd_close(c->in);
	buf_release(&c->inq);
	c->inq_off = 0;
	c->in_shut = true;
	if (tell)
		frame_add(&in->out, PROTO_STDIN_CLOSED, c->chan, NULL, 0);
}

static void grant_input(struct init *in, struct cmd *c)
{
	if (c->in_owed < PROTO_CREDIT_STEP || c->in_eof)
		return;
	proto_add_u32(&in->out, PROTO_STDIN_CREDIT, c->chan, c->in_owed);
	c->in_room += c->in_owed;
	c->in_owed = 0;
}

/* All input is written and the host has sent the end: closes stdin, or types a terminal's end-of-file character. */
static void end_cmd_stdin(struct cmd *c)
{
	if (cmd_has_tty(c)) {
		char eof = pty_eof_char(c->out[0]);
		ssize_t n = eof ? write(c->out[0], &eof, 1) : 0;

		(void)n; /* a terminal that accepts nothing has no reader */
		c->in_shut = true;
	} else {
		if (c->flags & CMD_F_DIAL)
			cmd_dial_end_input(c);
		c->in = fd_close(c->in);
		c->in_shut = true;
	}
}

void cmd_write_stdin(struct init *in, struct cmd *c)
{
	int fd = cmd_has_tty(c) ? c->out[0] : c->in;
	size_t waits = c->inq.len - c->inq_off;
	ssize_t n;

	if (c->in_shut || fd < 0)
		return;
	if (!waits) {
		/* Polled without events: only POLLERR wakes us, which means that the command reads no more. */
		close_cmd_stdin(in, c, true);
		return;
	}
	n = write(fd, c->inq.data + c->inq_off, waits);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		close_cmd_stdin(in, c, true);
		return;
	}
	c->inq_off += (size_t)n;
	c->in_owed += (uint32_t)n;
	if (c->inq_off == c->inq.len) {
		buf_release(&c->inq);
		c->inq_off = 0;
		if (c->in_eof)
			end_cmd_stdin(c);
	}
	grant_input(in, c);
}

int cmd_take_stdin(struct init *in, struct cmd *c, const uint8_t *data, uint32_t len)
{
	uint32_t cost = len ? len + FRAME_HEAD : 0;
	bool idle;

	if (!(c->flags & PROTO_F_STDIN) || c->in_eof || cost > c->in_room)
		return -EPROTO;
	c->in_room -= cost;
	c->in_eof = len == 0;
	if (c->in_shut || c->state != CMD_RUNNING)
		return 0;
	idle = c->inq.len == c->inq_off;
	if (c->in_eof) {
		if (idle)
			end_cmd_stdin(c);
		return 0;
	}
	if (c->inq_off > PROTO_WINDOW / 4) {
		buf_consume(&c->inq, c->inq_off);
		c->inq_off = 0;
	}
	buf_add(&c->inq, data, len);
	c->in_owed += FRAME_HEAD;
	if (buf_error(&c->inq))
		return buf_error(&c->inq);
	if (idle)
		cmd_write_stdin(in, c);
	return 0;
}

bool cmd_wants_output(const struct init *in, const struct cmd *c, int which)
{
	if (c->out[which] < 0 || c->parked || c->credit <= FRAME_HEAD ||
	    init_out_pending(in) >= INIT_OUT_HIGH)
		return false;
	return c->state == CMD_RUNNING || (c->state == CMD_DRAINING && c->left[which]);
}

/*
 * End of file; on a terminal that is EIO and means that no process has it open. A command may close its terminal and
 * open it again, so ours is kept while the command runs: closing our side would hang up on it.
 */
void cmd_output_ended(struct init *in, struct cmd *c, int which)
{
	c->left[which] = 0;
	if (cmd_has_tty(c) && c->state == CMD_RUNNING)
		c->parked = in->any_parked = true;
	else
		c->out[which] = fd_close(c->out[which]);
}

void cmd_read_output(struct init *in, struct cmd *c, int which)
{
	size_t most = c->credit - FRAME_HEAD;
	uint8_t *frame;
	ssize_t n;

	most = most > c->chunk ? c->chunk : most;
	if (c->left[which] > 0 && most > (size_t)c->left[which])
		most = (size_t)c->left[which];
	frame = (uint8_t *)buf_reserve(&in->out, FRAME_HEAD + most);
	if (!frame)
		return;
	n = read(c->out[which], frame + FRAME_HEAD, most);
	if (n < 0 && errno == EINTR)
		return;
	if (n < 0 && errno == EAGAIN) {
		c->left[which] = 0;
		return;
	}
	if (n <= 0) {
		cmd_output_ended(in, c, which);
		return;
	}
	if (which || cmd_has_tty(c))
		pids_listen(c, frame + FRAME_HEAD, (size_t)n);
	frame_put_head(frame, which ? PROTO_STDERR : PROTO_STDOUT, c->chan, (uint32_t)n);
	in->out.len += FRAME_HEAD + (size_t)n;
	c->credit -= FRAME_HEAD + (uint32_t)n;
	if ((uint32_t)n == c->chunk)
		c->chunk = FRAME_MAX_PAYLOAD;
	if (c->left[which] > 0)
		c->left[which] -= n;
}

/* init.I5: another process may still write to this pipe, so it is kept and drained. The oldest is closed when there are
 * too many. */
static void keep_leftover_pipe(struct init *in, int fd)
{
	if (fd < 0)
		return;
	if (in->n_leftover < INIT_LEFTOVERS) {
		in->leftover[in->n_leftover++] = fd;
		return;
	}
	/* This round's poll result belongs to the old descriptor: it must not make us block on the new one. */
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
		fd_close(fd);
		return;
	}
	fd_close(in->leftover[in->next_leftover]);
	in->leftover[in->next_leftover] = fd;
	in->next_leftover = (in->next_leftover + 1) % INIT_LEFTOVERS;
}

void leftover_read(struct init *in, unsigned i)
{
	static char nowhere[16384];
	ssize_t n = read(in->leftover[i], nowhere, sizeof(nowhere));

	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	fd_close(in->leftover[i]);
	in->leftover[i] = in->leftover[--in->n_leftover];
}

/* Bytes in the pipe now: everything that was written before the command ended. */
static long bytes_in_pipe(int fd)
{
	int n = 0;

	return fd >= 0 && ioctl(fd, FIONREAD, &n) == 0 ? n : 0;
}

void cmd_drain(struct init *in, struct cmd *c)
{
	for (int i = 0; i < 2; i++) {
		while (c->left[i] && cmd_wants_output(in, c, i))
			cmd_read_output(in, c, i);
		if (c->out[i] < 0)
			c->left[i] = 0;
	}
	if (c->left[0] || c->left[1])
		return;
	/* proto.P4: the exit is the last frame, after all output. */
	proto_add_exit(&in->out, c->chan, &c->end);
	keep_leftover_pipe(in, c->out[0]);
	keep_leftover_pipe(in, c->out[1]);
	c->out[0] = c->out[1] = -1;
	c->state = CMD_GONE;
	if (c->flags & PROTO_F_MAIN)
		in->main_ended = true;
}

void cmd_ended(struct init *in, struct cmd *c, const struct proto_exit *end)
{
	c->end = *end;
	c->state = CMD_DRAINING;
	c->parked = false;
	close_cmd_stdin(in, c, false);
	/* A terminal whose session leader is gone is hung up: it returns its remaining output, then ends. */
	c->left[0] = cmd_has_tty(c) ? -1 : bytes_in_pipe(c->out[0]);
	c->left[1] = bytes_in_pipe(c->out[1]);
	cmd_drain(in, c);
}
