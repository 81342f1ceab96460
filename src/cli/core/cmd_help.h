/* SPDX-License-Identifier: Apache-2.0 */
/* The overview that `coffer --help` prints: all verbs, a line each. */
#ifndef CLI_CMD_HELP_H
#define CLI_CMD_HELP_H

int help_overview(int fd); /* 0, or a negative errno if it cannot be written to fd */

#endif
