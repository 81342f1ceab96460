/* SPDX-License-Identifier: Apache-2.0 */
/* coffer doctor --processes. */
#ifndef CLI_DOCTOR_PROCESSES_H
#define CLI_DOCTOR_PROCESSES_H

#include <stdbool.h>

/* Prints them, and returns the exit code. */
int cli_doctor_processes(bool as_json);

#endif
