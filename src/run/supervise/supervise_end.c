/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals to coffer, the time limit, killing, and the cause that is reported afterwards.
 *
 * A claim of init about the end counts only where neither the launcher nor the kernel knows better (supervise_settle()).
 */
#include "base/clock.h"
#include "base/str.h"
#include "run/supervise/supervise_int.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TERM_GRACE (10 * NSEC_PER_SEC)	 /* from SIGTERM or SIGHUP to coffer until SIGKILL inside */
#define INT_AGAIN (2 * NSEC_PER_SEC)	 /* a second SIGINT within this kills */
#define TIMEOUT_GRACE (2 * NSEC_PER_SEC) /* from SIGTERM at the time limit until SIGKILL */
#define OOM_LOOK (500 * NSEC_PER_MSEC)
#define EXIT_TIMEOUT 124 /* as timeout(1) */
#define EXIT_OURS 125

const char *run_cause_name(enum run_cause c)
{
	static const char *const names[] = {
		[CAUSE_EXIT] = "exit",	     [CAUSE_SIGNAL] = "signal",
		[CAUSE_OOM] = "oom",	     [CAUSE_PIDS] = "pids",
		[CAUSE_TIMEOUT] = "timeout", [CAUSE_OUTPUT] = "output",
		[CAUSE_DISK] = "disk",	     [CAUSE_STOPPED] = "stopped",
		[CAUSE_CALLER] = "caller",   [CAUSE_NOT_STARTED] = "not-started",
		[CAUSE_BROKEN] = "broken",   [CAUSE_ROLLED] = "rollback",
		[CAUSE_NETWORK] = "network",
	};

	static_assert(ARRAY_SIZE(names) == CAUSE_COUNT, "a name for each cause");
	return c < CAUSE_COUNT ? names[c] : "?";
}

void supervise_signal_main(struct supervision *sv, int sig)
{
	if (sv->ended || sv->killed)
		return;
	proto_add_u32(&sv->init.out, PROTO_SIGNAL, SUPERVISE_MAIN_CHAN, (uint32_t)sig);
	/* A stopped process takes the signal only after SIGCONT. */
	if (sig == SIGTERM || sig == SIGHUP)
		proto_add_u32(&sv->init.out, PROTO_SIGNAL, SUPERVISE_MAIN_CHAN, SIGCONT);
	supervise_flush_init(sv);
}

void supervise_kill(struct supervision *sv, enum run_cause cause)
{
	if (cause != CAUSE_COUNT && sv->cause == CAUSE_COUNT && !sv->ended)
		sv->cause = cause;
	if (sv->killed)
		return;
	sv->killed = true;
	/* With pid 1 the kernel kills everything in its pid namespace. ESRCH: it is dead already. */
	if (sv->run->pidfd >= 0 && syscall(SYS_pidfd_send_signal, sv->run->pidfd, SIGKILL, NULL, 0) < 0 &&
	    errno != ESRCH && !sv->error)
		sv->error = err_sys(sv->err, -errno, "cannot kill the sandbox");
	/* A frozen process dies only when it is thawed. */
	supervise_thaw(sv);
}

void supervise_broken(struct supervision *sv, const char *fmt, ...)
{
	va_list ap;

	/* Only the first violation is recorded, and none after the command's end. */
	if (sv->ended || sv->end->broken[0])
		return;
	va_start(ap, fmt);
	vsnprintf(sv->end->broken, sizeof(sv->end->broken), fmt, ap);
	va_end(ap);
	supervise_kill(sv, CAUSE_BROKEN);
}

static void on_kill_deadline(struct timer *t)
{
	struct supervision *sv = t->ctx;

	supervise_kill(sv, CAUSE_STOPPED);
	if (sv->reaped)
		loop_stop(&sv->loop);
}

static void on_time_limit(struct timer *t)
{
	struct supervision *sv = t->ctx;

	if (sv->cause == CAUSE_COUNT && !sv->ended)
		sv->cause = CAUSE_TIMEOUT;
	supervise_signal_main(sv, SIGTERM);
	loop_timer(&sv->loop, &sv->t_kill, clock_nsec(CLOCK_MONOTONIC) + TIMEOUT_GRACE);
}

/*
 * gVisor only: the kernel's OOM killer picks one of runsc's processes. If that is one in which gVisor runs guest code,
 * gVisor waits for it for ever, and so does the command. The first OOM kill therefore ends the sandbox.
 */
static void on_oom_poll(struct timer *t)
{
	struct supervision *sv = t->ctx;
	struct cgroup_stat st = { 0 };

	if (sv->ended || sv->killed)
		return;
	cgroup_read_stat(sv->cg, &st);
	if (st.oom_kills > 0)
		supervise_kill(sv, CAUSE_OOM);
	else
		loop_timer(&sv->loop, t, clock_nsec(CLOCK_MONOTONIC) + OOM_LOOK);
}

void supervise_start_timeout(struct supervision *sv)
{
	uint64_t limit = sv->spec->limits.l[LIMIT_TIMEOUT].value;

	sv->t_kill = (struct timer){ .fn = on_kill_deadline, .ctx = sv };
	sv->t_timeout = (struct timer){ .fn = on_time_limit, .ctx = sv };
	if (limit != LIMIT_NONE)
		loop_timer(&sv->loop, &sv->t_timeout, sv->started + limit);
	sv->t_oom = (struct timer){ .fn = on_oom_poll, .ctx = sv };
	if (sv->cg && sv->run->layers.engine && str_eq(sv->run->layers.engine, "gvisor"))
		loop_timer(&sv->loop, &sv->t_oom, sv->started + OOM_LOOK);
}

static void note_stop(struct supervision *sv, int sig)
{
	sv->stop_signal = sig;
	sv->stop_at = clock_nsec(CLOCK_MONOTONIC);
}

void supervise_stop(struct supervision *sv, int sig, uint64_t grace_ns)
{
	uint64_t at = clock_nsec(CLOCK_MONOTONIC) + grace_ns;

	if (sv->ended || sv->killed)
		return;
	note_stop(sv, sig);
	if (!grace_ns) {
		supervise_kill(sv, CAUSE_STOPPED);
		return;
	}
	supervise_signal_main(sv, sig);
	if (!sv->t_kill.armed || sv->t_kill.at > at)
		loop_timer(&sv->loop, &sv->t_kill, at);
}

/* Ctrl-C for a command without a terminal of its own: passed on the first time, a kill the second time. */
static void take_interrupt(struct supervision *sv)
{
	uint64_t now = clock_nsec(CLOCK_MONOTONIC);

	if (sv->last_int && now - sv->last_int < INT_AGAIN) {
		supervise_kill(sv, CAUSE_STOPPED);
		return;
	}
	sv->last_int = now;
	note_stop(sv, SIGINT);
	supervise_signal_main(sv, SIGINT);
}

void supervise_take_signal(struct supervision *sv, int sig)
{
	switch (sig) {
	case SIGWINCH:
		if (!sv->ended && !sv->killed)
			pump_resized(&sv->pump);
		supervise_prompt_resized(sv);
		break;
	case SIGTSTP:
		pump_suspend(&sv->pump);
		supervise_prompt_redraw(sv);
		break;
	case SIGINT:
		take_interrupt(sv);
		break;
	case SIGQUIT:
		note_stop(sv, SIGQUIT);
		supervise_signal_main(sv, SIGQUIT);
		break;
	default:
		supervise_stop(sv, sig, TERM_GRACE);
		break;
	}
	/* The sandbox has ended and only unread output keeps us here: the signal means that nobody wants the rest. */
	if (sv->reaped && sig != SIGWINCH && sig != SIGTSTP)
		loop_stop(&sv->loop);
}

static void on_launcher_signal(void *ctx, const struct signalfd_siginfo *si)
{
	supervise_take_signal(ctx, (int)si->ssi_signo);
}

int supervise_take_signals(struct supervision *sv, struct err *e)
{
	sv->pump.resizes = sv->io->prompt;
	return pump_take_signals(&sv->pump, on_launcher_signal, sv, e);
}

/* Did a signal that we passed on end it? The command's handler may have taken up to TERM_GRACE. */
static bool ended_by_stop_signal(const struct supervision *sv)
{
	const struct proto_exit *x = &sv->end->claim;

	if (!sv->stop_signal)
		return false;
	if (x->kind == PROTO_SIGNALED)
		return (int)x->value == sv->stop_signal;
	return clock_nsec(CLOCK_MONOTONIC) - sv->stop_at < TERM_GRACE || sv->t_kill.armed;
}

/* The cause by init's claim, where the launcher did not end the sandbox. */
static void settle_by_claim(struct supervision *sv)
{
	struct run_end *end = sv->end;

	end->exit_code = proto_exit_code(&end->claim);
	switch (end->claim.kind) {
	case PROTO_EXITED:
		end->cause = ended_by_stop_signal(sv) ? CAUSE_STOPPED : CAUSE_EXIT;
		break;
	case PROTO_SIGNALED:
		end->cause = ended_by_stop_signal(sv) ? CAUSE_STOPPED : CAUSE_SIGNAL;
		end->signal = (int)end->claim.value;
		break;
	default:
		end->cause = CAUSE_NOT_STARTED;
		end->start_errno = (int)end->claim.value;
		break;
	}
}

/* The cause where the launcher ended the sandbox; the exit code follows from the cause, not from init. */
static void settle_by_launcher(struct supervision *sv)
{
	struct run_end *end = sv->end;

	end->cause = sv->cause;
	switch (sv->cause) {
	case CAUSE_TIMEOUT:
		end->exit_code = EXIT_TIMEOUT;
		break;
	case CAUSE_BROKEN:
	case CAUSE_NETWORK:
		end->exit_code = EXIT_OURS;
		break;
	case CAUSE_STOPPED:
		end->exit_code = 128 + (sv->stop_signal ? sv->stop_signal : SIGKILL);
		break;
	default:
		end->exit_code = 128 + SIGKILL;
		break;
	}
}

bool supervise_pids_by_rlimit(const struct spec *s)
{
	const struct limit *l = &s->limits.l[LIMIT_PIDS];

	return l->value != LIMIT_NONE && l->how && (str_eq(l->how, "rlimit") || str_eq(l->how, "gvisor"));
}

/* Where no control group counts processes, only the sandbox can claim that the limit was reached. */
static bool pids_are_claimed(const struct supervision *sv)
{
	const struct proto_exit *x = &sv->end->claim;

	if (!supervise_pids_by_rlimit(sv->spec))
		return false;
	return x->what == PROTO_WHAT_PIDS ||
	       (x->kind == PROTO_NOT_STARTED && x->what == PROTO_WHAT_FORK && x->value == EAGAIN);
}

/* For a command that failed: the control group's counters tell whether memory or pids were exhausted. */
static void settle_by_kernel(struct supervision *sv)
{
	struct run_end *end = sv->end;
	struct cgroup_stat st = { 0 };

	if (end->exit_code == 0 || !sv->cg)
		return;
	cgroup_read_stat(sv->cg, &st);
	end->pids_claimed = pids_are_claimed(sv);
	end->pids_hit = st.pids_refused > 0 || end->pids_claimed;
	if (end->cause != CAUSE_EXIT && end->cause != CAUSE_SIGNAL && end->cause != CAUSE_BROKEN &&
	    !(end->cause == CAUSE_NOT_STARTED && end->claim.what == PROTO_WHAT_FORK))
		return;
	if (st.oom_kills > 0) {
		end->cause = CAUSE_OOM;
		if (end->claim.kind != PROTO_EXITED)
			end->exit_code = 128 + SIGKILL;
	} else if (end->pids_hit && end->cause != CAUSE_BROKEN) {
		end->cause = CAUSE_PIDS;
	} else if (st.pids_refused > 0 && supervise_pids_by_rlimit(sv->spec)) {
		/* The control group is gVisor's outer limit: gVisor dies when it is reached. */
		end->cause = CAUSE_PIDS;
		end->exit_code = 128 + SIGKILL;
	}
}

void supervise_settle(struct supervision *sv)
{
	struct run_end *end = sv->end;

	end->wall_ns = clock_nsec(CLOCK_MONOTONIC) - sv->started;
	end->output_bytes = sv->pump.printed;
	end->output_cut = sv->pump.cut;
	end->saw_erofs = sv->pump.saw_erofs;
	end->output_error = sv->pump.out.error ? sv->pump.out.error : sv->pump.err.error;
	if (sv->cause != CAUSE_COUNT)
		settle_by_launcher(sv);
	else
		settle_by_claim(sv);
	settle_by_kernel(sv);
	if (end->cause != CAUSE_BROKEN && end->cause != CAUSE_NETWORK)
		end->broken[0] = '\0';
}
