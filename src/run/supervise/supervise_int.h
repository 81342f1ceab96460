/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State and functions shared by the files of supervise():
 *
 *   supervise.c         set-up, the loop, tear-down
 *   supervise_init.c    frames from init: hostile
 *   supervise_client.c  the control socket and its clients
 *   supervise_exec.c    start and end of a client's command
 *   supervise_end.c     signals, time limit, and the cause of the end
 *   supervise_disk.c    the disk limit
 *   supervise_port.c    connections from outside to ports inside
 *   supervise_agent.c   connections of programs inside to the ssh-agent outside
 *   supervise_net.c     messages of the guard about the network
 *   supervise_say.c     notices on stderr that do not garble the command's screen
 *   supervise_prompt.c  the prompt for pending asks on the caller's terminal
 *   supervise_freeze.c  freezing for a checkpoint, ending for a rollback
 */
#ifndef RUN_SUPERVISE_INT_H
#define RUN_SUPERVISE_INT_H

#include "approval/prompt.h"
#include "approval/wire/askproto.h"
#include "ipc/conn.h"
#include "ipc/loop.h"
#include "run/supervise/pump.h"
#include "run/supervise/supervise.h"
#include "sys/proctree.h"

#include <sys/types.h>

#define SUPERVISE_CLIENTS 64		 /* connected at once */
#define SUPERVISE_CLIENT_CHANNELS 64	 /* commands of one client */
#define SUPERVISE_INIT_HIGH (1u << 20)	 /* bytes queued for init: no client is read above this */
#define SUPERVISE_CLIENT_HIGH (1u << 20) /* bytes queued for a client: it is not read above this */
#define SUPERVISE_PINGS 16
#define SUPERVISE_MAIN_CHAN 1
#define SUPERVISE_ENGINE_LOG_MAX (1u << 20)

enum chan_state {
	CHAN_BODY,     /* the client is still sending the start request; init does not know the channel */
	CHAN_STARTING, /* sent to init, no reply yet */
	CHAN_RUNNING
};

struct client;
struct port_conn;
struct port_listener;
struct supervision;
struct supervise_agent_conn;

/* One command, or a connection of a port or of the ssh-agent. `client` is NULL for the main command, for a detached one
 * that was started, and for one whose client has disconnected; the last is being hung up on. */
struct chan {
	struct chan *next;
	struct supervision *sv;
	uint32_t id; /* towards init; 0 in CHAN_BODY */
	struct client *client;
	uint32_t client_id; /* the client's number of the channel */
	enum chan_state state;
	unsigned flags;
	bool is_main;
	bool detached; /* started with PROTO_F_DETACH: runs on without its client */
	bool is_port;  /* no command: a connection from outside (supervise_port.c) */
	bool is_agent; /* no command: a program inside at the ssh-agent (supervise_agent.c) */
	struct supervise_agent_conn *agent_conn; /* NULL when it was hung up on */
	struct port_conn *port;			 /* NULL when the peer is gone */
	struct buf body;
	uint32_t out_room; /* output that init may still send (proto.P3) */
	uint32_t out_owed; /* output dropped, to be granted again */
	uint32_t in_room;  /* input that the client may still send */
	bool in_eof, in_closed;
	uint64_t output; /* bytes towards the client, against the output limit */
	bool cut;
	uint64_t started;  /* CLOCK_MONOTONIC ns */
	struct timer kill; /* after SIGHUP: the deadline for SIGKILL */
};

struct client {
	struct client *next;
	struct supervision *sv;
	struct watch w;
	struct conn conn;
	pid_t pid; /* of the process that connected, for the log */
	uid_t uid;
	uint32_t last_chan;
	unsigned n_chan;
	bool dirty;   /* frames were queued for it in this round */
	bool closing; /* an error frame is being sent; nothing more is read */
};

struct ping {
	struct client *client; /* NULL when it has gone */
	uint8_t data[PROTO_PING_MAX];
	uint32_t len;
};

/* Equal refusals of the ssh-agent are counted and logged together. */
#define SUPERVISE_REFUSALS 16
struct supervise_refusal {
	char name[64], host[256];
	char why[160];
	uint64_t more; /* since the last line about it */
};

struct supervise_agent {
	struct watch w; /* the vault's channel; -1: there is none now */
	struct supervise_agent_conn *conns;
	unsigned n_conns;
	bool accepting;	    /* one of them is a PROTO_ACCEPT whose connection has not come yet */
	uint32_t asked;	    /* the channel whose message the vault has; 0: none */
	uint32_t last_id;   /* of messages to the vault */
	double places;	    /* token bucket: connections that may be accepted now */
	uint64_t places_at; /* CLOCK_MONOTONIC ns */
	struct timer t, t_log;
	struct supervise_refusal refusals[SUPERVISE_REFUSALS];
	size_t n_refusals;
	uint32_t last_ticket; /* of approvals requested from the guard */
	bool said_broken;
};

/* One pending ask of the ask server's list. */
struct supervise_question {
	json_t *ask;
	bool later; /* left pending: not shown again here */
};

struct supervise_prompt {
	bool on;       /* asks are shown: there is a terminal, and nobody typed `never` */
	struct askc c; /* follows the ask server's list; -1: not yet */
	struct watch w;
	struct supervise_question q[ASKS_OPEN_MAX];
	size_t n;
	bool active;			/* the terminal is ours: pump_hold() */
	bool ending;			/* until the last line is written */
	char id[ASK_ID_MAX];		/* of the ask that is shown; empty: none */
	char digest[HASH_HEX_LEN + 1];	/* of the text that is shown */
	char code[PROMPT_CODE_LEN + 1]; /* empty before the last page */
	struct prompt_text text;	/* laid out for a terminal of this size: */
	unsigned rows, cols;
	unsigned page, pages, behind;
	bool all; /* as after `more` */
	struct prompt_line line;
	unsigned row;	 /* asks shown in a row, without a pause */
	uint64_t row_at; /* CLOCK_MONOTONIC ns: end of the last one */
	struct watch w_in;
	struct supervise_sink out;
	struct termmodes modes; /* of the command, when it was interrupted */
};

/* Notices that wait until the command draws no screen of its own, or until its end (supervise_say.c). */
#define SUPERVISE_NOTICES 48
struct supervise_notices {
	struct net_msg v[SUPERVISE_NOTICES];
	size_t n;
	uint64_t left_out; /* notices beyond the cap */
	bool asked;	   /* init was asked for the terminal's state and has not replied */
	bool is_late;	   /* the reply is overdue: pending asks go into the title (supervise_say.N4) */
	struct timer t;
};

struct disk_watch {
	struct timer t;
	uint64_t limit, inodes;
	uint64_t block;	    /* bytes */
	uint64_t floor;	    /* of free bytes on the host */
	uint64_t last_free; /* blocks, at the last look */
	uint64_t last_nodes;
	uint64_t walk_free; /* blocks free, at the last walk */
	uint64_t walk_nodes;
	uint64_t walk_used; /* bytes used, then */
	uint64_t walk_used_nodes;
	uint64_t walked_at, not_before; /* CLOCK_MONOTONIC ns */
	uint64_t wait;
};

struct freeze {
	struct client *by;     /* the client that requested it; NULL: none, and it runs */
	enum proto_frozen how; /* with a client; PROTO_FROZEN_NOT: it runs all the same */
	struct proctree tree;
	struct timer t;
};

struct supervision {
	const struct spec *spec;
	struct cgroup *cg;
	struct engine_run *run;
	const struct supervise_io *io;
	struct run_end *end;

	struct loop loop;
	struct conn init;
	struct watch w_init, w_pid, w_alive, w_listen, w_log, w_guard;
	size_t logged; /* bytes of the engine's log that were kept */
	struct pump pump;
	struct timer t_timeout, t_kill, t_listen, t_lasting, t_oom;
	struct disk_watch disk;
	struct freeze freeze;
	struct supervise_agent agent;
	struct supervise_prompt prompt;
	struct supervise_notices notices;

	bool hello;
	struct chan *chans;
	unsigned n_chan;
	uint32_t last_chan;
	size_t bodies;			   /* bytes of all start requests that are not complete */
	struct ping ping[SUPERVISE_PINGS]; /* in the order they were sent to init */
	unsigned n_ping;
	struct client *clients;
	unsigned n_client;
	bool dirty;  /* some client is */
	bool paused; /* clients are not read: init is slow */

	struct port_listener *listeners;
	struct port_conn *port_conns;
	unsigned n_port_conns;

	uint64_t started; /* CLOCK_MONOTONIC ns */
	bool ended;	  /* PROTO_EXIT of the main command has come */
	bool lasts;	  /* io->lasting() was called */
	bool told;	  /* io->ended() was called: *end is final */
	bool killed;	  /* pid 1 was sent SIGKILL */
	bool rolled;	  /* killed to be rolled back: clients are told so */
	bool reaped;
	bool gone;	      /* init's stream has ended or is not read any more */
	enum run_cause cause; /* CAUSE_COUNT: the launcher did not end it */
	int stop_signal;      /* the last signal passed on that may have ended the command; 0: none */
	uint64_t stop_at;     /* CLOCK_MONOTONIC ns, of the last one */
	uint64_t last_int;    /* CLOCK_MONOTONIC ns of the last SIGINT */
	int error;	      /* negative errno: an internal failure, described in *err */
	struct err *err;
};

/* supervise.c */
void supervise_flush_init(struct supervision *sv);
void supervise_maybe_stop(struct supervision *sv);
/* Makes the run visible to other commands (io->lasting()), if it is not visible already. */
void supervise_lasts(struct supervision *sv);
void supervise_main_started(struct supervision *sv);
/* An event for the audit log that must not be missing: a failure ends the sandbox. */
int supervise_event(struct supervision *sv, const char *type, const struct buf *fields) MUST_CHECK;

/* supervise_init.c */
struct chan *supervise_find_chan(struct supervision *sv, uint32_t id);
/* Handles one frame from init. -EPROTO ends the sandbox; sv->end->broken then names the violation. */
int supervise_init_frame(struct supervision *sv, const struct frame *f) MUST_CHECK;

/* supervise_client.c */
void supervise_listen(struct supervision *sv, int fd);
int supervise_client_add(struct supervision *sv, int fd, pid_t pid, uid_t uid) MUST_CHECK;
int supervise_client_frame(struct supervision *sv, struct client *c, const struct frame *f) MUST_CHECK;
void supervise_client_flush(struct client *c);
/* Sends queued frames at the end of this round: one write and one wake-up for many frames. */
void supervise_client_later(struct client *c);
void supervise_clients_flush(struct supervision *sv);
void supervise_client_drop(struct client *c);
void supervise_clients_resume(struct supervision *sv);

/* supervise_exec.c */
int supervise_exec_body(struct client *c, const struct frame *f) MUST_CHECK;
int supervise_exec_start(struct client *c, const struct frame *f) MUST_CHECK;
int supervise_exec_output(struct chan *ch, const struct frame *f) MUST_CHECK;
void supervise_exec_ended(struct chan *ch, const struct proto_exit *x);
void supervise_exec_hang_up(struct chan *ch);
/* The command runs and its client was told; from now on it has no client. */
void supervise_exec_detach(struct chan *ch);
/* Output that is dropped is granted again, so that the writer does not block. */
void supervise_drop_output(struct chan *ch, uint32_t cost);
struct chan *supervise_chan_new(struct supervision *sv, struct client *c, uint32_t client_id);
void supervise_chan_free(struct chan *ch);
/* Refuses a client's request with a text for a person; the connection ends. Returns 0. */
int supervise_refuse(struct client *c, const char *text);

/* supervise_end.c */
int supervise_take_signals(struct supervision *sv, struct err *e) MUST_CHECK;
void supervise_take_signal(struct supervision *sv, int sig); /* as if coffer had received it */
void supervise_signal_main(struct supervision *sv, int sig);
void supervise_kill(struct supervision *sv, enum run_cause cause);
void supervise_stop(struct supervision *sv, int sig, uint64_t grace_ns);
void supervise_broken(struct supervision *sv, const char *fmt, ...) PRINTF_LIKE(2, 3);
void supervise_start_timeout(struct supervision *sv);
bool supervise_pids_by_rlimit(
	const struct spec *s);		       /* does no control group of the host count the processes? */
void supervise_settle(struct supervision *sv); /* fills in *sv->end after the end */

/* supervise_freeze.c */
int supervise_freeze(struct supervision *sv, struct client *c, const struct frame *f) MUST_CHECK;
int supervise_rollback(struct supervision *sv, struct client *c, const struct frame *f) MUST_CHECK;
void supervise_thaw(struct supervision *sv); /* does nothing when it is not frozen */

/* supervise_port.c */
int supervise_ports_open(struct supervision *sv) MUST_CHECK;
void supervise_ports_close(struct supervision *sv);
void supervise_port_begin(struct supervision *sv, int fd,
			  uint16_t inside);	      /* an accepted connection; takes fd */
size_t supervise_port_waiting(const struct chan *ch); /* bytes that the peer has not taken */
void supervise_port_started(struct chan *ch);
int supervise_port_output(struct chan *ch, const struct frame *f) MUST_CHECK;
int supervise_port_input(struct chan *ch) MUST_CHECK; /* init granted input, or reads no more */
void supervise_port_ended(struct chan *ch, const struct proto_exit *x);

/* supervise_agent.c */
void supervise_agent_begin(struct supervision *sv);
void supervise_agent_channel(struct supervision *sv, int fd); /* the channel of a restarted vault; takes fd */
void supervise_agent_close(struct supervision *sv);
void supervise_agent_started(struct chan *ch);
int supervise_agent_output(struct chan *ch, const struct frame *f) MUST_CHECK;
void supervise_agent_ended(struct chan *ch, const struct proto_exit *x);
/* Handles one message of the vault; extern for the fuzz target and tests. */
int supervise_agent_said(struct supervision *sv, const void *data, size_t len) MUST_CHECK;
/* NET_ALLOW or NET_DENY of the guard: an approver decided, or the ask timed out. */
void supervise_agent_verdict(struct supervision *sv, uint32_t ticket, bool allow, const char *text);
/* The guard is gone: requests that wait for approval fail. */
void supervise_agent_unanswered(struct supervision *sv);

/* supervise_net.c */
int supervise_guard_watch(struct supervision *sv) MUST_CHECK;

/* supervise_say.c */
void supervise_say(struct supervision *sv, const struct net_msg *m);
void supervise_say_text(struct supervision *sv, enum net_msg_type type, enum net_level level,
			const char *text);
int supervise_say_tty(struct supervision *sv, const struct frame *f) MUST_CHECK; /* PROTO_TTY_IS */
/* The terminal is the caller's again: writes the queued notices. */
void supervise_say_rest(struct supervision *sv);

/* supervise_prompt.c */
void supervise_prompt_begin(struct supervision *sv);
/* An ask is pending. False: it is not shown here, so a notice has to announce it. */
bool supervise_prompt_asked(struct supervision *sv);
void supervise_prompt_round(struct supervision *sv);   /* after each round of the loop */
void supervise_prompt_redraw(struct supervision *sv);  /* another program had the terminal */
void supervise_prompt_resized(struct supervision *sv); /* the terminal may have another size */
void supervise_prompt_close(struct supervision *sv);

/* supervise_disk.c */
void supervise_disk_start(struct supervision *sv);

#endif
