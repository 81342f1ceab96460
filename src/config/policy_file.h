/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From policy files (YAML) and --allow texts to a policy. The files are the operator's, but may be wrong in every way:
 * unknown, duplicate and misspelt keys, wrong types, aliases, anchors and tags are refused with FILE:LINE:COLUMN, what
 * was expected and the nearest known word; size and depth are bounded.
 *
 *	struct config_policy_args a = { .files = paths, .n_files = 1, .allow = texts, .n_allow = 2, .mode = -1 };
 *	r = config_policy_load(&a, &cp, &e);
 *
 * Each file is a layer, and all --allow texts together are one more: only what every layer allows is allowed. A file that
 * has only rules for tools and apply is not a layer.
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
	const char *const *files; /* each one a layer; "-" is standard input */
	size_t n_files;
	/* "example.com", "example.com:8443", "*.example.com", "@npm", "@github-triage(repos=o/r)" */
	const char *const *allow;
	size_t n_allow;
	/* "@policy" among them: this layer also allows the hosts and ports that the files allow. */
	const char *profile; /* the last n_profile of `allow` are its; NULL: none */
	size_t n_profile;
	/* "9.9.9.9", "10.0.0.53:5353": if the files name some, too, only those that both name */
	const char *const *resolvers;
	size_t n_resolvers;
	int mode; /* enum policy_mode of the command line; -1: the files' own (enforce by default) */
	/* Proposed contents of the first file, read instead of the file itself; they are not in force yet.
	 * NULL: read the file. */
	const char *text;
	size_t text_len;
	/* the policy is only checked, not enforced: a file that others may write to causes a warning instead
	 * of an error */
	bool for_checking;
};

/* The credentials of a proxy set: one "user:password" per line, for its proxies in turn. */
struct config_proxy_secret {
	char proxy_set[POLICY_PROXY_SET_MAX + 1];
	char *file; /* absolute path; its reader checks owner and mode (0600) */
};

/* A rule's `secret:`. Variable and place in the request are for the code that requests the grant. */
#define CONFIG_AS_MAX 79
#define CONFIG_CAPTURE_PATH_MAX 255
struct config_secret {
	char name[POLICY_SECRET_MAX + 1];
	char env[POLICY_SECRET_MAX + 1]; /* "": the default for its name */
	char as[CONFIG_AS_MAX + 1];	 /* "": as the secret itself says */
	char host[HOST_MAX + 1];	 /* "": the rule's pattern is not a single host */
	uint16_t port;			 /* 0: more than one */
	bool ask;			 /* `ask: true`; for SSH it is part of `as` */
};

/* A rule's `capture:`: credentials that a server issues at an endpoint of the rule's one host.
 * vault/common/issue.h and vault/common/binding.h check its parts again. */
struct config_capture {
	char name[POLICY_SECRET_MAX + 1];
	char *issue;	   /* in the format of vault/common/issue.h */
	struct strv hosts; /* HOST[:PORT][/path] where it may be sent */
	char as[CONFIG_AS_MAX + 1];
	char host[HOST_MAX + 1]; /* the rule's */
	uint16_t port;
	char path[CONFIG_CAPTURE_PATH_MAX + 1]; /* "": nothing is sent back to the endpoint */
};

struct config_policy {
	struct policy *policy;
	/* "FILE:LINE:COLUMN: …", one sentence each, for the person who started the run */
	struct strv warnings;
	/* what the command line requests and a file does not grant, one sentence each */
	struct strv conflicts;
	/* all files that were read (policy, blocklists, CAs), absolute: reload watches them */
	struct strv files;
	struct config_proxy_secret *proxy_secrets;
	size_t n_proxy_secrets;
	struct config_secret *secrets; /* one for each rule that names a secret */
	size_t n_secrets;
	struct config_capture *captures;
	size_t n_captures;
	struct acts acts; /* tools:, apply: */
	bool says_egress; /* a file, or the command line, has rules on the network */
};

/* Without files and texts: a policy that denies everything. */
int config_policy_load(const struct config_policy_args *a, struct config_policy *ret,
		       struct err *e) MUST_CHECK;
void config_policy_release(struct config_policy *c);

/* The same for one text, which cannot name other files. `name` stands for it in messages. */
int config_policy_parse(const char *name, const char *text, size_t len, struct config_policy *ret,
			struct err *e) MUST_CHECK;

/* The rules for tools and apply, as the text of a policy that has only these: to store it with a run. */
void config_acts_format(const struct acts *a, struct buf *out);

/*
 * The targets of --allow that the files do not allow, one sentence each: the caller that starts the run reports them together
 * with ->conflicts, because the stricter wins. Reads the files again.
 */
int config_policy_conflicts(const struct config_policy_args *a, struct strv *ret, struct err *e) MUST_CHECK;

#endif
