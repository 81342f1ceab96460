/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/table.h"

#include "base/cleanup.h"
#include "tap.h"

int main(void)
{
	autotable struct table t = TABLE_INIT(3);
	autobuf struct buf out = BUF_INIT;

	CHECK(table_add(&t, "ID", 0) == 0 && table_add(&t, "NAME", 0) == 0 &&
	      table_add(&t, "COMMAND", 0) == 0);
	CHECK(table_add(&t, "1", 0) == 0 && table_add(&t, "größe", 0) == 0 &&
	      table_add(&t, "a\nb\033[2J", 0) == 0);
	CHECK(table_add(&t, "123", 0) == 0 && table_add(&t, "ääääää", 4) == 0 &&
	      table_add(&t, "long command", 5) == 0);
	table_format(&t, &out);
	CHECK(buf_error(&out) == 0);
	CHECK_STR(buf_cstr(&out), "ID   NAME   COMMAND\n"
				  "1    größe  a\\x0ab\\x1b[2J\n"
				  "123  äää…   long…\n");
	t.width = 20;
	buf_clear(&out);
	table_format(&t, &out);
	CHECK_STR(buf_cstr(&out), "ID   NAME   COMMAND\n"
				  "1    größe  a\\x0…\n"
				  "123  äää…   long…\n");
	return tap_done();
}
