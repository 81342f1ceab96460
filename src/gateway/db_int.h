/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of db.h share. */
#ifndef GATEWAY_DB_INT_H
#define GATEWAY_DB_INT_H

#include "gateway/db.h"

#include <sqlite3.h>

struct db {
	sqlite3 *c;
	int64_t run; /* our own row in `gateway` */
};

#endif
