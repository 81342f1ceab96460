/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile: what a known agent needs to start and work, as a file that people can read, copy and change.
 *
 *	version: 1
 *	about: Claude Code, by Anthropic
 *	command: claude                  # looked up in PATH, shown inside, and run when no command is given
 *	install: npm install -g …        # printed if the command is missing
 *	home: claude                     # a named home; --home overrides it
 *	env: { NAME: VALUE }             # unless -e sets it
 *	start: |                         # what /bin/sh runs inside before each start of the command
 *	  mkdir -p ~/.agent
 *	settings: [ .agent/conf.json ]   # files and directories (with a trailing slash) of the user's home for --settings
 *	allow: [ "@anthropic" ]          # like --allow
 *	secrets:                         # secrets that it works with; each is used if it is in the vault
 *	  - name: anthropic              # in the vault
 *	    env: ANTHROPIC_API_KEY       # the variable with its placeholder inside, or several; optional
 *	    host: api.anthropic.com      # where it is sent if the vault binds it nowhere
 *	    as: header:x-api-key         # and how, or a list of ways; default: the host's usual way
 *	keys: [ OTHER_TOKEN ]            # more variables from which it takes credentials; none is passed in without a request
 *
 * A name without a slash is searched in the user's own directory (PROFILE_DIR), then among ours; with a slash it is a file.
 */
#ifndef CONFIG_PROFILE_H
#define CONFIG_PROFILE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define PROFILE_FILE_MAX (64u << 10)
#define PROFILE_SECRETS_MAX 16

/* As written: the code that requests the grant checks host and way. */
struct profile_secret {
	char *name;
	char *host;	     /* NULL: not specified */
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

/* The text of its file. */
int profile_read(const char *name, struct buf *ret, char **ret_from, struct err *e) MUST_CHECK;

/* From a text; `from` is for messages. */
int profile_parse(struct profile *ret, const char *name, const char *from, const char *text, size_t len,
		  struct err *e) MUST_CHECK;

/* The names of all profiles, sorted, ours and the user's. */
int profile_list(struct strv *ret, struct err *e) MUST_CHECK;

#endif
