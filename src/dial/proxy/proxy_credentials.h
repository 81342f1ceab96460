/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxies' credentials as coffer-dial gets them on DIAL_FD_PROXY_SETS. Lines of text:
 *
 *	SET TAB USER:PASSWORD NEWLINE
 *
 * in the order of the credentials file of the proxy set. The first line is for its first proxy,
 * and so on; with fewer lines than proxies they are reused from the first. A set without a line has no
 * credentials. Pure.
 */
#ifndef DIAL_PROXY_CREDENTIALS_H
#define DIAL_PROXY_CREDENTIALS_H

#include "codec/slice.h"

#include <stdbool.h>
#include <stddef.h>

#define PROXY_CREDENTIAL_MAX 255 /* bytes of each half: the limit of SOCKS */

/* Does every line have this form? Returns the number of the first that has not, 0: all have. */
size_t proxy_credentials_check(const char *text, size_t len);

/* The credential of proxy `i` of a set. False when it has none. Only for text that was checked. */
bool proxy_credentials_find(const char *text, size_t len, const char *set, size_t i, struct slice *ret_user,
			    struct slice *ret_password);

#endif
