/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The little of a C library that coffer-init needs, so that it starts without one: the C library's own start-up
 * (asking the processor what it can do, and relocating itself) costs several times as much as everything that
 * coffer-init does, and it is paid by every sandbox. Only for x86-64; elsewhere, and under sanitizers,
 * coffer-init is linked with the C library like any other program, from the same sources.
 *
 * The functions have their usual names and meanings, narrowed to how init*.c, copy*.c and codec use them. A
 * function that is missing here is an error of the linker. The headers' types are the C library's; where the kernel's differ (signal
 * sets), only the part that the kernel reads is used.
 *
 * System calls of coffer-init, as a reference for its filter: arch_prctl chdir clone close close_range dup2
 * execve exit exit_group faccessat fchmod fcntl getdents64 ioctl kill lseek mkdirat mmap mremap munmap newfstatat fstat
 * openat pipe2 poll prctl prlimit64 read readlinkat renameat rt_sigaction rt_sigprocmask setsid signalfd4 symlinkat umask
 * unlinkat utimensat wait4 write.
 */
#include "base/err.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// NOLINTBEGIN(performance-no-int-to-ptr,bugprone-reserved-identifier): a run-time is made of these

#ifndef __x86_64__
#error "this run-time is for x86-64 only"
#endif

#undef errno
static int the_errno;

int *__errno_location(void)
{
	return &the_errno;
}

static long syscall_raw6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static long syscall_raw5(long nr, long a, long b, long c, long d, long e)
{
	return syscall_raw6(nr, a, b, c, d, e, 0);
}

static long syscall_result(long r)
{
	if (r < 0 && r > -4096) {
		the_errno = (int)-r;
		return -1;
	}
	return r;
}

#define P(x) ((long)(uintptr_t)(x))
#define CALL(nr, a, b, c, d, e) \
	syscall_result(syscall_raw5((nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e)))

long syscall(long nr, ...)
{
	va_list ap;
	long a, b, c, d;

	va_start(ap, nr);
	a = va_arg(ap, long);
	b = va_arg(ap, long);
	c = va_arg(ap, long);
	d = va_arg(ap, long);
	va_end(ap);
	return CALL(nr, a, b, c, d, 0);
}

/* Memory */

void *memcpy(void *restrict dst, const void *restrict src, size_t n)
{
	void *d = dst;

	__asm__ volatile("rep movsb" : "+D"(d), "+S"(src), "+c"(n) : : "memory");
	return dst;
}

void *memmove(void *dst, const void *src, size_t n)
{
	char *d = dst;
	const char *s = src;

	if (d <= s || d >= s + n)
		return memcpy(dst, src, n);
	while (n--)
		d[n] = s[n];
	return dst;
}

void *memset(void *dst, int c, size_t n)
{
	void *d = dst;

	__asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(c) : "memory");
	return dst;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *p = a, *q = b;

	for (; n; n--, p++, q++) {
		if (*p != *q)
			return *p - *q;
	}
	return 0;
}

/* clang calls this instead of memcmp() when only equality matters. */
int bcmp(const void *a, const void *b, size_t n)
{
	return memcmp(a, b, n);
}

void *memchr(const void *s, int c, size_t n)
{
	for (const unsigned char *p = s; n; n--, p++) {
		if (*p == (unsigned char)c)
			return (void *)p;
	}
	return NULL;
}

size_t strlen(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

size_t strnlen(const char *s, size_t most)
{
	size_t n = 0;

	while (n < most && s[n])
		n++;
	return n;
}

char *strchr(const char *s, int c)
{
	for (;; s++) {
		if (*s == (char)c)
			return (char *)s;
		if (!*s)
			return NULL;
	}
}

int strncmp(const char *a, const char *b, size_t n)
{
	for (; n; n--, a++, b++) {
		if (*a != *b || !*a)
			return (unsigned char)*a - (unsigned char)*b;
	}
	return 0;
}

int strcmp(const char *a, const char *b)
{
	return strncmp(a, b, SIZE_MAX);
}

/* A large block is a mapping of its own; a small one comes from a free list or from a slab. */
#define SMALL 8192u
#define SLAB (64u << 10)

struct block {
	size_t size; /* with this head */
	struct block *next;
};

static struct block *spare[14]; /* by power of two, up to SMALL */
static char first_slab[SLAB] __attribute__((aligned(16)));
static char *slab = first_slab, *slab_end = first_slab + SLAB;

static unsigned block_class(size_t size)
{
	unsigned c = 5;

	while ((size_t)1 << c < size)
		c++;
	return c;
}

static void *map_pages(size_t size)
{
	long r = syscall_raw5(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1);

	return r < 0 && r > -4096 ? NULL : (void *)(uintptr_t)r;
}

static struct block *take_small_block(size_t size)
{
	unsigned c = block_class(size);
	struct block *b = spare[c];

	size = (size_t)1 << c;
	if (b) {
		spare[c] = b->next;
		return b;
	}
	if ((size_t)(slab_end - slab) < size) {
		slab = map_pages(SLAB);
		slab_end = slab ? slab + SLAB : NULL;
		if (!slab)
			return NULL;
	}
	b = (struct block *)(void *)slab;
	slab += size;
	b->size = size;
	return b;
}

void *malloc(size_t n)
{
	size_t size = n + sizeof(struct block);
	struct block *b;

	if (n > SIZE_MAX / 2)
		return NULL;
	if (size <= SMALL) {
		b = take_small_block(size);
	} else {
		size = (size + 4095) & ~(size_t)4095;
		b = map_pages(size);
		if (b)
			b->size = size;
	}
	return b ? b + 1 : NULL;
}

void free(void *p)
{
	struct block *b;

	if (!p)
		return;
	b = (struct block *)p - 1;
	if (b->size > SMALL) {
		syscall_raw5(SYS_munmap, P(b), (long)b->size, 0, 0, 0);
		return;
	}
	b->next = spare[block_class(b->size)];
	spare[block_class(b->size)] = b;
}

void *realloc(void *p, size_t n)
{
	struct block *b;
	size_t had;
	void *q;

	if (!p)
		return malloc(n);
	b = (struct block *)p - 1;
	had = b->size - sizeof(*b);
	if (n <= had)
		return p;
	if (b->size > SMALL && n < SIZE_MAX / 2) {
		size_t size = (n + sizeof(*b) + 4095) & ~(size_t)4095;
		long r = syscall_raw5(SYS_mremap, P(b), (long)b->size, (long)size, MREMAP_MAYMOVE, 0);

		if (r < 0 && r > -4096)
			return NULL;
		b = (struct block *)(uintptr_t)r;
		b->size = size;
		return b + 1;
	}
	q = malloc(n);
	if (q) {
		memcpy(q, p, had);
		free(p);
	}
	return q;
}

void *calloc(size_t n, size_t each)
{
	size_t size;
	void *p;

	if (__builtin_mul_overflow(n, each, &size))
		return NULL;
	p = malloc(size);
	if (p)
		memset(p, 0, size);
	return p;
}

/* Processes and signals */

/*
 * The child runs fn(arg) on its own stack and exits with its result; with CLONE_VM it must not return into the parent's
 * frames.
 */
long rt_clone(int (*fn)(void *), void *stack, long flags, void *arg);
__asm__(".text\n"
	".type rt_clone,@function\n"
	"rt_clone:\n"
	"	endbr64\n"
	"	and $-16, %rsi\n"
	"	sub $16, %rsi\n"
	"	mov %rdi, 0(%rsi)\n"
	"	mov %rcx, 8(%rsi)\n"
	"	mov %rdx, %rdi\n"
	"	xor %edx, %edx\n"
	"	xor %r10d, %r10d\n"
	"	xor %r8d, %r8d\n"
	"	mov $56, %eax\n"
	"	syscall\n"
	"	test %rax, %rax\n"
	"	jz 1f\n"
	"	ret\n"
	"1:	xor %ebp, %ebp\n"
	"	pop %rax\n"
	"	pop %rdi\n"
	"	call *%rax\n"
	"	mov %eax, %edi\n"
	"	mov $231, %eax\n"
	"	syscall\n"
	"	hlt\n"
	".size rt_clone, . - rt_clone\n");

int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	return (int)syscall_result(rt_clone(fn, stack, flags, arg));
}

pid_t fork(void)
{
	return (pid_t)CALL(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

int execve(const char *path, char *const argv[], char *const envp[])
{
	return (int)CALL(SYS_execve, P(path), P(argv), P(envp), 0, 0);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
	return (pid_t)CALL(SYS_wait4, pid, P(status), options, 0, 0);
}

int kill(pid_t pid, int sig)
{
	return (int)CALL(SYS_kill, pid, sig, 0, 0, 0);
}

pid_t setsid(void)
{
	return (pid_t)CALL(SYS_setsid, 0, 0, 0, 0, 0);
}

int sigemptyset(sigset_t *set)
{
	memset(set, 0, sizeof(*set));
	return 0;
}

int sigaddset(sigset_t *set, int sig)
{
	*(uint64_t *)(void *)set |= (uint64_t)1 << (sig - 1);
	return 0;
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return (int)CALL(SYS_rt_sigprocmask, how, P(set), P(old), 8, 0);
}

int signalfd(int fd, const sigset_t *mask, int flags)
{
	return (int)CALL(SYS_signalfd4, fd, P(mask), 8, flags, 0);
}

int prctl(int option, ...)
{
	va_list ap;
	long a;

	va_start(ap, option);
	a = va_arg(ap, int);
	va_end(ap);
	return (int)CALL(SYS_prctl, option, a, 0, 0, 0);
}

int getrlimit(__rlimit_resource_t what, struct rlimit *l)
{
	return (int)CALL(SYS_prlimit64, 0, what, 0, P(l), 0);
}

int setrlimit(__rlimit_resource_t what, const struct rlimit *l)
{
	return (int)CALL(SYS_prlimit64, 0, what, P(l), 0, 0);
}

_Noreturn void _exit(int status)
{
	for (;;)
		syscall_raw5(SYS_exit_group, status, 0, 0, 0, 0);
}

_Noreturn void bug_at(const char *file, int line, const char *what)
{
	(void)file;
	(void)line;
	(void)what;
	__builtin_trap();
}

_Noreturn void __stack_chk_fail(void);
_Noreturn void __stack_chk_fail(void)
{
	__builtin_trap();
}

/* Descriptors and files */

ssize_t read(int fd, void *p, size_t n)
{
	return CALL(SYS_read, fd, P(p), n, 0, 0);
}

ssize_t write(int fd, const void *p, size_t n)
{
	return CALL(SYS_write, fd, P(p), n, 0, 0);
}

int close(int fd)
{
	return (int)CALL(SYS_close, fd, 0, 0, 0, 0);
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	return (int)CALL(SYS_poll, P(fds), n, timeout, 0, 0);
}

int pipe2(int p[2], int flags)
{
	return (int)CALL(SYS_pipe2, P(p), flags, 0, 0, 0);
}

int dup2(int from, int to)
{
	return (int)CALL(SYS_dup2, from, to, 0, 0, 0);
}

int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	int arg;

	va_start(ap, cmd);
	arg = va_arg(ap, int);
	va_end(ap);
	return (int)CALL(SYS_fcntl, fd, cmd, arg, 0, 0);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	long arg;

	va_start(ap, request);
	arg = va_arg(ap, long);
	va_end(ap);
	return (int)CALL(SYS_ioctl, fd, request, arg, 0, 0);
}

int chdir(const char *path)
{
	return (int)CALL(SYS_chdir, P(path), 0, 0, 0, 0);
}

int access(const char *path, int mode)
{
	return (int)CALL(SYS_faccessat, AT_FDCWD, P(path), mode, 0, 0);
}

int openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	int mode = 0;

	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, int);
	va_end(ap);
	return (int)CALL(SYS_openat, dir, P(path), flags, mode, 0);
}

int open(const char *path, int flags, ...)
{
	return openat(AT_FDCWD, path, flags);
}

int fstatat(int dir, const char *restrict path, struct stat *restrict st, int flags)
{
	return (int)CALL(SYS_newfstatat, dir, P(path), P(st), flags, 0);
}

int fstat(int fd, struct stat *st)
{
	return (int)CALL(SYS_fstat, fd, P(st), 0, 0, 0);
}

ssize_t getdents64(int fd, void *p, size_t n)
{
	return CALL(SYS_getdents64, fd, P(p), n, 0, 0);
}

ssize_t readlinkat(int dir, const char *restrict path, char *restrict p, size_t n)
{
	return CALL(SYS_readlinkat, dir, P(path), P(p), n, 0);
}

int symlinkat(const char *target, int dir, const char *path)
{
	return (int)CALL(SYS_symlinkat, P(target), dir, P(path), 0, 0);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
	return (int)CALL(SYS_mkdirat, dir, P(path), mode, 0, 0);
}

int unlinkat(int dir, const char *path, int flags)
{
	return (int)CALL(SYS_unlinkat, dir, P(path), flags, 0, 0);
}

int fchmod(int fd, mode_t mode)
{
	return (int)CALL(SYS_fchmod, fd, mode, 0, 0, 0);
}

mode_t umask(mode_t mask)
{
	return (mode_t)syscall_raw5(SYS_umask, mask, 0, 0, 0, 0);
}

int utimensat(int dir, const char *path, const struct timespec ts[2], int flags)
{
	return (int)CALL(SYS_utimensat, dir, P(path), P(ts), flags, 0);
}

int futimens(int fd, const struct timespec ts[2])
{
	return (int)CALL(SYS_utimensat, fd, 0, P(ts), 0, 0);
}

/* The start */

/* The layout that the compiler expects at %fs: the stack protector's canary at 0x28. */
static struct {
	void *self;
	uintptr_t pad[4];
	uintptr_t canary;
} thread __attribute__((aligned(16)));

extern int main(int argc, char **argv);
extern const Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));

/* Adds the load address to the relative addresses in our data: without a dynamic linker, we have to do it. */
__attribute__((no_stack_protector)) static void relocate(uintptr_t base)
{
	const Elf64_Rela *rela = NULL;
	size_t size = 0;

	for (const Elf64_Dyn *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_RELA)
			rela = (const Elf64_Rela *)(base + d->d_un.d_ptr);
		else if (d->d_tag == DT_RELASZ)
			size = d->d_un.d_val;
	}
	for (size_t i = 0; rela && i < size / sizeof(*rela); i++) {
		if (ELF64_R_TYPE(rela[i].r_info) == R_X86_64_RELATIVE)
			*(uintptr_t *)(base + rela[i].r_offset) = base + (uintptr_t)rela[i].r_addend;
	}
}

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

_Noreturn void rt_start(const uintptr_t *sp);
__attribute__((no_stack_protector, used)) _Noreturn void rt_start(const uintptr_t *sp)
{
	const uintptr_t *p = sp + 1 + sp[0] + 1;

	relocate((uintptr_t)__ehdr_start);
	while (*p++)
		; /* the environment */
	thread.self = &thread;
	for (; p[0] != AT_NULL; p += 2) {
		if (p[0] == AT_RANDOM)
			memcpy(&thread.canary, (const void *)p[1], sizeof(thread.canary));
	}
	thread.canary &= ~(uintptr_t)0xff; /* a NUL byte stops an overflowing string */
	syscall_raw5(SYS_arch_prctl, 0x1002 /* ARCH_SET_FS */, P(&thread), 0, 0, 0);
	_exit(main((int)sp[0], (char **)(sp + 1)));
}

__asm__(".text\n"
	".global _start\n"
	".type _start,@function\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call rt_start\n"
	"	hlt\n"
	".size _start, . - _start\n");

// NOLINTEND(performance-no-int-to-ptr,bugprone-reserved-identifier)
