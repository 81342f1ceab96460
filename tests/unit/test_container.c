/* SPDX-License-Identifier: Apache-2.0 */
#include "base/container.h"
#include "tap.h"

struct holder {
	char before[3];
	struct member {
		int x;
	} first, second;
	long after;
};

int main(void)
{
	struct holder h = { .after = 7 };

	CHECK(CONTAINER_OF(&h.first, struct holder, first) == &h);
	CHECK(CONTAINER_OF(&h.second, struct holder, second)->after == 7);
	CHECK(CONTAINER_OF(&h.after, struct holder, after) == &h);
	return tap_done();
}
