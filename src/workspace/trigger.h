/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triggers: files that the host may run or obey without being asked, because some program looks for them by name:
 * hooks, editor settings, CI files, shell and tool configuration, instructions to agents. Names are compared without
 * regard to case, for a host or a tool may not know it. Pure.
 */
#ifndef WORKSPACE_TRIGGER_H
#define WORKSPACE_TRIGGER_H

#include "base/str.h"

#include <stdbool.h>

/* Why a path is a trigger, as static text; NULL when it is none. */
const char *trigger_why(const char *path, bool is_dir);

/*
 * Is there a yes for this trigger? A yes for a directory is one for what is below it, with one exception: what git
 * would run or obey (config, hooks, …) needs a yes that names something inside .git, so that "--allow .git" lets out
 * commits and nothing that runs. "" is no yes.
 */
bool trigger_allowed(const char *path, bool is_dir, const struct strv *allow);

#endif
