/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about keys of the ssh-agent, from the launcher to the list of approvals and back (net_sign.h).
 * Nothing may be signed without an answer (net_sign.N1).
 */
#include "netd/wire/net_sign.h"

#include "netd/serve/net_int.h"

#include <stdio.h>
#include <string.h>

static uint32_t message_type(const void *word)
{
	uint32_t t;

	memcpy(&t, word, sizeof(t));
	return t;
}

bool net_sign_is_message(const void *word, size_t len)
{
	uint32_t t = len >= sizeof(t) ? message_type(word) : 0;

	if (t == NET_SIGN)
		return len == sizeof(struct net_sign);
	return len == sizeof(struct net_msg) &&
	       (t == NET_SIGN_DROP || t == NET_SIGN_TAKEN || t == NET_SIGN_UNUSED);
}

static void ask_about_signature(struct net_guard *g, struct net_sign *s)
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
	snprintf(rule, sizeof(rule), "the binding of the key %s requires approval for each use", s->key);
	q.preview_len =
		(size_t)snprintf(preview, sizeof(preview), "key %s, fingerprint %s", s->key, s->print);
	net_ask_listen(g);
	askserve_put(&g->serve, &q, NET_SIGN_WAITER | s->ticket, NULL);
}

void net_sign_take(struct net_guard *g, const void *word, size_t len)
{
	uint32_t type = message_type(word);
	struct net_sign s;
	struct net_msg m;

	if (!g->serve.asks)
		return;
	if (type == NET_SIGN) {
		BUG_ON(len != sizeof(s));
		memcpy(&s, word, sizeof(s));
		ask_about_signature(g, &s);
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
	/* If the launcher is gone, so is the program that wanted the signature. */
	(void)!net_launcher_send(g, allow ? NET_ALLOW : NET_DENY, (uint32_t)waiter,
				 str_safe(text, safe, sizeof(safe)), -1);
}
