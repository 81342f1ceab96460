/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table of all verbs. It feeds the dispatcher, `coffer --help`, `coffer VERB --help`, the man pages and
 * the completions (tools/gen-docs reads it through `coffer help --dump-json`), so that none of them can
 * contradict another. Each verb's file ends with its `const struct verb verb_NAME`; verb.c lists them.
 */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include "base/buf.h"
#include "cli/core/opt.h"

#include <stddef.h>

enum verb_group {
	VERB_RUN,	/* start things */
	VERB_MANAGE,	/* see and steer sandboxes */
	VERB_WORKSPACE, /* what a run changed */
	VERB_HOST,	/* this machine and this program */
	VERB_GROUP_COUNT
};

struct verb {
	const char *name;
	enum verb_group group;
	const char *synopsis;	/* follows the name: "[OPTIONS] REF [PATH…]" */
	const char *help;	/* one line for the list of verbs, lower case, no full stop */
	const struct opt *opts; /* without -h/--help, which every verb has */
	size_t n_opts;
	int (*run)(int argc, char **argv); /* argv[0] is the verb's name; returns the exit code */
	const char *text; /* for the man page: paragraphs separated by an empty line; *bold*, _underlined_ */
	const char *examples; /* lines of "command\n" and "\t# what it does\n"; may be NULL */
	const char *
		args; /* the kind of positionals, for completion: "sandbox", "command", "path", "verb", or NULL */
};

extern const struct verb *const verbs[];
extern const size_t n_verbs;

const struct verb *verb_find(const char *name); /* NULL if no verb has that name */
const char *verb_group_title(enum verb_group g);

/* Formats the text of `coffer VERB --help`. verb_print_help() prints it to stdout and returns the exit
 * code. */
void verb_format_help(const struct verb *v, struct buf *out);
int verb_print_help(const struct verb *v);

extern const struct verb verb_run, verb_call, verb_exec, verb_shell, verb_cp, verb_ps, verb_pool,
	verb_gateway, verb_token, verb_ui, verb_logs, verb_stop, verb_rm, verb_diff, verb_apply, verb_discard,
	verb_checkpoint, verb_rollback, verb_fork, verb_image, verb_secret, verb_policy, verb_notify,
	verb_net, verb_why, verb_replay, verb_ask, verb_approve, verb_deny, verb_audit, verb_doctor,
	verb_profile, verb_mcp, verb_stats, verb_inspect, verb_wait, verb_start, verb_restart, verb_prune,
	verb_completion, verb_version, verb_help;

#endif
