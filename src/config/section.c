/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a whole policy file: `version:` and `egress:`, or the common form whose lists are at the top
 * level. An unknown key is refused, and so is a key of `egress:` beside it.
 */
#include "config/read.h"

#include "base/cleanup.h"
#include "config/acts_read.h"
#include "policy/blocklist.h"

#include <errno.h>
#include <string.h>

static int section_key_mode(struct source *s, const struct ynode *n, void *to)
{
	static const char *const words[] = { "observe", "enforce" };
	unsigned v = 0;
	int r = read_word(s, n, words, ARRAY_SIZE(words), &v);

	(void)to;
	if (r == 0)
		s->mode = v ? POLICY_ENFORCE : POLICY_OBSERVE;
	return r;
}

static int read_rule_list(struct source *s, const struct ynode *n, enum policy_action a)
{
	if (n->kind != YNODE_SEQ && !ynode_is_null(n))
		return read_fail(s, n, "expected a list of rules (lines that begin with -), but here is %s",
				 ynode_kind_name(n));
	return read_each(s, n, read_rule, &a);
}

static int section_key_allow(struct source *s, const struct ynode *n, void *to)
{
	(void)to;
	return read_rule_list(s, n, POLICY_ALLOW);
}

static int section_key_ask(struct source *s, const struct ynode *n, void *to)
{
	(void)to;
	return read_rule_list(s, n, POLICY_ASK);
}

static int section_key_deny(struct source *s, const struct ynode *n, void *to)
{
	(void)to;
	return read_rule_list(s, n, POLICY_DENY);
}

static int section_key_presets(struct source *s, const struct ynode *n, void *to)
{
	return read_each(s, n, read_preset, to);
}

static int section_key_limits(struct source *s, const struct ynode *n, void *to)
{
	(void)to;
	return read_limits(s, n, &s->opts->limits);
}

static int add_resolver(struct source *s, const struct ynode *n, void *to)
{
	struct policy_resolver res = { .port = 0 };
	const char *text;
	int r = read_text(s, n, "an address: 9.9.9.9, 10.0.0.53:5353", &text);

	(void)to;
	if (r == 0)
		r = read_wrap(s, n, read_resolver_text(text, &res, s->e));
	return r < 0 ? r : read_wrap(s, n, policy_add_resolver(s->policy, &res, s->e));
}

static int section_key_resolvers(struct source *s, const struct ynode *n, void *to)
{
	return read_each(s, n, add_resolver, to);
}

struct block_draft {
	struct blocklist list;
	const struct ynode *file;
};

static int blocklist_key_category(struct source *s, const struct ynode *n, void *to)
{
	struct block_draft *d = to;

	return read_name(s, n, d->list.category, sizeof(d->list.category));
}

static int blocklist_key_file(struct source *s, const struct ynode *n, void *to)
{
	(void)s;
	((struct block_draft *)to)->file = n;
	return 0;
}

/* Reads the file of a blocklist, and adds it to the policy. */
static int load_blocklist(struct source *s, const struct ynode *n, struct block_draft *d)
{
	autobuf struct buf text = BUF_INIT;
	int r;

	if (!d->list.category[0] || !d->file)
		return read_fail(s, n, "a blocklist has a 'category' and a 'file'");
	r = read_named_file(s, d->file, CONFIG_BLOCKLIST_MAX, &text);
	if (r < 0)
		return r;
	r = blocklist_add_lines(&d->list, buf_cstr(&text), text.len, s->e);
	if (r < 0)
		return read_wrap(s, d->file, r);
	blocklist_finish(&d->list);
	if (d->list.n == 0)
		return read_fail(s, d->file, "that blocklist contains no name");
	if (d->list.skipped > d->list.n / 10)
		r = read_warn(s, d->file, "%zu entries of the blocklist '%s' are not names and were skipped",
			      d->list.skipped, d->list.category);
	return r < 0 ? r : read_wrap(s, n, policy_add_blocklist(s->policy, &d->list, s->e));
}

static int read_blocklist(struct source *s, const struct ynode *n, void *to)
{
	static const struct key keys[] = { { "category", blocklist_key_category },
					   { "file", blocklist_key_file } };
	struct block_draft d = { 0 };
	int r = read_map(s, n, "a blocklist", keys, ARRAY_SIZE(keys), &d);

	(void)to;
	if (r == 0)
		r = load_blocklist(s, n, &d);
	blocklist_release(&d.list);
	return r;
}

static int section_key_blocklists(struct source *s, const struct ynode *n, void *to)
{
	return read_each(s, n, read_blocklist, to);
}

static int section_key_pool(struct source *s, const struct ynode *n, void *to)
{
	(void)to;
	return read_name(s, n, s->opts->proxy_set, sizeof(s->opts->proxy_set));
}

static int section_key_require_pool(struct source *s, const struct ynode *n, void *to)
{
	(void)to;
	return read_bool(s, n, &s->opts->require_proxy_set);
}

static int section_key_browser(struct source *s, const struct ynode *n, void *to)
{
	(void)to;
	return read_bool(s, n, &s->opts->browser);
}

static int section_key_synthetic(struct source *s, const struct ynode *n, void *to)
{
	struct addr_range range;
	const char *text;
	int r = read_text(s, n, "a range of addresses: 11.0.0.0/8", &text);

	(void)to;
	if (r < 0)
		return r;
	r = addr_range_parse(text, strlen(text), &range, s->e);
	r = r < 0 ? r : policy_set_synthetic(s->policy, &range, s->e);
	return read_wrap(s, n, r);
}

static int section_key_egress(struct source *s, const struct ynode *n, void *to);
static int section_key_version(struct source *s, const struct ynode *n, void *to);

/* The first ones are for the top level only. */
static const struct key keys[] = {
	{ "version", section_key_version },
	{ "egress", section_key_egress },
	{ "tools", read_tools },
	{ "apply", read_apply },
	{ "mode", section_key_mode },
	{ "allow", section_key_allow },
	{ "ask", section_key_ask },
	{ "deny", section_key_deny },
	{ "presets", section_key_presets },
	{ "limits", section_key_limits },
	{ "resolvers", section_key_resolvers },
	{ "blocklists", section_key_blocklists },
	{ "proxies", read_proxies },
	{ "pool", section_key_pool },
	{ "require_pool", section_key_require_pool },
	{ "browser", section_key_browser },
	{ "synthetic", section_key_synthetic },
};
#define TOP_ONLY 4

static int section_key_version(struct source *s, const struct ynode *n, void *to)
{
	(void)to;
	if (n->kind != YNODE_TEXT || !str_eq(n->text, "1")) {
		read_fail(s, n, "unknown version of the format");
		return err_hint(s->e, -EINVAL, "version: 1");
	}
	return 0;
}

static bool is_top_only(const char *key)
{
	for (size_t i = 0; i < TOP_ONLY; i++) {
		if (str_eq(keys[i].name, key))
			return true;
	}
	return false;
}

static int section_key_egress(struct source *s, const struct ynode *n, void *to)
{
	const struct ynode *root = to;

	for (size_t i = 0; i < root->n; i++) {
		if (!is_top_only(root->keys[i]->text))
			return read_fail(s, root->keys[i],
					 "'%.60s' belongs under 'egress:', because the file has that key",
					 root->keys[i]->text);
	}
	return ynode_is_null(n) ? 0
				: read_map(s, n, "egress", keys + TOP_ONLY, ARRAY_SIZE(keys) - TOP_ONLY, to);
}

/* A browser visits sites that nobody chose, and each of them sees its address. */
static int warn_browser(struct source *s, const struct ynode *root)
{
	const struct ynode *egress = ynode_get(root, "egress"), *top = egress ? egress : root;

	if (!s->opts->browser || s->opts->proxy_set[0] || ynode_get(top, "require_pool"))
		return 0;
	return read_warn(s, ynode_get(top, "browser"),
			 "every site that the browser visits sees this host's own address; name a proxy set "
			 "for it ('pool: NAME'), or state that none is needed ('require_pool: false')");
}

int read_policy(struct source *s, const struct ynode *root)
{
	int r = read_map(s, root, "a policy", keys, ARRAY_SIZE(keys), (void *)root);

	return r < 0 ? r : warn_browser(s, root);
}

int read_lists(struct source *s, const struct ynode *root)
{
	static const struct {
		const char *key;
		int (*read)(struct source *, const struct ynode *, void *);
	} lists[] = { { "allow", section_key_allow }, { "deny", section_key_deny } };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(lists); i++) {
		const struct ynode *n = ynode_get(root, lists[i].key);

		r = n ? lists[i].read(s, n, NULL) : 0;
	}
	return r;
}
