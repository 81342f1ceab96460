/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/trigger.h"

#include "base/cleanup.h"
#include "workspace/path.h"

#include <assert.h>
#include <strings.h>

#define SHELL "a shell reads it when it starts"
#define EDITOR "an editor obeys it when the folder is opened"
#define CI "a CI server runs it"
#define AGENT "an agent takes it as settings, commands or instructions"
#define GIT_OBEYS "git obeys it"
#define TOOL "a tool obeys it whenever it runs here"
#define HOOK "it is run on commits"
#define PACKAGES "package managers obey it"
#define SESSION "the desktop or the system starts what it names"

/*
 * One or two names in a row, anywhere in a path; what is below is meant too. A "*" in front matches names that end so, one
 * behind names that begin so.
 */
static const struct {
	const char *name;
	const char *below; /* the next name, NULL: any or none */
	const char *why;
} triggers[] = {
	{ ".gitattributes", NULL, "git runs the filters that it names" },
	{ ".gitmodules", NULL, GIT_OBEYS },
	{ ".gitconfig", NULL, GIT_OBEYS },
	{ ".lfsconfig", NULL, GIT_OBEYS },
	{ ".hg", NULL, "hg obeys its hgrc and runs its hooks" },
	{ ".jj", NULL, "jj obeys its configuration" },
	{ ".husky", NULL, HOOK },
	{ ".githooks", NULL, HOOK },
	{ ".pre-commit-config.yaml", NULL, HOOK },
	{ "lefthook.*", NULL, HOOK },
	{ ".lefthook*", NULL, HOOK },

	{ ".envrc", NULL, "direnv runs it when the directory is entered" },
	{ ".direnv", NULL, "direnv runs it when the directory is entered" },
	{ ".autoenv*", NULL, "autoenv runs it when the directory is entered" },
	{ ".tool-versions", NULL, "a version manager runs what it names" },
	{ ".mise*", NULL, "mise runs what it names" },
	{ "mise.toml", NULL, "mise runs what it names" },
	{ "mise.local.toml", NULL, "mise runs what it names" },
	{ ".rtx.toml", NULL, "mise runs what it names" },

	{ ".vscode", NULL, EDITOR },
	{ "*.code-workspace", NULL, EDITOR },
	{ ".idea", NULL, EDITOR },
	{ ".fleet", NULL, EDITOR },
	{ ".zed", NULL, EDITOR },
	{ ".vs", NULL, EDITOR },
	{ "*.sublime-project", NULL, EDITOR },
	{ ".devcontainer*", NULL, "an editor builds and starts what it names" },
	{ ".gitpod*", NULL, "an editor builds and starts what it names" },
	{ ".vimrc", NULL, EDITOR },
	{ ".gvimrc", NULL, EDITOR },
	{ ".lvimrc", NULL, EDITOR },
	{ ".exrc", NULL, EDITOR },
	{ ".nvimrc", NULL, EDITOR },
	{ ".nvim.lua", NULL, EDITOR },
	{ ".vim", NULL, EDITOR },
	{ ".dir-locals*.el", NULL, EDITOR },
	{ ".emacs*", NULL, EDITOR },
	{ ".ycm_extra_conf.py", NULL, EDITOR },

	{ ".claude*", NULL, AGENT },
	{ "CLAUDE*.md", NULL, AGENT },
	{ "AGENTS*.md", NULL, AGENT },
	{ "GEMINI.md", NULL, AGENT },
	{ "QWEN.md", NULL, AGENT },
	{ "SOUL.md", NULL, AGENT },
	{ ".mcp.json", NULL, AGENT },
	{ "mcp.json", NULL, AGENT },
	{ ".agents", NULL, AGENT },
	{ ".cursor", NULL, AGENT },
	{ ".cursorrules", NULL, AGENT },
	{ ".codex", NULL, AGENT },
	{ ".gemini", NULL, AGENT },
	{ ".qwen", NULL, AGENT },
	{ ".aider*", NULL, AGENT },
	{ ".continue*", NULL, AGENT },
	{ ".roo*", NULL, AGENT },
	{ ".cline*", NULL, AGENT },
	{ ".windsurf*", NULL, AGENT },
	{ ".opencode*", NULL, AGENT },
	{ "opencode.json*", NULL, AGENT },
	{ ".goose*", NULL, AGENT },
	{ ".amazonq", NULL, AGENT },
	{ ".kiro", NULL, AGENT },
	{ ".hermes", NULL, AGENT },
	{ ".openclaw", NULL, AGENT },
	{ ".picoclaw", NULL, AGENT },
	{ ".github", "copilot-instructions.md", AGENT },
	{ ".github", "instructions", AGENT },
	{ ".github", "prompts", AGENT },

	{ ".github", "workflows", CI },
	{ ".github", "actions", CI },
	{ ".github", "dependabot.yml", CI },
	{ ".gitea", "workflows", CI },
	{ ".forgejo", "workflows", CI },
	{ ".gitlab-ci*", NULL, CI },
	{ ".gitlab", "ci", CI },
	{ ".circleci", NULL, CI },
	{ "Jenkinsfile*", NULL, CI },
	{ ".travis.yml", NULL, CI },
	{ "azure-pipelines*", NULL, CI },
	{ "bitbucket-pipelines.yml", NULL, CI },
	{ ".drone*", NULL, CI },
	{ ".woodpecker*", NULL, CI },
	{ ".buildkite", NULL, CI },
	{ ".cirrus.*", NULL, CI },
	{ "appveyor.yml", NULL, CI },
	{ ".appveyor.yml", NULL, CI },
	{ "cloudbuild.yaml", NULL, CI },

	{ ".npmrc", NULL, PACKAGES },
	{ ".yarnrc*", NULL, PACKAGES },
	{ ".yarn", NULL, PACKAGES },
	{ ".pnpmfile.*", NULL, PACKAGES },
	{ "bunfig.toml", NULL, PACKAGES },
	{ ".bundle", "config", PACKAGES },
	{ "pip.conf", NULL, PACKAGES },
	{ ".cargo", "config", TOOL },
	{ ".cargo", "config.toml", TOOL },
	{ "rust-toolchain*", NULL, TOOL },
	{ ".mvn", NULL, TOOL },
	{ ".gdbinit", NULL, TOOL },
	{ ".lldbinit", NULL, TOOL },
	{ ".pythonrc*", NULL, TOOL },
	{ "sitecustomize.py", NULL, TOOL },
	{ "usercustomize.py", NULL, TOOL },
	{ "*.pth", NULL, TOOL },
	{ ".curlrc", NULL, TOOL },
	{ ".wgetrc", NULL, TOOL },
	{ ".ssh", NULL, "ssh obeys it" },
	{ ".htaccess", NULL, "a web server obeys it" },
	{ ".user.ini", NULL, "a web server obeys it" },

	{ ".bash*", NULL, SHELL },
	{ ".profile", NULL, SHELL },
	{ ".zsh*", NULL, SHELL },
	{ ".zprofile", NULL, SHELL },
	{ ".zlog*", NULL, SHELL },
	{ ".kshrc", NULL, SHELL },
	{ ".cshrc", NULL, SHELL },
	{ ".tcshrc", NULL, SHELL },
	{ ".login", NULL, SHELL },
	{ ".logout", NULL, SHELL },
	{ ".inputrc", NULL, SHELL },
	{ ".config", "fish", SHELL },
	{ ".config", "environment.d", SESSION },
	{ ".config", "autostart", SESSION },
	{ ".config", "systemd", SESSION },
	{ ".config", "git", GIT_OBEYS },
	{ ".config", "mise", "mise runs what it names" },
	{ ".xinitrc", NULL, SESSION },
	{ ".xprofile", NULL, SESSION },
	{ ".xsession*", NULL, SESSION },
	{ ".pam_environment", NULL, SESSION },
	{ "autorun.inf", NULL, SESSION },
};

/*
 * What git itself writes on a commit, a fetch or a merge, and does not obey: first names below .git. All else
 * there (config, hooks, info/attributes, modules, worktrees, commondir, a rebase's list of commands…) may make git
 * run something.
 */
static const char *const internals[] = {
	"objects",     "refs",	      "logs",		"index",       "HEAD",	      "ORIG_HEAD",
	"FETCH_HEAD",  "MERGE_HEAD",  "MERGE_MSG",	"MERGE_MODE",  "AUTO_MERGE",  "CHERRY_PICK_HEAD",
	"REVERT_HEAD", "REBASE_HEAD", "COMMIT_EDITMSG", "packed-refs", "description", "branches",
	"shallow",     "gc.log",      "SQUASH_MSG",
};

static const char why_internals[] = "repository internals";
static const char why_git_runs[] = "git may run or obey it (config, hooks, attributes)";

static bool same(const char *s, size_t len, const char *word)
{
	return len == strlen(word) && strncasecmp(s, word, len) == 0;
}

/*
 * Triggers by how they begin, for a path may have thousands of names and each is asked about: lists by the first letter,
 * or by the second where the first is a dot; those that begin with "*" in one of their own.
 */
#define LISTS 512
static struct {
	bool ready;
	unsigned char head[LISTS + 1], next[ARRAY_SIZE(triggers)]; /* places plus one; 0 ends */
} lists;

static unsigned char lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static size_t list_of(const char *name)
{
	return name[0] == '.' ? 256u + lower(name[1]) : lower(name[0]);
}

static void prepare(void)
{
	static_assert(ARRAY_SIZE(triggers) < 255, "places fit a byte");
	for (size_t i = 0; i < ARRAY_SIZE(triggers); i++) {
		size_t at = triggers[i].name[0] == '*' ? LISTS : list_of(triggers[i].name);

		lists.next[i] = lists.head[at];
		lists.head[at] = (unsigned char)(i + 1);
	}
	lists.ready = true;
}

/* A pattern has at most one "*", which stands for any bytes. */
static bool fits(const char *s, size_t len, const char *pattern)
{
	const char *star = strchr(pattern, '*');
	size_t head, tail;

	if (!star)
		return same(s, len, pattern);
	head = (size_t)(star - pattern);
	tail = strlen(star + 1);
	return len >= head + tail && strncasecmp(s, pattern, head) == 0 &&
	       strncasecmp(s + len - tail, star + 1, tail) == 0;
}

static bool is_dot_git(const char *s, size_t len)
{
	/* "git~1" is what a Windows file system may call .git. */
	return same(s, len, ".git") || same(s, len, "git~1");
}

/* What is behind ".git/": does git only write it, or might it run it? */
static const char *why_below_git(const char *rest, bool is_dir)
{
	size_t len = strcspn(rest, "/");
	const char *more = rest[len] ? rest + len + 1 : "";

	/* An empty directory of hooks does nothing, and so do a new repository's examples; a link in its place would. */
	if (same(rest, len, "hooks")) {
		bool sample = str_ends(more, ".sample") && !strchr(more, '/');

		return (*more ? sample : is_dir) ? why_internals : why_git_runs;
	}
	if (same(rest, len, "info"))
		return (*more ? strcasecmp(more, "exclude") == 0 : is_dir) ? why_internals : why_git_runs;
	if (same(rest, len, "objects"))
		return strncasecmp(more, "info/alternates", 15) == 0 ? why_git_runs : why_internals;
	for (size_t i = 0; i < ARRAY_SIZE(internals); i++) {
		if (same(rest, len, internals[i]))
			return why_internals;
	}
	return why_git_runs;
}

static const char *why_in_list(size_t list, const char *name, size_t len, const char *next, bool is_dir)
{
	size_t next_len = strcspn(next, "/");

	for (unsigned i = lists.head[list]; i; i = lists.next[i - 1]) {
		const char *below = triggers[i - 1].below;

		if (!fits(name, len, triggers[i - 1].name))
			continue;
		/* A link in place of .github leads to any workflows whatever. */
		if (!below || (*next ? fits(next, next_len, below) : !is_dir))
			return triggers[i - 1].why;
	}
	return NULL;
}

static const char *why_name(const char *name, size_t len, const char *next, bool is_dir)
{
	const char *why = why_in_list(list_of(name), name, len, next, is_dir);

	return why ? why : why_in_list(LISTS, name, len, next, is_dir);
}

/* Why, and where the name that matched ends. What git runs is worse than all else, wherever in the path it stands. */
static const char *find(const char *path, bool is_dir, size_t *ret_end)
{
	const char *found = NULL;

	if (!lists.ready)
		prepare();
	for (const char *p = path; *p;) {
		size_t len = strcspn(p, "/");
		const char *next = p[len] ? p + len + 1 : "";
		const char *why;

		if (!is_dot_git(p, len))
			why = found ? NULL : why_name(p, len, next, is_dir);
		else if (*next)
			why = why_below_git(next, is_dir);
		else
			why = is_dir ? why_internals : why_git_runs; /* a file says where the repository is */
		if (why && (!found || why == why_git_runs)) {
			found = why;
			*ret_end = (size_t)(p - path) + len;
		}
		p += len + (p[len] == '/');
	}
	return found;
}

const char *trigger_why(const char *path, bool is_dir)
{
	size_t end = 0;

	return find(path, is_dir, &end);
}

bool trigger_allowed(const char *path, bool is_dir, const struct strv *allow)
{
	size_t end = 0;
	const char *why = find(path, is_dir, &end);

	if (!why)
		return true;
	for (size_t i = 0; i < allow->n; i++) {
		const char *a = allow->v[i];

		if (!*a || !path_covers(a, path))
			continue;
		if (why != why_git_runs || strlen(a) > end || str_eq(a, path))
			return true;
	}
	return false;
}
