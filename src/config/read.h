/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a tree by table: each mapping has a table of its keys, and each reader of a value knows what was expected. A
 * message is "FILE:LINE:COLUMN: what is wrong", with the nearest known word as the hint.
 */
#ifndef CONFIG_READ_H
#define CONFIG_READ_H

#include "base/str.h"
#include "config/policy_file.h"
#include "config/ytree.h"
#include "policy/build.h"

struct source {
	const char *name; /* for messages: "team.yaml", "preset npm", "--allow" */
	const char *dir;  /* base of relative file names; NULL: files cannot be named here */
	bool check_owner; /* check the owner of files that are named */
	struct policy *policy;
	unsigned layer;
	struct policy_layer_opts *opts;
	struct config_policy *out; /* warnings, files, secrets of proxy sets */
	int mode;		   /* -1 until the file has one */
	struct err *e;
};

struct key {
	const char *name;
	int (*read)(struct source *s, const struct ynode *value, void *to);
};

int read_fail(struct source *s, const struct ynode *at, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Puts "FILE:LINE:COLUMN: " in front of the message in s->e. */
int read_wrap(struct source *s, const struct ynode *at, int r);
int read_warn(struct source *s, const struct ynode *at, const char *fmt, ...) PRINTF_LIKE(3, 4) MUST_CHECK;

/* Reads every key by the table; an unknown one is an error with the nearest as a hint. `what` for messages:
 * "a rule". */
int read_map(struct source *s, const struct ynode *n, const char *what, const struct key *keys, size_t n_keys,
	     void *to) MUST_CHECK;
/* Reads each element of a list, or a single value in its place. */
int read_each(struct source *s, const struct ynode *n,
	      int (*read)(struct source *, const struct ynode *, void *), void *to) MUST_CHECK;

int read_text(struct source *s, const struct ynode *n, const char *expected, const char **ret) MUST_CHECK;
int read_bool(struct source *s, const struct ynode *n, bool *ret) MUST_CHECK;
int read_u32(struct source *s, const struct ynode *n, uint32_t min, uint32_t max, uint32_t *ret) MUST_CHECK;
int read_size(struct source *s, const struct ynode *n, uint64_t *ret) MUST_CHECK;
int read_seconds(struct source *s, const struct ynode *n, uint32_t max, uint32_t *ret) MUST_CHECK;
/* Returns the index in `words`. */
int read_word(struct source *s, const struct ynode *n, const char *const *words, size_t n_words,
	      unsigned *ret) MUST_CHECK;
/* str_is_name(), of at most size - 1 bytes. */
int read_name(struct source *s, const struct ynode *n, char *ret, size_t size) MUST_CHECK;
int read_limits(struct source *s, const struct ynode *n, struct policy_limits *ret) MUST_CHECK;

/* The contents of a file that a policy names, checked like the policy itself. */
int read_named_file(struct source *s, const struct ynode *n, size_t max, struct buf *ret) MUST_CHECK;
/* The absolute path of such a file, without opening it. */
int read_path(struct source *s, const struct ynode *n, char **ret) MUST_CHECK;

/* rule_read.c: one element of allow:, ask: or deny:; `to` points to an enum policy_action. */
int read_rule(struct source *s, const struct ynode *n, void *to) MUST_CHECK;
/* "host", "host:port", "address", "[v6]:port" as a rule of source s; `at` for messages, may be NULL. */
int read_rule_text(struct source *s, const struct ynode *at, const char *text,
		   enum policy_action a) MUST_CHECK;

/* entry_read.c: elements of http:, graphql:, git: of the rule. */
int read_http(struct source *s, const struct ynode *n, void *rule) MUST_CHECK;
int read_graphql(struct source *s, const struct ynode *n, void *rule) MUST_CHECK;
int read_git(struct source *s, const struct ynode *n, void *rule) MUST_CHECK;

/* conflict.c: "9.9.9.9", "10.0.0.53:5353", "[2620:fe::fe]:53" */
int read_resolver_text(const char *text, struct policy_resolver *ret, struct err *e) MUST_CHECK;

/* proxies.c */
int read_proxies(struct source *s, const struct ynode *n, void *to) MUST_CHECK;

/* section.c: a whole file, or a preset after its parameters were substituted. */
int read_policy(struct source *s, const struct ynode *root) MUST_CHECK;
/* The part that both have: allow, ask, deny. */
int read_lists(struct source *s, const struct ynode *root) MUST_CHECK;

/* preset.c */
int read_preset(struct source *s, const struct ynode *n, void *to) MUST_CHECK;
int read_preset_text(struct source *s, const char *text) MUST_CHECK;

#endif
