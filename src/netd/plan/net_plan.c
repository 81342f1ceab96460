/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles --net, --allow and --policy into a policy, and takes over what another process has compiled after a change of a
 * file. Must not put a policy in force that the sandbox could write.
 */
#include "netd/plan/net_plan.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonget.h"
#include "config/edit/widen.h"
#include "crypto/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static void format_policy_digest(const struct policy *p, char ret[72])
{
	unsigned char d[POLICY_DIGEST_LEN];
	static const char name[] = "sha256:";

	policy_digest(p, d);
	memcpy(ret, name, sizeof(name));
	hash_hex(d, sizeof(d), ret + sizeof(name) - 1);
}

static bool is_at_or_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	while (n > 1 && dir[n - 1] == '/')
		n--;
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/' || n == 1);
}

/* A file with several hard links may have one where the sandbox writes; all its names cannot be found. */
static int check_hard_links(const struct net_plan *p, const char *file, struct err *e)
{
	struct stat st, dir;

	if (stat(file, &st) < 0 || st.st_nlink < 2)
		return 0;
	for (size_t i = 0; i < p->read_from.n; i++) {
		if (stat(p->read_from.v[i], &dir) < 0 || dir.st_dev != st.st_dev)
			continue;
		err_set(e, -EPERM,
			"%s has %ju names (hard links), and one may be in %s, which the sandbox may write to",
			file, (uintmax_t)st.st_nlink, p->read_from.v[i]);
		return err_hint(e, -EPERM, "make a copy of the policy that has one name");
	}
	return 0;
}

/* A policy that the sandbox could write, it could widen itself. The real path and every link on the way
 * count. */
static int check_policy_place(const struct net_plan *p, const char *file, struct err *e)
{
	autofree char *real = realpath(file, NULL);

	for (size_t i = 0; i < p->read_from.n; i++) {
		if (!is_at_or_below(file, p->read_from.v[i]) &&
		    !(real && is_at_or_below(real, p->read_from.v[i])) &&
		    !fd_path_leads_through(file, p->read_from.v[i]) &&
		    !(real && fd_path_leads_through(real, p->read_from.v[i])))
			continue;
		err_set(e, -EPERM,
			"%s is in %s, which the sandbox may write to: it could change its own policy", file,
			p->read_from.v[i]);
		return err_hint(e, -EPERM, "keep the policy outside, or give the directory without :rw");
	}
	return check_hard_links(p, file, e);
}

static int check_policy_places(const struct net_plan *p, const struct strv *files, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < files->n; i++)
		r = check_policy_place(p, files->v[i], e);
	return r;
}

struct config_policy_args net_plan_args(const struct net_plan *p)
{
	return (struct config_policy_args){
		.files = (const char *const *)&p->file,
		.n_files = p->file ? 1 : 0,
		.allow = (const char *const *)p->allow.v,
		.n_allow = p->allow.n,
		.profile = p->profile,
		.n_profile = p->n_profile,
		.resolvers = (const char *const *)p->resolvers.v,
		.n_resolvers = p->resolvers.n,
		.mode = p->mode,
	};
}

static void free_policy_rules(struct policy_rule *rules, size_t n)
{
	for (size_t i = 0; rules && i < n; i++)
		policy_rule_release(&rules[i]);
	free(rules);
}

/* Adds the granted rules to this policy. */
static int add_granted_rules(const struct net_plan *p, struct policy *policy, struct err *e)
{
	size_t n = p->widen.n;
	struct policy_rule *rules = calloc(n + 1, sizeof(*rules));
	int r = 0;

	if (!rules)
		return err_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		rules[i] = POLICY_RULE_INIT;
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = widen_parse(p->widen.v[i], &rules[i], NULL, e);
		if (r == 0)
			snprintf(rules[i].source, sizeof(rules[i].source), "question %s", p->widen_by.v[i]);
	}
	r = r < 0 ? r : policy_widen(policy, rules, n, e);
	free_policy_rules(rules, n);
	return r;
}

static void update_policy_facts(struct net_plan *p)
{
	format_policy_digest(p->cp.policy, p->digest);
	p->needs_ca = policy_needs_ca(p->cp.policy) || p->secrets.ask.n || p->secrets.sign.n;
}

int net_plan_widen(struct net_plan *p, struct err *e)
{
	char before[sizeof(p->digest)];
	int r = add_granted_rules(p, p->cp.policy, e);

	if (r < 0)
		return r;
	memcpy(before, p->digest, sizeof(before));
	update_policy_facts(p);
	if (str_eq(before, p->digest))
		return 0;
	p->generation++;
	return 1;
}

int net_plan_grant(struct net_plan *p, struct spec *s, int run_fd, struct err *e)
{
	char *digest;
	int r = granted_rules(run_fd, s->id, &p->widen, &p->widen_by, e);

	r = r < 0 ? r : net_plan_widen(p, e);
	if (r <= 0)
		return r;
	digest = strdup(p->digest);
	if (!digest)
		return err_set(e, -ENOMEM, "out of memory");
	free(s->policy_digest);
	s->policy_digest = digest;
	return 0;
}

/* Puts the policy in force, with the granted rules; `bytes`: those that it uses in place. Takes over both, on failure
 * neither. */
static int replace_policy(struct net_plan *p, struct config_policy *cp, struct buf *bytes, struct err *e)
{
	char base[sizeof(p->base)];
	bool same;
	int r;

	format_policy_digest(cp->policy, base);
	r = p->widen.n ? add_granted_rules(p, cp->policy, e) : 0;
	if (r < 0)
		return r;
	same = str_eq(p->base, base);
	config_policy_release(&p->cp);
	buf_release(&p->bytes);
	p->cp = *cp;
	p->bytes = *bytes;
	*bytes = BUF_INIT;
	memcpy(p->base, base, sizeof(base));
	update_policy_facts(p);
	if (same)
		return 0;
	p->generation++;
	return 1;
}

int net_plan_load(const struct net_plan *p, struct config_policy *ret, bool *ret_same, struct err *e)
{
	const struct config_policy_args a = net_plan_args(p);
	char base[sizeof(p->base)];
	int r = config_policy_load(&a, ret, e);

	if (r < 0)
		return r;
	format_policy_digest(ret->policy, base);
	*ret_same = str_eq(base, p->base);
	return 0;
}

int net_plan_compile(struct net_plan *p, struct err *e)
{
	struct config_policy cp = { 0 };
	struct buf none = BUF_INIT;
	bool same = false;
	int r = net_plan_load(p, &cp, &same, e);

	if (r < 0)
		return r;
	r = check_policy_places(p, &cp.files, e);
	r = r < 0 ? r : replace_policy(p, &cp, &none, e);
	if (r < 0)
		config_policy_release(&cp);
	return r;
}

/* The places are judged here, with this process's own rights: the one that read the files has fewer, and may have been
 * taken over by them. It cannot leave out the file of the command line. */
static int check_compiled_places(const struct net_plan *p, const struct net_compiled *c, struct err *e)
{
	autofree char *real = p->file ? realpath(p->file, NULL) : NULL;
	int r = real ? check_policy_place(p, real, e) : 0;

	return r < 0 ? r : check_policy_places(p, &c->files, e);
}

static void take_compiled_files(struct config_policy *cp, struct net_compiled *c)
{
	strv_release(&cp->files);
	cp->files = c->files;
	c->files = STRV_INIT;
}

int net_plan_adopt(struct net_plan *p, struct net_compiled *c, struct err *e)
{
	struct config_policy cp = { 0 };
	int r;

	if (c->outcome == NET_COMPILED_BROKEN)
		return err_set(e, -EINVAL, "%s", c->error);
	r = check_compiled_places(p, c, e);
	if (r < 0)
		return r;
	if (c->outcome == NET_COMPILED_SAME) {
		take_compiled_files(&p->cp, c);
		return 0;
	}
	r = policy_unpack(net_compiled_bundle(c), c->bundle_len, &cp.policy, e);
	r = r < 0 ? r : replace_policy(p, &cp, &c->bytes, e);
	if (r < 0)
		config_policy_release(&cp);
	else
		take_compiled_files(&p->cp, c);
	return r;
}

/* The path as named, and its real path. */
static int add_writable_path(struct net_plan *p, const char *path, struct err *e)
{
	autofree char *real = path ? realpath(path, NULL) : NULL;

	if ((path && strv_add(&p->read_from, path) < 0) ||
	    (real && !str_eq(real, path) && strv_add(&p->read_from, real) < 0))
		return err_set(e, -ENOMEM, "out of memory");
	return 0;
}

static int collect_conflicts(struct net_plan *p, struct err *e)
{
	const struct config_policy_args a = net_plan_args(p);

	for (size_t i = 0; i < p->cp.conflicts.n; i++) {
		if (strv_add(&p->conflicts, p->cp.conflicts.v[i]) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	return config_policy_conflicts(&a, &p->conflicts, e);
}

int net_plan_open(struct net_plan *p, struct spec *s, struct err *e)
{
	int r = s->ws_mode == WS_RW ? add_writable_path(p, s->ws_path, e) : 0;

	for (size_t i = 0; r == 0 && i < s->n_binds; i++)
		r = s->binds[i].writable ? add_writable_path(p, s->binds[i].src, e) : 0;
	if (r == 0)
		r = add_writable_path(p, s->home_path, e);
	if (r == 0)
		r = net_plan_compile(p, e);
	if (r >= 0)
		r = collect_conflicts(p, e);
	if (r < 0)
		return r;
	s->net = policy_mode(p->cp.policy) == POLICY_OBSERVE ? NET_OBSERVE : NET_ENFORCE;
	s->ca = p->needs_ca;
	s->ca_later = !s->ca && p->cp.files.n > 0;
	s->policy_digest = strdup(p->digest);
	return s->policy_digest ? 0 : err_set(e, -ENOMEM, "out of memory");
}

void net_plan_release(struct net_plan *p)
{
	strv_release(&p->allow);
	strv_release(&p->resolvers);
	strv_release(&p->conflicts);
	strv_release(&p->read_from);
	strv_release(&p->widen);
	strv_release(&p->widen_by);
	free(p->file);
	free(p->real);
	free(p->profile);
	config_policy_release(&p->cp);
	buf_release(&p->bytes);
	net_secrets_release(&p->secrets);
	*p = NET_PLAN_INIT;
}

static void add_text_list(struct json *j, const char *key, const struct strv *l)
{
	if (!l->n)
		return;
	json_arr(j, key);
	for (size_t i = 0; i < l->n && i < 64; i++)
		json_str(j, NULL, l->v[i]);
	json_end_arr(j);
}

void net_plan_json(const struct net_plan *p, enum net_mode mode, struct json *j)
{
	json_str(j, "net", net_mode_name(mode));
	if (!p)
		return;
	json_str(j, "policy_digest", p->digest);
	if (!str_eq(p->base, p->digest))
		json_str(j, "policy_base", p->base);
	if (p->file)
		json_str(j, "policy", p->file);
	add_text_list(j, "allow", &p->allow);
	add_text_list(j, "resolvers", &p->resolvers);
	if (p->secrets.ask.n + p->secrets.sign.n) {
		json_arr(j, "secrets");
		/* Issuers are left out: the policy names them. */
		for (size_t i = 0; i < p->secrets.ask.n; i++) {
			if (p->secrets.ask.v[i].kind == GRANT_SECRET)
				json_str(j, NULL, p->secrets.ask.v[i].name);
		}
		for (size_t i = 0; i < p->secrets.sign.n; i++) {
			if (!grants_by_name(&p->secrets.ask, p->secrets.sign.v[i].name))
				json_str(j, NULL, p->secrets.sign.v[i].name);
		}
		json_end_arr(j);
	}
}

/* --- runs/ID/net.json ----------------------------------------------------------------------------------- */

#define PLAN_FILE_MAX (1u << 20)

static void add_plan_list(struct json *j, const char *key, const struct strv *l)
{
	json_arr(j, key);
	for (size_t i = 0; i < l->n; i++)
		json_str(j, NULL, l->v[i]);
	json_end_arr(j);
}

int net_plan_store(const struct net_plan *p, int run_fd)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	json_obj(&j, NULL);
	json_str(&j, "policy", p->file);
	json_str(&j, "real", p->real);
	add_plan_list(&j, "allow", &p->allow);
	add_plan_list(&j, "resolvers", &p->resolvers);
	if (p->profile) {
		json_str(&j, "profile", p->profile);
		json_u64(&j, "profile_allow", p->n_profile);
	}
	json_i64(&j, "mode", p->mode);
	json_end_obj(&j);
	buf_addc(&b, '\n');
	return buf_error(&b) ? -ENOMEM : fd_replace_file(run_fd, NET_PLAN_FILE, b.data, b.len, 0600);
}

static int read_plan_list(const json_t *o, const char *key, struct strv *to)
{
	const json_t *list = json_object_get(o, key);
	int r = json_is_array(list) ? 0 : -EBADMSG;

	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const char *s = json_string_value(json_array_get(list, i));

		r = s ? strv_add(to, s) : -EBADMSG;
	}
	return r;
}

/* The profile that brought the last --allow texts, if there is one. */
static int read_plan_profile(struct net_plan *p, const json_t *o)
{
	const char *name = jsonget_text_or_null(o, "profile");
	json_int_t n = json_integer_value(json_object_get(o, "profile_allow"));

	if (!name || n < 0 || (size_t)n > p->allow.n)
		return 0;
	p->profile = strdup(name);
	p->n_profile = (size_t)n;
	return p->profile ? 0 : -ENOMEM;
}

int net_plan_recall(struct net_plan *p, int run_fd, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	int r = fd_read_file(run_fd, NET_PLAN_FILE, PLAN_FILE_MAX, &b);
	json_t *o = r < 0 ? NULL : json_loadb(buf_cstr(&b), b.len, 0, NULL);
	const json_t *file = json_object_get(o, "policy"), *mode = json_object_get(o, "mode"),
		     *real = json_object_get(o, "real");

	if (r == 0 && (!json_is_integer(mode) || !(json_is_string(file) || json_is_null(file))))
		r = -EBADMSG;
	r = r < 0 ? r : read_plan_list(o, "allow", &p->allow);
	r = r < 0 ? r : read_plan_list(o, "resolvers", &p->resolvers);
	r = r < 0 ? r : read_plan_profile(p, o);
	if (r == 0) {
		p->mode = (int)json_integer_value(mode);
		p->file = json_is_string(file) ? strdup(json_string_value(file)) : NULL;
		/* Files of older releases have no real path: it was the named one. */
		p->real = p->file ? strdup(json_is_string(real) ? json_string_value(real) : p->file) : NULL;
		r = json_is_string(file) && (!p->file || !p->real) ? -ENOMEM : 0;
	}
	json_decref(o);
	return r < 0 ? err_sys(e, r, "cannot determine which policy the sandbox has") : 0;
}
