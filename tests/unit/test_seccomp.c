/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiled filter, run by an interpreter of its own: every number against the table under every mixture
 * of options, and what is dangerous against a list that was written apart from the table.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "sys/fence/seccomp.h"
#include "sys/fence/seccomp_table.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#define FOREIGN AUDIT_ARCH_I386
#else
#define NATIVE AUDIT_ARCH_AARCH64
#define FOREIGN AUDIT_ARCH_ARM
#endif

#define ALLOW 0
#define BROKEN (-1)
#define HIGH (1ULL << 32)

static struct sock_filter prog[SECCOMP_MAX_INSNS];
static size_t prog_n;
static unsigned longest; /* the longest walk so far */

static void compile(const struct seccomp_opts *o)
{
	struct err e = ERR_INIT;

	if (seccomp_compile(o, prog, SECCOMP_MAX_INSNS, &prog_n, &e) < 0) {
		printf("Bail out! %s\n", e.msg);
		exit(1);
	}
}

static bool jump_taken(const struct sock_filter *f, uint32_t a)
{
	switch (BPF_OP(f->code)) {
	case BPF_JEQ:
		return a == f->k;
	case BPF_JGE:
		return a >= f->k;
	case BPF_JGT:
		return a > f->k;
	default:
		return (a & f->k) != 0;
	}
}

static int decode(uint32_t ret)
{
	if (ret == SECCOMP_RET_ALLOW)
		return ALLOW;
	return (ret & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO ? (int)(ret & SECCOMP_RET_DATA) : BROKEN;
}

/* 0 for allow, the errno, or BROKEN for a program that a kernel would not take or that does something else.
 * */
static int simulate(const struct seccomp_data *d)
{
	uint32_t a = 0;
	unsigned steps = 0;

	for (size_t pc = 0; pc < prog_n; pc++) {
		const struct sock_filter *f = &prog[pc];

		if (++steps > longest)
			longest = steps;
		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (f->k % 4 || f->k + 4 > sizeof(*d))
				return BROKEN;
			memcpy(&a, (const char *)d + f->k, 4);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += f->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
		case BPF_JMP | BPF_JGE | BPF_K:
		case BPF_JMP | BPF_JGT | BPF_K:
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += jump_taken(f, a) ? f->jt : f->jf;
			break;
		case BPF_RET | BPF_K:
			return decode(f->k);
		default:
			return BROKEN;
		}
	}
	return BROKEN;
}

static int ask_arch(uint32_t arch, uint32_t nr, const uint64_t *args)
{
	struct seccomp_data d = { .nr = (int)nr, .arch = arch };

	if (args)
		memcpy(d.args, args, sizeof(d.args));
	return simulate(&d);
}

#define ASK(nr, ...) ask_arch(NATIVE, (uint32_t)(nr), (const uint64_t[6]){ __VA_ARGS__ })

/* The table, looked up the slow way. */
static enum seccomp_act look_up(unsigned nr, const struct seccomp_opts *o)
{
	size_t n;
	const struct seccomp_group *g = seccomp_groups(&n);

	for (size_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < g[i].n; k++) {
			if (g[i].nrs[k] == nr)
				return seccomp_group_act(&g[i], o);
		}
	}
	return SECCOMP_ACT_NOSYS;
}

static bool agrees(unsigned nr, const struct seccomp_opts *o)
{
	static const uint64_t noise[6] = {
		0x5a5a5a5a5a5a5a5a, ~0ULL, 0x1234567812345678, ~0ULL, 0, 0x80000000
	};
	int got = ask_arch(NATIVE, nr, NULL), got_noise = ask_arch(NATIVE, nr, noise);

	switch (look_up(nr, o)) {
	case SECCOMP_ACT_ALLOW:
		return got == ALLOW && got_noise == ALLOW;
	case SECCOMP_ACT_EPERM:
		return got == EPERM && got_noise == EPERM;
	case SECCOMP_ACT_NOSYS:
		return got == ENOSYS && got_noise == ENOSYS;
	default:
		return got != BROKEN && got_noise != BROKEN && got != ENOSYS;
	}
}

static bool foreign_refused(void)
{
	for (uint32_t nr = 0; nr < 1024; nr++) {
		if (ask_arch(FOREIGN, nr, NULL) != ENOSYS || ask_arch(0, nr, NULL) != ENOSYS ||
		    ask_arch(NATIVE, nr | 0x40000000, NULL) != ENOSYS ||
		    ask_arch(NATIVE, nr | 0x80000000, NULL) != ENOSYS ||
		    ask_arch(NATIVE, 0xffffffff - nr, NULL) != ENOSYS)
			return false;
	}
	return true;
}

struct expected {
	const char *name;
	int nr;
	int base;      /* 0 or errno, without options */
	int nested;    /* 0 or errno, with --nested */
	uint64_t caps; /* any of these lets it through */
};

#define CAP(c) (1ULL << (c))

/* Numbers that headers may lack are written out; they are the same everywhere. */
static const struct expected dangerous[] = {
	{ "mount", SYS_mount, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "umount2", SYS_umount2, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "pivot_root", SYS_pivot_root, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "setns", SYS_setns, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "open_tree", 428, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "move_mount", 429, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "fsopen", 430, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "fsconfig", 431, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "fsmount", 432, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "fspick", 433, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "mount_setattr", 442, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "open_tree_attr", 467, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "sethostname", SYS_sethostname, EPERM, ALLOW, CAP(CAP_SYS_ADMIN) },
	{ "chroot", SYS_chroot, EPERM, ALLOW, CAP(CAP_SYS_CHROOT) },
	{ "clone3", 435, ENOSYS, ENOSYS, 0 },
	{ "io_uring_setup", 425, ENOSYS, ENOSYS, 0 },
	{ "io_uring_enter", 426, ENOSYS, ENOSYS, 0 },
	{ "io_uring_register", 427, ENOSYS, ENOSYS, 0 },
	{ "add_key", SYS_add_key, EPERM, EPERM, 0 },
	{ "request_key", SYS_request_key, EPERM, EPERM, 0 },
	{ "keyctl", SYS_keyctl, EPERM, EPERM, 0 },
	{ "bpf", SYS_bpf, EPERM, EPERM, 0 },
	{ "perf_event_open", SYS_perf_event_open, EPERM, EPERM, CAP(CAP_PERFMON) },
	{ "userfaultfd", SYS_userfaultfd, EPERM, EPERM, 0 },
	{ "kexec_load", SYS_kexec_load, EPERM, EPERM, 0 },
	{ "kexec_file_load", SYS_kexec_file_load, EPERM, EPERM, 0 },
	{ "init_module", SYS_init_module, EPERM, EPERM, 0 },
	{ "finit_module", SYS_finit_module, EPERM, EPERM, 0 },
	{ "delete_module", SYS_delete_module, EPERM, EPERM, 0 },
	{ "reboot", SYS_reboot, EPERM, EPERM, CAP(CAP_SYS_BOOT) },
	{ "swapon", SYS_swapon, EPERM, EPERM, 0 },
	{ "swapoff", SYS_swapoff, EPERM, EPERM, 0 },
	{ "syslog", SYS_syslog, EPERM, EPERM, 0 },
	{ "acct", SYS_acct, EPERM, EPERM, CAP(CAP_SYS_PACCT) },
	{ "settimeofday", SYS_settimeofday, EPERM, EPERM, 0 },
	{ "clock_settime", SYS_clock_settime, EPERM, EPERM, 0 },
	{ "adjtimex", SYS_adjtimex, EPERM, EPERM, 0 },
	{ "clock_adjtime", SYS_clock_adjtime, EPERM, EPERM, 0 },
	{ "quotactl", SYS_quotactl, EPERM, EPERM, 0 },
	{ "quotactl_fd", 443, EPERM, EPERM, 0 },
	{ "vhangup", SYS_vhangup, EPERM, EPERM, 0 },
	{ "open_by_handle_at", SYS_open_by_handle_at, EPERM, EPERM, 0 },
	{ "fanotify_init", SYS_fanotify_init, EPERM, EPERM, 0 },
	{ "lsm_set_self_attr", 460, EPERM, EPERM, 0 },
#ifdef __x86_64__
	{ "iopl", SYS_iopl, EPERM, EPERM, 0 },
	{ "ioperm", SYS_ioperm, EPERM, EPERM, 0 },
	{ "modify_ldt", SYS_modify_ldt, EPERM, EPERM, 0 },
	{ "uselib", SYS_uselib, ENOSYS, ENOSYS, 0 },
#endif
	{ "a call after the table's last", 470, ENOSYS, ENOSYS, 0 },
};

/* Calls that ordinary programs need, whatever the options. */
static const int needed[] = {
	SYS_read,
	SYS_write,
	SYS_close,
	SYS_mmap,
	SYS_munmap,
	SYS_brk,
	SYS_execve,
	SYS_exit_group,
	SYS_wait4,
	SYS_futex,
	SYS_rt_sigreturn,
	SYS_rt_sigaction,
	SYS_getdents64,
	SYS_statx,
	SYS_newfstatat,
	SYS_renameat2,
	SYS_linkat,
	SYS_connect,
	SYS_accept4,
	SYS_epoll_pwait,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_memfd_create,
	SYS_getrandom,
	SYS_seccomp,
	SYS_prctl,
	SYS_prlimit64,
	SYS_sched_setaffinity,
	SYS_get_mempolicy,
	SYS_mbind,
	SYS_io_setup,
	SYS_inotify_add_watch,
	SYS_shmget,
	SYS_mq_open,
	SYS_timerfd_create,
	SYS_copy_file_range,
	SYS_setxattr,
	SYS_rseq,
	424 /* pidfd_send_signal */,
	434 /* pidfd_open */,
	436 /* close_range */,
	438 /* pidfd_getfd */,
	439 /* faccessat2 */,
	441 /* epoll_pwait2 */,
	444 /* landlock_create_ruleset */,
	449 /* futex_waitv */,
	451 /* cachestat */,
	453 /* map_shadow_stack */,
	454 /* futex_wake */,
	457 /* statmount */,
	458 /* listmount */,
	462 /* mseal */,
	463 /* setxattrat */,
};

static bool known_ones_hold(const struct seccomp_opts *o)
{
	bool ok = true;

	for (size_t i = 0; i < ARRAY_SIZE(dangerous); i++) {
		const struct expected *x = &dangerous[i];
		int want = o->caps & x->caps ? ALLOW : o->nested ? x->nested : x->base;
		int got = ASK(x->nr, 0);

		if (got != want) {
			printf("# %s: got %d, wanted %d\n", x->name, got, want);
			ok = false;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		if (ASK(needed[i], 0) != ALLOW) {
			printf("# call %d is refused\n", needed[i]);
			ok = false;
		}
	}
	return ok;
}

static void check_numbers(const struct seccomp_opts *o, const char *what)
{
	bool ok = true;

	for (unsigned nr = 0; nr < 1024; nr++) {
		if (!agrees(nr, o)) {
			printf("# call %u is not answered as the table says\n", nr);
			ok = false;
		}
	}
	CHECKF(ok, "%s: every number is answered as the table says", what);
	CHECKF(foreign_refused(), "%s: foreign architectures, x32 and unheard-of numbers get ENOSYS", what);
	CHECKF(known_ones_hold(o), "%s: dangerous calls are refused, necessary calls are allowed", what);
}

/* clone() and unshare(): flags in the first argument. */
static void check_namespaces(const struct seccomp_opts *o, const char *what)
{
	static const uint64_t each[] = { CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
					 CLONE_NEWPID, CLONE_NEWNET,	CLONE_NEWUSER };
	bool admin = o->caps & CAP(CAP_SYS_ADMIN), ok = true;

	for (size_t i = 0; i < ARRAY_SIZE(each); i++) {
		int want = o->nested || (admin && each[i] != CLONE_NEWUSER) ? ALLOW : EPERM;

		ok = ok && ASK(SYS_clone, each[i] | 17) == want && ASK(SYS_clone, HIGH | each[i]) == want &&
		     ASK(SYS_unshare, each[i]) == want && ASK(SYS_unshare, HIGH | each[i]) == want;
	}
	ok = ok && ASK(SYS_unshare, 0x80) == (o->nested || admin ? ALLOW : EPERM);
	CHECKF(ok, "%s: each namespace flag is refused, also with high bits set", what);
	CHECKF(ASK(SYS_clone, 0x3d0f00) == ALLOW && ASK(SYS_clone, 0x4111) == ALLOW &&
		       ASK(SYS_clone, 17) == ALLOW && ASK(SYS_unshare, CLONE_FS | CLONE_FILES) == ALLOW,
	       "%s: threads, vfork, fork and own file tables are allowed", what);
}

static void check_terminals(const char *what)
{
	static const uint64_t refused[] = { TIOCSTI, TIOCLINUX, TIOCSETD };
	static const uint64_t allowed[] = { TCGETS,    TIOCGWINSZ, TIOCSWINSZ, TIOCSCTTY,
					    TIOCSPGRP, FIONREAD,   FIOASYNC,   0 };
	bool ok = true;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		ok = ok && ASK(SYS_ioctl, 0, refused[i]) == EPERM &&
		     ASK(SYS_ioctl, 0, HIGH | refused[i]) == EPERM &&
		     ASK(SYS_ioctl, 0, refused[i] | 0xffffffffULL << 32) == EPERM;
	CHECKF(ok, "%s: TIOCSTI, TIOCLINUX and TIOCSETD are refused, also with high bits set", what);
	ok = true;
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
		ok = ok && ASK(SYS_ioctl, refused[0], allowed[i], refused[0]) == ALLOW;
	CHECKF(ok, "%s: ordinary terminal controls are allowed", what);
}

static int ask_socket(uint64_t family, uint64_t type, uint64_t protocol)
{
	int plain = ASK(SYS_socket, family, type, protocol);

	/* High bits change nothing, and neither do the flags in the type. */
	if (ASK(SYS_socket, family | HIGH, type | HIGH, protocol | HIGH) != plain ||
	    ASK(SYS_socket, family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol) != plain ||
	    ASK(SYS_socketpair, family, type, protocol) != plain)
		return BROKEN;
	return plain;
}

static void check_sockets(const struct seccomp_opts *o, const char *what)
{
	int raw = o->caps & CAP(CAP_NET_RAW) ? ALLOW : EPERM;
	bool ok = true;

	for (uint64_t family = 0; family < 128; family++) {
		if (family != AF_UNIX && family != AF_INET && family != AF_INET6 && family != AF_NETLINK)
			ok = ok && ask_socket(family, SOCK_STREAM, 0) == EAFNOSUPPORT &&
			     ask_socket(family, SOCK_DGRAM, 0) == EAFNOSUPPORT &&
			     ask_socket(family, SOCK_RAW, 3) == EAFNOSUPPORT;
	}
	ok = ok && ask_socket(0xffffffff, 1, 0) == EAFNOSUPPORT &&
	     ask_socket(AF_INET + 256, 1, 0) == EAFNOSUPPORT;
	CHECKF(ok, "%s: only four families of sockets are allowed", what);
	CHECKF(ask_socket(AF_UNIX, SOCK_STREAM, 0) == ALLOW &&
		       ask_socket(AF_UNIX, SOCK_SEQPACKET, 0) == ALLOW,
	       "%s: UNIX sockets are allowed", what);
	ok = true;
	for (uint64_t p = 1; p < 32; p++)
		ok = ok && ask_socket(AF_NETLINK, SOCK_RAW, p) == EPROTONOSUPPORT;
	CHECKF(ok && ask_socket(AF_NETLINK, SOCK_RAW, 0) == ALLOW &&
		       ask_socket(AF_NETLINK, SOCK_DGRAM, 0) == ALLOW,
	       "%s: NETLINK_ROUTE is allowed and no other netlink", what);
	ok = true;
	for (int six = 0; six < 2; six++) {
		uint64_t f = six ? AF_INET6 : AF_INET;

		ok = ok && ask_socket(f, SOCK_STREAM, 0) == ALLOW && ask_socket(f, SOCK_STREAM, 6) == ALLOW &&
		     ask_socket(f, SOCK_DGRAM, 17) == ALLOW && ask_socket(f, SOCK_DGRAM, 1) == ALLOW &&
		     ask_socket(f, SOCK_DGRAM, 58) == ALLOW && ask_socket(f, SOCK_RAW, 1) == raw &&
		     ask_socket(f, SOCK_RAW, 255) == raw && ask_socket(f, SOCK_RDM, 0) == EPERM &&
		     ask_socket(f, SOCK_SEQPACKET, 132) == EPERM && ask_socket(f, SOCK_DCCP, 33) == EPERM &&
		     ask_socket(f, SOCK_PACKET, 0) == EPERM &&
		     ask_socket(f, SOCK_STREAM, 132) == EPROTONOSUPPORT &&
		     ask_socket(f, SOCK_STREAM, 262) == EPROTONOSUPPORT &&
		     ask_socket(f, SOCK_DGRAM, 115) == EPROTONOSUPPORT &&
		     ask_socket(f, SOCK_STREAM, 0xffffffff) == EPROTONOSUPPORT;
	}
	CHECKF(ok, "%s: TCP, UDP and echo are allowed, raw sockets only with the capability", what);
	ok = true;
	for (uint64_t option = 64; option <= 65; option++)
		ok = ok && ASK(SYS_setsockopt, 3, 0, option) == (o->nested ? EPERM : ALLOW) &&
		     ASK(SYS_setsockopt, 3, HIGH | 41, HIGH | option) == (o->nested ? EPERM : ALLOW) &&
		     ASK(SYS_setsockopt, 3, 1, option) == ALLOW;
	CHECKF(ok, "%s: packet filter tables cannot be set where namespaces can be made", what);
}

static void check_personality(const char *what)
{
	bool ok = ASK(SYS_personality, 0) == ALLOW && ASK(SYS_personality, 0xffffffff) == ALLOW &&
		  ASK(SYS_personality, 0x40000) == ALLOW && ASK(SYS_personality, 0x20008) == ALLOW &&
		  ASK(SYS_personality, 0x400000) == EPERM && ASK(SYS_personality, 0x100000) == EPERM &&
		  ASK(SYS_personality, HIGH | 0x400000) == EPERM && ASK(SYS_personality, 0xfffffffe) == EPERM;

	CHECKF(ok, "%s: only harmless personalities are allowed", what);
}

static void check_devices(const struct seccomp_opts *o, const char *what)
{
	static const uint64_t fine[] = { 0, S_IFREG, S_IFIFO, S_IFSOCK };
	int whiteout = o->nested ? ALLOW : EPERM;
	bool ok = true;

	for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
		ok = ok && ASK(SYS_mknodat, 0, 0, fine[i] | 0644, 0) == ALLOW;
	ok = ok && ASK(SYS_mknodat, 0, 0, S_IFCHR | 0666, 0x103) == EPERM &&
	     ASK(SYS_mknodat, 0, 0, HIGH | S_IFCHR, 0x103) == EPERM &&
	     ASK(SYS_mknodat, 0, 0, S_IFBLK | 0666, 0x800) == EPERM &&
	     ASK(SYS_mknodat, 0, 0, S_IFCHR, 0) == whiteout &&
	     ASK(SYS_mknodat, 0, 0, S_IFCHR, HIGH) == whiteout;
#ifdef SYS_mknod
	for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
		ok = ok && ASK(SYS_mknod, 0, fine[i] | 0644, 0) == ALLOW;
	ok = ok && ASK(SYS_mknod, 0, S_IFCHR | 0666, 0x103) == EPERM &&
	     ASK(SYS_mknod, 0, S_IFBLK, 1) == EPERM && ASK(SYS_mknod, 0, HIGH | S_IFCHR, 0x103) == EPERM &&
	     ASK(SYS_mknod, 0, S_IFCHR, 0) == whiteout;
#endif
	CHECKF(ok, "%s: files, pipes and sockets can be made, devices not", what);
}

static void check_setid(const struct seccomp_opts *o, const char *what)
{
	static const uint64_t modes[] = { S_ISUID, S_ISGID, S_ISUID | S_ISGID | 0755, HIGH | S_ISUID };
	const uint64_t create = O_CREAT | O_WRONLY, tmpfile = O_TMPFILE | O_RDWR;
	int no = o->no_setid_mode ? EPERM : ALLOW;
	bool ok = true;

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		uint64_t m = modes[i];

		ok = ok && ASK(SYS_fchmod, 0, m) == no && ASK(SYS_fchmodat, 0, 0, m) == no &&
		     ASK(452, 0, 0, m) == no && ASK(SYS_mkdirat, 0, 0, m) == no &&
		     ASK(SYS_mknodat, 0, 0, m | S_IFREG) == no && ASK(SYS_openat, 0, 0, create, m) == no &&
		     ASK(SYS_openat, 0, 0, HIGH | tmpfile, m) == no &&
		     ASK(SYS_openat, 0, 0, O_RDONLY, m) == ALLOW;
#ifdef SYS_chmod
		ok = ok && ASK(SYS_chmod, 0, m) == no && ASK(SYS_mkdir, 0, m) == no &&
		     ASK(SYS_creat, 0, m) == no && ASK(SYS_mknod, 0, m | S_IFREG) == no &&
		     ASK(SYS_open, 0, create, m) == no && ASK(SYS_open, 0, tmpfile, m) == no &&
		     ASK(SYS_open, 0, O_RDWR | O_TRUNC, m) == ALLOW;
#endif
	}
	CHECKF(ok, "%s: setuid and setgid bits are %s", what, o->no_setid_mode ? "refused" : "allowed");
	CHECKF(ASK(SYS_openat2, 0) == (o->no_setid_mode ? ENOSYS : ALLOW) &&
		       ASK(SYS_fchmod, 0, 0755) == ALLOW && ASK(SYS_fchmodat, 0, 0, 01777) == ALLOW &&
		       ASK(SYS_openat, 0, 0, create, 0644) == ALLOW && ASK(SYS_mkdirat, 0, 0, 01777) == ALLOW,
	       "%s: ordinary modes are allowed", what);
}

static size_t largest;

static void test_all_options(void)
{
	static const uint64_t caps[] = { 0,
					 CAP(CAP_SYS_ADMIN),
					 CAP(CAP_SYS_CHROOT),
					 CAP(CAP_NET_RAW),
					 CAP(CAP_SYS_BOOT),
					 CAP(CAP_PERFMON),
					 CAP(CAP_SYS_PACCT),
					 (1ULL << 41) - 1 };

	for (size_t i = 0; i < 4 * ARRAY_SIZE(caps); i++) {
		struct seccomp_opts o = { .nested = i & 1, .no_setid_mode = i & 2, .caps = caps[i / 4] };
		char what[96];

		snprintf(what, sizeof(what), "%s%scaps %llx", o.nested ? "nested, " : "",
			 o.no_setid_mode ? "no setid, " : "", (unsigned long long)o.caps);
		compile(&o);
		largest = prog_n > largest ? prog_n : largest;
		check_numbers(&o, what);
		check_namespaces(&o, what);
		check_terminals(what);
		check_sockets(&o, what);
		check_personality(what);
		check_devices(&o, what);
		check_setid(&o, what);
	}
}

static void test_table(void)
{
	size_t n, twice = 0, outside = 0, silent = 0;
	const struct seccomp_group *g = seccomp_groups(&n);
	bool seen[SECCOMP_NR_MAX] = { false };

	for (size_t i = 0; i < n; i++) {
		silent += !g[i].name || !g[i].why || strlen(g[i].why) < 10;
		for (unsigned k = 0; k < g[i].n; k++) {
			unsigned nr = g[i].nrs[k];

			if (nr >= SECCOMP_NR_MAX) {
				outside++;
				continue;
			}
			if (seen[nr])
				printf("# call %u stands twice\n", nr);
			twice += seen[nr];
			seen[nr] = true;
		}
	}
	CHECKF(twice == 0, "no call stands in two groups");
	CHECKF(outside == 0, "no number is past the end of the table");
	CHECKF(silent == 0, "every group has a name and a reason");
}

static void test_space(void)
{
	const struct seccomp_opts o = { .nested = true, .no_setid_mode = true, .caps = ~0ULL };
	struct sock_filter small[SECCOMP_MAX_INSNS];
	struct err e = ERR_INIT;
	size_t full = 0, n = 12345, too_small = 0;

	CHECK(seccomp_compile(&o, small, SECCOMP_MAX_INSNS, &full, &e) == 0);
	for (size_t cap = 0; cap < full; cap++)
		too_small += seccomp_compile(&o, small, cap, &n, &e) == -ENOSPC;
	CHECKF(too_small == full && n == 12345, "a buffer that is too small is an error, at every size");
	CHECK(seccomp_compile(&o, small, full, &n, &e) == 0 && n == full);
	CHECKF(largest && largest + 64 < SECCOMP_MAX_INSNS,
	       "the largest program, %zu instructions, leaves room", largest);
	CHECKF(longest < 30, "no call walks more than %u instructions", longest);
}

/* The lock alone: what is not about setuid bits and devices is somebody else's to decide. */
static void test_setid_alone(void)
{
	const struct seccomp_opts o = { .no_setid_mode = true };
	struct err e = ERR_INIT;
	unsigned other = 0;

	CHECK(seccomp_compile_setid(prog, SECCOMP_MAX_INSNS, &prog_n, &e) == 0);
	check_setid(&o, "alone");
	check_devices(&o, "alone");
	CHECKF(foreign_refused(), "the filter alone refuses another architecture");
	for (unsigned nr = 0; nr < SECCOMP_NR_MAX; nr++)
		other += ASK(nr, 0, 0, 0, 0) != ALLOW;
	CHECKF(other == 1, "the filter alone refuses only openat2 of all calls without arguments");
	CHECK(seccomp_compile_setid(prog, 10, &prog_n, &e) == -ENOSPC);
}

static void test_speed(void)
{
	const struct seccomp_opts o = { 0 };
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 200; i++) {
		uint64_t start = clock_nsec(CLOCK_MONOTONIC), took;

		compile(&o);
		took = clock_nsec(CLOCK_MONOTONIC) - start;
		best = took < best ? took : best;
	}
	printf("# %zu instructions in %.1f us\n", prog_n, (double)best / 1000);
	CHECKF(best < 50000, "compiling takes less than 50 us");
}

int main(void)
{
	test_table();
	test_all_options();
	test_space();
	test_setid_alone();
	test_speed();
	return tap_done();
}
