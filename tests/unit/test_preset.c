/* SPDX-License-Identifier: Apache-2.0 */
/* The shipped presets: the acts that they allow and deny, act by act. */
#include "config/preset.h"

#include "policytest.h"

#define API "https://api.github.com"
#define R API "/repos/octo/app"

struct act {
	const char *method, *url;
	bool allowed;
};

static void check_acts(const struct policy *p, const struct act *acts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		CHECKF(request_is(p, acts[i].method, acts[i].url,
				  acts[i].allowed ? POLICY_ALLOW : POLICY_DENY),
		       "the preset judges a request as %s: %s %s", acts[i].allowed ? "allowed" : "denied",
		       acts[i].method, acts[i].url);
}

static const struct act rest[] = {
	/* reading */
	{ "GET", R, true },
	{ "HEAD", R, true },
	{ "GET", R "/issues?state=open", true },
	{ "GET", R "/issues/7/comments", true },
	{ "GET", R "/pulls/7/files", true },
	{ "GET", R "/contents/src/main.c", true },
	{ "GET", R "/actions/runs/5/logs", true },
	{ "GET", R "/git/refs/heads/main", true },
	{ "GET", API "/user", true },
	{ "GET", API "/rate_limit", true },
	/* talking, labels, pull requests */
	{ "POST", R "/issues/7/comments", true },
	{ "POST", R "/pulls/7/comments", true },
	{ "POST", R "/pulls/7/comments/8/replies", true },
	{ "POST", R "/issues/7/reactions", true },
	{ "POST", R "/issues/7/labels", true },
	{ "PUT", R "/issues/7/labels", true },
	{ "DELETE", R "/issues/7/labels", true },
	{ "DELETE", R "/issues/7/labels/bug", true },
	{ "POST", R "/pulls", true },
	/* merging, in every way there is */
	{ "PUT", R "/pulls/7/merge", false },
	{ "POST", R "/pulls/7/merge", false },
	{ "PUT", R "/pulls/7/Merge", false },
	{ "PUT", R "/pulls/7/merge/", false },
	{ "PUT", R "/pulls/7/merg%65", false },
	{ "PUT", R "/pulls/7%2Fmerge", false },
	{ "PUT", R "/pulls/7/x/../merge", false },
	{ "POST", R "/merges", false },
	{ "POST", R "/merge-upstream", false },
	{ "PUT", R "/pulls/7/update-branch", false },
	{ "PATCH", R "/pulls/7", false },
	/* approving opens the way to a merge */
	{ "POST", R "/pulls/7/reviews", false },
	{ "POST", R "/pulls/7/reviews/3/events", false },
	{ "PUT", R "/pulls/7/reviews/3/dismissals", false },
	/* branches by other doors */
	{ "PUT", R "/contents/.github/workflows/x.yml", false },
	{ "DELETE", R "/contents/README.md", false },
	{ "POST", R "/git/refs", false },
	{ "PATCH", R "/git/refs/heads/main", false },
	{ "DELETE", R "/git/refs/heads/main", false },
	{ "POST", R "/git/commits", false },
	{ "POST", R "/branches/main/rename", false },
	/* settings, secrets, webhooks, keys */
	{ "PATCH", R, false },
	{ "DELETE", R, false },
	{ "POST", R "/transfer", false },
	{ "PUT", R "/branches/main/protection", false },
	{ "DELETE", R "/branches/main/protection", false },
	{ "POST", R "/rulesets", false },
	{ "PUT", R "/collaborators/mallory", false },
	{ "PUT", R "/actions/secrets/TOKEN", false },
	{ "GET", R "/actions/secrets", false },
	{ "GET", R "/actions/secrets/TOKEN", false },
	{ "GET", R "/environments/prod/secrets", false },
	{ "GET", R "/hooks", false },
	{ "POST", R "/hooks", false },
	{ "PATCH", R "/hooks/1/config", false },
	{ "GET", R "/keys", false },
	{ "GET", R "/keys/", false },
	{ "POST", R "/keys", false },
	{ "PUT", R "/actions/permissions", false },
	{ "POST", R "/actions/workflows/1/dispatches", false },
	{ "POST", R "/dispatches", false },
	{ "POST", R "/releases", false },
	{ "POST", R "/deployments", false },
	{ "POST", R "/labels", false },
	{ "PATCH", R "/issues/7", false },
	{ "PATCH", R "/issues/comments/9", false },
	{ "PUT", R "/issues/7/lock", false },
	{ "POST", R "/transfer", false },
	{ "PUT", R "/pulls/7/merge.", false },
	/* what it keeps, and how it is guarded */
	{ "GET", R "/environments/prod/variables", false },
	{ "GET", R "/environments/prod/secrets", false },
	{ "GET", R "/actions/organization-variables", false },
	{ "GET", R "/actions/runners", false },
	{ "GET", R "/secret-scanning/alerts", false },
	{ "GET", R "/secret-scanning/alerts/1/locations", false },
	{ "GET", R "/code-scanning/alerts", false },
	{ "GET", R "/dependabot/alerts", false },
	{ "GET", R "/security-advisories", false },
	{ "GET", R "/environments", true },
	/* by number */
	{ "PUT", API "/repositories/7/pulls/1/merge", false },
	/* other repositories, people, organisations */
	{ "GET", API "/repos/octo/other", false },
	{ "GET", API "/repos/octo/app2/issues", false },
	{ "GET", API "/repos/octo/app/../other", false },
	{ "GET", API "/repos/octo%2Fother", false },
	{ "POST", API "/repos/octo/other/issues/1/comments", false },
	{ "GET", API "/repositories/1/issues", false },
	{ "GET", API "/search/code?q=password", false },
	{ "GET", API "/user/repos", false },
	{ "GET", API "/user/keys", false },
	{ "POST", API "/user/keys", false },
	{ "POST", API "/user/repos", false },
	{ "POST", API "/gists", false },
	{ "GET", API "/orgs/octo/members", false },
	{ "PUT", API "/orgs/octo/actions/secrets/X", false },
	{ "TRACE", R, false },
	{ "BREW", R, false },
	/* files */
	{ "GET", "https://raw.githubusercontent.com/octo/app/main/README.md", true },
	{ "GET", "https://raw.githubusercontent.com/octo/other/main/README.md", false },
	{ "GET", "https://codeload.github.com/octo/app/tar.gz/main", true },
	{ "GET", "https://github.com/octo/app/archive/main.zip", true },
	{ "GET", "https://github.com/octo/other/archive/main.zip", false },
	{ "GET", "https://github.com/settings/tokens", false },
	{ "GET", "https://uploads.github.com/repos/octo/app/releases/1/assets", false },
	{ "GET", "https://gist.github.com/x", false },
};

static const struct {
	const char *doc;
	bool triage, gh; /* allowed by github-triage alone; with github-gh beside it */
} documents[] = {
	{ "{ rateLimit { cost } }", true, true },
	{ "query { __schema { types { name } } }", true, true },
	{ "query { viewer { login } }", false, true },
	{ "query { repository(owner: \"x\", name: \"y\") { id } }", false, true },
	{ "query { search(query: \"x\", type: ISSUE) { issueCount } }", false, true },
	{ "mutation { addComment(input: {}) { clientMutationId } }", false, true },
	{ "mutation { addLabelsToLabelable(input: {}) { clientMutationId } }", false, true },
	{ "mutation { createPullRequest(input: {}) { clientMutationId } }", false, true },
	{ "mutation { mergePullRequest(input: {}) { clientMutationId } }", false, false },
	{ "mutation { ok: mergePullRequest(input: {}) { clientMutationId } }", false, false },
	{ "mutation { addComment: mergePullRequest(input: {}) { clientMutationId } }", false, false },
	{ "mutation { addComment(input: {}) { x } mergePullRequest(input: {}) { x } }", false, false },
	{ "mutation { ...F } fragment F on Mutation { mergePullRequest(input: {}) { x } }", false, false },
	{ "mutation { ... on Mutation { mergePullRequest(input: {}) { x } } }", false, false },
	{ "mutation { mergePullRequest(input: {}) @skip(if: true) { x } }", false, false },
	{ "mutation { enablePullRequestAutoMerge(input: {}) { x } }", false, false },
	{ "mutation { enqueuePullRequest(input: {}) { x } }", false, false },
	{ "mutation { mergeBranch(input: {}) { x } }", false, false },
	{ "mutation { addPullRequestReview(input: {}) { x } }", false, false },
	{ "mutation { submitPullRequestReview(input: {}) { x } }", false, false },
	{ "mutation { createCommitOnBranch(input: {}) { x } }", false, false },
	{ "mutation { updateRef(input: {}) { x } }", false, false },
	{ "mutation { deleteRef(input: {}) { x } }", false, false },
	{ "mutation { updateBranchProtectionRule(input: {}) { x } }", false, false },
	{ "mutation { deleteBranchProtectionRule(input: {}) { x } }", false, false },
	{ "mutation { updateRepository(input: {}) { x } }", false, false },
	{ "mutation { archiveRepository(input: {}) { x } }", false, false },
	{ "mutation { createDeployment(input: {}) { x } }", false, false },
	{ "mutation { addStar(input: {}) { x } }", false, false },
	{ "subscription { anything { x } }", false, false },
	{ "this is no document", false, false },
	{ "", false, false },
};

static void check_documents(const struct policy *triage, const struct policy *gh)
{
	for (size_t i = 0; i < ARRAY_SIZE(documents); i++) {
		const char *d = documents[i].doc;

		CHECKF(graphql_is(triage, API "/graphql", d,
				  documents[i].triage ? POLICY_ALLOW : POLICY_DENY),
		       "github-triage alone judges the GraphQL document '%s'", d);
		CHECKF(graphql_is(gh, API "/graphql", d, documents[i].gh ? POLICY_ALLOW : POLICY_DENY),
		       "github-triage with github-gh judges the GraphQL document '%s'", d);
	}
}

/* The endpoint by other names, and the body that was not looked at. */
static void check_endpoint(const struct policy *p)
{
	static const char merge[] = "mutation { mergePullRequest(input: {}) { x } }";
	struct policy_request r = { 0 };

	CHECK(graphql_is(p, API "/graphql/", merge, POLICY_DENY));
	CHECK(graphql_is(p, API "/GraphQL", merge, POLICY_DENY));
	CHECK(graphql_is(p, API "/x/../graphql", merge, POLICY_DENY));
	ask_request(p, "POST", API "/graphql", &r);
	CHECK(last.action == POLICY_DENY && last.need == POLICY_NEED_GRAPHQL);
	r = (struct policy_request){ 0 };
	ask_request(p, "GET", API "/graphql?query={viewer{login}}", &r);
	CHECK(last.action == POLICY_DENY && last.need == POLICY_NEED_GRAPHQL);
}

#define GIT "https://github.com/octo/app.git"

static void check_git(const struct policy *p)
{
	struct policy_request r = { 0 };
	struct policy_push two[] = { { slice_of("refs/heads/bot/x"), POLICY_PUSH_CREATE },
				     { slice_of("refs/heads/main"), POLICY_PUSH_FORCE } };
	struct policy_request both = { .push = two, .n_push = 2, .is_body_known = true };

	CHECK(request_is(p, "GET", GIT "/info/refs?service=git-upload-pack", POLICY_ALLOW));
	CHECK(request_is(p, "POST", GIT "/git-upload-pack", POLICY_ALLOW));
	CHECK(request_is(p, "GET", "https://github.com/octo/app/info/refs?service=git-upload-pack",
			 POLICY_ALLOW));
	CHECK(request_is(p, "GET", "https://github.com/octo/other/info/refs?service=git-upload-pack",
			 POLICY_DENY));
	CHECK(request_is(p, "POST", "https://github.com/octo/other.git/git-upload-pack", POLICY_DENY));
	CHECK(request_is(p, "GET", GIT "/info/refs?service=git-receive-pack", POLICY_ALLOW));
	CHECK(request_is(p, "GET", "https://github.com/octo/other.git/info/refs?service=git-receive-pack",
			 POLICY_DENY));
	CHECK(push_is(p, GIT "/git-receive-pack", "refs/heads/bot/fix", POLICY_PUSH_CREATE, POLICY_ALLOW));
	CHECK(push_is(p, GIT "/git-receive-pack", "refs/heads/bot/a/b", POLICY_PUSH_FORCE, POLICY_ALLOW));
	CHECK(push_is(p, GIT "/git-receive-pack", "refs/heads/bot/fix", POLICY_PUSH_DELETE, POLICY_ALLOW));
	CHECK(push_is(p, GIT "/git-receive-pack", "refs/heads/main", POLICY_PUSH_UPDATE, POLICY_DENY));
	CHECK(strstr(last.why, "refs/heads/main") != NULL);
	CHECK(push_is(p, GIT "/git-receive-pack", "refs/heads/bot", POLICY_PUSH_CREATE, POLICY_DENY));
	CHECK(push_is(p, GIT "/git-receive-pack", "refs/heads/BOT/x", POLICY_PUSH_CREATE, POLICY_DENY));
	CHECK(push_is(p, GIT "/git-receive-pack", "refs/tags/v1", POLICY_PUSH_CREATE, POLICY_DENY));
	CHECK(push_is(p, GIT "/git-receive-pack", "refs/pull/7/head", POLICY_PUSH_CREATE, POLICY_DENY));
	CHECK(push_is(p, "https://github.com/octo/other.git/git-receive-pack", "refs/heads/bot/x",
		      POLICY_PUSH_CREATE, POLICY_DENY));
	ask_request(p, "POST", GIT "/git-receive-pack", &both);
	CHECK(last.action == POLICY_DENY);
	ask_request(p, "POST", GIT "/git-receive-pack", &r);
	CHECK(last.action == POLICY_DENY && last.need == POLICY_NEED_PUSH);
}

static const struct act packages[] = {
	{ "GET", "https://registry.npmjs.org/left-pad", true },
	{ "GET", "https://registry.npmjs.org/@types%2Fnode", true },
	{ "GET", "https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz", true },
	{ "POST", "https://registry.npmjs.org/-/npm/v1/security/advisories/bulk", true },
	{ "PUT", "https://registry.npmjs.org/left-pad", false },
	{ "GET", "https://registry.npmjs.org/-/whoami", false },
	{ "GET", "https://registry.npmjs.org/-/npm/v1/tokens", false },
	{ "GET", "https://registry.npmjs.org/-/npm/v1/user", false },
	{ "PUT", "https://registry.npmjs.org/-/user/org.couchdb.user:x", false },
	{ "GET", "https://pypi.org/simple/requests/", true },
	{ "POST", "https://pypi.org/legacy/", false },
	{ "GET", "https://files.pythonhosted.org/packages/aa/x.whl", true },
	{ "POST", "https://upload.pypi.org/legacy/", false },
	{ "GET", "http://deb.debian.org/debian/dists/stable/InRelease", true },
	{ "POST", "http://deb.debian.org/debian/", false },
	{ "GET", "https://proxy.golang.org/golang.org/x/net/@v/list", true },
	{ "GET", "https://sum.golang.org/lookup/golang.org/x/net@v0.1.0", true },
	{ "GET", "https://storage.googleapis.com/other-bucket/x", false },
	{ "GET", "https://index.crates.io/se/rd/serde", true },
	{ "GET", "https://static.crates.io/crates/serde/1.0.0/download", true },
	{ "PUT", "https://crates.io/api/v1/crates/new", false },
	{ "POST", "https://api.openai.com/v1/responses", true },
	{ "POST", "https://api.anthropic.com/v1/messages", true },
	{ "POST", "https://openrouter.ai/api/v1/chat/completions", true },
	{ "GET", "https://openrouter.ai/settings/keys", false },
	{ "POST", "https://generativelanguage.googleapis.com/v1beta/models/x:generateContent", true },
	{ "POST", "http://ollama:11434/api/chat", true },
	{ "POST", "http://ollama:11434/v1/chat/completions", true },
	{ "POST", "http://ollama:11434/api/pull", false },
	{ "DELETE", "http://ollama:11434/api/delete", false },
	{ "POST", "https://slack.com/api/chat.postMessage", true },
	{ "POST", "https://slack.com/api/admin.users.invite", false },
	{ "GET", "https://hooks.slack.com/services/x", false },
	{ "POST", "https://api.telegram.org/bot1:abc/sendMessage", true },
	{ "GET", "https://api.telegram.org/file/bot1:abc/photos/1.jpg", true },
	{ "POST", "https://api.telegram.org/bot1:abc/logOut", false },
	{ "GET", "https://api.telegram.org/elsewhere", false },
	{ "POST", "https://console.anthropic.com/v1/oauth/token", true },
	{ "GET", "https://console.anthropic.com/v1/oauth/token", false },
	{ "POST", "https://platform.claude.com/v1/oauth/token", true },
	{ "POST", "https://platform.claude.com/v1/other", false },
	{ "POST", "https://auth.openai.com/oauth/token", true },
	{ "POST", "https://auth.openai.com/oauth/revoke", false },
	{ "POST", "https://chatgpt.com/backend-api/codex/responses", true },
	{ "GET", "https://chatgpt.com/", false },
	{ "POST", "https://oauth2.googleapis.com/token", true },
	{ "POST", "https://oauth2.googleapis.com/revoke", false },
	{ "GET", "https://www.googleapis.com/oauth2/v2/userinfo", true },
	{ "GET", "https://www.googleapis.com/drive/v3/files", false },
	{ "GET", "https://matrix.example.com/_matrix/client/v3/sync", true },
	{ "PUT", "https://matrix.example.com/_matrix/client/v3/rooms/x/send/m.room.message/1", true },
	{ "POST", "https://matrix.example.com/_matrix/client/v3/account/deactivate", false },
	{ "GET", "https://matrix.example.com/_matrix/federation/v1/version", false },
	{ "GET", "https://matrix.example.com/_synapse/admin/v1/users", false },
};

static void check_read(void)
{
	struct policy *p = policy_of("presets: [github-read]\n");

	CHECK(request_is(p, "GET", "https://api.github.com/repos/any/thing", POLICY_ALLOW));
	CHECK(request_is(p, "POST", "https://api.github.com/repos/any/thing/issues", POLICY_DENY));
	CHECK(request_is(p, "GET", "https://github.com/a/b.git/info/refs?service=git-upload-pack",
			 POLICY_ALLOW));
	CHECK(request_is(p, "POST", "https://github.com/a/b.git/git-upload-pack", POLICY_ALLOW));
	/* "GET everything" would let this in, were it not git's. */
	CHECK(request_is(p, "GET", "https://github.com/a/b.git/info/refs?service=git-receive-pack",
			 POLICY_DENY));
	CHECK(push_is(p, "https://github.com/a/b.git/git-receive-pack", "refs/heads/x", POLICY_PUSH_CREATE,
		      POLICY_DENY));
	CHECK(graphql_is(p, API "/graphql", "{ viewer { login } }", POLICY_ALLOW));
	CHECK(graphql_is(p, API "/graphql", "mutation { addComment(input: {}) { x } }", POLICY_DENY));
	policy_free(p);
}

int main(void)
{
	struct policy *triage = policy_of("presets: [{github-triage: {repos: [octo/app, octo/lib]}}]\n");
	struct policy *gh = policy_of("presets: [github-gh, {github-triage: {repos: octo/app}}]\n");
	struct policy *all = policy_of(
		"presets: [npm, pypi, debian, go, crates, openai, anthropic, openrouter, gemini,\n"
		"  ollama, slack, telegram, claude-key, claude-login, codex-login, gemini-login, {matrix: {homeserver: matrix.example.com}}]\n");

	check_acts(triage, rest, ARRAY_SIZE(rest));
	check_acts(gh, rest, ARRAY_SIZE(rest));
	check_documents(triage, gh);
	check_endpoint(triage);
	check_endpoint(gh);
	check_git(triage);
	check_acts(all, packages, ARRAY_SIZE(packages));
	check_read();
	for (size_t i = 0; i < n_presets; i++) {
		CLEANUP(buf_release) struct buf about = BUF_INIT, params = BUF_INIT;
		unsigned version = 0;

		CHECKF(preset_about(&presets[i], &version, &about, &params, NULL) == 0 && version > 0 &&
			       about.len,
		       "preset %s has a version and a description", presets[i].name);
	}
	policy_free(triage);
	policy_free(gh);
	policy_free(all);
	return tap_done();
}
