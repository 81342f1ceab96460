/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the policies of the logged runs again, and takes each destination's `to:` and `ca:` from them. The
 * files may have changed since: a digest that differs from the log's is marked in the output (net_ways.h). A
 * policy that cannot be loaded is reported, never guessed.
 */
#include "cli/net/net_ways.h"

#include "base/cleanup.h"
#include "base/jsonget.h"
#include "cli/core/ref.h"
#include "crypto/hash.h"
#include "policy/build.h"

#include <errno.h>
#include <stdlib.h>

void cli_net_ways_release(struct net_ways *w)
{
	for (size_t i = 0; i < w->n; i++)
		config_policy_release(&w->cp[i]);
	strv_release(&w->known);
	strv_release(&w->failed);
	*w = NET_WAYS_INIT;
}

static bool is_policy_loaded(const struct net_ways *w, const char *text)
{
	for (size_t i = 0; i < w->known.n; i++) {
		if (str_eq(w->known.v[i], text))
			return true;
	}
	return false;
}

/*
 * Is this the policy that the run was started with, by its digest? Rules granted during the run are in
 * neither.
 */
static bool has_logged_digest(const struct policy *p, const json_t *start)
{
	const char *base = jsonget_text_or_null(start, "policy_base");
	const char *digest = base ? base : jsonget_text_or_null(start, "policy_digest");
	unsigned char d[POLICY_DIGEST_LEN];
	char hex[2 * sizeof(d) + 1];

	policy_digest(p, d);
	hash_hex(d, sizeof(d), hex);
	return digest && str_starts(digest, "sha256:") && str_eq(digest + strlen("sha256:"), hex);
}

/* --net observe changes the mode of a policy, and with it the digest: the files are loaded again in that mode. */
static bool is_as_logged(const struct config_policy *cp, const struct config_policy_args *args,
			 const json_t *start)
{
	CLEANUP(config_policy_release) struct config_policy observed = { 0 };
	struct config_policy_args a = *args;
	const char *net = jsonget_text_or_null(start, "net");
	struct err ignored = ERR_INIT;

	if (has_logged_digest(cp->policy, start))
		return true;
	a.mode = POLICY_OBSERVE;
	return net && str_eq(net, "observe") && config_policy_load(&a, &observed, &ignored) == 0 &&
	       has_logged_digest(observed.policy, start);
}

/* Loads the policy that a run was started with, once for all runs with the same file and --allow texts. */
static int load_policy_of_run(struct net_ways *w, const json_t *start, struct err *e)
{
	const char *file = jsonget_text_or_null(start, "policy");
	const json_t *list = json_object_get(start, "allow");
	autostrv struct strv allow = STRV_INIT;
	autobuf struct buf text = BUF_INIT;
	struct config_policy_args a = { .files = &file, .n_files = file != NULL, .mode = -1 };
	struct err why = ERR_INIT;
	int r = 0;

	buf_adds(&text, file ? file : "");
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const char *s = json_string_value(json_array_get(list, i));

		buf_addf(&text, "\n%s", s ? s : "");
		r = s ? strv_add(&allow, s) : 0;
	}
	if (r < 0 || buf_error(&text))
		return err_set(e, -ENOMEM, "out of memory");
	if (text.len == 0 || w->n == NET_WAYS_MAX || is_policy_loaded(w, buf_cstr(&text)))
		return 0;
	if (strv_add(&w->known, buf_cstr(&text)) < 0)
		return err_set(e, -ENOMEM, "out of memory");
	a.allow = (const char *const *)allow.v;
	a.n_allow = allow.n;
	if (config_policy_load(&a, &w->cp[w->n], &why) == 0) {
		w->is_other[w->n] = !is_as_logged(&w->cp[w->n], &a, start);
		w->n++;
	} else if (strv_add(&w->failed, why.msg) < 0) {
		return err_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

/* Reads from the end of the log, so that the policy of the newest run takes precedence. */
int cli_net_ways_read(struct net_ways *w, struct state *st, const struct net_range *range, struct err *e)
{
	CLEANUP(audit_back_freep) struct audit_back *b = NULL;
	struct audit_filter f = { .type = "run.start" };
	char id[RUN_ID_LEN + 1];
	struct audit_record rec;
	int r = range->ref ? ref_resolve_logged(st, range->ref, id, e) : 0;

	if (r < 0)
		return r;
	f.sandbox = range->ref ? id : NULL;
	r = audit_back_open(&b, st->fd, &f, UINT64_MAX, e);
	while (r >= 0 && (r = audit_back_next(b, &rec, e)) > 0) {
		autobuf struct buf text = BUF_INIT;
		json_t *o;

		if (!rec.is_event)
			continue;
		buf_addf(&text, "{%.*s}", (int)rec.line.fields_len, rec.line.fields);
		o = json_loadb(buf_cstr(&text), text.len, 0, NULL);
		r = o ? load_policy_of_run(w, o, e) : 0;
		json_decref(o);
	}
	return r < 0 ? r : 0;
}

static const char *ca_file_of(const struct policy *p, const char *ca)
{
	for (size_t i = 0; i < policy_rule_count(p); i++) {
		const struct policy_rule *r = policy_rule_at(p, i);

		if (r->ca && r->ca_file && str_eq(r->ca, ca))
			return r->ca_file;
	}
	return NULL;
}

static void add_yaml_text(struct buf *out, const char *key, const char *s)
{
	buf_addf(out, "      %s: \"", key);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			buf_addc(out, '\\');
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			buf_addf(out, "\\x%02x", (unsigned)*s);
		else
			buf_addc(out, *s);
	}
	buf_adds(out, "\"\n");
}

void cli_net_ways_write(void *ctx, const struct learn_dest *d, struct buf *out)
{
	struct net_ways *w = ctx;
	struct policy_verdict v;
	struct host h;

	if (d->literal || host_canon(d->name, strlen(d->name), &h, NULL) < 0)
		return;
	for (size_t i = 0; i < w->n; i++) {
		struct policy_target t = { .name = &h, .port = d->port };
		const char *file;
		char addr[ADDR_TEXT_LEN], to[ADDR_TEXT_LEN + 16];

		policy_connect(w->cp[i].policy, &t, &v);
		if (!policy_may_allow(&v) || (!v.terms.has_pin && !v.terms.ca))
			continue;
		w->looks += w->is_other[i];
		if (w->is_other[i])
			buf_adds(out, "      # LOOK: the following is from a policy that has changed "
				      "since the run\n");
		if (v.terms.has_pin) {
			addr_format(&v.terms.pin, addr);
			snprintf(to, sizeof(to), strchr(addr, ':') ? "[%s]:%u" : "%s:%u", addr,
				 (unsigned)(v.terms.pin_port ? v.terms.pin_port : d->port));
			add_yaml_text(out, "to", to);
		}
		file = v.terms.ca ? ca_file_of(w->cp[i].policy, v.terms.ca) : NULL;
		if (file)
			add_yaml_text(out, "ca", file);
		return;
	}
}
