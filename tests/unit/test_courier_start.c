/* SPDX-License-Identifier: Apache-2.0 */
/* For which path a notification's secret is granted: for its own, and what is below, not for the whole host. */
#include "notify/courier_start.h"
#include "tap.h"

static void is_path(const char *target, const char *want)
{
	char got[BINDING_PATH_MAX + 1] = "";

	CHECKF(notify_courier_grant_path(slice_of(target), got) == 0 && strcmp(got, want) == 0,
	       "the courier's secret for %s is granted for %s: %s", target, want, got);
}

int main(void)
{
	char path[BINDING_PATH_MAX + 8], got[BINDING_PATH_MAX + 1];

	is_path("/hook/coffer", "/hook/coffer");
	is_path("/hook/coffer?room=1", "/hook/coffer");
	is_path("/hook/", "/hook");
	is_path("/", "/");
	is_path("/?x=/y", "/");
	is_path("/_matrix/client/v3/rooms/%21a%3Ab/send/m.room.message/1", "/_matrix/client/v3/rooms");
	is_path("/%41", "/");
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	CHECKF(notify_courier_grant_path((struct slice){ path, sizeof(path) }, got) < 0,
	       "a path that no binding can have is refused");
	return tap_done();
}
