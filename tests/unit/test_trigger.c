/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "tap.h"
#include "workspace/trigger.h"

static bool is(const char *path, const char *part)
{
	const char *why = trigger_why(path, false);

	return part ? why && strstr(why, part) : !why;
}

static void test_names(void)
{
	static const char *const yes[] = {
		".gitattributes",
		"src/.gitattributes",
		".gitmodules",
		".envrc",
		"deep/down/.envrc",
		".vscode/tasks.json",
		".VSCode/tasks.json",
		".idea/x",
		".devcontainer/devcontainer.json",
		".devcontainer.json",
		".claude/settings.json",
		".claude.json",
		"CLAUDE.md",
		"claude.md",
		"CLAUDE.local.md",
		"AGENTS.md",
		".mcp.json",
		".cursor/mcp.json",
		".codex/config.toml",
		".gemini/settings.json",
		".github/workflows/ci.yml",
		".GitHub/Workflows/ci.yml",
		".gitlab-ci.yml",
		".circleci/config.yml",
		"Jenkinsfile",
		".husky/pre-commit",
		".pre-commit-config.yaml",
		".npmrc",
		".yarnrc",
		".yarnrc.yml",
		".bashrc",
		".bash_profile",
		".zshrc",
		".profile",
		".tool-versions",
		".mise.toml",
		".config/mise/config.toml",
		".direnv/x",
		".cargo/config.toml",
		"a/b/.hg/hgrc",
		".vimrc",
		"x.code-workspace",
		".exrc",
		"lefthook.yml",
	};
	static const char *const no[] = {
		"Makefile",
		"src/main.c",
		"README.md",
		".gitignore",
		".github/README.md",
		"github/workflows/x",
		"workflows/ci.yml",
		"package.json",
		"envrc",
		".editorconfig",
		"build.sh",
		"agents.txt",
		"a.git",
		".cargo/registry",
		".config/other",
		"Makefile.am",
		"claude.mdx",
	};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		CHECKF(trigger_why(yes[i], false) != NULL, "%s is a trigger", yes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		CHECKF(trigger_why(no[i], false) == NULL, "%s is none", no[i]);
}

static void test_git(void)
{
	CHECK(is(".git/config", "run or obey") && is(".GIT/CONFIG", "run or obey") &&
	      is("git~1/config", "run or obey"));
	CHECK(is(".git/hooks/pre-commit", "run or obey") &&
	      is("vendor/x/.git/hooks/post-merge", "run or obey"));
	CHECK(is(".git/hooks/pre-commit.sample", "internals"));
	CHECK(is(".git/hooks/x/pre-commit.sample", "run or obey"));
	CHECK(is(".git/info/attributes", "run or obey") && is(".git/info/exclude", "internals"));
	CHECK(is(".git/modules/x/config", "run or obey") && is(".git/commondir", "run or obey"));
	CHECK(is(".git/rebase-merge/git-rebase-todo", "run or obey"));
	CHECK(is(".git/objects/ab/cdef", "internals") && is(".git/objects/info/alternates", "run or obey"));
	CHECK(is(".git/refs/heads/main", "internals") && is(".git/index", "internals") &&
	      is(".git/HEAD", "internals"));
	CHECK(is(".git/logs/HEAD", "internals") && is(".git/COMMIT_EDITMSG", "internals"));
	CHECK(is("sub/.git", "run or obey")); /* a file or link */
	CHECK(strstr(trigger_why("sub/.git", true), "internals") != NULL);
	CHECK(is(".git/hooks", "run or obey") && strstr(trigger_why(".git/hooks", true), "internals"));
	/* A link in place of a directory leads to anything; the directory itself does nothing. */
	CHECK(is(".github", "CI") || is(".github", "agent"));
	CHECK(trigger_why(".github", true) == NULL && trigger_why(".config", true) == NULL);
	CHECK(is("x/.config", "") && is(".cargo", "tool"));
	/* Worse beats first. */
	CHECK(is(".vscode/.git/config", "run or obey") && is(".git/refs/.git/hooks/x", "run or obey"));
}

static bool allowed(const char *path, const char *yes)
{
	autostrv struct strv l = STRV_INIT;

	return strv_add(&l, yes) == 0 && trigger_allowed(path, false, &l);
}

static void test_allow(void)
{
	struct strv none = STRV_INIT;

	CHECK(!trigger_allowed(".envrc", false, &none) && trigger_allowed("main.c", false, &none));
	CHECK(allowed(".envrc", ".envrc") && allowed("a/.envrc", "a") && !allowed("ab/.envrc", "a"));
	CHECK(!allowed(".envrc", ""));
	/* A yes for .git is one for commits only. */
	CHECK(allowed(".git/objects/ab/cd", ".git") && allowed(".git/index", ".git"));
	CHECK(!allowed(".git/hooks/pre-commit", ".git") && !allowed(".git/config", ".git"));
	CHECK(!allowed("vendor/x/.git/config", "vendor") &&
	      !allowed("vendor/x/.git/config", "vendor/x/.git"));
	CHECK(allowed(".git/hooks/pre-commit", ".git/hooks") && allowed(".git/config", ".git/config"));
	CHECK(allowed("sub/.git", "sub/.git") && !allowed("sub/.git", "sub"));
	CHECK(!allowed(".vscode/.git/config", ".vscode"));
}

int main(void)
{
	test_names();
	test_git();
	test_allow();
	return tap_done();
}
