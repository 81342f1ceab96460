/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile: what a known agent needs in order to start and to work, as a file that people can read, copy and change.
 *
 *	version: 1
 *	about: Claude Code, by Anthropic
 *	command: claude                  # what is looked for in PATH, shown inside, and run when no command is given
 *	install: npm install -g …        # said when it is not there
 *	home: claude                     # a named home; --home overrides it
 *	env: { NAME: VALUE }             # unless -e sets it
 *	start: |                         # what /bin/sh runs inside before each start of the command
 *	  mkdir -p ~/.agent
 *	settings: [ .agent/conf.json ]   # files and directories (with a slash at the end) of the user's home for --settings
 *	allow: [ "@anthropic" ]          # as --allow
 *	secrets:                         # those that it works with; each is used when it is in the vault
 *	  - name: anthropic              # in the vault
 *	    env: ANTHROPIC_API_KEY       # the variable that has its placeholder inside, or several; may be left out
 *	    host: api.anthropic.com      # where it is sent when the vault binds it nowhere
 *	    as: header:x-api-key         # and how, or a list of ways; as the host usually wants it when that is left out
 *	keys: [ OTHER_TOKEN ]            # more variables that it takes credentials from; none is handed in unasked
 *
 * A name without a slash is one of the user's own (PROFILE_DIR, then ours); with one it is a file.
 */
#ifndef CONFIG_PROFILE_H
#define CONFIG_PROFILE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define PROFILE_FILE_MAX (64u << 10)
#define PROFILE_SECRETS_MAX 16

/* As written: whoever asks the vault for it checks host and way. */
struct profile_secret {
	char *name;
	char *host;	     /* NULL: not said */
	struct strv env, as; /* may be empty */
};

struct profile {
	char *name, *about, *command, *install, *home, *start;
	struct strv env; /* NAME=VALUE */
	struct strv allow;
	struct strv keys;
	struct strv settings; /* below the home, normalised */
	struct profile_secret secrets[PROFILE_SECRETS_MAX];
	size_t n_secrets;
};

#define PROFILE_INIT ((struct profile){ 0 })

int profile_load(struct profile *ret, const char *name, struct err *e) MUST_CHECK;
void profile_release(struct profile *p);

/* Its text as it stands in the file. */
int profile_read(const char *name, struct buf *ret, char **ret_from, struct err *e) MUST_CHECK;

/* From text; `from` is for messages. */
int profile_parse(struct profile *ret, const char *name, const char *from, const char *text, size_t len,
		  struct err *e) MUST_CHECK;

/* The names of all there are, sorted, ours and the user's. */
int profile_list(struct strv *ret, struct err *e) MUST_CHECK;

#endif
