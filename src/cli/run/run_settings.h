/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --settings: the user's own settings of an agent, read from their home without credentials
 * (vault/client/settings.h). They become files in the sandbox below RUN_SETTINGS_DIR.
 *
 * Invariants
 *  U1  Only the paths that the profile lists are read, and only below the home. A link that leads out of the
 *      home, or to a file for credentials, is not followed.
 *  U2  Only regular files are taken, each of at most SETTINGS_FILE_MAX bytes, as many as spec_files_add()
 *      accepts, and no deeper than DEPTH_MAX directories.
 *  U3  A file or value that is left out is reported by its name, never by its value.
 */
#ifndef CLI_RUN_SETTINGS_H
#define CLI_RUN_SETTINGS_H

#include "config/profile.h"
#include "sandbox/spec/spec.h"

#define RUN_SETTINGS_DIR SPEC_FILES_DIR "/settings"

/* Determines the name below the directory `home` by which the kernel knows the open file. 0: it is `path`. 1:
 * it is another name, in *ret. -errno: it cannot be determined, because the file was moved out of the home,
 * replaced or deleted. */
int cli_run_settings_real_name(int home, const char *path, int fd, char **ret) MUST_CHECK;

int cli_run_settings_collect(const struct profile *p, struct spec_files *to, struct err *e) MUST_CHECK;

#endif
