/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files that a remembered command names. cofferd runs the command on a schedule, outside of every
 * sandbox, so a sandbox's change to one of them must not be applied without asking (run/obeys.h).
 */
#include "base/cleanup.h"
#include "cli/secret/cmd_secret.h"
#include "run/obeys.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

/*
 * Characters at which the shell splits words or which it removes; a word that needs more expansion than
 * that is no plain file name.
 */
#define BETWEEN " \t\n;|&()<>\"'`=$"

/*
 * Notes a path, or a name that is a file here. A directory is skipped: noting it would cover everything in
 * it, which is no part of the command.
 */
static int note_command_word(struct obeys *o, const char *word)
{
	struct stat st;

	const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): one thread

	if (str_starts(word, "~/") && home && *home == '/')
		return strv_addf(&o->files, "%s%s", home, word + 1);
	if (stat(word, &st) < 0)
		return strchr(word, '/') ? obeys_add(&o->files, word) : 0;
	return S_ISDIR(st.st_mode) ? 0 : obeys_add(&o->files, word);
}

int cli_secret_note_command(struct secret_session *s, const char *command, struct err *e)
{
	CLEANUP(obeys_release) struct obeys o = OBEYS_INIT;
	int r = 0;

	for (const char *p = command; r == 0 && *p;) {
		size_t len = strcspn(p, BETWEEN);
		autofree char *word = len ? strndup(p, len) : NULL;

		if (len)
			r = word ? note_command_word(&o, word) : -ENOMEM;
		p += len;
		p += strspn(p, BETWEEN);
	}
	return r < 0 ? err_sys(e, r, "cannot note which files the command is made of")
		     : obeys_note(&o, &s->st, e);
}
