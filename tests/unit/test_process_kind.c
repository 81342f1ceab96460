/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "posture/process_kind.h"
#include "tap.h"

#include <stdlib.h>

#define MOST 16

/* A set of processes by pid, in the order in which they are added. */
static struct process_facts set[MOST];
static size_t n_set;

static struct process_facts *add(pid_t pid, pid_t parent, enum process_exe exe, const char *program,
				 const char *says)
{
	struct process_facts *p = &set[n_set++];

	*p = (struct process_facts){ .st = { .pid = pid, .parent = parent, .levels = 1, .innermost = pid },
				     .exe = exe,
				     .program = process_program_find(program),
				     .says = process_program_find(says) };
	snprintf(p->st.name, sizeof(p->st.name), "%s", says);
	return p;
}

static struct process_facts *inside(struct process_facts *p, unsigned levels, pid_t innermost)
{
	p->st.levels = levels;
	p->st.innermost = innermost;
	return p;
}

static void recognise(unsigned levels)
{
	struct process_facts *v[MOST];

	for (size_t i = 0; i < n_set; i++)
		v[i] = &set[i];
	process_recognise(v, n_set, levels);
	n_set = 0;
}

static void check_kind(const struct process_facts *p, enum process_kind kind, enum process_by by,
		       const char *what)
{
	if (!CHECKF(p->kind == kind && p->by == by, "%s", what))
		printf("# got %s by %s\n", process_kind_info(p->kind)->name, process_by_name(p->by));
}

static void test_visible(void)
{
	struct process_facts *launcher = add(10, 1, EXE_OURS, "coffer", "coffer"),
			     *guard = add(11, 10, EXE_OURS, "coffer", "coffer"),
			     *egress = add(12, 11, EXE_OURS, "coffer-egress", "coffer-egress"),
			     *init = inside(add(13, 10, EXE_OURS, "coffer-init", "coffer-init"), 2, 1),
			     *command = inside(add(14, 13, EXE_FOREIGN, "sh", "sh"), 2, 2),
			     *fork = add(15, 10, EXE_OURS, "coffer", "coffer"),
			     *old = add(16, 1, EXE_NAMESAKE, "cofferd", "cofferd"),
			     *other = add(17, 1, EXE_FOREIGN, "sleep", "coffer-egress");

	launcher->claim = CLAIM_LAUNCHER;
	guard->claim = CLAIM_GUARD;
	snprintf(launcher->run, sizeof(launcher->run), "0123456789ab");
	snprintf(launcher->verb, sizeof(launcher->verb), "mcp");
	recognise(1);
	check_kind(launcher, KIND_LAUNCHER, BY_EXECUTABLE,
		   "a launcher is known by its program and the state directory");
	check_kind(guard, KIND_GUARD, BY_EXECUTABLE,
		   "a guard is known by its program and the state directory");
	check_kind(egress, KIND_EGRESS, BY_EXECUTABLE, "coffer-egress is known by its program");
	check_kind(init, KIND_INIT, BY_EXECUTABLE, "coffer-init is known by its program below a launcher");
	check_kind(command, KIND_COMMAND, BY_NAMESPACE,
		   "a command is known by its namespace below coffer-init");
	check_kind(fork, KIND_FORK, BY_EXECUTABLE, "a fork of a launcher is no command of a user");
	check_kind(old, KIND_COFFERD, BY_EXECUTABLE, "a cofferd of an older installation is listed");
	check_kind(other, KIND_NONE, BY_NAME, "a program that only calls itself coffer-egress is not listed");
	CHECKF(str_eq(egress->run, launcher->run) && str_eq(command->run, launcher->run),
	       "the children of a launcher belong to its run");
	CHECKF(command->inside && !egress->inside, "the processes in a sandbox are marked");
}

/* process_kind.K1: the sandbox may execute our own programs and take any name. */
static void test_pretenders(void)
{
	struct process_facts *launcher = add(10, 1, EXE_OURS, "coffer", "coffer"),
			     *init = inside(add(11, 10, EXE_OURS, "coffer-init", "coffer-init"), 2, 1),
			     *egress = inside(add(12, 11, EXE_OURS, "coffer-egress", "coffer-egress"), 2, 2),
			     *guard = inside(add(13, 12, EXE_OURS, "coffer", "coffer-guard"), 2, 3),
			     *nested = inside(add(14, 13, EXE_OURS, "coffer-init", "coffer-init"), 3, 1),
			     *elsewhere = inside(add(15, 1, EXE_OURS, "cofferd", "cofferd"), 2, 7),
			     *control = add(16, 10, EXE_OURS, "coffer", "coffer-guard");

	launcher->claim = CLAIM_LAUNCHER;
	recognise(1);
	check_kind(init, KIND_INIT, BY_EXECUTABLE, "coffer-init is recognised beside pretenders");
	check_kind(egress, KIND_COMMAND, BY_NAMESPACE, "a command that executes coffer-egress is a command");
	check_kind(guard, KIND_COMMAND, BY_NAMESPACE, "a command that is named coffer-guard is a command");
	check_kind(nested, KIND_COMMAND, BY_NAMESPACE, "a sandbox in a sandbox is a command");
	check_kind(elsewhere, KIND_NONE, BY_NAME, "a cofferd in a container is not listed outside of it");
	check_kind(control, KIND_GUARD, BY_EXECUTABLE,
		   "control: the same program and name outside is a guard");
}

/* An ordinary user may not see what the confined processes execute. */
static void test_hidden(void)
{
	struct process_facts *launcher = add(10, 1, EXE_HIDDEN, "-", "coffer"),
			     *guard = add(11, 10, EXE_HIDDEN, "-", "coffer"),
			     *egress = add(12, 11, EXE_HIDDEN, "-", "coffer-egress"),
			     *init = inside(add(13, 10, EXE_HIDDEN, "-", "coffer-init"), 2, 1),
			     *command = inside(add(14, 13, EXE_FOREIGN, "-", "sh"), 2, 2),
			     *daemon = add(15, 1, EXE_HIDDEN, "-", "cofferd"),
			     *web = add(16, 15, EXE_HIDDEN, "-", "coffer-web"),
			     *liar = add(17, 1, EXE_HIDDEN, "-", "coffer-vault"),
			     *liar_child = add(18, 17, EXE_HIDDEN, "-", "coffer-egress"),
			     *sleep = add(19, 1, EXE_HIDDEN, "-", "sleep");

	launcher->claim = CLAIM_LAUNCHER;
	snprintf(guard->st.name, sizeof(guard->st.name), "coffer-guard");
	daemon->claim = CLAIM_COFFERD;
	recognise(1);
	check_kind(launcher, KIND_LAUNCHER, BY_RUN,
		   "a launcher whose program is hidden is known by the state directory");
	check_kind(guard, KIND_GUARD, BY_PARENT, "a guard whose program is hidden is known by its parent");
	check_kind(egress, KIND_EGRESS, BY_PARENT,
		   "coffer-egress whose program is hidden is known by its parent");
	check_kind(init, KIND_INIT, BY_NAMESPACE,
		   "coffer-init whose program is hidden is known by its namespace");
	check_kind(command, KIND_COMMAND, BY_NAMESPACE, "a command is known below a hidden coffer-init");
	check_kind(daemon, KIND_COFFERD, BY_RUN, "cofferd whose program is hidden is known by its lock");
	check_kind(web, KIND_WEB, BY_PARENT, "coffer-web whose program is hidden is known by its parent");
	check_kind(liar, KIND_UNKNOWN, BY_NAME, "a name alone makes a process unknown");
	check_kind(liar_child, KIND_UNKNOWN, BY_NAME, "a child of an unknown process is unknown");
	check_kind(sleep, KIND_NONE, BY_NAME, "a hidden process of another name is not listed");
}

static void test_claims(void)
{
	struct process_facts *other = add(10, 1, EXE_FOREIGN, "sleep", "coffer"),
			     *wrong = add(11, 1, EXE_HIDDEN, "-", "coffer-web");

	other->claim = CLAIM_LAUNCHER;
	wrong->claim = CLAIM_COFFERD;
	recognise(1);
	check_kind(other, KIND_NONE, BY_NAME,
		   "a pid of the state directory that is another program by now is not listed");
	check_kind(wrong, KIND_UNKNOWN, BY_NAME, "a lock makes no other program cofferd");
}

static void test_verbs(void)
{
	static const struct {
		const char *verb;
		enum process_kind kind;
	} verbs[] = { { "web-work", KIND_WEB_WORK },
		      { "notify-asks", KIND_NOTIFIER },
		      { "mcp", KIND_MCP },
		      { "logs", KIND_CLIENT },
		      { "", KIND_CLIENT } };
	struct process_facts *p;

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		p = add(10, 1, EXE_OURS, "coffer", "coffer");
		snprintf(p->verb, sizeof(p->verb), "%s", verbs[i].verb);
		recognise(1);
		CHECKF(p->kind == verbs[i].kind, "coffer %s is of the kind %s", verbs[i].verb,
		       process_kind_info(verbs[i].kind)->name);
	}
	p = add(10, 1, EXE_OURS, "coffer", "coffer");
	p->rotates = true;
	recognise(1);
	check_kind(p, KIND_ROTATION, BY_EXECUTABLE, "a rotation of secrets is known");
	p = add(10, 1, EXE_OURS, "coffer", "coffer");
	p->claim = CLAIM_STANDBY;
	recognise(1);
	check_kind(p, KIND_STANDBY, BY_EXECUTABLE, "a launcher of the warm pool is known");
}

static void test_shapes(void)
{
	struct process_facts *a, *b, *c, *d;

	/* pids begin again at the top, so a child may have the smaller one. */
	a = inside(add(5, 900, EXE_OURS, "coffer-init", "coffer-init"), 2, 1);
	b = inside(add(6, 5, EXE_FOREIGN, "sh", "sh"), 2, 2);
	c = add(900, 1, EXE_OURS, "coffer", "coffer");
	recognise(1);
	check_kind(a, KIND_INIT, BY_EXECUTABLE,
		   "coffer-init with a smaller pid than its launcher's is recognised");
	check_kind(b, KIND_COMMAND, BY_NAMESPACE,
		   "a command whose launcher has the larger pid is recognised");
	check_kind(c, KIND_LAUNCHER, BY_EXECUTABLE,
		   "a launcher of another state directory is known by its coffer-init");
	a = add(10, 1, EXE_OURS, "coffer", "coffer");
	b = inside(add(11, 10, EXE_FOREIGN, "runsc", "runsc"), 2, 1);
	c = inside(add(12, 11, EXE_FOREIGN, "runsc", "runsc-sandbox"), 2, 2);
	a->claim = CLAIM_LAUNCHER;
	recognise(1);
	check_kind(b, KIND_RUNSC, BY_NAMESPACE, "runsc is known below a launcher");
	check_kind(c, KIND_GVISOR, BY_NAMESPACE, "a child of runsc is gVisor");
	/* doctor itself tries new pid namespaces. */
	a = add(10, 1, EXE_OURS, "coffer", "coffer");
	b = inside(add(11, 10, EXE_OURS, "coffer", "coffer"), 2, 1);
	recognise(1);
	check_kind(a, KIND_CLIENT, BY_EXECUTABLE,
		   "a command with a copy of itself in a new pid namespace is no launcher");
	check_kind(b, KIND_NONE, BY_NAME, "a copy that doctor tries something in is no part of a sandbox");
	/* Parents that make a circle do not occur, and must not hang. */
	a = add(10, 11, EXE_HIDDEN, "-", "coffer-dial");
	b = add(11, 10, EXE_HIDDEN, "-", "coffer-egress");
	c = add(12, 12, EXE_HIDDEN, "-", "coffer-egress");
	d = add(13, 99, EXE_HIDDEN, "-", "coffer-egress");
	recognise(1);
	CHECKF(a->kind == KIND_UNKNOWN && b->kind == KIND_UNKNOWN && c->kind == KIND_UNKNOWN &&
		       d->kind == KIND_UNKNOWN,
	       "parents in a circle make nobody known");
	recognise(1); /* of nobody */
	/* A caller who is in an inner pid namespace while /proc is that of the outer one. */
	a = inside(add(10, 1, EXE_OURS, "cofferd", "cofferd"), 2, 3);
	recognise(2);
	check_kind(a, KIND_COFFERD, BY_EXECUTABLE, "a process in the caller's own pid namespace is outside");
}

static void test_table(void)
{
	for (int k = KIND_LAUNCHER; k < KIND_COUNT; k++) {
		const struct process_kind_info *info = process_kind_info((enum process_kind)k);

		CHECKF(info->name && *info->name && (k == KIND_UNKNOWN || (info->may_open && info->reads)),
		       "kind %d is described: %s", k, info->name);
		for (int other = KIND_LAUNCHER; other < k; other++) {
			if (str_eq(info->name, process_kind_info((enum process_kind)other)->name))
				CHECKF(false, "two kinds are named %s", info->name);
		}
	}
	for (int p = 0; p < PROGRAM_COUNT; p++)
		CHECKF(process_program_find(process_program_name((enum process_program)p)) ==
			       (enum process_program)p,
		       "%s is found by its name", process_program_name((enum process_program)p));
	CHECKF(process_program_find("/usr/libexec/coffer-dial") == PROGRAM_DIAL,
	       "a program is found by its path");
	CHECKF(process_program_find("coffer-dia") == PROGRAM_NONE &&
		       process_program_find("") == PROGRAM_NONE &&
		       process_program_find("/coffer/") == PROGRAM_NONE,
	       "a part of a name finds no program");
}

int main(void)
{
	test_visible();
	test_pretenders();
	test_hidden();
	test_claims();
	test_verbs();
	test_shapes();
	test_table();
	return tap_done();
}
