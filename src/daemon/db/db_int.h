/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the database. */
#ifndef DAEMON_DB_INT_H
#define DAEMON_DB_INT_H

#include "daemon/db/db.h"

#include <sqlite3.h>

struct db {
	sqlite3 *c;
	int64_t run; /* our own row in the table `gateway` */
};

#endif
