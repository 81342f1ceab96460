/* SPDX-License-Identifier: Apache-2.0 */
/* Describes what a policy allows: for programs inside, without file names and addresses of the host, or for
 * people outside. */
#include "policy/policy_int.h"

#include "base/json.h"
#include "base/str.h"

static void describe_entries(const struct policy_rule *r, struct buf *out)
{
	static const char *const kinds[] = { "http", "graphql", "git" };

	for (size_t i = 0; i < r->n_entries; i++) {
		buf_addf(out, "    %s %s ", kinds[r->entries[i].kind],
			 policy_action_name(r->entries[i].action));
		policy_entry_text(&r->entries[i], out);
		buf_addc(out, '\n');
	}
}

static void describe_terms_text(const struct policy_rule *r, struct buf *out)
{
	if (r->action != POLICY_DENY)
		buf_addf(out, " depth %s", policy_depth_name(policy_rule_depth(r)));
	if (r->has_pin)
		buf_adds(out, " pinned");
	if (r->proxy_set[0])
		buf_addf(out, " through %s", r->proxy_set);
	if (r->secret[0])
		buf_addf(out, " secret %s%s", r->secret, r->secret_ask ? " (a person is asked first)" : "");
	if (r->capture[0])
		buf_addf(out, " capture %s", r->capture);
	if (r->credentials_only)
		buf_adds(out, " credentials only");
}

void policy_describe(const struct policy *p, struct buf *out)
{
	buf_addf(out, "mode %s\n", p->mode == POLICY_OBSERVE ? "observe" : "enforce");
	for (unsigned i = 0; i < p->n_layers; i++) {
		if (p->n_layers > 1)
			buf_addf(out, "policy %u of %u (all of them must allow)\n", i + 1, p->n_layers);
		for (size_t k = 0; k < p->layers[i].n; k++) {
			const struct policy_rule *r = p->layers[i].rules[k];

			rule_add_head(r, out);
			describe_terms_text(r, out);
			buf_addc(out, '\n');
			describe_entries(r, out);
		}
	}
	if (p->widened.n)
		buf_adds(out, "granted on top by a person, where the rules above say nothing\n");
	for (size_t k = 0; k < p->widened.n; k++) {
		rule_add_head(p->widened.rules[k], out);
		buf_addc(out, '\n');
		describe_entries(p->widened.rules[k], out);
	}
	for (size_t i = 0; i < p->n_blocklists; i++)
		buf_addf(out, "deny blocklist %s (%zu names)\n", p->blocklists[i].category,
			 p->blocklists[i].n);
	if (p->mode == POLICY_ENFORCE)
		buf_adds(out, "deny everything else\n");
}

static void describe_limit(struct json *j, const char *key, uint64_t v)
{
	if (v)
		json_u64(j, key, v);
}

/* Where a connection really goes, which CA it trusts, what it carries. The address may be of the host's own
 * network, so this is only for people outside. */
static void describe_terms(struct json *j, const struct policy_rule *r)
{
	autobuf struct buf to = BUF_INIT;
	char addr[ADDR_TEXT_LEN];

	if (r->has_pin) {
		buf_addf(&to, addr_is_v4(&r->pin) ? "%s" : "[%s]", addr_format(&r->pin, addr));
		if (r->pin_port)
			buf_addf(&to, ":%u", r->pin_port);
		json_str(j, "to", buf_cstr(&to));
	}
	if (r->ca)
		json_bool(j, "ca", true);
	if (r->proxy_set[0])
		json_str(j, "pool", r->proxy_set);
	if (r->secret[0])
		json_str(j, "secret", r->secret);
	if (r->capture[0])
		json_str(j, "capture", r->capture);
}

/* One rule as a JSON object. */
static void describe_rule(struct json *j, const struct policy_rule *r, bool outside)
{
	autobuf struct buf text = BUF_INIT;

	json_obj(j, NULL);
	rule_add_head(r, &text);
	json_str(j, "rule", buf_cstr(&text));
	json_str(j, "depth", r->action == POLICY_DENY ? NULL : policy_depth_name(policy_rule_depth(r)));
	if (outside)
		describe_terms(j, r);
	describe_limit(j, "bytes_up", r->limits.bytes_up);
	describe_limit(j, "bandwidth", r->limits.bandwidth);
	describe_limit(j, "requests_per_minute", r->limits.requests_per_minute);
	describe_limit(j, "connections", r->limits.connections);
	if (r->n_entries)
		json_arr(j, "requests");
	for (size_t i = 0; i < r->n_entries; i++) {
		buf_clear(&text);
		buf_addf(&text, "%s ", policy_action_name(r->entries[i].action));
		policy_entry_text(&r->entries[i], &text);
		json_str(j, NULL, buf_cstr(&text));
	}
	if (r->n_entries)
		json_end_arr(j);
	json_end_obj(j);
}

void policy_describe_json(const struct policy *p, bool outside, struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_str(&j, "mode", p->mode == POLICY_OBSERVE ? "observe" : "enforce");
	json_u64(&j, "generation", p->generation);
	json_arr(&j, "layers");
	for (unsigned i = 0; i < p->n_layers; i++) {
		json_arr(&j, NULL);
		for (size_t k = 0; k < p->layers[i].n; k++)
			describe_rule(&j, p->layers[i].rules[k], outside);
		json_end_arr(&j);
	}
	json_end_arr(&j);
	json_arr(&j, "granted");
	for (size_t k = 0; k < p->widened.n; k++)
		describe_rule(&j, p->widened.rules[k], outside);
	json_end_arr(&j);
	json_end_obj(&j);
}
