/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading /proc/PID/stat of all processes once, and sums over the tree below one of them. The numbers are for display:
 * processes come and go while /proc is read, so no decision may depend on them.
 */
#include "sys/procs.h"

#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Fields of /proc/PID/stat after the name, from the state on. */
enum { F_STATE, F_PARENT, F_UTIME = 11, F_STIME, F_CUTIME, F_CSTIME, F_THREADS = 17, F_RSS = 21, F_COUNT };

#define STAT_MAX 1024
#define ROLLUP_MAX 4096

int procs_parse(char *line, struct proc *ret)
{
	static uint64_t page, tick;
	uint64_t v[F_COUNT] = { 0 };
	char *rest = strrchr(line, ')'), *save = NULL, *end;
	int n = 0;

	if (!page) {
		page = (uint64_t)sysconf(_SC_PAGESIZE);
		tick = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	}
	ret->pid = (pid_t)strtol(line, &end, 10);
	if (!rest || end == line || ret->pid <= 0)
		return -EBADMSG;
	for (char *t = strtok_r(rest + 1, " \n", &save); t && n < F_COUNT;
	     t = strtok_r(NULL, " \n", &save), n++)
		v[n] = n == F_STATE ? 0 : (uint64_t)strtoll(t, NULL, 10);
	if (n < F_COUNT)
		return -EBADMSG;
	ret->parent = (pid_t)v[F_PARENT];
	ret->cpu_usec = (v[F_UTIME] + v[F_STIME] + v[F_CUTIME] + v[F_CSTIME]) * tick;
	ret->threads = v[F_THREADS];
	ret->rss = v[F_RSS] * page;
	ret->taken = false;
	return 0;
}

/* Reads a small file of /proc, NUL-terminated; cuts it where it does not fit. */
static int read_proc_text(int dirfd, const char *pid, const char *name, char *out, size_t size)
{
	autoclose int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "%.20s/%s", pid, name);
	fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, out, size - 1);
	if (n < 0)
		return -errno;
	out[n] = '\0';
	return 0;
}

static int compare_parents(const void *a, const void *b)
{
	const struct proc *x = a, *y = b;

	return x->parent < y->parent ? -1 : x->parent > y->parent;
}

static int add_process(struct procs *p, size_t *room, const struct proc *one)
{
	if (VEC_ROOM(p->v, p->n, *room, VEC_NO_MAX) < 0)
		return -ENOMEM;
	p->v[p->n++] = *one;
	return 0;
}

int procs_read(struct procs *p, struct err *e)
{
	DIR *d = opendir("/proc");
	struct dirent *de;
	size_t room = 0;
	int r = 0;

	*p = PROCS_INIT;
	if (!d)
		return err_sys(e, -errno, "cannot read /proc");
	while (r == 0 && (de = readdir(d))) {
		struct proc one;
		char text[STAT_MAX];

		if (de->d_name[0] < '1' || de->d_name[0] > '9')
			continue;
		/* Skips a process that has ended meanwhile. */
		if (read_proc_text(dirfd(d), de->d_name, "stat", text, sizeof(text)) == 0 &&
		    procs_parse(text, &one) == 0)
			r = add_process(p, &room, &one);
	}
	closedir(d);
	if (r < 0) {
		procs_release(p);
		return err_set(e, r, "out of memory");
	}
	if (p->n)
		qsort(p->v, p->n, sizeof(*p->v), compare_parents);
	return 0;
}

void procs_release(struct procs *p)
{
	free(p->v);
	*p = PROCS_INIT;
}

/* The index of the first child of a process in the array sorted by parent, or the place where it would be. */
static size_t first_child(const struct procs *p, pid_t parent)
{
	size_t lo = 0, hi = p->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (p->v[mid].parent < parent)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The proportional set size: its pages, each shared one divided by the number of processes that share it. */
static int read_pss(pid_t pid, uint64_t *ret)
{
	char text[ROLLUP_MAX], name[24], *at;
	int r;

	snprintf(name, sizeof(name), "/proc/%d", (int)pid);
	r = read_proc_text(AT_FDCWD, name, "smaps_rollup", text, sizeof(text));
	if (r < 0)
		return r;
	at = strstr(text, "\nPss:");
	if (!at)
		return -ENODATA;
	*ret = strtoull(at + 5, NULL, 10) * 1024;
	return 0;
}

static void count_process(struct proc *one, bool memory, struct procs_sum *sum)
{
	uint64_t pss;

	one->taken = true;
	sum->cpu_usec += one->cpu_usec;
	sum->threads += one->threads;
	if (!memory)
		return;
	if (read_pss(one->pid, &pss) == 0) {
		sum->memory += pss;
	} else {
		sum->memory += one->rss;
		/* A zombie, or a process that has ended meanwhile, has no pages: that is no failure. */
		sum->is_pss = sum->is_pss && one->rss == 0;
	}
}

int procs_sum(struct procs *p, pid_t root, bool memory, struct procs_sum *ret)
{
	struct procs_sum sum = { .is_pss = memory };
	pid_t *todo = calloc(p->n + 1, sizeof(*todo));
	size_t n = 0;

	if (!todo)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++) {
		p->v[i].taken = false;
		if (p->v[i].pid != root)
			continue;
		count_process(&p->v[i], memory, &sum);
		todo[n++] = root;
	}
	for (size_t done = 0; done < n; done++) {
		for (size_t i = first_child(p, todo[done]); i < p->n && p->v[i].parent == todo[done]; i++) {
			if (p->v[i].taken)
				continue;
			count_process(&p->v[i], memory, &sum);
			todo[n++] = p->v[i].pid;
		}
	}
	free(todo);
	if (n == 0)
		return -ESRCH;
	*ret = sum;
	return 0;
}
