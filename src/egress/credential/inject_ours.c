/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose credential is it? For `credentials: only`: ours is a placeholder with nothing beside it that a server
 * could take for a credential.
 */
#include "egress/credential/inject.h"
#include "egress/credential/inject_int.h"

#include <string.h>

#define OTHER_HALF_MAX 6

static bool is_whole_placeholder(const struct vault_grants *g, struct slice s)
{
	size_t at;
	const struct vault_grant *f = inject_placeholder(g, s, &at);

	return f && at == 0 && f->placeholder_len == s.len;
}

/*
 * The other half of a Basic credential. A server may look at that half alone, so it must not be a possible
 * credential by itself: it is too short for one, or one of the constants that services document.
 */
static bool is_harmless_half(struct slice s)
{
	static const char *const list[] = {
		"x-access-token", "x-token-auth", "x-oauth-basic", "oauth2", "oauth", "oauth2accesstoken",
		"__token__",	  "git",	  "token",	   "api",    "user"
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (slice_eq(s, list[i]))
			return true;
	}
	return s.len <= OTHER_HALF_MAX;
}

/* Does the binding's user replace the client's wherever it is sent as Basic? */
static bool binding_sets_user(const struct vault_grant *g)
{
	bool has = false;

	for (size_t i = 0; i < g->n_bindings; i++) {
		if (g->bindings[i].as == BINDING_AS_BASIC && !g->bindings[i].user[0])
			return false;
		has |= g->bindings[i].as == BINDING_AS_BASIC;
	}
	return has;
}

static bool is_ours_basic(const struct vault_grants *g, struct slice pair)
{
	const char *colon = pair.len ? memchr(pair.p, ':', pair.len) : NULL;
	size_t n = colon ? (size_t)(colon - pair.p) : pair.len;
	struct slice user = { pair.p, n };
	struct slice password = colon ? (struct slice){ colon + 1, pair.len - n - 1 } : SLICE_NONE;
	size_t at;
	const struct vault_grant *f = inject_placeholder(g, pair, &at);

	/* A placeholder may contain a colon. */
	if (f && at == 0 && pair.len >= f->placeholder_len) {
		user = (struct slice){ pair.p, f->placeholder_len };
		password = pair.len > f->placeholder_len ? (struct slice){ pair.p + f->placeholder_len + 1,
									   pair.len - f->placeholder_len - 1 }
							 : SLICE_NONE;
	}
	return (is_whole_placeholder(g, password) &&
		(is_harmless_half(user) || (f && binding_sets_user(f)))) ||
	       (is_whole_placeholder(g, user) && is_harmless_half(password));
}

bool inject_is_ours(const struct vault_grants *g, struct slice name, struct slice value)
{
	CLEANUP(buf_release) struct buf tmp = { .wipe = true };
	struct slice rest = value, pair;

	if (slice_eq_nocase(name, "authorization")) {
		if (inject_basic_pair(value, &tmp))
			return is_ours_basic(g, (struct slice){ tmp.data, tmp.len });
		return is_whole_placeholder(g, value) ||
		       (inject_has_scheme(value, "Bearer", &rest) && is_whole_placeholder(g, rest)) ||
		       (inject_has_scheme(value, "token", &rest) && is_whole_placeholder(g, rest));
	}
	if (slice_eq_nocase(name, "cookie")) {
		while (inject_next_piece(&rest, ';', &pair)) {
			if (!is_whole_placeholder(g, inject_param_value(inject_trim(pair))))
				return false;
		}
		return true;
	}
	return is_whole_placeholder(g, value) ||
	       (inject_has_scheme(value, "Bearer", &rest) && is_whole_placeholder(g, rest));
}

bool inject_is_ours_param(const struct vault_grants *g, struct slice value)
{
	autobuf struct buf tmp = BUF_INIT;

	return is_whole_placeholder(g, inject_uncolon(value, &tmp));
}
