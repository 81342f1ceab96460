/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error texts for commands that could not be started. Apart from proto.c because coffer-init contains no texts.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "sandbox/init/proto.h"

#include <errno.h>

static void set_exec_error(int code, const char *cmd, struct err *e)
{
	if (code == ENOENT || code == ENOTDIR) {
		err_set(e, -code, "%s: command not found in the sandbox", cmd);
		err_hint(e, -code,
			 "programs below /usr and in the workspace are available; -v DIR:DIR "
			 "adds others, --image names an image");
	} else if (code == EACCES) {
		err_set(e, -code, "%s: not executable in the sandbox", cmd);
	} else if (code == ENOEXEC) {
		err_set(e, -code, "%s: not a program that this machine can run", cmd);
	} else if (code == E2BIG) {
		err_set(e, -code, "%s: arguments and environment are too long", cmd);
	} else {
		err_sys(e, -code, "cannot run %s", cmd);
	}
}

void proto_exit_text(const struct proto_exit *x, const char *command, const char *cwd, struct err *e)
{
	autobuf struct buf cmd = BUF_INIT, dir = BUF_INIT;
	int code = (int)x->value;

	str_add_safe(&cmd, command, strnlen(command, 200), false);
	str_add_safe(&dir, cwd, strnlen(cwd, 200), false);
	switch (x->what) {
	case PROTO_WHAT_EXEC:
		set_exec_error(code, buf_cstr(&cmd), e);
		break;
	case PROTO_WHAT_INTERP:
		err_set(e, -code, "%s: the interpreter that it names is not in the sandbox", buf_cstr(&cmd));
		break;
	case PROTO_WHAT_CWD:
		err_sys(e, -code, "cannot enter the working directory %s in the sandbox", buf_cstr(&dir));
		break;
	case PROTO_WHAT_FORK:
		if (code == EAGAIN)
			err_set(e, -code,
				"cannot start %s: the sandbox is at its limit of processes (--pids)",
				buf_cstr(&cmd));
		else
			err_sys(e, -code, "cannot start %s", buf_cstr(&cmd));
		break;
	case PROTO_WHAT_FDS:
		err_sys(e, -code, "cannot make pipes for %s in the sandbox", buf_cstr(&cmd));
		err_hint(e, -code, "a larger --nofile when too many files are open");
		break;
	case PROTO_WHAT_TTY:
		err_sys(e, -code, "cannot make a terminal for %s in the sandbox", buf_cstr(&cmd));
		break;
	default:
		if (code == E2BIG)
			err_set(e, -code, "%s: arguments and environment are too long", buf_cstr(&cmd));
		else
			err_sys(e, -code, "cannot start %s", buf_cstr(&cmd));
		break;
	}
}
