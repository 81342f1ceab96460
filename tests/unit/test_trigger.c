/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "tap.h"
#include "workspace/tree/path.h"
#include "workspace/tree/trigger.h"
#include "workspace/tree/trigger_table.h"

static const char *why_of(const char *path, bool is_dir)
{
	return trigger_find(path, is_dir, &(struct trigger_place){ 0 }).why;
}

static bool is(const char *path, const char *part)
{
	const char *why = why_of(path, false);

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
		".rvmrc",
		".mise.toml",
		".config/mise/config.toml",
		".direnv/x",
		".cargo/config.toml",
		"a/b/.hg/hgrc",
		".vimrc",
		"x.code-workspace",
		".exrc",
		"lefthook.yml",
		".config/lefthook.yml",
		".config/mise.toml",
		".config/hk.pkl",
		"hk.local.pkl",
		".local-overcommit.yml",
		".rtx.local.toml",
		"CRUSH.local.md",
		"crushrc",
		".kilo/setup-script",
		"kilo.jsonc",
		".pi/extensions/x.ts",
		".amp/settings.json",
		".github/mcp.json",
		".github/extensions/x.mjs",
		".bazelversion",
		".pnp.cjs",
		"pnpm-workspace.yaml",
		"$irbrc",
		".jdbrc",
		"jdb.ini",
		".ctags.d/x.ctags",
		".ctags",
		"CVS/Root",
		"src/CVS/Root",
		"_darcs/prefs/defaults",
		"_darcs/prefs", /* a symlink */
		"_MTN/monotonerc",
		".repo/repo/main.py",
		".gclient",
		".west/config",
		".fslckout",
		"_FOSSIL_",
		"tools/bazel",
		".gbp.conf",
		"debian/gbp.conf",
		".shadowenv.d/x.lisp",
		".kamal/hooks/pre-build",
		".ddev/config.yaml",
		".ona/automations.yaml",
		".gocd.yaml",
		"build.gocd.yaml",
		".ci-operator.yaml",
		".spacelift/config.yml",
		"atlantis.yaml",
		".ebextensions/x.config",
		".platform/hooks/predeploy/x",
		".platform/confighooks/predeploy/x",
		".deployment",
		"Procfile",
		"railway.json",
		"railway.toml",
		"nixpacks.toml",
		"fly.toml",
		".codebuddy/settings.json",
		".rovodev/x",
		".grok/settings.json",
		".zencoder/x",
		"conductor.json",
		".local/share/dbus-1/services/x.service",
		".local/share", /* a symlink */
		".LOCAL/Share/systemd/user/x.service",
		".local/share/bash-completion/completions/x",
		".docker/cli-plugins/docker-x",
		".oh-my-zsh/custom/x.zsh",
		".p10k.zsh",
		".wezterm.lua",
		".config/kitty/kitty.conf",
		".config/i3/config",
		".config/sway/config",
		".config/hypr/hyprland.conf",
		".config/yazi/yazi.toml",
		".config/Code/User/settings.json",
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
		"eslint.config.js",
		"conftest.py",
		"build.rs",
		"docker-compose.yml",
		"Vagrantfile",
		"pyproject.toml",
		"HEAD",
		"config",
		"objects/x",
		"Makefile.am",
		"claude.mdx",
		"CODEX.md",
		".config/lint",
		".github/mcp.md",
		"irbrc",
		".local/share/fonts/x.ttf",
		".local/share/dbus",
		".local/shared",
		".config/Code/Cache/x",
		"_darcs/prefs/boring",
		"tools/bazel.sh",
		"debian/control",
		"src/CVS/Entries",
		".docker/x",
		"gocd.yaml",
	};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		CHECKF(why_of(yes[i], false) != NULL, "%s is a trigger", yes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		CHECKF(why_of(no[i], false) == NULL, "%s is no trigger", no[i]);
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
	CHECK(is(".git/objects/info/http-alternates", "run or obey") &&
	      is(".git/objects/info/packs", "internals"));
	CHECK(is(".git/branches/origin", "run or obey") && is(".git/branches", "run or obey") &&
	      strstr(why_of(".git/branches", true), "internals"));
	CHECK(is(".git/refs/heads/main", "internals") && is(".git/index", "internals") &&
	      is(".git/HEAD", "internals"));
	CHECK(is(".git/logs/HEAD", "internals") && is(".git/COMMIT_EDITMSG", "internals"));
	CHECK(is("sub/.git", "run or obey")); /* a file or link */
	CHECK(strstr(why_of("sub/.git", true), "internals") != NULL);
	CHECK(is(".git/hooks", "run or obey") && strstr(why_of(".git/hooks", true), "internals"));
	/* A link in place of a directory leads to anything; the directory itself does nothing. */
	CHECK(is(".github", "CI") || is(".github", "agent"));
	CHECK(why_of(".github", true) == NULL && why_of(".config", true) == NULL);
	CHECK(why_of(".local/share", true) == NULL && why_of(".local/share/systemd", true) != NULL);
	CHECK(is("x/.config", "") && is(".cargo", "tool"));
	/* Worse beats first. */
	CHECK(is(".vscode/.git/config", "run or obey") && is(".git/refs/.git/hooks/x", "run or obey"));
}

/* A name that the pattern stands for: with "x1" for each star. */
static void example(const char *pattern, struct buf *out)
{
	for (; *pattern; pattern++) {
		if (*pattern == '*')
			buf_adds(out, "x1");
		else
			buf_addc(out, *pattern);
	}
}

/* Each row of the table: the name, in capitals, further down, and as part of a longer name, which is another. */
static void test_rows(void)
{
	for (size_t i = 0; i < n_trigger_rows; i++) {
		const struct trigger_row *row = &trigger_rows[i];
		autobuf struct buf name = BUF_INIT, deep = BUF_INIT, other = BUF_INIT;
		size_t stars = strcspn(row->name, "*");

		example(row->name, &name);
		if (row->below) {
			buf_addc(&name, '/');
			example(row->below, &name);
		}
		CHECKF(why_of(buf_cstr(&name), false) && row->why && row->reader && *row->reader,
		       "%s is a trigger", buf_cstr(&name));
		buf_addf(&deep, "a/b/%s/c", buf_cstr(&name));
		for (size_t k = 0; k < deep.len; k++) {
			if (deep.data[k] >= 'a' && deep.data[k] <= 'z')
				deep.data[k] -= 32;
		}
		CHECKF(why_of(buf_cstr(&deep), false) != NULL, "%s is a trigger", buf_cstr(&deep));
		buf_addf(&other, "zq%s", buf_cstr(&name));
		if (stars && !row->below)
			CHECKF(!why_of(buf_cstr(&other), false), "%s is no trigger", buf_cstr(&other));
	}
}

/* Names that some file system takes for the same. */
static void test_fold(void)
{
	static const struct {
		const char *name, *folded;
	} names[] = {
		{ ".GIT/Config", ".git/config" },
		{ ".g\u200cit/config", ".git/config" },
		{ "\ufeff.git", ".git" },
		{ ".git. .", ".git" },
		{ ".git::$INDEX_ALLOCATION/hooks", ".git/hooks" },
		{ ".hu\u017f\u212ay", ".husky" },
		{ ".gitcon\ufb01g", ".gitconfig" },
		{ "...", "..." },
		{ "\u200b/x", "\u200b/x" },
		{ ":x", ":x" },
		{ "a\xff\xc3/B", "a\xff\xc3/b" },
		{ "\u00e4.md", "\u00e4.md" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		autofree char *folded = path_fold(names[i].name);

		CHECKF(folded && strcmp(folded, names[i].folded) == 0, "name %zu is folded to %s", i,
		       names[i].folded);
	}
	CHECK(is(".g\u200cit/hooks/pre-commit", "run or obey") && is("x/.GIT /config", "run or obey"));
	CHECK(is(".v\u017fcode/tasks.json", "editor") && !why_of("\u00e4.md", false));
}

/* A repository by what is in it. */
static void test_bare(void)
{
	const struct trigger_place top = { .in_git = true }, sub = { .in_git = true, .git_at = 3 },
				   runs = { .in_git = true, .runs = true, .git_at = 3 };
	autostrv struct strv yes = STRV_INIT;
	struct trigger t = trigger_find("sub/config", false, &sub);

	CHECK(t.why && trigger_is_run_by_git(&t));
	CHECK(strv_add(&yes, "sub") == 0 && !trigger_allowed(&t, "sub/config", &yes));
	CHECK(strv_add(&yes, "sub/config") == 0 && trigger_allowed(&t, "sub/config", &yes));
	t = trigger_find("sub/HEAD", false, &sub);
	CHECK(t.why && !trigger_is_run_by_git(&t) && trigger_allowed(&t, "sub/HEAD", &yes));
	t = trigger_find("s\u200cub/HOOKS/post-update", false, &(struct trigger_place){ true, false, 6 });
	CHECK(trigger_is_run_by_git(&t));
	t = trigger_find("config.worktree", false, &top);
	CHECK(trigger_is_run_by_git(&t));
	CHECK(!trigger_find("sub/main.c", false, &sub).why && !trigger_find("main.c", false, &top).why);
	t = trigger_find("sub/modules/x/y", false, &runs);
	CHECK(trigger_is_run_by_git(&t));
	CHECK((trigger_git_part("head") | trigger_git_part("Objects") | trigger_git_part("refs")) ==
	      TRIGGER_GIT_ALL);
	CHECK((trigger_git_part("HEAD") | trigger_git_part("commondir")) == TRIGGER_GIT_ALL);
	CHECK(!trigger_git_part("header") && !trigger_git_part("config") && !trigger_git_part("ref"));
}

static bool allowed(const char *path, const char *yes)
{
	autostrv struct strv l = STRV_INIT;
	struct trigger t = trigger_find(path, false, &(struct trigger_place){ 0 });

	return strv_add(&l, yes) == 0 && trigger_allowed(&t, path, &l);
}

static void test_allow(void)
{
	CHECK(!allowed(".envrc", "other") && allowed("main.c", "other"));
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

static struct trigger below(const char *real, const char *path, size_t git_at)
{
	const struct trigger_place place = { .in_git = git_at != SIZE_MAX,
					     .git_at = git_at == SIZE_MAX ? 0 : git_at,
					     .above = trigger_above(real) };

	return trigger_find(path, false, &place);
}

/* The names of the tree's own directory and of a .git above it count. */
static void test_above(void)
{
	CHECK(strcmp(trigger_above("/home/ann/.github"), ".github") == 0 && !*trigger_above("/"));
	CHECK(strcmp(trigger_above("/home/.GIT/hooks/x"), ".GIT/hooks/x") == 0);
	CHECK(below("/a/.github", "workflows/ci.yml", SIZE_MAX).why &&
	      !below("/a/.github", "README", SIZE_MAX).why);
	CHECK(below("/a/.config", "fish/x", SIZE_MAX).why && below("/a/.vscode", "tasks.json", SIZE_MAX).why);
	CHECK(!below("/.vscode/project", "main.c", SIZE_MAX).why && below("/p", ".envrc", SIZE_MAX).why &&
	      !below("/", "main.c", SIZE_MAX).why);
	/* The length of a yes counts in the path that is shown. */
	CHECK(below("/a/.git/hooks", "post-commit", SIZE_MAX).why &&
	      below("/a/.git/hooks", "post-commit", SIZE_MAX).beyond == 0);
	CHECK(below("/a/project", "x/.git/config", SIZE_MAX).beyond == strlen("x/.git"));
	/* A repository by what is in it: the tree itself, or one below it. */
	CHECK(below("/a/b", "config", 0).why && below("/a/b", "config", 0).beyond == 0 &&
	      !below("/a/b", "main.c", 0).why);
	CHECK(below("/a/b", "sub/config", 3).why && below("/a/b", "sub/config", 3).beyond == 3);
}

int main(void)
{
	test_above();
	test_names();
	test_rows();
	test_fold();
	test_bare();
	test_git();
	test_allow();
	return tap_done();
}
