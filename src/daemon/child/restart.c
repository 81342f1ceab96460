/* SPDX-License-Identifier: Apache-2.0 */
/* Restart policies and the growing pauses between restarts (restart.h). Pure. */
#include "daemon/child/restart.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <assert.h>

uint64_t backoff_next(struct backoff *b, uint64_t lasted)
{
	uint64_t wait = BACKOFF_FIRST;

	if (lasted >= BACKOFF_LASTING)
		b->tries = 0;
	for (uint32_t i = 0; i < b->tries && wait < BACKOFF_MAX; i++)
		wait *= 2;
	if (b->tries < UINT32_MAX)
		b->tries++;
	return wait < BACKOFF_MAX ? wait : BACKOFF_MAX;
}

static const char *const restart_names[] = { "no", "on-failure", "always" };
static_assert(ARRAY_SIZE(restart_names) == RESTART_WHEN_COUNT, "a name for each");

static int parse_restart_max(const char *text, uint32_t *ret, struct err *e)
{
	uint64_t n;

	if (str_to_u64(text, &n) < 0 || n == 0 || n > RESTART_MAX_TRIES)
		return err_set(e, -EINVAL, "'%.40s' is not a valid number of tries: 1 to %u", text,
			       RESTART_MAX_TRIES);
	*ret = (uint32_t)n;
	return 0;
}

int restart_parse(const char *text, struct restart *ret, struct err *e)
{
	size_t n = strcspn(text, ":");
	struct restart r = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(restart_names); i++) {
		if (strlen(restart_names[i]) != n || strncmp(restart_names[i], text, n) != 0)
			continue;
		r.when = (enum restart_when)i;
		if (text[n] && r.when != RESTART_ON_FAILURE)
			return err_set(e, -EINVAL,
				       "only on-failure takes a number of tries, as in on-failure:3");
		if (text[n] && parse_restart_max(text + n + 1, &r.max, e) < 0)
			return -EINVAL;
		*ret = r;
		return 0;
	}
	return err_set(e, -EINVAL, "'%.40s' is not a valid restart policy: no, on-failure[:N] or always",
		       text);
}

char *restart_format(const struct restart *r, char out[RESTART_TEXT_LEN])
{
	if (r->max)
		snprintf(out, RESTART_TEXT_LEN, "%s:%u", restart_names[r->when], r->max);
	else
		snprintf(out, RESTART_TEXT_LEN, "%s", restart_names[r->when]);
	return out;
}

enum restart_verdict restart_decide(const struct restart *r, struct backoff *b, const struct restart_end *end,
				    uint64_t *ret_wait)
{
	if (r->when == RESTART_NO || (r->when == RESTART_ON_FAILURE && end->by_itself && end->exit_code == 0))
		return RESTART_DONE;
	*ret_wait = backoff_next(b, end->lasted);
	return r->max && b->tries > r->max ? RESTART_GIVE_UP : RESTART_AGAIN;
}
