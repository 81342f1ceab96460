/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer completion: prints the completion script of a shell. tools/gen-docs writes the scripts from the
 * table of options when coffer is built. They are read from the build directory beside the program if it has
 * them, else from where `make install` puts them; this file makes none itself.
 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#define SCRIPT_MAX (4u << 20)

static const char shells[] = "bash zsh fish";

static const struct {
	const char *built, *installed;
} scripts[] = {
	{ "dist/completion-bash", "bash-completion/completions/coffer" },
	{ "dist/completion-zsh", "zsh/site-functions/_coffer" },
	{ "dist/completion-fish", "fish/vendor_completions.d/coffer.fish" },
};

static int read_beside_program(const char *name, struct buf *out)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (n < 0)
		return -errno;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash || snprintf(slash + 1, sizeof(path) - (size_t)(slash + 1 - path), "%s", name) >=
			      (int)(sizeof(path) - (size_t)(slash + 1 - path)))
		return -ENAMETOOLONG;
	return fd_read_file(AT_FDCWD, path, SCRIPT_MAX, out);
}

static int print_script(int shell)
{
	autobuf struct buf path = BUF_INIT, out = BUF_INIT;
	struct err e = ERR_INIT;
	int r;

	buf_addf(&path, "%s/%s", COFFER_DATADIR, scripts[shell].installed);
	r = read_beside_program(scripts[shell].built, &out);
	if (r < 0)
		r = fd_read_file(AT_FDCWD, buf_cstr(&path), SCRIPT_MAX, &out);
	if (r == 0)
		return say_out(&out);
	err_sys(&e, r, "cannot read %s", buf_cstr(&path));
	err_hint(&e, r, "'make install' puts it there");
	return say_error(&e);
}

static int cmd_completion(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, NULL, 0);
	struct err e = ERR_INIT;
	const char *value;
	int id = opt_next(&p, &value, &e);

	if (id == OPT_HELP)
		return verb_print_help(&verb_completion);
	if (id == 0 && p.index + 1 != p.argc) {
		err_set(&e, -EINVAL, "completion needs a shell");
		id = err_hint(&e, -EINVAL, "one of: %s", shells);
	}
	if (id == 0)
		id = opt_one_of("completion", p.argv[p.index], shells, &e);
	return id < 0 ? say_usage(&verb_completion, &e) : print_script(id);
}

const struct verb verb_completion = {
	.name = "completion",
	.group = VERB_HOST,
	.synopsis = "bash|zsh|fish",
	.help = "print the completion script of a shell",
	.run = cmd_completion,
	.text = "Prints the completion script of a shell for coffer's commands and options, as *make "
		"install* installs it.",
	.examples = "coffer completion bash > ~/.local/share/bash-completion/completions/coffer\n",
};
