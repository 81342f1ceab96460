/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of a run's asks, for metrics. Counts logged events only, so that metrics and log agree. */
#include "approval/list/askcount.h"

#include "base/cleanup.h"
#include "base/str.h"

void askcount_event(struct askcount *c, const char *type, const struct buf *fields)
{
	/* asks_log.c writes this member first; quotes in texts of others are escaped, so they cannot imitate
	 * it. */
	bool allow = strstr(buf_cstr(fields), "\"answer\":\"allow\"") != NULL;
	const struct {
		const char *type;
		uint64_t *to;
	} known[] = { { "ask.new", &c->asked },	     { "ask.answer", allow ? &c->allowed : &c->denied },
		      { "ask.expire", &c->expired }, { "ask.gone", &c->gone },
		      { "ask.use", &c->used },	     { "ask.revoke", &c->revoked } };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		*known[i].to += str_eq(known[i].type, type);
}

void askcount_json(const struct askcount *c, unsigned pending, uint64_t shed, struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_obj(&j, NULL);
	json_u64(&j, "pending", pending);
	json_u64(&j, "asked", c->asked);
	json_u64(&j, "allowed", c->allowed);
	json_u64(&j, "denied", c->denied);
	json_u64(&j, "expired", c->expired);
	json_u64(&j, "gone", c->gone);
	json_u64(&j, "used", c->used);
	json_u64(&j, "revoked", c->revoked);
	json_u64(&j, "shed", shed);
	json_end_obj(&j);
	buf_addc(out, '\n');
}
