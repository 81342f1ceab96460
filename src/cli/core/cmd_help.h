/* SPDX-License-Identifier: Apache-2.0 */
/* `coffer --help`: the list of verbs. */
#ifndef CLI_CMD_HELP_H
#define CLI_CMD_HELP_H

int help_overview(int fd); /* 0, or negative errno when it cannot be written */

#endif
