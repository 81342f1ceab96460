/* SPDX-License-Identifier: Apache-2.0 */
/* The options that describe a sandbox, for every verb that starts one. */
#ifndef CLI_RUN_ARGS_H
#define CLI_RUN_ARGS_H

#include "cli/core/opt.h"
#include "cli/run/run_spec.h"
#include "config/profile.h"
#include "sandbox/engine/choose.h"

enum {
	O_ENV = 1,
	O_ENV_FILE,
	O_WORKDIR,
	O_VOLUME,
	O_WORKSPACE,
	O_ROOT,
	O_IMAGE,
	O_ENTRYPOINT,
	O_EPHEMERAL,
	O_SHOW,
	O_HOME,
	O_USER,
	O_MAP_IDS,
	O_CAP,
	O_NESTED,
	O_ENGINE,
	O_RUNSC,
	O_NET,
	O_ALLOW,
	O_POLICY,
	O_RESOLVER,
	O_ASK_TIMEOUT,
	O_ASK_PROMPT,
	O_SECRET,
	O_PROFILE,
	O_SETTINGS,
	O_PUBLISH,
	O_PUBLIC,
	O_NAME,
	O_DETACH,
	O_RM,
	O_RESTART,
	O_TTY,
	O_NO_TTY,
	O_REPORT,
	O_I_KNOW,
	O_QUIET,
	O_CHECKPOINT,
	O_KEEP,
	O_LIMITS,
	O_LIMIT, /* and all ids after it: the options whose names limits_set() knows */
};

/* Rows that several verbs share in their tables of options. */
#define RUN_OPTS_WALL                                                                                         \
	{ "engine", 0, "ENGINE", "the engine that isolates the sandbox", O_ENGINE, ENGINE_NAMES },            \
		{ "runsc", 0, "PATH[@sha256:HEX]", "the runsc that engine gvisor runs on", O_RUNSC, "file" }, \
		{ "cap", 0, "NAME[,…]", "keep a capability (within the sandbox only)", O_CAP, .many = true }, \
	{                                                                                                     \
		"nested", 0, NULL, "allow user namespaces inside (browsers, bwrap)", O_NESTED                 \
	}

#define NET_NAMES "none observe enforce"

#define RUN_OPTS_REACH                                                                                    \
	{ "allow", 0,		"DOMAIN[:PORT]|@PRESET", "allow a host (default port: 443) or a preset",  \
	  O_ALLOW, .many = true },                                                                        \
		{ "policy", 0,	   "FILE", "a policy file: the ceiling for --allow and --profile",        \
		  O_POLICY, "file" },                                                                     \
		{ "resolver",	 0,                                                                       \
		  "ADDR[:PORT]", "look up names at this resolver (default: the system's)",                \
		  O_RESOLVER,	 .many = true },                                                          \
		{ "ask-timeout", 0, "TIME",                                                               \
		  "how long a question waits for an answer before it is denied (5m)", O_ASK_TIMEOUT },    \
	{                                                                                                 \
		"secret", 0, "NAME[@HOST,…]", "use a secret of the vault; the sandbox has a placeholder", \
			O_SECRET, .many = true                                                            \
	}

#define RUN_OPTS_NET                                                                                        \
	{ "net", 0, "MODE", "none, observe or enforce (default: enforce)", O_NET, NET_NAMES },              \
		RUN_OPTS_REACH, { "publish",	      'p',                                                  \
				  "[ADDR:]PORT:PORT", "forward a port of this machine to a port inside",    \
				  O_PUBLISH,	      .many = true },                                       \
	{                                                                                                   \
		"public", 0, NULL, "let -p listen on an address that the whole network can reach", O_PUBLIC \
	}

#define RUN_OPTS_LIMITS                                                                                    \
	{ "limits", 0,                                                                                     \
	  "PRESET", "set of limits: default, strict or best-effort",                                       \
	  O_LIMITS, "default strict best-effort" },                                                        \
		{ "memory", 'm', "SIZE", "memory and swap together", O_LIMIT + 0 },                        \
		{ "memory-reservation", 0, "SIZE", "memory that is reserved for it", O_LIMIT + 1 },        \
		{ "cpus", 0, "N", "CPUs, as in 1.5", O_LIMIT + 2 },                                        \
		{ "pids", 0, "N", "processes and threads", O_LIMIT + 3 },                                  \
		{ "nofile", 0, "SOFT[:HARD]", "open files of one process", O_LIMIT + 4 },                  \
		{ "timeout", 0, "TIME", "time limit: 90s, 10m, 2h", O_LIMIT + 5 },                         \
		{ "tmp-size", 0, "SIZE", "/tmp, /run and the empty home together", O_LIMIT + 6 },          \
		{ "shm-size", 0, "SIZE", "/dev/shm", O_LIMIT + 7 },                                        \
		{ "output-limit", 0, "SIZE", "bytes that it may print to a file or pipe", O_LIMIT + 8 },   \
	{                                                                                                  \
		"disk", 0, "SIZE[,FILES]", "disk space and number of files that it may write", O_LIMIT + 9 \
	}

/* Memory that --profile added to the options, freed by cli_run_profile_release(). */
struct run_profile {
	char **argv; /* the agent's command line, if no command was typed */
	char *home, *program, *name;
	struct spec_files files;
	struct profile profile; /* owns the texts of the offers */
	struct net_offer offer[PROFILE_SECRETS_MAX];
	struct net_offers offers;
};

struct run_args {
	struct run_opts o;
	const char *profile;
	bool settings; /* --settings */
	struct run_profile added;
	const char *report, *engine, *runsc;
	bool rm; /* --rm: nothing of the run is kept */
	int tty; /* 1: -t, 0: -T, -1: a terminal if we are on one */
};

#define RUN_ARGS_INIT ((struct run_args){ .tty = -1 })

/* Sets the default limits, and the engine that COFFER_ENGINE names. */
int cli_run_args_begin(struct run_args *a, struct err *e) MUST_CHECK;
/* Stores one option. `table` is the verb's own, for the name of a limit. */
int cli_run_args_take(struct run_args *a, const struct opt *table, size_t n, int id, const char *value,
		      struct err *e) MUST_CHECK;
void cli_run_args_release(struct run_args *a);

#endif
