/* SPDX-License-Identifier: Apache-2.0 */
/* Not for people: what a run's guard executes so that they are told of its questions (approval/server/asknotify.h). */
#ifndef CLI_NOTIFY_ASKS_H
#define CLI_NOTIFY_ASKS_H

/* notify-asks RUN NUMBER */
int notify_asks(int argc, char **argv);

#endif
