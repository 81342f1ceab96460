/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-courier: sends one HTTP request of coffer's own over verified TLS, and exits. See
 * courier/courier.h. It may not see another call, open a file or follow a redirect.
 */
#include "base/signals.h"
#include "courier/courier.h"

int main(int argc, char **argv)
{
	signals_begin();
	return courier_main(argc, argv);
}
