/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer-web: serves the HTTP API and the page. Started by cofferd; see web/server/webserve.h. It may not
 * judge a credential, make a socket, open a file or execute anything.
 */
#include "base/signals.h"
#include "web/server/webserve.h"

#include <fcntl.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	(void)argv;
	signals_begin();
	if (argc != 1 || fcntl(WEB_CHANNEL, F_SETFD, FD_CLOEXEC) < 0) {
		fprintf(stderr, "coffer-web: started by cofferd when it is needed; by hand: coffer ui\n");
		return 2;
	}
	return web_main();
}
