/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of docker's, git's and systemctl's commands and options: those that are accepted here, and those
 * that get a hint in the error message. It only translates names; opt.c parses.
 */
#include "cli/core/habit.h"

#include "base/str.h"

#include <errno.h>
#include <string.h>

/* Another name for an option of ours. */
#define SAME(verb_, word_, ours_)                                  \
	{                                                          \
		.verb = (verb_), .word = (word_), .means = (ours_) \
	}
/* An option that asks for what every sandbox has anyway. It is accepted and has no effect. */
#define HOLDS(verb_, word_, arg_)                                            \
	{                                                                    \
		.verb = (verb_), .word = (word_), .nothing = {               \
			.name = (word_),                                     \
			.arg = (arg_),                                       \
			.help = "accepted for compatibility; has no effect", \
			.id = OPT_NOTHING                                    \
		}                                                            \
	}

static const struct habit habits[] = {
	SAME("run", "network", "net"),
	SAME("run", "pids-limit", "pids"),
	SAME("run", "cap-add", "cap"),
	SAME("run", "u", "user"),
	SAME("logs", "lines", "tail"),
	SAME("stop", "timeout", "time"),
	/* Standard input is always passed on, process 1 is always an init, and a sandbox has only the
	 * capabilities that --cap names. */
	HOLDS("run", "i", NULL),
	HOLDS("run", "interactive", NULL),
	HOLDS("run", "init", NULL),
	HOLDS("run", "cap-drop", "NAME"),
};

struct hint {
	const char *verb; /* NULL: the word is a verb itself; "--net": it is a value of that option */
	const char *word; /* the other program's word, without dashes */
	const char *ours; /* the text after "try:" */
};

static const struct hint hints[] = {
	{ "run", "read-only", "-C .:ro (shows the workspace read-only; the host's files are so anyway)" },
	{ "run", "hostname", "--name NAME (the host name inside is the sandbox's name)" },
	{ "run", "label", "--name NAME (a sandbox has a name and no labels)" },
	{ "run", "l", "--name NAME (a sandbox has a name and no labels)" },
	{ "run", "tmpfs", "nothing: /tmp and /run are in memory, and --tmp-size SIZE limits them" },
	{ "run", "security-opt", "nothing: no-new-privileges and a system call allowlist always hold" },
	{ "run", "privileged", "--cap NAME for a capability, --nested for namespaces inside" },
	{ "run", "mount", "-v SRC:DST[:ro|rw]" },
	{ "run", "device", "-v SRC:DST shows files and directories; devices of the host are never shown" },
	{ "run", "gpus", "-v SRC:DST shows files and directories; devices of the host are never shown" },
	{ "run", "memory-swap", "--memory SIZE (limits memory and swap together)" },
	{ "run", "ulimit", "--nofile, --pids or --memory" },
	{ "run", "dns", "--resolver ADDR[:PORT]" },
	{ "run", "add-host", "a policy file with 'domain: NAME' and 'to: ADDRESS' (--policy FILE)" },
	{ "run", "expose", "-p PORT:PORT" },
	{ "run", "platform", "coffer image pull (fetches the image for this machine)" },
	{ "run", "pull", "coffer image pull REF, then coffer run --image REF" },
	{ "run", "ipc", "nothing: each sandbox has namespaces of its own" },
	{ "run", "pid", "--pids N limits processes; each sandbox has namespaces of its own" },
	{ "run", "userns", "nothing: each sandbox has namespaces of its own" },
	{ "run", "stop-timeout", "coffer stop -t SECONDS" },
	{ "exec", "user", "coffer run --user UID (all commands of a sandbox have its user)" },
	{ "exec", "u", "coffer run --user UID (all commands of a sandbox have its user)" },
	{ "exec", "privileged", "coffer run --cap NAME (a sandbox gets its capabilities at its start)" },
	{ "rm", "a", "coffer rm --all-ended, or coffer prune" },
	{ "rm", "all", "coffer rm --all-ended, or coffer prune" },
	{ "rm", "ended", "coffer rm --all-ended, or coffer prune" },
	{ "rm", "v", "nothing: a sandbox has no volumes of its own" },
	{ "rm", "r", "coffer rm REF (removes the sandbox with all its files)" },
	{ "stop", "s", "coffer stop -t 0 REF (kills at once)" },
	{ "stop", "signal", "coffer stop -t 0 REF (kills at once)" },
	{ "ps", "l", "coffer ps -a" },
	{ "ps", "n", "coffer ps -a" },
	{ "ps", "s", "coffer ps -a (shows sizes)" },
	{ "ps", "size", "coffer ps -a (shows sizes)" },
	{ "inspect", "format", "coffer inspect REF (is JSON: jq reads it)" },
	{ "inspect", "f", "coffer inspect REF (is JSON: jq reads it)" },
	{ "diff", "cached", "coffer diff REF" },
	{ "--net", "host", "--net observe (lets through any public host and logs it), or --allow HOST" },
	{ "--net", "bridge", "--net observe (lets through any public host and logs it), or --allow HOST" },
	{ "--net", "all", "--net observe (lets through any public host and logs it), or --allow HOST" },
	{ "ui", "port", "coffer gateway start --listen ADDRESS:PORT" },
	{ "secret", "get", "coffer run --secret NAME (uses it; a value is never shown)" },
	{ "secret", "show", "coffer secret ls (a value is never shown)" },
	{ "secret", "add", "coffer secret set NAME" },
	{ "secret", "list", "coffer secret ls" },
	{ "secret", "delete", "coffer secret rm NAME" },
	{ "image", "load", "coffer image import FILE" },
	{ "image", "list", "coffer image ls" },
	{ "diff", "name-only", "coffer diff REF (lists names; -p shows lines)" },

	{ NULL, "kill", "coffer stop -t 0 REF" },
	{ NULL, "images", "coffer image ls" },
	{ NULL, "pull", "coffer image pull REF" },
	{ NULL, "rmi", "coffer image rm REF" },
	{ NULL, "load", "coffer image import FILE" },
	{ NULL, "import", "coffer image import FILE" },
	{ NULL, "build", "coffer image import FILE (images are built elsewhere)" },
	{ NULL, "top", "coffer stats, or coffer exec REF -- ps aux" },
	{ NULL, "attach", "coffer shell REF, or coffer logs -f REF" },
	{ NULL, "create", "coffer run -d --name NAME -- COMMAND" },
	{ NULL, "port", "coffer inspect REF" },
	{ NULL, "events", "coffer audit -f" },
	{ NULL, "info", "coffer doctor" },
	{ NULL, "system", "coffer ps -a shows sizes, coffer prune removes what has ended" },
	{ NULL, "df", "coffer ps -a" },
	{ NULL, "container", "coffer ps -a" },
	{ NULL, "ls", "coffer ps -a" },
	{ NULL, "list", "coffer ps -a" },
	{ NULL, "volume", "coffer run --home NAME keeps a home directory; -v SRC:DST shows one of yours" },
	{ NULL, "network", "coffer net log" },
	{ NULL, "commit", "coffer checkpoint REF" },
	{ NULL, "show", "coffer inspect REF" },
	{ NULL, "save", "coffer checkpoint REF" },
	{ NULL, "snapshot", "coffer checkpoint REF" },
	{ NULL, "clone", "coffer fork REF" },
	{ NULL, "restore", "coffer rollback REF" },
	{ NULL, "reset", "coffer rollback REF, or coffer discard REF" },
	{ NULL, "revert", "coffer rollback REF, or coffer discard REF" },
	{ NULL, "undo", "coffer rollback REF, or coffer discard REF" },
	{ NULL, "clean", "coffer prune" },
	{ NULL, "gc", "coffer prune" },
	{ NULL, "merge", "coffer apply REF" },
	{ NULL, "patch", "coffer diff -p REF" },
	{ NULL, "status", "coffer ps -a, or coffer gateway status" },
	{ NULL, "daemon", "coffer gateway" },
	{ NULL, "enable", "coffer gateway" },
	{ NULL, "reload", "coffer gateway reload" },
	{ NULL, "log", "coffer logs REF, coffer net log or coffer audit" },
	{ NULL, "journal", "coffer audit" },
	{ NULL, "history", "coffer audit --sandbox REF" },
	{ NULL, "allow", "coffer run --allow HOST, or coffer approve for a question" },
	{ NULL, "yes", "coffer approve" },
	{ NULL, "vault", "coffer secret" },
	{ NULL, "login", "coffer secret set NAME" },
	{ NULL, "web", "coffer ui" },
	{ NULL, "bash", "coffer shell REF, or coffer run -- bash" },
	{ NULL, "sh", "coffer shell REF, or coffer run -- sh" },
	{ NULL, "ssh", "coffer shell REF" },
	{ NULL, "delete", "coffer rm REF" },
	{ NULL, "remove", "coffer rm REF" },
	{ NULL, "config", "coffer policy, coffer profile" },
	{ NULL, "check", "coffer doctor" },
};

const struct habit *habit_option(const char *verb, const char *word, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(habits); i++) {
		const struct habit *h = &habits[i];

		if (str_eq(h->verb, verb) && strlen(h->word) == len && memcmp(h->word, word, len) == 0)
			return h;
	}
	return NULL;
}

static bool add_habit_hint(const char *verb, const char *word, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		const struct hint *h = &hints[i];

		if (str_eq(h->word, word) && (verb ? h->verb && str_eq(h->verb, verb) : !h->verb)) {
			err_hint(e, -EINVAL, "%s", h->ours);
			return true;
		}
	}
	return false;
}

bool habit_hint_option(const char *verb, const char *word, struct err *e)
{
	return add_habit_hint(verb, word, e);
}

bool habit_hint_verb(const char *word, struct err *e)
{
	return add_habit_hint(NULL, word, e);
}
