/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a remembered command is made of: cofferd runs it again and again, so no sandbox may change them unasked. */
#include "base/cleanup.h"
#include "cli/secret/cmd_secret.h"
#include "run/obeys.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

/* What the shell takes words apart at, and what it takes off them; a word in which more than that is done is no plain name. */
#define BETWEEN " \t\n;|&()<>\"'`=$"

/* A path, or a name that is a file here. A directory stands for all that is in it: that is no part of a command. */
static int note_word(struct obeys *o, const char *word)
{
	struct stat st;

	const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): one thread

	if (str_starts(word, "~/") && home && *home == '/')
		return strv_addf(&o->files, "%s%s", home, word + 1);
	if (stat(word, &st) < 0)
		return strchr(word, '/') ? obeys_add(&o->files, word) : 0;
	return S_ISDIR(st.st_mode) ? 0 : obeys_add(&o->files, word);
}

int secret_note_command(struct secret_session *s, const char *command, struct err *e)
{
	CLEANUP(obeys_release) struct obeys o = OBEYS_INIT;
	int r = 0;

	for (const char *p = command; r == 0 && *p;) {
		size_t len = strcspn(p, BETWEEN);
		autofree char *word = len ? strndup(p, len) : NULL;

		if (len)
			r = word ? note_word(&o, word) : -ENOMEM;
		p += len;
		p += strspn(p, BETWEEN);
	}
	return r < 0 ? err_sys(e, r, "cannot note which files the command is made of")
		     : obeys_note(&o, &s->st, e);
}
