/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's two lists (launcher_fence.h), each call with the file that needs it.
 *
 * No call belongs into the second list that executes a program, makes, enters or changes a namespace or a mount, traces or
 * reads another process, changes an identity, or makes a socket that is not a UNIX socket. The one namespace that may be entered
 * is the sandbox's own user namespace, and only where a layer may have to be wiped from there.
 */
#include "run/launcher_fence.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* The same on every architecture; headers may lack them. */
enum {
	NR_PIDFD_GETFD = 438,
	NR_PROCESS_MADVISE = 440,
	NR_LANDLOCK_CREATE = 444,
	NR_LANDLOCK_ADD = 445,
	NR_LANDLOCK_RESTRICT = 446,
	NR_FCHMODAT2 = 452,
};

static const uint16_t never[] = {
	/* the kernel itself: other code in it, programs for it, another one in its place */
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_bpf,
	SYS_kexec_load,
#ifdef SYS_kexec_file_load
	SYS_kexec_file_load,
#endif
	SYS_reboot,
	SYS_perf_event_open,
	SYS_userfaultfd,
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	/* other processes: their memory, descriptors and keys */
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_kcmp,
	NR_PIDFD_GETFD,
	NR_PROCESS_MADVISE,
	SYS_move_pages,
	SYS_migrate_pages,
	SYS_add_key,
	SYS_request_key,
	SYS_keyctl,
	/* the host: clock, swap, accounting, quotas, name, log */
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_clock_adjtime,
	SYS_adjtimex,
	SYS_swapon,
	SYS_swapoff,
	SYS_acct,
	SYS_quotactl,
	SYS_sethostname,
	SYS_setdomainname,
	SYS_syslog,
	SYS_vhangup,
	/* files without a path, or below another root */
	SYS_name_to_handle_at,
	SYS_open_by_handle_at,
	SYS_fanotify_init,
	SYS_fanotify_mark,
	SYS_chroot,
	SYS_pivot_root,
	/* old or odd: the machine's ports, its tables of segments, what a program is taken for */
	SYS_personality,
	SYS_remap_file_pages,
	SYS_vmsplice,
	SYS_lookup_dcookie,
#ifdef SYS_iopl
	SYS_iopl,
#endif
#ifdef SYS_ioperm
	SYS_ioperm,
#endif
#ifdef SYS_modify_ldt
	SYS_modify_ldt,
#endif
#ifdef SYS_uselib
	SYS_uselib,
#endif
#ifdef SYS_ustat
	SYS_ustat,
#endif
#ifdef SYS_sysfs
	SYS_sysfs,
#endif
};

const struct seccomp_list launcher_never = { .calls = never, .n_calls = ARRAY_SIZE(never), .forbids = true };

static const uint16_t calls[] = {
	/* the loop: loop.c, pump.c, supervise_sink.c */
	SYS_epoll_pwait,
	SYS_epoll_ctl,
	SYS_read,
	SYS_write,
	SYS_ppoll,
	SYS_clock_gettime,
	SYS_gettimeofday,
	SYS_restart_syscall,
	SYS_epoll_create1,
	SYS_signalfd4,
	SYS_readv,
	SYS_writev,
	SYS_preadv2,
	SYS_pwritev2,
	SYS_close,
	SYS_close_range,
	SYS_dup,
	SYS_dup3, /* let_caller_go() */
	SYS_pipe2,
#ifdef SYS_epoll_wait
	SYS_epoll_wait,
	SYS_poll,
	SYS_dup2,
#endif
	/* sockets that are there, or that arrive: init's stream, the guard, clients, ports, a command for a warm sandbox */
	SYS_accept4,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_shutdown,
	SYS_getsockopt,
	SYS_getsockname,
	SYS_getpeername,
	/* ctl.sock of a run that lasts: run.c, make_findable() */
	SYS_bind,
	SYS_listen,
	/* files: the log (audit.c), the run's directory (state.c, meta.c), control groups, /proc where nothing freezes a sandbox */
	SYS_openat,
	SYS_openat2,
	SYS_fstat,
	SYS_newfstatat,
	SYS_statx,
	SYS_statfs,
	SYS_fstatfs,
	SYS_faccessat,
	SYS_faccessat2,
	SYS_readlinkat,
	SYS_getdents64,
	SYS_lseek,
	SYS_pread64,
	SYS_pwrite64,
	SYS_ftruncate,
	SYS_fallocate, /* net_finish() punches what it has folded; the log's reserve */
	SYS_flock,
	SYS_mkdirat,
	SYS_unlinkat,
	SYS_renameat,
	SYS_renameat2,
#ifdef SYS_open
	SYS_open,
	SYS_stat,
	SYS_lstat,
	SYS_access,
	SYS_readlink,
	SYS_mkdir,
	SYS_unlink,
	SYS_rmdir,
	SYS_rename,
	SYS_chmod,
#endif
	/* layers: counting changes (layer.c), the disk limit (layer_usage.c), wiping (rmtree.c). A sandbox may have closed its own
	 * directories, and set any bit of a mode, which is put back */
	SYS_fchmod,
	SYS_fchmodat,
	NR_FCHMODAT2,
	SYS_getxattr,
	SYS_fgetxattr,
	/* the report and a warm sandbox's end: memory files */
	SYS_memfd_create,
	/* ending the sandbox, and stopping it for a checkpoint: supervise_end.c, cgroup_kill.c, proctree.c */
	SYS_pidfd_open,
	SYS_pidfd_send_signal,
	SYS_waitid,
	SYS_wait4,
	SYS_nanosleep,
	SYS_clock_nanosleep,
	/* a child that executes nothing and gives up more: ids_child.c */
	SYS_set_robust_list,
	SYS_getppid,
	SYS_capget,
	SYS_capset,
	NR_LANDLOCK_CREATE,
	NR_LANDLOCK_ADD,
	NR_LANDLOCK_RESTRICT,
	/* memory; every list filters mmap() itself */
	SYS_brk,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_mlock,
	SYS_munlock,
	SYS_getrandom,
	SYS_futex,
	SYS_sysinfo, /* qsort() queries the amount of memory */
	/* signals, identity, the end */
	SYS_rt_sigreturn,
	SYS_rt_sigprocmask,
	SYS_rt_sigaction,
	SYS_getpid,
	SYS_gettid,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	SYS_getgroups, /* judge.c: whose files a change could be */
	SYS_getpgid,
#ifdef SYS_getpgrp
	SYS_getpgrp, /* supervise_prompt.c */
#endif
	SYS_exit_group,
	SYS_exit,
};

/* What newer C libraries make of tcgetattr() and tcsetattr(); their headers cannot stand beside <termios.h>. */
#define NR_TCGETS2 0x802c542au
#define NR_TCSETS2 0x402c542bu

/* What the C library's fork() makes: no namespace, no shared memory. */
#define FORK_FLAGS (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)
#define SEND_FLAGS (MSG_NOSIGNAL | MSG_DONTWAIT)

static const struct seccomp_rule rules[] = {
	/* MSG_FASTOPEN is connect() by another name, for the sockets of published ports. */
	{ SYS_sendto, { SECCOMP_ONLY_BITS(3, SEND_FLAGS) } },
	{ SYS_sendmsg, { SECCOMP_ONLY_BITS(2, SEND_FLAGS) } },
	SECCOMP_SOCKET(AF_UNIX, SOCK_STREAM),
	{ SYS_socketpair, { SECCOMP_IS(0, AF_UNIX) } },
	{ SYS_setsockopt, { SECCOMP_IS(1, SOL_SOCKET), SECCOMP_IS(2, SO_LINGER) } },
	{ SYS_setsockopt, { SECCOMP_IS(1, IPPROTO_TCP), SECCOMP_IS(2, TCP_NODELAY) } },
	/* Not F_SETOWN, F_SETSIG, F_SETLEASE or F_NOTIFY. */
	{ SYS_fcntl, { SECCOMP_IS(1, F_GETFL) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_SETFL) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_GETFD) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_SETFD) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_DUPFD_CLOEXEC) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_GETLK) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_SETLK) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_SETLKW) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_OFD_SETLK) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_ADD_SEALS) } },
	{ SYS_fcntl, { SECCOMP_IS(1, F_GET_SEALS) } },
	/* The caller's terminal: nothing that types into it (TIOCSTI) or takes it (TIOCSCTTY, TIOCSETD). tty.c, supervise_prompt.c */
	{ SYS_ioctl, { SECCOMP_IS(1, TCGETS) } },
	{ SYS_ioctl, { SECCOMP_IS(1, TCSETS) } },
	{ SYS_ioctl, { SECCOMP_IS(1, NR_TCGETS2) } },
	{ SYS_ioctl, { SECCOMP_IS(1, NR_TCSETS2) } },
	{ SYS_ioctl, { SECCOMP_IS(1, TCFLSH) } },
	{ SYS_ioctl, { SECCOMP_IS(1, TIOCGWINSZ) } },
	{ SYS_ioctl, { SECCOMP_IS(1, TIOCGPGRP) } },
	/* objects.c: where the directory of checkpoints' content has to be made again */
	{ SYS_ioctl, { SECCOMP_IS(1, FS_IOC_GETFLAGS) } },
	{ SYS_ioctl, { SECCOMP_IS(1, FS_IOC_SETFLAGS) } },
	{ SYS_clone, { SECCOMP_IS(0, FORK_FLAGS) } },
	/* A child's own rights, which only decrease: spawn_die_with(), fence_up(). */
	{ SYS_prctl, { SECCOMP_IS(0, PR_SET_PDEATHSIG) } },
	{ SYS_prctl, { SECCOMP_IS(0, PR_SET_NO_NEW_PRIVS) } },
	{ SYS_prctl, { SECCOMP_IS(0, PR_SET_DUMPABLE), SECCOMP_IS(1, 0) } },
	{ SYS_prctl, { SECCOMP_IS(0, PR_SET_NAME) } },
	{ SYS_prctl, { SECCOMP_IS(0, PR_CAPBSET_READ) } },
	{ SYS_prctl, { SECCOMP_IS(0, PR_CAPBSET_DROP) } },
	{ SYS_prctl, { SECCOMP_IS(0, PR_CAP_AMBIENT) } },
	{ SYS_prctl, { SECCOMP_IS(0, PR_SET_SECUREBITS) } },
	{ SYS_prctl, { SECCOMP_IS(0, PR_GET_SECUREBITS) } },
	{ SYS_prlimit64, { SECCOMP_IS(0, 0) } },
	{ SYS_seccomp, { SECCOMP_IS(0, SECCOMP_SET_MODE_FILTER) } },
	/* The guard, and the sandbox's first process: no other signal, and not all processes of this user (-1). */
	{ SYS_kill, { { 0, 0x80000000u, 0 }, SECCOMP_IS(1, SIGKILL) } },
};

void launcher_calls(struct launcher_calls *ret, const struct launcher_needs *needs)
{
	size_t n = ARRAY_SIZE(rules);

	_Static_assert(ARRAY_SIZE(rules) + 2 <= LAUNCHER_RULES_MAX, "room for what not every launcher needs");
	memcpy(ret->rules, rules, sizeof(rules));
	/* wipe.c */
	if (needs->userns >= 0)
		ret->rules[n++] = (struct seccomp_rule){
			SYS_setns, { SECCOMP_IS(0, needs->userns), SECCOMP_IS(1, CLONE_NEWUSER) }
		};
	/* askc.c, for supervise_prompt.c */
	if (needs->asks)
		ret->rules[n++] = (struct seccomp_rule){ .nr = SYS_connect };
	ret->list = (struct seccomp_list){ calls, ARRAY_SIZE(calls), ret->rules, n, .aborts = true };
}
