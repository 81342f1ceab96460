/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --settings: the user's own settings of an agent, read from their home, without credentials (vault/client/settings.h), as files that
 * are made in the sandbox below RUN_SETTINGS_DIR.
 *
 * Invariants
 *  U1  Only what the profile lists is looked at, below the home; a link that leads out of it, or to a file for credentials, is not
 *      followed.
 *  U2  Only regular files, each up to SETTINGS_FILE_MAX, so many as spec_files_add() takes, so deep as DEPTH_MAX.
 *  U3  What is left out is said, by name and never by value.
 */
#ifndef CLI_RUN_SETTINGS_H
#define CLI_RUN_SETTINGS_H

#include "config/profile.h"
#include "sandbox/spec/spec.h"

#define RUN_SETTINGS_DIR SPEC_FILES_DIR "/settings"

/* The name below the directory `home` by which the kernel knows the open file. 1: it is another one than `path`, in *ret. 0: it is
 * `path` itself. -errno: the name cannot be told, for the file was moved out of there, replaced or deleted. */
int run_settings_real_name(int home, const char *path, int fd, char **ret) MUST_CHECK;

int run_settings_collect(const struct profile *p, struct spec_files *to, struct err *e) MUST_CHECK;

#endif
