/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the runs that have ended and may be removed, for prune and rm --all-ended. It only reads. */
#include "cli/box/cmd_rm.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_BUDGET 100000u /* files */

void cli_rm_list_release(struct rm_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		state_meta_release(&l->v[i].meta);
	free(l->v);
	*l = (struct rm_list){ 0 };
}

bool cli_rm_may_come_back(int run_fd, const struct run_meta *m)
{
	return m->restart && !state_run_is_over(run_fd);
}

static int reserve_found(struct rm_list *l, struct err *e)
{
	return VEC_ROOM(l->v, l->n, l->room, VEC_NO_MAX) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

/* A run whose record cannot be read, or that was removed meanwhile, is not listed. */
static int add_if_ended(struct rm_session *s, const char *id, uint64_t before, uint64_t *budget,
			struct rm_list *l, struct err *e)
{
	CLEANUP(state_meta_release) struct run_meta m = { 0 };
	bool alive = false;
	autoclose int fd = state_run_open(&s->st, id, &alive, NULL);
	struct rm_found *x;
	int r;

	if (fd < 0 || alive || !state_run_has_begun(fd) || state_meta_read(fd, &m, NULL) < 0 || !m.ended ||
	    m.ended > before)
		return 0;
	if (cli_rm_may_come_back(fd, &m)) {
		l->kept++;
		return 0;
	}
	r = reserve_found(l, e);
	if (r < 0)
		return r;
	x = &l->v[l->n++];
	*x = (struct rm_found){ .meta = m };
	m = (struct run_meta){ 0 };
	memcpy(x->id, id, sizeof(x->id));
	cli_run_size_read(fd, budget, &x->size);
	return 0;
}

int cli_rm_find_ended(struct rm_session *s, uint64_t older_ns, struct rm_list *ret, struct err *e)
{
	autostrv struct strv ids = STRV_INIT;
	uint64_t now = clock_nsec(CLOCK_REALTIME), before = now > older_ns ? now - older_ns : 0;
	uint64_t budget = SIZE_BUDGET;
	int r = state_run_list(&s->st, &ids, e);

	for (size_t i = 0; r == 0 && i < ids.n; i++)
		r = add_if_ended(s, ids.v[i], before, &budget, ret, e);
	return r;
}
