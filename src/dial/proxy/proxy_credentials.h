/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxies' credentials as coffer-dial gets them on DIAL_FD_POOLS. Lines of text:
 *
 *	POOL TAB USER:PASSWORD NEWLINE
 *
 * in the order of the pool's credentials file. The first line of a pool is for its first proxy, and so on; with fewer lines
 * than proxies they are used again from the first. A pool without a line has no credentials. Pure.
 */
#ifndef DIAL_PROXY_CREDENTIALS_H
#define DIAL_PROXY_CREDENTIALS_H

#include "codec/slice.h"

#include <stdbool.h>
#include <stddef.h>

#define PROXY_CREDENTIAL_MAX 255 /* bytes of each half: what SOCKS takes */

/* Is every line as above? Names the number of the first that is not, 0: all are. */
size_t proxy_credentials_check(const char *text, size_t len);

/* The credential of proxy `i` of a pool. False when it has none. Only on text that was checked. */
bool proxy_credentials_find(const char *text, size_t len, const char *pool, size_t i, struct slice *ret_user,
			    struct slice *ret_password);

#endif
