/* SPDX-License-Identifier: Apache-2.0 */
/* Policies from text, and questions to them in one line. The last verdict is in `last`. */
#ifndef TESTS_POLICYTEST_H
#define TESTS_POLICYTEST_H

#include "base/cleanup.h"
#include "codec/http/urlpath.h"
#include "config/policy_file.h"
#include "config/preset.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

__attribute__((unused)) static struct policy_verdict last;
__attribute__((unused)) static char last_warnings[4096], last_conflicts[4096];
__attribute__((unused)) static struct err last_err;

/* A directory of this process's own; the files in it are gone with it at the end of main(). */
static const char *scratch(void)
{
	static char dir[] = "/tmp/policytest.XXXXXX";
	static bool made;

	if (!made && !mkdtemp(dir)) {
		perror("mkdtemp");
		exit(99);
	}
	made = true;
	return dir;
}

static char *write_scratch(const char *name, const char *text)
{
	char *path = NULL;
	FILE *f;

	if (asprintf(&path, "%s/%s", scratch(), name) < 0 || !(f = fopen(path, "we"))) {
		perror("scratch file");
		exit(99);
	}
	fputs(text, f);
	fclose(f);
	chmod(path, 0600);
	return path;
}

__attribute__((unused)) static void keep_lines(const struct strv *l, char *to, size_t cap)
{
	for (size_t i = 0; i < l->n; i++) {
		size_t n = strlen(to);

		snprintf(to + n, cap - n, "%s\n", l->v[i]);
	}
}

/* NULL when it is refused; then last_err says why. Carried through a bundle, so that every test tests that too. */
static struct policy *load_args(const struct config_policy_args *a)
{
	CLEANUP(config_policy_release) struct config_policy c = { 0 };
	static struct buf bundles[256]; /* what a policy lies in lives as long as the test */
	static size_t n;
	struct policy *p = NULL;
	struct err e = ERR_INIT;

	last_err = ERR_INIT;
	last_warnings[0] = last_conflicts[0] = '\0';
	if (config_policy_load(a, &c, &last_err) < 0)
		return NULL;
	keep_lines(&c.warnings, last_warnings, sizeof(last_warnings));
	keep_lines(&c.conflicts, last_conflicts, sizeof(last_conflicts));
	if (n == 256) {
		fprintf(stderr, "too many policies in one test\n");
		exit(99);
	}
	policy_set_generation(c.policy, 7);
	if (policy_pack(c.policy, &bundles[n], &e) < 0 ||
	    policy_unpack(bundles[n].data, bundles[n].len, &p, &e) < 0) {
		fprintf(stderr, "bundle: %s\n", e.msg);
		exit(99);
	}
	n++;
	return p;
}

__attribute__((unused)) static struct policy *try_policy(const char *text)
{
	autofree char *path = write_scratch("p.yaml", text);
	const char *files[] = { path };
	struct config_policy_args a = { .files = files, .n_files = 1, .mode = -1 };

	return load_args(&a);
}

__attribute__((unused)) static struct policy *policy_of(const char *text)
{
	struct policy *p = try_policy(text);

	if (!p) {
		fprintf(stderr, "refused: %s\n", last_err.msg);
		exit(99);
	}
	return p;
}

__attribute__((unused)) static struct policy *policy_of2(const char *one, const char *two)
{
	autofree char *a = write_scratch("1.yaml", one);
	autofree char *b = write_scratch("2.yaml", two);
	const char *files[] = { a, b };
	struct config_policy_args args = { .files = files, .n_files = 2, .mode = -1 };
	struct policy *p = load_args(&args);

	if (!p) {
		fprintf(stderr, "refused: %s\n", last_err.msg);
		exit(99);
	}
	return p;
}

static bool answered(const char *what, enum policy_action want)
{
	if (last.action != want)
		printf("# %s: %s (%s; %s)\n", what, policy_action_name(last.action), last.rule_text,
		       last.why);
	return last.action == want;
}

static void target_of(const char *text, struct host *h, struct policy_target *t)
{
	struct err e = ERR_INIT;

	*t = (struct policy_target){ .name = h };
	if (host_port_parse(text, strlen(text), 443, h, &t->port, &e) < 0) {
		fprintf(stderr, "%s: %s\n", text, e.msg);
		exit(99);
	}
}

__attribute__((unused)) static bool connect_is(const struct policy *p, const char *target,
					       enum policy_action want)
{
	struct policy_target t;
	struct host h;

	target_of(target, &h, &t);
	policy_connect(p, &t, &last);
	return answered(target, want);
}

__attribute__((unused)) static bool address_is(const struct policy *p, const char *target, const char *addr,
					       enum policy_action want)
{
	struct policy_target t;
	struct host h;
	struct addr a;

	target_of(target, &h, &t);
	if (addr_parse(addr, strlen(addr), &a, NULL) < 0)
		exit(99);
	policy_address(p, &t, &a, &last);
	return answered(addr, want);
}

__attribute__((unused)) static bool name_is(const struct policy *p, const char *name, bool want)
{
	struct host h;

	if (host_canon(name, strlen(name), &h, NULL) < 0)
		exit(99);
	policy_name(p, &h, &last);
	return answered(name, want ? POLICY_ALLOW : POLICY_DENY);
}

/* Asks as egress does: canonical path, judged with its slashes too. A path that is refused is a denial. */
__attribute__((unused)) static void ask_request(const struct policy *p, const char *method, const char *url,
						struct policy_request *r)
{
	autobuf struct buf canon = BUF_INIT;
	autobuf struct buf slashed = BUF_INIT;
	const char *host = strstr(url, "://") + 3, *path = strchr(host, '/');
	char target[300];
	struct urlpath u;
	struct policy_target t;
	struct host h;

	snprintf(target, sizeof(target), "%.*s", (int)(path - host), host);
	target_of(target, &h, &t);
	last = (struct policy_verdict){ 0 };
	if (urlpath_canon(path, strlen(path), URLPATH_KEEP_SLASH, &canon, &u, NULL) < 0)
		return;
	r->method = slice_of(method);
	r->path = urlpath_path(&canon, &u);
	r->query = urlpath_query(&canon, &u);
	if (u.slash && urlpath_slashed(r->path, &slashed) == 0)
		r->slashed = (struct slice){ slashed.data, slashed.len };
	policy_request(p, &t, r, &last);
}

__attribute__((unused)) static bool request_is(const struct policy *p, const char *method, const char *url,
					       enum policy_action want)
{
	struct policy_request r = { .is_body_known = true };

	ask_request(p, method, url, &r);
	return answered(url, want);
}

__attribute__((unused)) static bool graphql_is(const struct policy *p, const char *url, const char *doc,
					       enum policy_action want)
{
	static struct graphql_doc g;
	const struct graphql_doc *docs[] = { &g };
	struct policy_request r = { .gql = docs, .n_gql = 1, .is_body_known = true };

	if (graphql_parse(doc, strlen(doc), NULL, 0, &g, NULL) < 0)
		r.n_gql = 0;
	ask_request(p, "POST", url, &r);
	return answered(doc, want);
}

__attribute__((unused)) static bool push_is(const struct policy *p, const char *url, const char *ref,
					    enum policy_push_act act, enum policy_action want)
{
	struct policy_push push = { slice_of(ref), act };
	struct policy_request r = { .push = &push, .n_push = 1, .is_body_known = true };

	ask_request(p, "POST", url, &r);
	return answered(ref, want);
}

__attribute__((unused, destructor)) static void remove_scratch(void)
{
	static const char *const names[] = { "p.yaml", "1.yaml", "2.yaml", "list.txt", "ca.pem", "" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[300];

		snprintf(path, sizeof(path), "%s/%s", scratch(), names[i]);
		if (names[i][0])
			unlink(path);
		else
			rmdir(scratch());
	}
}

#endif
