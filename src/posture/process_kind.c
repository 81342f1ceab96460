/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the kinds of processes, and the rules by which a process is recognised (process_kind.h). It must not look at
 * /proc itself, and must not take the word of a process of a sandbox for anything (process_kind.K1).
 */
#include "posture/process_kind.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <assert.h>

static const char *const programs[] = {
	[PROGRAM_COFFER] = "coffer",	      [PROGRAM_COFFERD] = "cofferd",
	[PROGRAM_COURIER] = "coffer-courier", [PROGRAM_DIAL] = "coffer-dial",
	[PROGRAM_EGRESS] = "coffer-egress",   [PROGRAM_INIT] = "coffer-init",
	[PROGRAM_NETD] = "coffer-netd",	      [PROGRAM_UNPACK] = "coffer-unpack",
	[PROGRAM_VAULT] = "coffer-vault",     [PROGRAM_WEB] = "coffer-web",
};
static_assert(ARRAY_SIZE(programs) == PROGRAM_COUNT, "a name for each");

static const enum process_kind kind_of_program[] = {
	[PROGRAM_COFFER] = KIND_CLIENT, [PROGRAM_COFFERD] = KIND_COFFERD, [PROGRAM_COURIER] = KIND_COURIER,
	[PROGRAM_DIAL] = KIND_DIAL,	[PROGRAM_EGRESS] = KIND_EGRESS,	  [PROGRAM_INIT] = KIND_INIT,
	[PROGRAM_NETD] = KIND_NETD,	[PROGRAM_UNPACK] = KIND_UNPACK,	  [PROGRAM_VAULT] = KIND_VAULT,
	[PROGRAM_WEB] = KIND_WEB,
};
static_assert(ARRAY_SIZE(kind_of_program) == PROGRAM_COUNT, "a kind for each");

#define AS_USER "all that its user may open"

static const struct process_kind_info kinds[] = {
	[KIND_NONE] = { "none", NULL, NULL, NULL, false },
	[KIND_LAUNCHER] = { "launcher", "yes",
			    "its state directory, the control groups; the workspace for reading",
			    "frames from coffer-init and the output of the command; clients of its control socket",
			    true },
	[KIND_STANDBY] = { "standby", "yes", "as a launcher",
			   "frames from coffer-init; the socket on which its command will come", true },
	[KIND_GUARD] = { "guard", "no", AS_USER,
			 "messages of coffer-netd; questions from coffer-egress; answers of approvers; the layer "
			 "that the sandbox wrote",
			 true },
	[KIND_EGRESS] = { "coffer-egress", "yes", "nothing",
			  "traffic of the sandbox and of servers; the policy; messages of the guard and the vault",
			  true },
	[KIND_DIAL] = { "coffer-dial", "yes", "nothing; makes TCP and UDP sockets",
			"requests of coffer-egress; responses of name servers and proxies", true },
	[KIND_NETD] = { "coffer-netd", "yes", "nothing", "the journals of coffer-egress and coffer-dial",
			true },
	[KIND_VAULT] = { "coffer-vault", "yes", "nothing",
			 "requests of coffer-egress and the launcher; values, and its sealed file, on descriptors that it gets",
			 true },
	[KIND_COURIER] = { "coffer-courier", "yes", "nothing; makes TCP and UDP sockets",
			   "its job; the response of one server", true },
	[KIND_COFFERD] = { "cofferd", "no", AS_USER,
			   "requests of its user's commands; messages of coffer-web; its database", true },
	[KIND_WEB] = { "coffer-web", "yes", "nothing", "requests of HTTP clients; messages of cofferd",
		       true },
	[KIND_WEB_WORK] = { "web-work", "no", AS_USER, "a request to the API, as cofferd passes it on",
			    true },
	[KIND_ROTATION] = { "rotation", "no", AS_USER,
			    "the vault's list; what the operator's own command prints", false },
	[KIND_NOTIFIER] = { "notifier", "no", AS_USER, "questions, which a sandbox has worded; notify.yaml",
			    true },
	[KIND_MCP] = { "mcp", "no", AS_USER, "requests of an MCP client; results of tools", true },
	[KIND_UNPACK] = { "coffer-unpack", "yes", "the directory that it fills", "an archive", true },
	[KIND_FORK] = { "fork", NULL, AS_USER,
			"nothing from a sandbox but files of its layer, by their names", false },
	[KIND_CLIENT] = { "client", "no", AS_USER, "what its command is for", true },
	[KIND_INIT] = { "coffer-init", "except with --nested", "what the sandbox may open",
			"frames of the launcher; the output of the command", true },
	[KIND_BUILDER] = { "builder", "no", "what it builds the sandbox from", "nothing from a sandbox",
			   false },
	[KIND_COMMAND] = { "command", "except with --nested", "what the sandbox may open",
			   "anything: it is not ours", true },
	[KIND_RUNSC] = { "runsc", "no", "what it starts gVisor from",
			 "what gVisor reports to it; it is not ours", true },
	[KIND_GVISOR] = { "gvisor", "no", "what its own fences allow",
			  "system calls and files of the sandbox: it is not ours", true },
	[KIND_UNKNOWN] = { "unknown", NULL, NULL, NULL, false },
};
static_assert(ARRAY_SIZE(kinds) == KIND_COUNT, "a row for each");

static const char *const ways[] = {
	[BY_NAME] = "name only",      [BY_NAMESPACE] = "namespaces",  [BY_PARENT] = "parent",
	[BY_RUN] = "state directory", [BY_EXECUTABLE] = "executable",
};
static_assert(ARRAY_SIZE(ways) == PROCESS_BY_COUNT, "a name for each");

const char *process_program_name(enum process_program p)
{
	return programs[p];
}

enum process_program process_program_find(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int i = 0;

	while (i < PROGRAM_COUNT && !str_eq(name, programs[i]))
		i++;
	return (enum process_program)i;
}

const struct process_kind_info *process_kind_info(enum process_kind k)
{
	return &kinds[k];
}

const char *process_by_name(enum process_by b)
{
	return ways[b];
}

/* --- outside of sandboxes --------------------------------------------------------------------------------------- */

/* The kinds of the program coffer, by the state directory first and by arguments after it (process_kind.K2). */
static enum process_kind kind_of_coffer(const struct process_facts *p)
{
	if (p->claim == CLAIM_GUARD || (p->claim == CLAIM_NONE && str_eq(p->st.name, "coffer-guard")))
		return KIND_GUARD;
	if (p->claim == CLAIM_STANDBY)
		return KIND_STANDBY;
	if (p->claim == CLAIM_LAUNCHER)
		return KIND_LAUNCHER;
	if (p->standby)
		return KIND_STANDBY;
	if (str_eq(p->verb, "web-work"))
		return KIND_WEB_WORK;
	if (str_eq(p->verb, "notify-asks"))
		return KIND_NOTIFIER;
	if (str_eq(p->verb, "mcp"))
		return KIND_MCP;
	return p->rotates ? KIND_ROTATION : KIND_CLIENT;
}

static enum process_kind kind_of_outside(const struct process_facts *p, enum process_program program)
{
	return program == PROGRAM_COFFER ? kind_of_coffer(p) : kind_of_program[program];
}

/* What is known of a process outside without its parent. */
static void recognise_alone(struct process_facts *p)
{
	if (p->exe == EXE_OURS || p->exe == EXE_NAMESAKE) {
		p->kind = kind_of_outside(p, p->program);
		p->by = BY_EXECUTABLE;
	} else if (p->exe == EXE_HIDDEN && p->says != PROGRAM_NONE) {
		bool claimed = p->says == PROGRAM_COFFERD
				       ? p->claim == CLAIM_COFFERD
				       : p->says == PROGRAM_COFFER && p->claim != CLAIM_NONE;

		p->kind = claimed ? kind_of_outside(p, p->says) : KIND_UNKNOWN;
		p->by = claimed ? BY_RUN : BY_NAME;
	}
}

static bool is_launcher(enum process_kind k)
{
	return k == KIND_LAUNCHER || k == KIND_STANDBY;
}

/* A fork of the launcher or the guard that executes nothing keeps their arguments. */
static bool is_fork(const struct process_facts *p, const struct process_facts *parent)
{
	return p->kind == KIND_CLIENT && p->claim == CLAIM_NONE &&
	       (is_launcher(parent->kind) || parent->kind == KIND_GUARD);
}

/* With a parent that is known: true when something new came out of it. */
static bool recognise_child(struct process_facts *p, const struct process_facts *parent)
{
	if (parent->kind == KIND_NONE || parent->kind == KIND_UNKNOWN || parent->inside)
		return false;
	if (p->kind == KIND_UNKNOWN) {
		p->kind = kind_of_outside(p, p->says);
		p->by = BY_PARENT;
		return true;
	}
	if (is_fork(p, parent)) {
		p->kind = KIND_FORK;
		return true;
	}
	return false;
}

/* --- inside ----------------------------------------------------------------------------------------------------- */

/* The child of a launcher in a new pid namespace: it builds the sandbox, and then it becomes coffer-init, or gVisor. */
static void recognise_first_inside(struct process_facts *p)
{
	p->by = BY_EXECUTABLE;
	if (p->exe == EXE_HIDDEN) {
		p->by = BY_NAMESPACE;
		p->kind = p->gvisor ? KIND_RUNSC : p->st.innermost == 1 ? KIND_INIT : KIND_BUILDER;
	} else if (p->exe == EXE_FOREIGN) {
		p->kind = KIND_RUNSC;
		p->by = BY_NAMESPACE;
	} else {
		p->kind = p->program == PROGRAM_INIT ? KIND_INIT : KIND_BUILDER;
	}
}

/* Whatever it executes: a command may run coffer's own programs inside (process_kind.K1). */
static bool recognise_inside(struct process_facts *p, struct process_facts *parent, unsigned levels)
{
	if (p->kind != KIND_NONE)
		return false;
	if (!parent->inside) {
		/* A launcher that our state directory does not know. What doctor tries, it tries in a copy of itself. */
		if ((parent->kind == KIND_CLIENT || parent->kind == KIND_MCP) &&
		    parent->by == BY_EXECUTABLE && (p->exe == EXE_FOREIGN || p->program == PROGRAM_INIT))
			parent->kind = KIND_LAUNCHER;
		if (!is_launcher(parent->kind) || p->st.levels != levels + 1)
			return false;
		recognise_first_inside(p);
	} else {
		if (parent->kind == KIND_NONE)
			return false;
		p->kind = KIND_COMMAND;
		if (parent->kind == KIND_RUNSC || parent->kind == KIND_GVISOR)
			p->kind = KIND_GVISOR;
		else if (parent->kind == KIND_BUILDER)
			p->kind = KIND_BUILDER;
		p->by = BY_NAMESPACE;
	}
	return true;
}

/* --- all of them ------------------------------------------------------------------------------------------------ */

static struct process_facts *find_process(struct process_facts *const *v, size_t n, pid_t pid)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v[mid]->st.pid < pid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && v[lo]->st.pid == pid ? v[lo] : NULL;
}

static bool inherit_run(struct process_facts *p, const struct process_facts *parent)
{
	/* What cofferd starts belongs to no run of cofferd's. */
	if (p->run[0] || !parent->run[0])
		return false;
	memcpy(p->run, parent->run, sizeof(p->run));
	p->gvisor = parent->gvisor;
	return true;
}

void process_recognise(struct process_facts *const *v, size_t n, unsigned levels)
{
	bool changed = true;

	for (size_t i = 0; i < n; i++) {
		v[i]->inside = v[i]->st.levels > levels;
		v[i]->kind = KIND_NONE;
		v[i]->by = BY_NAME;
		if (!v[i]->inside)
			recognise_alone(v[i]);
	}
	/* A parent mostly has the smaller pid, so few rounds are needed. Each round but the last recognises something, and a
	 * process is recognised at most three times. */
	while (changed) {
		changed = false;
		for (size_t i = 0; i < n; i++) {
			struct process_facts *p = v[i], *parent = find_process(v, n, p->st.parent);

			if (!parent || parent == p)
				continue;
			changed |= inherit_run(p, parent);
			changed |=
				p->inside ? recognise_inside(p, parent, levels) : recognise_child(p, parent);
		}
	}
}
