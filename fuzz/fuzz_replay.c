/* SPDX-License-Identifier: Apache-2.0 */
/* A log's record of a request: host, method, path and act, a line each. */
#include "policy/replay/replay.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "config/policy_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
	"version: 1\nallow:\n- domain: a.example\n  http:\n  - allow: GET /**\n  graphql:\n"
	"  - allow: query *\n  git:\n  - allow: fetch o/r\n  - allow: push o/r refs/heads/bot/* create\n";

static struct replay *get(void)
{
	static struct config_policy c;
	static struct replay *r;

	if (!r) {
		BUG_ON(config_policy_parse("fuzz", text, sizeof(text) - 1, &c, NULL) < 0);
		BUG_ON(replay_new(&r, c.policy, &c.acts, NULL) < 0);
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree char *in = malloc(size + 1);
	char *next = in, *part[4] = { NULL };
	struct replay_seen s = { .kind = REPLAY_REQUEST, .was = POLICY_ALLOW, .port = 443, .count = 1 };
	struct policy_verdict v;
	const char *why = NULL;
	enum replay_now now;

	memcpy(in, data, size);
	in[size] = 0;
	for (size_t i = 0; i < 4; i++)
		part[i] = strsep(&next, "\n");
	s.host = part[0];
	s.method = part[1];
	s.path = part[2];
	s.act = part[3];
	now = replay_decide(get(), &s, &v, &why);
	BUG_ON(now == REPLAY_UNKNOWN && (!why || !*why));
	/* No word may open what the connection or another method would not. */
	BUG_ON(now == REPLAY_ALLOW && !str_eq(s.host, "a.example") && strcasecmp(s.host, "a.example") != 0 &&
	       strcasecmp(s.host, "a.example.") != 0);
	BUG_ON(replay_add(get(), &s) < 0);
	return 0;
}
