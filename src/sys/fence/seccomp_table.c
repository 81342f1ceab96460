/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table. It began as the union of what docker's and systemd-nspawn's default lists allow; each entry
 * was then weighed for this place: compilers, interpreters, git, browsers, databases and debuggers must
 * run, no capability is held unless it was named, and every namespace is the sandbox's own.
 *
 *  1. A number is in one group only (a test checks it).
 *  2. A granted capability allows a refused group only if the kernel honours that capability in a user namespace. For
 *     a capability that it wants in the initial namespace (SYS_MODULE, SYS_TIME, SYSLOG …) the call would fail
 *     anyway, and allowing it would only expose the kernel's code before the check.
 *  3. The arrays contain numbers and no names: a pointer for each call would be a relocation for each call at each
 *     start.
 */
#include "sys/fence/seccomp_table.h"

#include "base/cleanup.h"

#include <linux/capability.h>
#include <sys/syscall.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "the table is known for x86_64 and aarch64 only"
#endif

#define CAP(c) (1ULL << (c))

/* From 424 on, numbers are the same on every architecture; those that old headers lack are defined
 * here. */
enum {
	NR_QUOTACTL_FD = 443,
	NR_LANDLOCK_CREATE_RULESET = 444,
	NR_LANDLOCK_ADD_RULE = 445,
	NR_LANDLOCK_RESTRICT_SELF = 446,
	NR_MEMFD_SECRET = 447,
	NR_PROCESS_MRELEASE = 448,
	NR_FUTEX_WAITV = 449,
	NR_SET_MEMPOLICY_HOME_NODE = 450,
	NR_CACHESTAT = 451,
	NR_FCHMODAT2 = 452,
	NR_MAP_SHADOW_STACK = 453,
	NR_FUTEX_WAKE = 454,
	NR_FUTEX_WAIT = 455,
	NR_FUTEX_REQUEUE = 456,
	NR_STATMOUNT = 457,
	NR_LISTMOUNT = 458,
	NR_LSM_GET_SELF_ATTR = 459,
	NR_LSM_SET_SELF_ATTR = 460,
	NR_LSM_LIST_MODULES = 461,
	NR_MSEAL = 462,
	NR_SETXATTRAT = 463,
	NR_GETXATTRAT = 464,
	NR_LISTXATTRAT = 465,
	NR_REMOVEXATTRAT = 466,
	NR_OPEN_TREE_ATTR = 467,
	NR_FILE_GETATTR = 468,
	NR_FILE_SETATTR = 469,
};

/* clang-format off */
static const uint16_t files[] = {
	SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev,
	SYS_preadv2, SYS_pwritev2, SYS_lseek, SYS_close, SYS_close_range, SYS_dup, SYS_dup3, SYS_fcntl,
	SYS_flock, SYS_pipe2, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs, SYS_faccessat,
	SYS_faccessat2, SYS_readlinkat, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_getdents64, SYS_linkat,
	SYS_symlinkat, SYS_unlinkat, SYS_renameat, SYS_renameat2, SYS_fchown, SYS_fchownat, SYS_utimensat,
	SYS_umask, SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_fadvise64, SYS_readahead, SYS_sync,
	SYS_syncfs, SYS_fsync, SYS_fdatasync, SYS_sync_file_range, SYS_copy_file_range, SYS_sendfile,
	SYS_splice, SYS_tee, SYS_vmsplice, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_getxattr,
	SYS_lgetxattr, SYS_fgetxattr, SYS_listxattr, SYS_llistxattr, SYS_flistxattr, SYS_removexattr,
	SYS_lremovexattr, SYS_fremovexattr, SYS_name_to_handle_at, SYS_inotify_init1, SYS_inotify_add_watch,
	SYS_inotify_rm_watch, SYS_io_setup, SYS_io_destroy, SYS_io_submit, SYS_io_cancel, SYS_io_getevents,
	SYS_io_pgetevents, NR_CACHESTAT, NR_SETXATTRAT, NR_GETXATTRAT, NR_LISTXATTRAT, NR_REMOVEXATTRAT,
	NR_FILE_GETATTR, NR_FILE_SETATTR,
#ifdef SYS_stat /* the forms from before the …at() calls */
	SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_getdents, SYS_link, SYS_symlink, SYS_unlink,
	SYS_rename, SYS_rmdir, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_dup2,
	SYS_pipe, SYS_inotify_init,
#endif
};

static const uint16_t mode_second[] = {
	SYS_fchmod,
#ifdef SYS_chmod
	SYS_chmod, SYS_mkdir, SYS_creat,
#endif
};

static const uint16_t mode_third[] = { SYS_fchmodat, NR_FCHMODAT2, SYS_mkdirat };

#ifdef SYS_open
static const uint16_t open_plain[] = { SYS_open };
#endif
static const uint16_t open_at[] = { SYS_openat };
static const uint16_t open_at2[] = { SYS_openat2 };

#ifdef SYS_mknod
static const uint16_t make_node[] = { SYS_mknod };
#endif
static const uint16_t make_node_at[] = { SYS_mknodat };

static const uint16_t memory[] = {
	SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_msync, SYS_mincore, SYS_madvise,
	SYS_mlock, SYS_mlock2, SYS_munlock, SYS_mlockall, SYS_munlockall, SYS_remap_file_pages,
	SYS_memfd_create, SYS_pkey_alloc, SYS_pkey_free, SYS_pkey_mprotect, NR_MEMFD_SECRET,
	NR_MAP_SHADOW_STACK, NR_MSEAL,
};

static const uint16_t numa[] = {
	SYS_get_mempolicy, SYS_set_mempolicy, SYS_mbind, SYS_move_pages, SYS_migrate_pages,
	NR_SET_MEMPOLICY_HOME_NODE,
};

static const uint16_t processes[] = {
	SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_getpid, SYS_getppid,
	SYS_gettid, SYS_setsid, SYS_getsid, SYS_setpgid, SYS_getpgid, SYS_set_tid_address,
	SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_membarrier, SYS_prctl, SYS_futex,
	NR_FUTEX_WAITV, NR_FUTEX_WAKE, NR_FUTEX_WAIT, NR_FUTEX_REQUEUE, SYS_getrlimit, SYS_setrlimit,
	SYS_prlimit64, SYS_getrusage, SYS_times, SYS_restart_syscall, SYS_pidfd_open, SYS_pidfd_send_signal,
#ifdef __x86_64__
	SYS_fork, SYS_vfork, SYS_getpgrp, SYS_arch_prctl, SYS_set_thread_area, SYS_get_thread_area,
	335, 336, /* uretprobe, uprobe: put into a program by the kernel that probes it, of no other use */
#endif
};

static const uint16_t signals[] = {
	SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
	SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
	SYS_rt_sigsuspend, SYS_sigaltstack, SYS_signalfd4,
#ifdef SYS_pause
	SYS_pause, SYS_signalfd,
#endif
};

static const uint16_t identity[] = {
	SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getgroups, SYS_setgroups, SYS_setuid,
	SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_getresuid, SYS_getresgid,
	SYS_setfsuid, SYS_setfsgid, SYS_capget, SYS_capset,
};

static const uint16_t clocks[] = {
	SYS_gettimeofday, SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep,
	SYS_getitimer, SYS_setitimer, SYS_timer_create, SYS_timer_settime, SYS_timer_gettime,
	SYS_timer_getoverrun, SYS_timer_delete, SYS_timerfd_create, SYS_timerfd_settime,
	SYS_timerfd_gettime,
#ifdef SYS_time
	SYS_time, SYS_alarm,
#endif
};

static const uint16_t events[] = {
	SYS_ppoll, SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2,
	SYS_eventfd2,
#ifdef SYS_poll
	SYS_poll, SYS_select, SYS_epoll_create, SYS_epoll_wait, SYS_epoll_ctl_old, SYS_epoll_wait_old,
	SYS_eventfd,
#endif
};

static const uint16_t sockets[] = {
	SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_connect, SYS_getsockname, SYS_getpeername,
	SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_shutdown,
	SYS_getsockopt,
};

static const uint16_t socket_make[] = { SYS_socket, SYS_socketpair };
static const uint16_t socket_set[] = { SYS_setsockopt };

static const uint16_t ipc[] = {
	SYS_shmget, SYS_shmat, SYS_shmctl, SYS_shmdt, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl,
	SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend,
	SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr,
};

static const uint16_t scheduling[] = {
	SYS_sched_yield, SYS_sched_setparam, SYS_sched_getparam, SYS_sched_setscheduler,
	SYS_sched_getscheduler, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
	SYS_sched_rr_get_interval, SYS_sched_setaffinity, SYS_sched_getaffinity, SYS_sched_setattr,
	SYS_sched_getattr, SYS_getpriority, SYS_setpriority, SYS_ioprio_set, SYS_ioprio_get,
};

static const uint16_t questions[] = {
	SYS_uname, SYS_sysinfo, SYS_getcpu, SYS_getrandom, NR_STATMOUNT, NR_LISTMOUNT, NR_LSM_GET_SELF_ATTR,
	NR_LSM_LIST_MODULES,
};

static const uint16_t debugging[] = {
	SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_pidfd_getfd,
	SYS_process_madvise, NR_PROCESS_MRELEASE,
};

static const uint16_t fencing[] = {
	SYS_seccomp, NR_LANDLOCK_CREATE_RULESET, NR_LANDLOCK_ADD_RULE, NR_LANDLOCK_RESTRICT_SELF,
};

static const uint16_t namespaces[] = { SYS_clone, SYS_unshare };
static const uint16_t device_control[] = { SYS_ioctl };
static const uint16_t execution_domain[] = { SYS_personality };

static const uint16_t mounts[] = {
	SYS_mount, SYS_umount2, SYS_pivot_root, SYS_setns, SYS_open_tree, SYS_move_mount, SYS_fsopen,
	SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_mount_setattr, NR_OPEN_TREE_ATTR, SYS_sethostname,
	SYS_setdomainname,
};

static const uint16_t change_root[] = { SYS_chroot };

static const uint16_t keys[] = { SYS_add_key, SYS_request_key, SYS_keyctl };

static const uint16_t kernel_code[] = {
	SYS_bpf, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load,
	SYS_userfaultfd,
#ifdef __x86_64__
	SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_create_module, SYS_get_kernel_syms, SYS_query_module,
#endif
};

static const uint16_t profiling[] = { SYS_perf_event_open };

static const uint16_t machine[] = {
	SYS_swapon, SYS_swapoff, SYS_quotactl, NR_QUOTACTL_FD, SYS_settimeofday, SYS_clock_settime,
	SYS_adjtimex, SYS_clock_adjtime, SYS_syslog, SYS_vhangup, SYS_lookup_dcookie, SYS_nfsservctl,
	NR_LSM_SET_SELF_ATTR,
#ifdef SYS__sysctl
	SYS__sysctl,
#endif
};

static const uint16_t ending[] = { SYS_reboot };
static const uint16_t accounting[] = { SYS_acct };

static const uint16_t around_paths[] = { SYS_open_by_handle_at, SYS_fanotify_init, SYS_fanotify_mark };

static const uint16_t unfiltered[] = {
	SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register,
};
/* clang-format on */

#define GROUP(id, action, reason) \
	.name = #id, .why = (reason), .nrs = (id), .n = ARRAY_SIZE(id), .act = (action)

static const struct seccomp_group groups[] = {
	{ GROUP(files, SECCOMP_ACT_ALLOW, "which files there are is decided by the mounts and by Landlock") },
	{ GROUP(mode_second, SECCOMP_ACT_ALLOW,
		"a setuid file made in a directory of the host would be one there"),
	  .when = SECCOMP_WHEN_NO_SETID, .then = SECCOMP_ACT_MODE1 },
	{ GROUP(mode_third, SECCOMP_ACT_ALLOW,
		"a setuid file made in a directory of the host would be one there"),
	  .when = SECCOMP_WHEN_NO_SETID, .then = SECCOMP_ACT_MODE2 },
#ifdef SYS_open
	{ GROUP(open_plain, SECCOMP_ACT_ALLOW, "opening can create, and create with a mode"),
	  .when = SECCOMP_WHEN_NO_SETID, .then = SECCOMP_ACT_OPEN },
#endif
	{ GROUP(open_at, SECCOMP_ACT_ALLOW, "opening can create, and create with a mode"),
	  .when = SECCOMP_WHEN_NO_SETID, .then = SECCOMP_ACT_OPENAT },
	{ GROUP(open_at2, SECCOMP_ACT_ALLOW, "its mode is behind a pointer; programs fall back to openat"),
	  .when = SECCOMP_WHEN_NO_SETID, .then = SECCOMP_ACT_NOSYS },
#ifdef SYS_mknod
	{ GROUP(make_node, SECCOMP_ACT_MKNOD, "files, pipes and sockets, but no way to a device") },
#endif
	{ GROUP(make_node_at, SECCOMP_ACT_MKNODAT, "files, pipes and sockets, but no way to a device") },
	{ GROUP(memory, SECCOMP_ACT_ALLOW, "a program's own memory, within its control group") },
	{ GROUP(numa, SECCOMP_ACT_ALLOW, "databases and numactl look and place; it binds only own memory") },
	{ GROUP(processes, SECCOMP_ACT_ALLOW,
		"own processes, in the sandbox's own pid namespace and limits") },
	{ GROUP(signals, SECCOMP_ACT_ALLOW, "to own processes: there are no others in the pid namespace") },
	{ GROUP(identity, SECCOMP_ACT_ALLOW,
		"ids that are mapped; without a capability they cannot change") },
	{ GROUP(clocks, SECCOMP_ACT_ALLOW, "reading clocks and waiting") },
	{ GROUP(events, SECCOMP_ACT_ALLOW, "waiting on own descriptors") },
	{ GROUP(sockets, SECCOMP_ACT_ALLOW,
		"on sockets that exist; which can exist is decided by socket()") },
	{ GROUP(socket_make, SECCOMP_ACT_SOCKET,
		"families and protocols are an allowlist: VSOCK has no namespace, the rest is surface") },
	{ GROUP(socket_set, SECCOMP_ACT_ALLOW, "a nested namespace could load packet filter tables"),
	  .when = SECCOMP_WHEN_NESTED, .then = SECCOMP_ACT_SETSOCKOPT },
	{ GROUP(ipc, SECCOMP_ACT_ALLOW, "in the sandbox's own ipc namespace") },
	{ GROUP(scheduling, SECCOMP_ACT_ALLOW, "own priorities, downwards without a capability") },
	{ GROUP(questions, SECCOMP_ACT_ALLOW, "answers about this sandbox, or that every program may have") },
	{ GROUP(debugging, SECCOMP_ACT_ALLOW, "debuggers of own processes; the kernel checks each target") },
	{ GROUP(fencing, SECCOMP_ACT_ALLOW, "programs may fence themselves in further") },
	{ GROUP(namespaces, SECCOMP_ACT_NAMESPACES, "processes and threads, but no namespace of their own"),
	  .when = SECCOMP_WHEN_NESTED, .then = SECCOMP_ACT_ALLOW },
	{ GROUP(device_control, SECCOMP_ACT_IOCTL, "terminals must work, and must not be typed into") },
	{ GROUP(execution_domain, SECCOMP_ACT_PERSONALITY, "debuggers switch off address randomization") },
	{ GROUP(mounts, SECCOMP_ACT_EPERM,
		"the way to most holes of user namespaces; browsers and bwrap need it"),
	  .when = SECCOMP_WHEN_NESTED, .caps = CAP(CAP_SYS_ADMIN), .then = SECCOMP_ACT_ALLOW },
	{ GROUP(change_root, SECCOMP_ACT_EPERM, "of no use without its capability"),
	  .when = SECCOMP_WHEN_NESTED, .caps = CAP(CAP_SYS_CHROOT), .then = SECCOMP_ACT_ALLOW },
	{ GROUP(keys, SECCOMP_ACT_EPERM, "keyrings have no namespace of their own") },
	{ GROUP(kernel_code, SECCOMP_ACT_EPERM,
		"code in the kernel, its ports, segments and page faults: never from here") },
	{ GROUP(profiling, SECCOMP_ACT_EPERM, "a large surface that few programs need"),
	  .caps = CAP(CAP_PERFMON), .then = SECCOMP_ACT_ALLOW },
	{ GROUP(machine, SECCOMP_ACT_EPERM, "settings and logs of the whole machine") },
	{ GROUP(ending, SECCOMP_ACT_EPERM, "with the capability it ends this pid namespace, not the machine"),
	  .caps = CAP(CAP_SYS_BOOT), .then = SECCOMP_ACT_ALLOW },
	{ GROUP(accounting, SECCOMP_ACT_EPERM, "of no use without its capability"),
	  .caps = CAP(CAP_SYS_PACCT), .then = SECCOMP_ACT_ALLOW },
	{ GROUP(around_paths, SECCOMP_ACT_EPERM,
		"files by handle or by whole mount, past the path that guards them") },
	{ GROUP(unfiltered, SECCOMP_ACT_NOSYS,
		"keeps what would have to be checked behind pointers; every library falls back") },
};

const struct seccomp_group *seccomp_groups(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(groups);
	return groups;
}

enum seccomp_act seccomp_group_act(const struct seccomp_group *g, const struct seccomp_opts *o)
{
	unsigned now = (o->nested ? SECCOMP_WHEN_NESTED : 0) | (o->no_setid_mode ? SECCOMP_WHEN_NO_SETID : 0);

	return (g->when & now) || (g->caps & o->caps) ? g->then : g->act;
}
