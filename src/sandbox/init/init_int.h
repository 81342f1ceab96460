/* SPDX-License-Identifier: Apache-2.0 */
/* State and functions shared by the files of coffer-init. */
#ifndef SANDBOX_INIT_INT_H
#define SANDBOX_INIT_INT_H

#include "base/buf.h"
#include "sandbox/init/proto.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#define INIT_OUT_HIGH \
	(256u << 10) /* bytes queued for the host: above this, output stays in the commands' pipes */
#define INIT_OUT_STOP (1u << 20) /* above this, the host is not read: it must take its replies first */
#define INIT_CHUNK 4000		 /* the first; grows to a whole frame while a command fills it */
#define INIT_FD_LAST \
	0x7fffffffU	   /* the last descriptor for close_range(); gVisor reads ~0U as -1 and refuses it */
#define INIT_LEFTOVERS 256 /* pipes of ended commands that other processes still hold open */

enum cmd_state {
	CMD_BODY, /* its start request is incomplete */
	CMD_RUNNING,
	CMD_DRAINING, /* it has ended; its last output is being sent */
	CMD_GONE      /* PROTO_EXIT was sent; the slot is free after this round */
};

/* A channel without a command: a connection to a port inside. Beside the flags of enum proto_start_flag. */
#define CMD_F_DIAL (1u << 16)

enum cmd_dial {
	DIAL_NOT,
	DIAL_V4, /* which loopback is being tried */
	DIAL_V6,
	DIAL_ACCEPT, /* waits for the next connection to the agent's socket */
};

struct cmd {
	uint32_t chan;
	enum cmd_state state;
	unsigned flags;
	pid_t pid;
	int in;		  /* its stdin, -1 when there is none; a terminal's is out[0] */
	int out[2];	  /* its stdout (or terminal) and stderr */
	long left[2];	  /* CMD_DRAINING: bytes to send before PROTO_EXIT, -1: until there are none */
	uint32_t chunk;	  /* bytes of output read at once: few at first, to save memory */
	uint32_t credit;  /* output that the host accepts (proto.P3) */
	uint32_t in_room; /* input that the host may still send */
	uint32_t in_owed; /* input passed on and not yet granted again */
	bool in_eof;	  /* the host has sent the end of input */
	bool in_shut;	  /* the command takes no more input */
	bool pids_hit;	  /* PROTO_F_PIDS: while it ran, no process could be started */
	unsigned pids_asked;
	uint16_t port; /* CMD_F_DIAL: which */
	enum cmd_dial dialing;
	bool parked; /* no process has its terminal open now; polled again after PARKED_MS */
	struct buf body;
	struct buf inq; /* input that the command has not taken yet */
	size_t inq_off;
	struct proto_exit end;
};

struct init {
	int in_fd, out_fd, sig_fd;
	int agent_fd; /* listening socket; 0: none was requested, negative: errno of the failure */
	uint8_t in[FRAME_HEAD + FRAME_MAX_PAYLOAD];
	size_t in_len;
	struct buf out; /* frames for the host */
	size_t out_off;
	size_t lazy; /* of these, bytes that are not urgent: sent with the next urgent frame, or after LAZY_MS */
	struct cmd cmd[PROTO_CHANNELS];
	unsigned n_cmd;
	uint32_t last_chan; /* the highest channel number so far */
	size_t bodies;	    /* bytes of all start bodies */
	int leftover[INIT_LEFTOVERS];
	unsigned n_leftover, next_leftover;
	struct rlimit nofile; /* for commands; init itself takes the hard limit */
	bool any_parked;
	unsigned rounds; /* since a command was parked */
	bool reap_again; /* there may be more ended children than were reaped */
	bool main_ended;
	bool in_gvisor;
	struct pollfd pfd[3 + 3 * PROTO_CHANNELS + INIT_LEFTOVERS];
};

static inline size_t init_out_pending(const struct init *in)
{
	return in->out.len - in->out_off;
}

static inline bool cmd_has_tty(const struct cmd *c)
{
	return c->flags & PROTO_F_TTY;
}

/* init_cmd.c: 0, or -EPROTO when the request is not legal; a command that cannot be started is reported by PROTO_EXIT */
int cmd_start(struct init *in, struct cmd *c, const struct proto_start *s) MUST_CHECK;
void cmd_signal(struct cmd *c, int sig);
void cmd_reap(struct init *in);

/* init_io.c */
int cmd_take_stdin(struct init *in, struct cmd *c, const uint8_t *data, uint32_t len) MUST_CHECK;
void cmd_write_stdin(struct init *in, struct cmd *c);
void cmd_read_output(struct init *in, struct cmd *c, int which);
void cmd_output_ended(struct init *in, struct cmd *c, int which);
bool cmd_wants_output(const struct init *in, const struct cmd *c, int which);
void cmd_ended(struct init *in, struct cmd *c, const struct proto_exit *end);
void cmd_drain(struct init *in, struct cmd *c);
void leftover_read(struct init *in, unsigned i);

/* init_dial.c */
int cmd_dial(struct init *in, struct cmd *c, uint16_t port) MUST_CHECK;
void cmd_dialled(struct init *in, struct cmd *c); /* its socket has something to say about connecting */
void cmd_dial_end_input(const struct cmd *c);
void cmd_dial_close(struct init *in, struct cmd *c);

/* init_agent.c */
int agent_listen(struct init *in, const uint8_t *path, uint32_t len) MUST_CHECK;
int cmd_accept(struct init *in, struct cmd *c) MUST_CHECK;
void cmd_accepted(struct init *in, struct cmd *c); /* the agent's socket is readable */

/* init_pty.c: the master, non-blocking, and the slave; negative errno */
int pty_open(unsigned rows, unsigned cols, int *ret_slave) MUST_CHECK;
void pty_resize(int master, unsigned rows, unsigned cols);
pid_t pty_foreground(int master);
char pty_eof_char(int master); /* the end-of-file character, '\0' when the terminal is not in line mode */
/* True when keys reach the program one by one, so that it draws its own screen. */
bool pty_is_raw(int master);

/* init_pids.c: can no further process be started, or with `after_one` only one? Costs at most two starts. */
bool pids_are_at_limit(bool after_one);
void pids_listen(struct cmd *c, const void *data, size_t len);

/* init_copy.c: runs in a process of its own with stdio in place; returns the exit status */
bool init_copy_is(const char *name);
int init_copy(char *const *argv);
const char *init_copy_reason(int code); /* text of an errno */

/* init_file.c: the same, for one file */
bool init_file_is(const char *name);
int init_file(char *const *argv);

#endif
