/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An internal verb, not for people: the process that a run's guard starts to send notifications about its
 * questions (approval/server/asknotify.h).
 */
#ifndef CLI_NOTIFY_ASKS_H
#define CLI_NOTIFY_ASKS_H

/* Arguments: notify-asks RUN NUMBER, where NUMBER is the first question to report. */
int cmd_notify_asks(int argc, char **argv);

#endif
