/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the database of $COFFER_STATE as cofferd does, and leaves: for tests that kill it at every step (killat.c).
 *
 *	dbopen		brings an older one forward; says "FROM KEPT"
 */
#include "daemon/db/db.h"

#include <stdio.h>

int main(void)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	struct err e = ERR_INIT;
	struct db_opened how;
	struct db *d = NULL;

	if (state_open(&st, &e) < 0 || db_open(&d, &st, &how, &e) < 0) {
		fprintf(stderr, "dbopen: %s\n", e.msg);
		return 1;
	}
	printf("%d %s\n", how.from, *how.kept ? how.kept : "-");
	db_close(d);
	return 0;
}
