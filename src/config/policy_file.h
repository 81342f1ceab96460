/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From policy files (YAML) and --allow texts to a policy. Files are the operator's, but may be wrong in every way:
 * unknown, duplicate and misspelt keys, wrong types, aliases, anchors and tags are refused with FILE:LINE:COLUMN, what
 * was expected and the nearest known word; size and depth are bounded.
 *
 *	struct config_policy_args a = { .files = paths, .n_files = 1, .allow = texts, .n_allow = 2, .mode = -1 };
 *	r = config_policy_load(&a, &cp, &e);
 *
 * Each file is a layer, all --allow texts together are one more: what is allowed is what every layer allows. A file that
 * speaks of nothing but tools and apply is none.
 */
#ifndef CONFIG_POLICY_FILE_H
#define CONFIG_POLICY_FILE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "policy/acts.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stddef.h>

#define CONFIG_FILE_MAX (1u << 20)	  /* bytes of a policy file */
#define CONFIG_BLOCKLIST_MAX (256u << 20) /* bytes of a blocklist */
#define CONFIG_LAYERS_MAX 8

struct config_policy_args {
	const char *const *files; /* each a layer; "-" is standard input */
	size_t n_files;
	const char *const *
		allow; /* "example.com", "example.com:8443", "*.example.com", "@npm", "@github-triage(repos=o/r)" */
	size_t n_allow;
	/* "@policy" among them: what the files allow, by host and port, is in this layer too. */
	const char *profile; /* whose are the last n_profile of `allow`; NULL: nobody's */
	size_t n_profile;
	const char *const
		*resolvers; /* "9.9.9.9", "10.0.0.53:5353": where files name some too, what both name */
	size_t n_resolvers;
	int mode; /* enum policy_mode that the command line names; -1: the files' own (enforce when none says) */
	/* What the first file is to be: read instead of its bytes, by which nobody is bound yet. NULL: the file itself. */
	const char *text;
	size_t text_len;
	bool for_checking; /* only looked at, not enforced: who may write to the file is a warning then, not an error */
};

/* The credentials of a pool: user and password, one "user:password" a line, for its proxies in turn. */
struct config_proxy_secret {
	char pool[POLICY_POOL_MAX + 1];
	char *file; /* absolute path; its owner and mode (0600) are checked by whoever reads it */
};

/* A rule's `secret:`. What it says of the variable and of the place in a request is for whoever asks the vault for it. */
#define CONFIG_AS_MAX 79
#define CONFIG_CAPTURE_PATH_MAX 255
struct config_secret {
	char name[POLICY_SECRET_MAX + 1];
	char env[POLICY_SECRET_MAX + 1]; /* "": by its name */
	char as[CONFIG_AS_MAX + 1];	 /* "": as the secret itself says */
	char host[HOST_MAX + 1];	 /* "": the rule's pattern is not one host */
	uint16_t port;			 /* 0: more than one */
	bool ask;			 /* `ask: true`; for SSH it stands in `as` */
};

/* A rule's `capture:`: what a server issues at an endpoint of the rule's one host. Its words are checked by vault/common/issue.h and
 * vault/common/binding.h once more. */
struct config_capture {
	char name[POLICY_SECRET_MAX + 1];
	char *issue;	   /* as vault/common/issue.h has it */
	struct strv hosts; /* HOST[:PORT][/path] that it is good for */
	char as[CONFIG_AS_MAX + 1];
	char host[HOST_MAX + 1]; /* the rule's */
	uint16_t port;
	char path[CONFIG_CAPTURE_PATH_MAX + 1]; /* "": nothing goes back to the endpoint */
};

struct config_policy {
	struct policy *policy;
	struct strv
		warnings; /* "FILE:LINE:COLUMN: …", one sentence each, for the person who started the run */
	struct strv conflicts; /* what the command line asks for and a file does not grant, a sentence each */
	struct strv files;     /* what was read (policy, blocklists, CAs), absolute: reload watches these */
	struct config_proxy_secret *proxy_secrets;
	size_t n_proxy_secrets;
	struct config_secret *secrets; /* one for each rule that names one */
	size_t n_secrets;
	struct config_capture *captures;
	size_t n_captures;
	struct acts acts; /* tools:, apply: */
	bool says_egress; /* a file, or the command line, has a word on the network */
};

/* No files and no texts: a policy that denies everything. */
int config_policy_load(const struct config_policy_args *a, struct config_policy *ret,
		       struct err *e) MUST_CHECK;
void config_policy_release(struct config_policy *c);

/* The same of one text, which cannot name other files. `name` stands for it in messages. */
int config_policy_parse(const char *name, const char *text, size_t len, struct config_policy *ret,
			struct err *e) MUST_CHECK;

/* What a policy says of tools and of apply, as the text of one that says only that: for keeping it with a run. */
void config_acts_format(const struct acts *a, struct buf *out);

/*
 * What --allow names and the files do not allow, one sentence each: to be said, with ->conflicts, by whoever starts the
 * run, for the stricter wins. Reads the files once more.
 */
int config_policy_conflicts(const struct config_policy_args *a, struct strv *ret, struct err *e) MUST_CHECK;

#endif
