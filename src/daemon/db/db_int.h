/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of db.h share. */
#ifndef DAEMON_DB_INT_H
#define DAEMON_DB_INT_H

#include "daemon/db/db.h"

#include <sqlite3.h>

struct db {
	sqlite3 *c;
	int64_t run; /* our own row in `gateway` */
};

#endif
