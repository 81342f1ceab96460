/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process of Cofferdam is: the table of kinds, and how one is recognised from facts about it. Pure.
 *
 * Invariants
 *  K1  No process of a sandbox is recognised as a part of Cofferdam outside of it, whatever it calls itself and whatever it
 *      executes (it may see coffer's own programs): a process that has a pid in a pid namespace below ours is only ever
 *      one of the kinds inside, and only as a descendant of a launcher.
 *  K2  Outside, the file that a process executes decides, where it is visible: a process of another program is never listed.
 *      Names and arguments only tell apart the kinds that one program has.
 *  K3  Where that file is not visible (it takes the right to trace the process), the run directory decides, or the parent
 *      that it knows. A process that has only a name is `unknown`.
 *  K4  `may_open`, `reads` and `landlock` are statements of the code of a kind, not observations.
 */
#ifndef POSTURE_PROCESS_KIND_H
#define POSTURE_PROCESS_KIND_H

#include "posture/proc_text.h"
#include "sandbox/state/state.h"

enum process_program {
	PROGRAM_COFFER,
	PROGRAM_COFFERD,
	PROGRAM_COURIER,
	PROGRAM_DIAL,
	PROGRAM_EGRESS,
	PROGRAM_INIT,
	PROGRAM_NETD,
	PROGRAM_UNPACK,
	PROGRAM_VAULT,
	PROGRAM_WEB,
	PROGRAM_COUNT,
	PROGRAM_NONE = PROGRAM_COUNT
};
const char *process_program_name(enum process_program p); /* "coffer-egress" */
/* The program with this file name, after any directories; PROGRAM_NONE when there is none. */
enum process_program process_program_find(const char *path);

enum process_kind {
	KIND_NONE, /* no process of ours */
	KIND_LAUNCHER,
	KIND_STANDBY,
	KIND_GUARD,
	KIND_EGRESS,
	KIND_DIAL,
	KIND_NETD,
	KIND_VAULT,
	KIND_COURIER,
	KIND_COFFERD,
	KIND_WEB,
	KIND_WEB_WORK,
	KIND_ROTATION,
	KIND_NOTIFIER,
	KIND_MCP,
	KIND_UNPACK,
	KIND_FORK,
	KIND_CLIENT,
	KIND_INIT,
	KIND_BUILDER,
	KIND_COMMAND,
	KIND_RUNSC,
	KIND_GVISOR,
	KIND_UNKNOWN,
	KIND_COUNT
};

struct process_kind_info {
	const char *name; /* "coffer-egress" */
	const char *
		landlock; /* does its code enter a Landlock domain? "yes", "no", "except with --nested"; NULL: unknown */
	const char *may_open;
	const char *reads;
	bool reads_hostile; /* bytes that a sandbox, a server or another client chose */
};
const struct process_kind_info *process_kind_info(enum process_kind k);

/* How the kind is known. */
enum process_by { BY_NAME, BY_NAMESPACE, BY_PARENT, BY_RUN, BY_EXECUTABLE, PROCESS_BY_COUNT };
const char *process_by_name(enum process_by b); /* "executable" */

enum process_exe {
	EXE_HIDDEN,   /* not visible to this user */
	EXE_FOREIGN,  /* another program */
	EXE_NAMESAKE, /* a file of that name, but not of this installation: an older one, or that of another */
	EXE_OURS
};

enum process_claim { CLAIM_NONE, CLAIM_LAUNCHER, CLAIM_STANDBY, CLAIM_GUARD, CLAIM_COFFERD };

struct process_facts {
	struct proc_status st;
	enum process_exe exe;
	enum process_program program; /* that it executes, where that is visible and one of ours */
	enum process_program says;    /* that its first argument names */
	char verb[24];		      /* the second argument of coffer, where that can be a command */
	bool standby, rotates;	      /* the arguments of `call --standby` and `secret rotate --due` */
	enum process_claim claim;     /* what the state directory calls this pid */
	bool gvisor;		      /* the engine of the run; also inherited */
	char run[RUN_ID_LEN + 1];     /* the same; empty: none, or not known */
	/* The result */
	enum process_kind kind;
	enum process_by by;
	bool inside;
};

/* Recognises all of them, which must be sorted by pid. `levels` is the number of pid namespaces that the caller itself is
 * in, as /proc shows it. */
void process_recognise(struct process_facts *const *v, size_t n, unsigned levels);

#endif
