/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the table to a BPF program: a binary search by number, with argument checks at its leaves.
 *
 *  1. The program is written from its end towards its beginning: BPF jumps only forward, so every target
 *     exists before the jump to it. A label is the number of instructions from the end, and so never moves.
 *  2. It is never longer than SECCOMP_MAX_INSNS, so that no jump is too far for its 8 bits.
 *  3. The kernel emulates a new filter once for each call number, to find the calls that are always allowed: for
 *     these it runs no filter later. The emulation understands only loads of number and architecture, comparisons and
 *     returns, so the search uses nothing else.
 *  4. All numbers above the last one in the table are one range that returns ENOSYS. It contains x32 numbers, which
 *     have bit 30 set, and every number that a later kernel may add.
 *  5. Only the low 32 bits of an argument are compared: the kernel reads each of these arguments as an int or, for
 *     clone(), ignores the high half.
 */
#include "sys/fence/seccomp.h"

#include "base/cleanup.h"
#include "sys/fence/seccomp_table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half of an argument is read first");

#define SETID_BITS (S_ISUID | S_ISGID)
#define CREATE_FLAGS (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
#define NEW_TIME 0x80 /* CLONE_NEWTIME, which older headers lack */
#define NEW_ANY                                                                                       \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
	 CLONE_NEWNET | NEW_TIME)

#define MAX_RETURNS 8

struct prog {
	struct sock_filter *buf;
	size_t cap;
	size_t len; /* emitted so far: buf[cap - len] is the first instruction */
	bool full;
	struct {
		uint32_t value;
		size_t label;
	} returns[MAX_RETURNS];
	unsigned n_returns;
	size_t acts[SECCOMP_ACT_COUNT]; /* labels, 0 until emitted */
	const struct seccomp_opts *opts;
};

static size_t emit_insn(struct prog *p, struct sock_filter insn)
{
	if (p->len >= p->cap) {
		p->full = true;
		return p->len;
	}
	p->len++;
	p->buf[p->cap - p->len] = insn;
	return p->len;
}

static size_t emit_jump(struct prog *p, uint16_t op, uint32_t k, size_t yes, size_t no)
{
	if (p->full)
		return p->len;
	return emit_insn(p, (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | BPF_K | op), k,
							 (uint8_t)(p->len - yes), (uint8_t)(p->len - no)));
}

/* Emits an instruction that does not jump; `next` is the label of the one after it. */
static size_t emit_stmt(struct prog *p, uint16_t code, uint32_t k, size_t next)
{
	if (p->full)
		return p->len;
	if (next != p->len)
		emit_insn(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(p->len - next)));
	return emit_insn(p, (struct sock_filter)BPF_STMT(code, k));
}

static size_t load_arg(struct prog *p, unsigned i, size_t next)
{
	return emit_stmt(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args) + 8 * i,
			 next);
}

/* Emits each return once; all jumps to the same value share it. */
static size_t emit_return(struct prog *p, uint32_t value)
{
	for (unsigned i = 0; i < p->n_returns; i++) {
		if (p->returns[i].value == value)
			return p->returns[i].label;
	}
	BUG_ON(p->n_returns == MAX_RETURNS);
	p->returns[p->n_returns].value = value;
	p->returns[p->n_returns].label = emit_insn(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, value));
	return p->returns[p->n_returns++].label;
}

static size_t emit_allow(struct prog *p)
{
	return emit_return(p, SECCOMP_RET_ALLOW);
}

static size_t emit_errno(struct prog *p, int error)
{
	return emit_return(p, SECCOMP_RET_ERRNO | (uint32_t)error);
}

static size_t jump_if_any(struct prog *p, const uint32_t *values, size_t n, size_t yes, size_t no)
{
	size_t label = no;

	while (n)
		label = emit_jump(p, BPF_JEQ, values[--n], yes, label);
	return label;
}

static size_t check_bits(struct prog *p, unsigned arg, uint32_t refused)
{
	return load_arg(p, arg, emit_jump(p, BPF_JSET, refused, emit_errno(p, EPERM), emit_allow(p)));
}

/*
 * Refuses new namespaces. When SYS_ADMIN was granted, only a new user namespace is refused, in which a program has
 * all capabilities again that were dropped: it needs --nested. CLONE_NEWTIME is a flag of unshare() only; in clone()
 * its bit belongs to a signal number that does not exist.
 */
static size_t check_namespaces(struct prog *p)
{
	return check_bits(p, 0, p->opts->caps & (1ULL << CAP_SYS_ADMIN) ? CLONE_NEWUSER : NEW_ANY);
}

/* TIOCSTI types into a terminal, TIOCLINUX pastes into one; TIOCSETD loads line disciplines, the drivers of
 * modems and radios. TIOCCONS and the like need no check: the kernel wants
 * a capability of the initial namespace for them. */
static size_t check_ioctl(struct prog *p)
{
	static const uint32_t refused[] = { TIOCSTI, TIOCLINUX, TIOCSETD };

	return load_arg(p, 1,
			jump_if_any(p, refused, ARRAY_SIZE(refused), emit_errno(p, EPERM), emit_allow(p)));
}

/*
 * For socket() and socketpair(). Of the families that pass, only UNIX has socketpair().
 *
 * On INET the type is checked too: SOCK_PACKET is an old name for AF_PACKET there; SEQPACKET, DCCP and the protocols
 * that are not listed make the kernel load more drivers. On UNIX and NETLINK a raw socket has no special power.
 */
static size_t check_socket(struct prog *p)
{
	static const uint32_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6 };
	static const uint32_t inet[] = { AF_INET, AF_INET6 };
	size_t no_protocol = emit_errno(p, EPROTONOSUPPORT), type, raw = emit_errno(p, EPERM), netlink,
	       family;

	_Static_assert(IPPROTO_IP == 0 && IPPROTO_ICMP == 1, "compared as one range");
	type = jump_if_any(p, protocols, ARRAY_SIZE(protocols), emit_allow(p), no_protocol);
	type = load_arg(p, 2, emit_jump(p, BPF_JGT, IPPROTO_ICMP, type, emit_allow(p)));
	if (p->opts->caps & (1ULL << CAP_NET_RAW))
		raw = emit_jump(p, BPF_JEQ, SOCK_RAW, emit_allow(p), raw);
	_Static_assert(SOCK_STREAM == 1 && SOCK_DGRAM == 2,
		       "compared as one range, with 0, which is no type");
	type = emit_stmt(p, BPF_ALU | BPF_AND | BPF_K, 0xf, emit_jump(p, BPF_JGT, SOCK_DGRAM, raw, type));
	type = load_arg(p, 1, type);
	netlink = load_arg(p, 2, emit_jump(p, BPF_JEQ, NETLINK_ROUTE, emit_allow(p), no_protocol));
	family = emit_jump(p, BPF_JEQ, AF_NETLINK, netlink, emit_errno(p, EAFNOSUPPORT));
	family = jump_if_any(p, inet, ARRAY_SIZE(inet), type, family);
	return load_arg(p, 0, emit_jump(p, BPF_JEQ, AF_UNIX, emit_allow(p), family));
}

/* {IPT,IP6T,ARPT,EBT}_SO_SET_{REPLACE,ADD_COUNTERS} and their like at level IP and IPV6; no other option of
 * those levels has these numbers. */
static size_t check_setsockopt(struct prog *p)
{
	static const uint32_t tables[] = { 64, 65, 96, 97, 128, 129 };
	static const uint32_t levels[] = { SOL_IP, SOL_IPV6 };
	size_t option = load_arg(
		p, 2, jump_if_any(p, tables, ARRAY_SIZE(tables), emit_errno(p, EPERM), emit_allow(p)));

	return load_arg(p, 1, jump_if_any(p, levels, ARRAY_SIZE(levels), option, emit_allow(p)));
}

/* Allows UNAME26, ADDR_NO_RANDOMIZE and PER_LINUX32 in any combination, and the query of the current value. */
static size_t check_personality(struct prog *p)
{
	size_t label = emit_jump(p, BPF_JSET, ~(uint32_t)(UNAME26 | ADDR_NO_RANDOMIZE | PER_LINUX32),
				 emit_errno(p, EPERM), emit_allow(p));

	return load_arg(p, 0, emit_jump(p, BPF_JEQ, 0xffffffff, emit_allow(p), label));
}

/*
 * Of the seven types of file only the two devices have bit 13 and neither bit 12 nor 15. Inside a nested
 * sandbox an overlay marks what was deleted with device 0:0, which opens nothing.
 */
static size_t check_mknod(struct prog *p, unsigned mode_arg)
{
	size_t no = emit_errno(p, EPERM), device = no, label;

	_Static_assert(S_IFCHR == 0x2000 && S_IFBLK == 0x6000, "compared as one");
	if (p->opts->nested)
		device = load_arg(p, mode_arg + 1, emit_jump(p, BPF_JEQ, 0, emit_allow(p), no));
	label = emit_jump(p, BPF_JEQ, S_IFCHR, device, emit_allow(p));
	label = emit_stmt(p, BPF_ALU | BPF_AND | BPF_K, S_IFMT & ~(S_IFCHR ^ S_IFBLK), label);
	if (p->opts->no_setid_mode)
		label = emit_jump(p, BPF_JSET, SETID_BITS, no, label);
	return load_arg(p, mode_arg, label);
}

static size_t check_mode2(struct prog *p)
{
	if (!p->acts[SECCOMP_ACT_MODE2])
		p->acts[SECCOMP_ACT_MODE2] = check_bits(p, 2, SETID_BITS);
	return p->acts[SECCOMP_ACT_MODE2];
}

/* The mode is checked only with a flag that creates a file: otherwise its register is not set by the caller. */
static size_t check_open(struct prog *p, unsigned flags_arg)
{
	size_t mode = flags_arg == 1 ? check_mode2(p) : check_bits(p, flags_arg + 1, SETID_BITS);

	return load_arg(p, flags_arg, emit_jump(p, BPF_JSET, CREATE_FLAGS, mode, emit_allow(p)));
}

static size_t compile_act(struct prog *p, enum seccomp_act act)
{
	switch (act) {
	case SECCOMP_ACT_NOSYS:
		return emit_errno(p, ENOSYS);
	case SECCOMP_ACT_ALLOW:
		return emit_allow(p);
	case SECCOMP_ACT_EPERM:
		return emit_errno(p, EPERM);
	case SECCOMP_ACT_NAMESPACES:
		return check_namespaces(p);
	case SECCOMP_ACT_IOCTL:
		return check_ioctl(p);
	case SECCOMP_ACT_SOCKET:
		return check_socket(p);
	case SECCOMP_ACT_SETSOCKOPT:
		return check_setsockopt(p);
	case SECCOMP_ACT_PERSONALITY:
		return check_personality(p);
	case SECCOMP_ACT_MKNOD:
		return check_mknod(p, 1);
	case SECCOMP_ACT_MKNODAT:
		return check_mknod(p, 2);
	case SECCOMP_ACT_MODE1:
		return check_bits(p, 1, SETID_BITS);
	case SECCOMP_ACT_MODE2:
		return check_mode2(p);
	case SECCOMP_ACT_OPEN:
		return check_open(p, 1);
	case SECCOMP_ACT_OPENAT:
		return check_open(p, 2);
	case SECCOMP_ACT_COUNT:
		break;
	}
	BUG("an action without a program");
}

/* Emits the code of each action once, at its first use. */
static size_t act_label(struct prog *p, unsigned act)
{
	if (!p->acts[act])
		p->acts[act] = compile_act(p, (enum seccomp_act)act);
	return p->acts[act];
}

/* Consecutive numbers with the same action, up to the first number of the next run. The last run has no end. */
struct run {
	uint16_t first;
	uint16_t act;
};

#define MAX_RUNS 128

static unsigned find_runs(const struct seccomp_opts *o, struct run *runs)
{
	uint8_t acts[SECCOMP_NR_MAX] = { 0 };
	size_t n_groups;
	unsigned n = 0;
	const struct seccomp_group *g = seccomp_groups(&n_groups);

	for (; n_groups; n_groups--, g++) {
		uint8_t act = (uint8_t)seccomp_group_act(g, o);

		for (unsigned i = 0; i < g->n; i++)
			acts[g->nrs[i]] = act;
	}
	for (unsigned nr = 0; nr < SECCOMP_NR_MAX; nr++) {
		if (n && acts[nr] == runs[n - 1].act)
			continue;
		BUG_ON(n == MAX_RUNS);
		runs[n++] = (struct run){ .first = (uint16_t)nr, .act = acts[nr] };
	}
	return n;
}

/*
 * A node of the search tree, for the numbers from `first` up to the first one of its right neighbour. A leaf is a run
 * with up to MAX_SINGLES single numbers inside that have another action: these cost one comparison each, where a leaf
 * of their own would cost two.
 */
struct part {
	uint16_t first;
	uint16_t width;
	uint16_t run, singles; /* leaf: its run; runs[run + 1], [run + 3] … are the singles */
	uint16_t below, above; /* fork: the parts on either side of `split`, which is 0 in a leaf */
	uint16_t split;
};

#define MAX_SINGLES 2

static unsigned make_leaves(const struct run *runs, unsigned n, struct part *parts)
{
	unsigned n_parts = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct run *r = &runs[i];
		struct part leaf = { .first = r->first, .run = (uint16_t)i };

		while (leaf.singles < MAX_SINGLES && i + 2 < n && runs[i + 2].act == r->act &&
		       runs[i + 2].first == runs[i + 1].first + 1) {
			leaf.singles++;
			i += 2;
		}
		/* The last run counts as one number: a kernel without calls that the table lacks does not emulate the
		 * filter for more numbers. */
		leaf.width = i + 1 < n ? (uint16_t)(runs[i + 1].first - r->first) : 1;
		parts[n_parts++] = leaf;
	}
	return n_parts;
}

/*
 * Joins the two neighbours that have the fewest numbers together, until one part is left, the root; wide runs end up
 * near it. The cost of a filter at a start is that of the kernel's emulation, once for each number, and of the
 * translation of its instructions, so a wide run should need few comparisons. The result is within a few percent of
 * the best tree.
 */
static unsigned make_tree(struct part *parts, unsigned n)
{
	uint16_t row[MAX_RUNS] = { 0 }; /* parts still to be joined, in order */
	unsigned next = n;

	for (unsigned i = 0; i < n; i++)
		row[i] = (uint16_t)i;
	for (; n > 1; n--) {
		unsigned at = 0, least = UINT_MAX;

		for (unsigned i = 0; i + 1 < n; i++) {
			unsigned width = (unsigned)parts[row[i]].width + parts[row[i + 1]].width;

			if (width < least) {
				least = width;
				at = i;
			}
		}
		parts[next] = (struct part){
			.first = parts[row[at]].first,
			.width = (uint16_t)least,
			.below = row[at],
			.above = row[at + 1],
			.split = parts[row[at + 1]].first,
		};
		row[at] = (uint16_t)next++;
		memmove(&row[at + 1], &row[at + 2], (n - at - 2) * sizeof(*row));
	}
	return row[0];
}

/*
 * Emits each fork directly before its lower part or, where that is only a return emitted earlier, before its upper
 * part. One branch of the comparison then falls through, and the kernel translates it to one jump instead of two.
 */
static size_t emit_tree(struct prog *p, const struct run *runs, const struct part *parts, unsigned root)
{
	uint16_t order[2 * MAX_RUNS] = { 0 }, stack[MAX_RUNS];
	size_t labels[2 * MAX_RUNS] = { 0 };
	unsigned n = 0, depth = 0;

	stack[depth++] = (uint16_t)root;
	while (depth) {
		const struct part *t = &parts[order[n++] = stack[--depth]];

		if (t->split) {
			stack[depth++] = t->above;
			stack[depth++] = t->below;
		}
	}
	while (n) {
		const struct part *t = &parts[order[--n]];
		size_t label;

		if (t->split) {
			label = emit_jump(p, BPF_JGE, t->split, labels[t->above], labels[t->below]);
		} else {
			label = act_label(p, runs[t->run].act);
			for (unsigned s = 0; s < t->singles; s++) {
				const struct run *single = &runs[t->run + 1 + 2 * s];

				label = emit_jump(p, BPF_JEQ, single->first, act_label(p, single->act),
						  label);
			}
		}
		labels[order[n]] = label;
	}
	return labels[root];
}

/* Emits the start of the program, before the search: loads the number, and refuses other architectures. */
static int emit_prologue(struct prog *p, struct sock_filter *insns, size_t search, size_t *ret_n,
			 struct err *e)
{
	size_t label = emit_stmt(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), search);

	label = emit_jump(p, BPF_JEQ, NATIVE_ARCH, label, emit_errno(p, ENOSYS));
	emit_stmt(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), label);
	if (p->full)
		return err_set(e, -ENOSPC, "the system call filter does not fit into %zu instructions",
			       p->cap);
	memmove(insns, insns + p->cap - p->len, p->len * sizeof(*insns));
	*ret_n = p->len;
	return 0;
}

int seccomp_compile(const struct seccomp_opts *o, struct sock_filter *insns, size_t cap, size_t *ret_n,
		    struct err *e)
{
	struct prog p = { .buf = insns, .cap = cap < SECCOMP_MAX_INSNS ? cap : SECCOMP_MAX_INSNS, .opts = o };
	struct run runs[MAX_RUNS] = { 0 };
	struct part parts[2 * MAX_RUNS] = { 0 };
	unsigned n = find_runs(o, runs);
	size_t label;

	for (unsigned i = 0; i < n; i++)
		act_label(&p, runs[i].act);
	label = emit_tree(&p, runs, parts, make_tree(parts, make_leaves(runs, n, parts)));
	return emit_prologue(&p, insns, label, ret_n, e);
}

int seccomp_compile_setid(struct sock_filter *insns, size_t cap, size_t *ret_n, struct err *e)
{
	static const struct seccomp_opts none, no_setid = { .no_setid_mode = true };
	struct prog p = { .buf = insns,
			  .cap = cap < SECCOMP_MAX_INSNS ? cap : SECCOMP_MAX_INSNS,
			  .opts = &no_setid };
	size_t n, label = emit_allow(&p);
	const struct seccomp_group *groups = seccomp_groups(&n);

	/* Only calls whose action the option changes, and mknod(), whose check of the mode depends on the option. */
	for (; n; n--, groups++) {
		enum seccomp_act act = seccomp_group_act(groups, &no_setid);

		if (act == seccomp_group_act(groups, &none) && act != SECCOMP_ACT_MKNOD &&
		    act != SECCOMP_ACT_MKNODAT)
			continue;
		for (unsigned i = 0; i < groups->n; i++)
			label = emit_jump(&p, BPF_JEQ, groups->nrs[i], act_label(&p, act), label);
	}
	/* x32, where the same calls have other numbers. */
	label = emit_jump(&p, BPF_JGE, 0x40000000, emit_errno(&p, ENOSYS), label);
	return emit_prologue(&p, insns, label, ret_n, e);
}

int seccomp_install(const struct sock_filter *insns, size_t n, struct err *e)
{
	struct sock_fprog fprog = { .len = (unsigned short)n, .filter = (struct sock_filter *)insns };
	long r;

	if (n == 0 || n > BPF_MAXINSNS)
		return err_set(e, -EINVAL, "cannot install a system call filter of %zu instructions", n);
	/* Without SPEC_ALLOW kernels before 5.16 slow every filtered program down, against a leak from a
	 * program to itself; a program that holds secrets of its own can still ask for it. */
	r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &fprog);
	if (r < 0 && errno == EINVAL)
		r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog);
	if (r < 0) {
		int code = -errno;

		err_sys(e, code, "cannot install the system call filter");
		if (code == -ENOSYS || code == -EINVAL)
			err_hint(e, code, "the kernel needs CONFIG_SECCOMP_FILTER");
		return code;
	}
	return 0;
}
