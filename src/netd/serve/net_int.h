/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the guard's network part.
 *
 *   net.c           the loop, messages of the launcher, up and down
 *   net_proc.c      starting and ending one of the two programs
 *   net_ctl.c       their control sockets, and the watchdog
 *   net_journal.c   their journals: the files, and how much of them is still to be read
 *   net_reader.c    coffer-netd, which reads the journals, and what it says on the way into the log
 *   net_finish.c    the journals of a run whose guard is gone
 *   net_reload.c    changes of a policy file
 *   net_compile.c   compiling a changed policy in a child (net_compile.h)
 *   net_say.c       lines for the terminal
 *   net_ask.c       the ask server of a run with a network: questions of coffer-egress
 *   net_widen.c     rules that a person granted on top of the policy
 *   net_sign_ask.c  questions about keys that sign, from the launcher
 *   net_vault.c     coffer-vault: restarted when it dies, and a channel from it for each coffer-egress
 *   net_give.c      memory files for the programs: bundle, credentials of proxies
 */
#ifndef NETD_NET_INT_H
#define NETD_NET_INT_H

#include "approval/server/askserve.h"
#include "egress/wire/fds.h"
#include "egress/wire/hostfiles.h"
#include "ipc/loop.h"
#include "netd/serve/net.h"
#include "netd/wire/net_sign.h"
#include "netd/wire/netd_proto.h"
#include "sandbox/wall/wall.h"
#include "sys/memfile.h"

#include <signal.h>
#include <sys/types.h>

#define NET_UNREAD_MAX 16
#define NET_TRIES 6 /* starts in a row that never became ready: give up on the network */

/* NET_READER is coffer-netd, which is no part of the network itself. */
enum net_part { NET_EGRESS, NET_DIAL, NET_PARTS, NET_READER = NET_PARTS };

struct net_guard;
struct net_compiler; /* net_compile.c */

/* One of the programs. */
struct net_proc {
	struct net_guard *g;
	enum net_part part;
	int exe;	    /* O_PATH */
	pid_t pid;	    /* -1: not running */
	struct watch w_pid; /* its pidfd */
	struct watch w_ctl; /* our end of its control socket */
	int report;	    /* pipe that reports its start, until net_proc_started(); -1: none */
	uint64_t since;	    /* CLOCK_MONOTONIC ns: when it was started */
	bool ready;	    /* it has said so */
	bool ca_said;	    /* it has sent its certificate */
	bool quitting;	    /* it was told to end */
	unsigned owed;	    /* number of responses that it owes */
	uint64_t asked;	    /* CLOCK_MONOTONIC ns of the oldest of these requests */
	char why[256];	    /* its own error message */
	struct buf said;    /* its last response to CTL_STATS */
};

struct net_journal {
	int fd; /* ours, to punch holes; -1: none */
	uint64_t punched;
};

/* coffer-netd, as the guard sees it: hostile. */
struct net_reader {
	struct net_proc proc;
	struct netd_peer peer;
	int report; /* netd_report.h; -1: none */
	bool begun, log_failed;
	bool told_down;	      /* the log has netd.down, and no netd.up since */
	unsigned tries;	      /* starts in a row that never became ready */
	uint64_t backoff;     /* ns */
	uint64_t since;	      /* CLOCK_MONOTONIC ns: when it became ready */
	uint64_t asked;	      /* CLOCK_MONOTONIC ns of the oldest request without an answer; 0: none */
	uint64_t checked;     /* CLOCK_MONOTONIC ns: when it was last asked whether it is alive */
	uint64_t written;     /* bytes of both journals at the last check */
	struct timer t_start; /* after a death */
	struct timer t_check; /* is it alive, and are the journals short? */
	struct timer t_pace;  /* it has used up its pace */
	struct timer t_look;  /* there is something to look at */
};

struct net_guard {
	struct net_config c;
	int dir; /* the run's directory: the launcher has the lock */
	struct loop loop;
	struct watch w_launcher, w_sandbox;
	struct net_calls calls;
	struct timer t_idle;

	struct wall wall;
	bool has_wall;
	struct watch w_wall[WALL_FDS]; /* watched until the first packet */

	struct net_proc proc[NET_PARTS];
	struct cgroup_host cgroup_host;
	struct cgroup cg;
	bool has_cgroup;
	int bundle, names, ca, store, proxy_sets; /* -1: none */
	uint32_t generation;			  /* of the bundle's policy */
	bool started;				  /* after the first packet */
	bool is_up;				  /* both are running and ready */
	bool ca_told;
	int room[2]; /* files for the certificate in a sandbox made without one; -1: none, or written */
	bool was_up, failed, ending;
	bool is_over;	   /* both are ended, and everything they did is in the log */
	unsigned tries;	   /* starts in a row that never became ready */
	uint64_t backoff;  /* ns */
	uint64_t up_since; /* CLOCK_MONOTONIC ns */
	struct timer t_start, t_ping, t_stats;

	struct net_journal journal[NET_PARTS];
	int place; /* NET_JOURNAL_PLACE; -1: none */
	struct net_reader reader;

	struct watch w_notify;
	struct timer t_reload, t_look;
	char *broken; /* why the file is broken now; NULL: it is not */
	unsigned looks;
	uint64_t files_seen;	       /* checksum of the state of the policy's files before they were read */
	struct net_compiler *compiler; /* NULL: none is compiling */
	struct timer t_compile;
	unsigned n_let_go; /* killed ones that have not ended yet */

	struct askserve serve;
	uint64_t ask_said;		 /* number of the last question that was reported */
	struct timer t_unread;		 /* coffer-egress does not read its answers */
	uint64_t unread[NET_UNREAD_MAX]; /* tickets whose "allow" it did not read */
	size_t n_unread;
	bool ask_held; /* answers are held in ask_queue: an array of struct ctl_answer */
	struct buf ask_queue;
	struct timer t_held;
	bool plan_stored;

	struct watch w_vault; /* coffer-vault's pidfd */
	struct watch w_vault_dir;
	struct timer t_vault;
	uint64_t vault_backoff, vault_since; /* ns; CLOCK_MONOTONIC ns */
	char vault_why[256]; /* the last reported reason for its being down; empty: it is up */
};

/* net.c */
void net_audit(struct net_guard *g, const char *type, const struct buf *fields);
void net_fail(struct net_guard *g, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* A program has died or must be killed: ends what is left of it, and restarts it after a pause. */
void net_down(struct net_guard *g, struct net_proc *p, const char *why);
void net_start_now(struct net_guard *g); /* without waiting for a packet */
void net_up(struct net_guard *g);	 /* one has become ready */
int net_launcher_send_msg(struct net_guard *g, const struct net_msg *m, int fd) MUST_CHECK;
int net_launcher_send(struct net_guard *g, enum net_msg_type type, uint32_t level, const char *text,
		      int fd) MUST_CHECK;

/* net_proc.c */
/* Makes a control socket: stores our end, which does not block, in *p and returns the other. */
int net_proc_socket(struct net_proc *p, struct err *e) MUST_CHECK;
/* When one that has died is started again, as CLOCK_MONOTONIC ns. `up_since`: when it became ready; 0: it did not. */
uint64_t net_proc_start_again_at(uint64_t *backoff, uint64_t up_since);
/* Has it ended? A child that cannot be waited for has. */
bool net_proc_has_ended(const struct net_proc *p, siginfo_t *ret);
void net_proc_describe_end(const struct net_proc *p, const siginfo_t *si, char out[320]);
const char *net_part_name(enum net_part p); /* "coffer-egress" */
int net_proc_open(struct net_proc *p, struct err *e) MUST_CHECK;
/* Starts it: fds[n] becomes descriptor n; -1: /dev/null. Entries below 3 are ignored. */
int net_proc_start(struct net_proc *p, const int *fds, size_t n, struct err *e) MUST_CHECK;
/* Waits until the program has been executed; on failure the process is gone. */
int net_proc_started(struct net_proc *p, struct err *e) MUST_CHECK;
/* Sends SIGKILL and reaps it. */
void net_proc_kill(struct net_proc *p);
bool net_proc_wait(struct net_proc *p, uint64_t until); /* did it end by itself before `until`? */
void net_cgroup_open(struct net_guard *g);
void net_cgroup_close(struct net_guard *g);

/* net_ctl.c */
int net_ctl_send(struct net_proc *p, enum ctl_type type, const int *fds, size_t n) MUST_CHECK;
void net_ctl_watch(struct net_proc *p);
void net_ctl_ping(struct timer *t);
void net_ctl_stats(struct timer *t);

/* net_journal.c */
/* Makes both files, once. */
int net_journal_make(struct net_guard *g, struct err *e) MUST_CHECK;
/* For a program to append to. */
int net_journal_open(struct net_guard *g, enum net_part p, int *ret_fd, struct err *e) MUST_CHECK;
/* For coffer-netd to read. */
int net_journal_open_read(struct net_guard *g, enum net_part p, int *ret_fd, struct err *e) MUST_CHECK;
uint64_t net_journal_size(const struct net_journal *j);
/* Everything before `upto` is in the log: gives it back to the disk. */
void net_journal_punch(struct net_journal *j, uint64_t upto);
/* Is more of it unread than a program that writes events leaves? */
bool net_journal_is_flooded(const struct net_guard *g, enum net_part p);
bool net_journal_is_read(const struct net_guard *g); /* all of both */
/* The file with both offsets (struct netd_place): what is in the log is not logged again by whoever ends the run of a dead guard. */
#define NET_JOURNAL_PLACE "journal.place"
int net_journal_open_place(int run_dir, bool make);
void net_journal_keep_place(int fd, const struct netd_peer *p);
void net_journal_find_place(int fd, const uint64_t size[NET_PARTS], struct netd_peer *p);
/* Removes those that are read. */
void net_journal_remove(struct net_guard *g);
extern const char *const net_journal_names[NET_PARTS];

/* net_reader.c */
/* Starts coffer-netd, once; net_reader_started() then waits until it has been executed. */
int net_reader_begin(struct net_guard *g, struct err *e) MUST_CHECK;
int net_reader_started(struct net_guard *g, struct err *e) MUST_CHECK;
void net_reader_soon(struct net_guard *g); /* a line must reach the log at once */
/* Events up to now are in the log when this returns, up to a turn of coffer-netd, or it is down and the log says so. Negative: they
 * could not be written. */
int net_reader_catch_up(struct net_guard *g) MUST_CHECK;
/* Nobody writes the journals any more: all of them come into the log, as far as coffer-netd does its part; it has ended then. */
void net_reader_finish(struct net_guard *g);
int net_reader_report(struct net_guard *g); /* a memfd */
/* Writes an event that coffer-netd packed into the log, under the run's id. -EPROTO: it is not valid. */
int net_reader_log(const struct net_config *c, const void *packed, size_t len) MUST_CHECK;

/* net_reload.c */
void net_reload_watch(struct net_guard *g);
/* The plan's policy differs from the one with digest `before`: logs that, then gives it to both programs. With the
 * proxies' credentials, which it takes over; NULL: they are the same. */
int net_policy_changed(struct net_guard *g, const char *before, int *credentials, struct err *e) MUST_CHECK;
/* The end of a compile: its result, or NULL and the error. Takes over the result, and the descriptor of the proxies'
 * credentials if it needs it. */
void net_reload_compiled(struct net_guard *g, struct net_compiled *result, int *credentials, struct err *e);
/* Compiles the policy at once, in case the file has changed. False: there is none; otherwise net_ask_release() follows. */
bool net_reload_now(struct net_guard *g);

/* net_compile.c */
/* Starts to compile, in the place of an earlier one; net_reload_compiled() follows, within this call if it cannot be
 * started. */
void net_compile_start(struct net_guard *g);
void net_compile_stop(struct net_guard *g);
/* The credentials of the plan's proxies, in a sealed memory file: waits for a child of its own to read them. */
int net_compile_credentials(struct net_guard *g, struct err *e) MUST_CHECK;

/* net_widen.c: the callbacks of struct askserve_owner. */
int net_widen_check(struct net_guard *g, const char *rule, struct buf *canon, struct err *e) MUST_CHECK;
int net_widen_apply(struct net_guard *g, struct err *e) MUST_CHECK;
int net_widen_begin(struct net_guard *g, struct err *e) MUST_CHECK; /* applies those of the session */

/* net_say.c */
void net_say(struct net_guard *g, enum net_level level, const char *fmt, ...) PRINTF_LIKE(3, 4);
void net_say_denied(struct net_guard *g, const struct netd_said *s);

/* net_ask.c */
int net_ask_open(struct net_guard *g, struct err *e) MUST_CHECK;
void net_ask_listen(struct net_guard *g); /* idempotent */
void net_ask_close(struct net_guard *g);
void net_ask_egress_gone(struct net_guard *g);
void net_ask_new_policy(struct net_guard *g);
void net_ask_release(struct net_guard *g); /* sends the answers that were held for a changed policy */
/* Takes CTL_ASK and its kin. */
int net_ask_take(struct net_guard *g, uint32_t type, const char *data, size_t len) MUST_CHECK;

/* net_sign_ask.c */
#define NET_SIGN_WAITER (1ULL << 62) /* set in waiters of the launcher; coffer-egress has none */
bool net_sign_is_message(const void *word, size_t len); /* is it a message of net_sign.h? */
void net_sign_take(struct net_guard *g, const void *word, size_t len);
void net_sign_tell(struct net_guard *g, uint64_t waiter, bool allow, const char *id, const char *why);

/* net_vault.c */
void net_vault_begin(struct net_guard *g);
void net_vault_end(struct net_guard *g);
void net_vault_check(struct net_guard *g); /* reports and logs if its file is an older one */
/* For a coffer-egress: the list of grants, and a channel of its own; a dead channel while there is no vault.
 * Without secrets the list has only marks, if there are any. */
int net_vault_give(struct net_guard *g, int *ret_list, int *ret_channel, struct err *e) MUST_CHECK;

/* The same for a coffer-dial, if a proxy's credential is in the vault. */
int net_vault_give_dial(struct net_guard *g, int *ret_list, int *ret_channel, struct err *e) MUST_CHECK;

/* net_give.c */
int net_give_bundle(struct net_guard *g, struct err *e) MUST_CHECK;
/* In the process that compiles: writes the credentials of the policy's proxies to fd. */
int net_give_proxies(int fd, const struct config_policy *cp, struct err *e) MUST_CHECK;

#endif
