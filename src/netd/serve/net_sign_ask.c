/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of the ssh-agent, from the launcher to the list and back: net_sign.h. */
#include "netd/wire/net_sign.h"

#include "netd/serve/net_int.h"

#include <stdio.h>
#include <string.h>

static uint32_t type_of(const void *word)
{
	uint32_t t;

	memcpy(&t, word, sizeof(t));
	return t;
}

bool net_sign_is(const void *word, size_t len)
{
	uint32_t t = len >= sizeof(t) ? type_of(word) : 0;

	if (t == NET_SIGN)
		return len == sizeof(struct net_sign);
	return len == sizeof(struct net_msg) &&
	       (t == NET_SIGN_DROP || t == NET_SIGN_TAKEN || t == NET_SIGN_UNUSED);
}

static void put(struct net_guard *g, struct net_sign *s)
{
	char what[ASK_WHAT_MAX], rule[ASK_RULE_MAX], preview[256];
	struct ask_question q = { .kind = ASK_SIGN,
				  .port = (uint16_t)s->port,
				  .host = s->host,
				  .what = what,
				  .rule = rule,
				  .preview = preview };

	s->host[sizeof(s->host) - 1] = '\0';
	s->key[sizeof(s->key) - 1] = '\0';
	s->print[sizeof(s->print) - 1] = '\0';
	s->what[sizeof(s->what) - 1] = '\0';
	snprintf(what, sizeof(what), "%s with the key %s", s->what, s->key);
	snprintf(rule, sizeof(rule), "the key %s is bound so that each use is asked for", s->key);
	q.preview_len =
		(size_t)snprintf(preview, sizeof(preview), "key %s, fingerprint %s", s->key, s->print);
	net_ask_listen(g);
	askserve_put(&g->serve, &q, NET_SIGN_WAITER | s->ticket, NULL);
}

void net_sign_take(struct net_guard *g, const void *word, size_t len)
{
	uint32_t type = type_of(word);
	struct net_sign s;
	struct net_msg m;

	if (!g->serve.asks)
		return;
	if (type == NET_SIGN) {
		BUG_ON(len != sizeof(s));
		memcpy(&s, word, sizeof(s));
		put(g, &s);
		return;
	}
	memcpy(&m, word, sizeof(m));
	if (type == NET_SIGN_DROP)
		askserve_drop(&g->serve, NET_SIGN_WAITER | m.level);
	else if (type == NET_SIGN_TAKEN)
		asks_taken(g->serve.asks, NET_SIGN_WAITER | m.level);
	else
		askserve_unused(&g->serve, NET_SIGN_WAITER | m.level);
}

void net_sign_tell(struct net_guard *g, uint64_t waiter, bool allow, const char *id, const char *why)
{
	char text[NET_MSG_TEXT], safe[NET_MSG_TEXT];

	snprintf(text, sizeof(text), "%s%s%s", id, allow ? "" : " ", allow ? "" : why);
	/* A launcher that is gone has taken with it what was to be signed. */
	(void)!net_launcher_send(g, allow ? NET_ALLOW : NET_DENY, (uint32_t)waiter,
				 str_safe(text, safe, sizeof(safe)), -1);
}
