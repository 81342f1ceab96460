/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allowlist of seccomp_list.h as a linear sequence of comparisons. A search tree is not worth it: these programs start
 * seldom and live long, and the kernel caches the numbers that are always allowed. What neither a call nor a rule decides gets
 * the opposite of what they give: an allowlist must not let anything else through.
 */
#include "sys/fence/seccomp_list.h"

#include "base/cleanup.h"
#include "sys/fence/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#define X32_BIT 0x40000000u
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#define X32_BIT 0x80000000u /* there is none */
#endif

static const struct seccomp_rule memory[] = {
	{ SYS_mmap, { SECCOMP_NO_BITS(2, PROT_EXEC) } },
	{ SYS_mprotect, { SECCOMP_NO_BITS(2, PROT_EXEC) } },
};

struct prog {
	struct sock_filter *insns;
	size_t cap, n; /* n counts on past cap, to detect overflow */
};

static void add_insn(struct prog *p, struct sock_filter insn)
{
	if (p->n < p->cap)
		p->insns[p->n] = insn;
	p->n++;
}

static void add_stmt(struct prog *p, uint16_t code, uint32_t k)
{
	add_insn(p, (struct sock_filter)BPF_STMT(code, k));
}

static void add_jump(struct prog *p, uint16_t op, uint32_t k, uint8_t yes, uint8_t no)
{
	add_insn(p, (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | BPF_K | op), k, yes, no));
}

static void load_word(struct prog *p, size_t offset)
{
	add_stmt(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset);
}

static void add_return(struct prog *p, uint32_t value)
{
	add_stmt(p, BPF_RET | BPF_K, value);
}

static void add_arch_check(struct prog *p)
{
	load_word(p, offsetof(struct seccomp_data, arch));
	add_jump(p, BPF_JEQ, NATIVE_ARCH, 1, 0);
	add_return(p, SECCOMP_RET_KILL_PROCESS);
	load_word(p, offsetof(struct seccomp_data, nr));
	add_jump(p, BPF_JGE, X32_BIT, 0, 1);
	add_return(p, SECCOMP_RET_KILL_PROCESS);
}

/* A call that does not match continues after the rule, with the number loaded again. */
static void add_rule_check(struct prog *p, const struct seccomp_rule *r, uint32_t verdict)
{
	size_t n = 0;
	uint8_t left;

	while (n < ARRAY_SIZE(r->must) && r->must[n].mask)
		n++;
	left = (uint8_t)(3 * n + 1); /* instructions up to loading the number again */
	add_jump(p, BPF_JEQ, r->nr, 0, (uint8_t)(left + 1));
	for (size_t i = 0; i < n; i++) {
		left = (uint8_t)(left - 3);
		load_word(p, offsetof(struct seccomp_data, args) + sizeof(uint64_t) * r->must[i].arg);
		add_stmt(p, BPF_ALU | BPF_AND | BPF_K, r->must[i].mask);
		add_jump(p, BPF_JEQ, r->must[i].value, 0, left);
	}
	add_return(p, verdict);
	load_word(p, offsetof(struct seccomp_data, nr));
}

int seccomp_list_compile(const struct seccomp_list *l, struct sock_filter *insns, size_t cap, size_t *ret_n,
			 struct err *e)
{
	const struct seccomp_rule self = { SYS_tgkill, { SECCOMP_IS(0, getpid()) } };
	const uint32_t listed = l->forbids ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW;
	struct prog p = { insns, cap, 0 };

	add_arch_check(&p);
	for (size_t i = 0; i < l->n_calls; i++) {
		add_jump(&p, BPF_JEQ, l->calls[i], 0, 1);
		add_return(&p, listed);
	}
	for (size_t i = 0; !l->forbids && i < ARRAY_SIZE(memory); i++)
		add_rule_check(&p, &memory[i], listed);
	if (l->aborts && !l->forbids)
		add_rule_check(&p, &self, listed);
	for (size_t i = 0; i < l->n_rules; i++)
		add_rule_check(&p, &l->rules[i], listed);
	add_return(&p, l->forbids ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS);
	if (p.n > cap)
		return err_set(e, -ENOSPC, "the list of system calls is too long");
	*ret_n = p.n;
	return 0;
}

int seccomp_list_install(const struct seccomp_list *l, struct err *e)
{
	struct sock_filter insns[SECCOMP_LIST_MAX];
	size_t n = 0;
	int r = SANITIZED ? 0 : seccomp_list_compile(l, insns, ARRAY_SIZE(insns), &n, e);

	return r < 0 || SANITIZED ? r : seccomp_install(insns, n, e);
}
