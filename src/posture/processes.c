/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collecting the processes of processes.h: all of /proc once, for what each executes and who its parent is; then those that
 * process_kind.c recognises in full. It must not stop, trace or signal any of them, and must not take a descriptor from one.
 */
#include "posture/processes.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "posture/processes_int.h"
#include "sandbox/engine/helper.h"
#include "sys/fence/landlock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATUS_MAX (1u << 20) /* the line of its groups may be long */
#define STAT_MAX 4096
#define ARGS_MAX 4096 /* of the arguments, of which only the first are of interest */

#define DELETED " (deleted)"

static void process_free(struct process *p)
{
	if (!p)
		return;
	free(p->path);
	free(p->word);
	strv_release(&p->paths);
	free(p);
}

static void process_freep(struct process **p)
{
	process_free(*p);
}

void processes_release(struct processes *p)
{
	for (size_t i = 0; i < p->n; i++)
		process_free(p->v[i]);
	free(p->v);
	*p = PROCESSES_INIT;
}

bool process_is_visible(const struct process *p)
{
	return p->f.exe != EXE_HIDDEN && p->fds_visible;
}

struct process *process_find(const struct processes *all, pid_t pid)
{
	for (size_t i = 0; i < all->n; i++) {
		if (all->v[i]->f.st.pid == pid)
			return all->v[i];
	}
	return NULL;
}

/* --- our own programs ------------------------------------------------------------------------------------------- */

struct own_programs {
	bool there[PROGRAM_COUNT];
	struct stat st[PROGRAM_COUNT];
};

/* One that is missing, or that coffer would refuse to start, is no process's program. */
static int find_own_programs(struct own_programs *ret, struct err *e)
{
	*ret = (struct own_programs){ 0 };
	if (stat("/proc/self/exe", &ret->st[PROGRAM_COFFER]) < 0)
		return err_sys(e, -errno, "cannot look at the program itself");
	ret->there[PROGRAM_COFFER] = true;
	for (int i = 0; i < PROGRAM_COUNT; i++) {
		autoclose int fd = -1;

		if (i == PROGRAM_COFFER)
			continue;
		fd = helper_open(process_program_name((enum process_program)i), NULL);
		ret->there[i] = fd >= 0 && fstat(fd, &ret->st[i]) == 0;
	}
	return 0;
}

static bool is_own_program(const struct own_programs *own, enum process_program p, const struct stat *st)
{
	return own->there[p] && own->st[p].st_dev == st->st_dev && own->st[p].st_ino == st->st_ino;
}

/* The program that a process executes: by its file, and for one that is not of this installation by the file's name. */
static void read_program(struct process *p, const struct own_programs *own)
{
	char link[64], path[PATH_MAX];
	struct stat st;
	ssize_t n;

	p->f.program = PROGRAM_NONE;
	p->f.exe = EXE_HIDDEN;
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)p->f.st.pid);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0 || stat(link, &st) < 0) {
		/* A thread of the kernel executes no file. */
		p->f.exe = errno == ENOENT ? EXE_FOREIGN : EXE_HIDDEN;
		return;
	}
	path[n] = '\0';
	p->path = strdup(path);
	p->f.exe = EXE_FOREIGN;
	for (int i = 0; i < PROGRAM_COUNT; i++) {
		if (is_own_program(own, (enum process_program)i, &st)) {
			p->f.program = (enum process_program)i;
			p->f.exe = EXE_OURS;
			return;
		}
	}
	if (str_ends(path, DELETED))
		path[n - (ssize_t)strlen(DELETED)] = '\0';
	p->f.program = process_program_find(path);
	if (p->f.program != PROGRAM_NONE)
		p->f.exe = EXE_NAMESAKE;
}

/* --- arguments -------------------------------------------------------------------------------------------------- */

static bool is_verb(const char *word)
{
	const char *p = word;

	while (islower((unsigned char)*p) || *p == '-')
		p++;
	return p > word && *word != '-' && !*p &&
	       (size_t)(p - word) < sizeof(((struct process_facts *)0)->verb);
}

/* The first words tell apart the kinds of one program; a process chooses its own (process_kind.K2). */
static void read_arguments(struct process *p)
{
	char path[64], text[ARGS_MAX];
	const char *words[4] = { "", "", "", "" };
	size_t n = 0;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)p->f.st.pid);
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);

	p->f.says = PROGRAM_NONE;
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (got <= 0)
		return;
	text[got] = '\0';
	for (const char *w = text; w < text + got && n < ARRAY_SIZE(words); w += strlen(w) + 1)
		words[n++] = w;
	p->word = strdup(words[0]);
	p->f.says = process_program_find(words[0]);
	if (is_verb(words[1]))
		snprintf(p->f.verb, sizeof(p->f.verb), "%s", words[1]);
	p->f.standby = str_eq(words[1], "call") && str_starts(words[2], "--standby=");
	p->f.rotates = str_eq(words[1], "secret") && str_eq(words[2], "rotate") && str_eq(words[3], "--due");
}

/* --- one process ------------------------------------------------------------------------------------------------ */

static int read_start(pid_t pid, uint64_t *ret)
{
	autobuf struct buf b = BUF_INIT;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = fd_read_file(AT_FDCWD, path, STAT_MAX, &b);
	return r < 0 ? -ESRCH : proc_text_start(buf_cstr(&b), ret);
}

int process_is_same(const struct process *p)
{
	uint64_t start;

	return read_start(p->f.st.pid, &start) == 0 && start == p->start ? 0 : -ESRCH;
}

/* -ESRCH: it has ended, is about to, or may not be seen at all. */
static int read_process(pid_t pid, const struct own_programs *own, struct process **ret)
{
	CLEANUP(process_freep) struct process *p = calloc(1, sizeof(*p));
	autobuf struct buf b = BUF_INIT;
	char path[64];

	if (!p)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (read_start(pid, &p->start) < 0 || fd_read_file(AT_FDCWD, path, STATUS_MAX, &b) < 0 ||
	    proc_text_status(buf_cstr(&b), &p->f.st) < 0 || p->f.st.pid != pid)
		return -ESRCH;
	if (p->f.st.state == 'Z' || p->f.st.state == 'X')
		return -ESRCH;
	read_program(p, own);
	read_arguments(p);
	*ret = TAKE_PTR(p);
	return 0;
}

static int read_own_levels(unsigned *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct proc_status own = { 0 };
	int r = fd_read_file(AT_FDCWD, "/proc/self/status", STATUS_MAX, &b);

	if (r == 0)
		r = proc_text_status(buf_cstr(&b), &own);
	if (r < 0)
		return err_sys(e, r, "cannot read /proc/self/status");
	*ret = own.levels;
	return 0;
}

/* --- all of them ------------------------------------------------------------------------------------------------ */

static int compare_pids(const void *a, const void *b)
{
	const struct process *const *x = a, *const *y = b;

	return (*x)->f.st.pid < (*y)->f.st.pid ? -1 : (*x)->f.st.pid > (*y)->f.st.pid;
}

static int read_all(struct processes *all, const struct own_programs *own, struct err *e)
{
	autoclosedir DIR *d = opendir("/proc");
	const struct dirent *de;
	size_t room = 0;
	int r = 0;

	if (!d)
		return err_sys(e, -errno, "cannot read /proc");
	while (r == 0 && (de = readdir(d))) {
		struct process *p = NULL;
		pid_t pid = (pid_t)strtol(de->d_name, NULL, 10);

		if (pid <= 0 || pid == getpid())
			continue;
		r = read_process(pid, own, &p);
		if (r == -ESRCH) {
			r = 0;
			continue;
		}
		if (r == 0 && VEC_ROOM(all->v, all->n, room, VEC_NO_MAX) < 0) {
			process_free(p);
			r = -ENOMEM;
		} else if (r == 0) {
			all->v[all->n++] = p;
		}
	}
	if (r < 0)
		return err_set(e, r, "out of memory");
	if (all->n)
		qsort(all->v, all->n, sizeof(void *), compare_pids);
	return 0;
}

static int recognise_all(struct processes *all, struct err *e)
{
	autofree struct process_facts **facts = calloc(all->n + 1, sizeof(void *));
	unsigned levels = 0;
	int r;

	if (!facts)
		return err_set(e, -ENOMEM, "out of memory");
	r = read_own_levels(&levels, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < all->n; i++)
		facts[i] = &all->v[i]->f;
	process_recognise(facts, all->n, levels);
	return 0;
}

/* Reads more of each that is ours, and keeps those that live on. */
static int read_living(struct processes *all, int (*read)(struct process *p, const struct socket_map *m),
		       const struct socket_map *m, struct err *e)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < all->n; i++) {
		struct process *p = all->v[i];
		int got = p->f.kind == KIND_NONE ? -ESRCH : read(p, m);

		if (got == 0 && process_is_same(p) == 0)
			all->v[n++] = p;
		else
			process_free(p);
		if (got < 0 && got != -ESRCH)
			r = got;
	}
	all->n = n;
	return r < 0 ? err_sys(e, r, "cannot read about a process in /proc") : 0;
}

static int read_identity(struct process *p, const struct socket_map *m)
{
	(void)m;
	return process_read_identity(p);
}

int processes_read(struct processes *ret, struct err *e)
{
	CLEANUP(processes_release) struct processes all = PROCESSES_INIT;
	struct own_programs own;
	struct socket_map *sockets;
	int r = find_own_programs(&own, e);

	if (r == 0)
		r = read_all(&all, &own, e);
	if (r == 0)
		r = process_claims_take(&all, e);
	if (r == 0)
		r = recognise_all(&all, e);
	if (r < 0)
		return r;
	r = read_living(&all, read_identity, NULL, e);
	if (r < 0)
		return r;
	sockets = socket_map_new(&all);
	if (!sockets)
		return err_set(e, -ENOMEM, "out of memory");
	r = read_living(&all, process_read_descriptors, sockets, e);
	socket_map_free(sockets);
	if (r < 0)
		return r;
	all.landlock = landlock_abi() >= LANDLOCK_MIN_ABI;
	*ret = all;
	all = PROCESSES_INIT;
	return 0;
}
