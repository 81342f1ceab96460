/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of names that usually hold credentials, and the look at a file's content where the name is only a suspicion
 * (secret.h). A file that cannot be read counts as holding some.
 */
#include "workspace/view/secret.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>

enum how { EXACT, PREFIX, SUFFIX };

/* The content that a file must have for its name to count. */
enum look {
	LOOK_NONE,	  /* the name is enough */
	LOOK_PRIVATE_KEY, /* PEM and SSH keys: certificates and public keys have the same names */
	LOOK_NPM,	  /* package registries: most of these files only name one */
	LOOK_URL,	  /* user:password@ in an address */
	LOOK_JSON_KEY,	  /* cloud service accounts */
	LOOK_COMPOSER,	  /* auth.json of Composer: others use that name for texts */
	LOOK_ASSIGNED, /* a value for a name such as DB_PASSWORD, or LOOK_URL: settings that often hold none */
	LOOK_COUNT
};

enum what_kind { IS_FILE = 1, IS_DIR = 2, IS_ANY = 3 };

struct secret_rule {
	const char *name;
	const char *parent; /* name of its directory, NULL: any */
	enum how how;
	enum what_kind kind;
	enum look look;
	const char *what;
};

#define KEY "a private key"
#define CLOUD "cloud credentials"
#define PASSWORDS "passwords"
#define TOKEN "an access token"
#define ENVIRONMENT "credentials in environment variables"
#define HISTORY "typed commands, with the passwords in them"

/* Rules with the same first letter are adjacent; suffixes are in a table of their own. */
static const struct secret_rule rules[] = {
	{ ".authinfo", NULL, PREFIX, IS_FILE, LOOK_NONE, PASSWORDS },
	{ ".aws", NULL, EXACT, IS_DIR, LOOK_NONE, CLOUD },
	{ ".azure", NULL, EXACT, IS_DIR, LOOK_NONE, CLOUD },
	{ ".bash_history", NULL, EXACT, IS_FILE, LOOK_NONE, HISTORY },
	{ ".boto", NULL, EXACT, IS_FILE, LOOK_NONE, CLOUD },
	{ ".clasprc.json", NULL, EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ ".credentials.json", NULL, EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ ".databrickscfg", NULL, EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ ".dev.vars", NULL, PREFIX, IS_FILE, LOOK_NONE, ENVIRONMENT },
	{ ".dockercfg", NULL, EXACT, IS_FILE, LOOK_NONE, PASSWORDS },
	{ ".env", NULL, PREFIX, IS_FILE, LOOK_NONE, ENVIRONMENT },
	{ ".git-credentials", NULL, EXACT, IS_FILE, LOOK_NONE, PASSWORDS },
	{ ".gnupg", NULL, EXACT, IS_DIR, LOOK_NONE, KEY },
	{ ".htpasswd", NULL, EXACT, IS_FILE, LOOK_NONE, PASSWORDS },
	{ ".kube", NULL, EXACT, IS_DIR, LOOK_NONE, CLOUD },
	{ ".my.cnf", NULL, EXACT, IS_FILE, LOOK_NONE, PASSWORDS },
	{ ".mylogin.cnf", NULL, EXACT, IS_FILE, LOOK_NONE, PASSWORDS },
	{ ".mysql_history", NULL, EXACT, IS_FILE, LOOK_NONE, HISTORY },
	{ ".netrc", NULL, EXACT, IS_FILE, LOOK_NONE, PASSWORDS },
	{ ".node_repl_history", NULL, EXACT, IS_FILE, LOOK_NONE, HISTORY },
	{ ".npmrc", NULL, EXACT, IS_FILE, LOOK_NPM, TOKEN },
	{ ".oci", NULL, EXACT, IS_DIR, LOOK_NONE, CLOUD },
	{ ".password-store", NULL, EXACT, IS_DIR, LOOK_NONE, PASSWORDS },
	{ ".pgpass", NULL, EXACT, IS_FILE, LOOK_NONE, PASSWORDS },
	{ ".psql_history", NULL, EXACT, IS_FILE, LOOK_NONE, HISTORY },
	{ ".pypirc", NULL, EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ ".python_history", NULL, EXACT, IS_FILE, LOOK_NONE, HISTORY },
	{ ".rediscli_history", NULL, EXACT, IS_FILE, LOOK_NONE, HISTORY },
	{ ".s3cfg", NULL, EXACT, IS_FILE, LOOK_NONE, CLOUD },
	{ ".sentryclirc", NULL, EXACT, IS_FILE, LOOK_ASSIGNED, TOKEN },
	{ ".sh_history", NULL, EXACT, IS_FILE, LOOK_NONE, HISTORY },
	{ ".snowsql", NULL, EXACT, IS_DIR, LOOK_NONE, PASSWORDS },
	{ ".ssh", NULL, EXACT, IS_DIR, LOOK_NONE, "SSH keys" },
	{ ".terraformrc", NULL, EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ ".vault-token", NULL, EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ ".vault_pass", NULL, PREFIX, IS_FILE, LOOK_NONE, PASSWORDS },
	{ ".yarnrc", NULL, EXACT, IS_FILE, LOOK_NPM, TOKEN },
	{ ".yarnrc.yml", NULL, EXACT, IS_FILE, LOOK_NPM, TOKEN },
	{ ".zhistory", NULL, EXACT, IS_FILE, LOOK_NONE, HISTORY },
	{ ".zsh_history", NULL, EXACT, IS_FILE, LOOK_NONE, HISTORY },
	{ "_netrc", NULL, EXACT, IS_FILE, LOOK_NONE, PASSWORDS },
	{ "access_tokens.db", "gcloud", EXACT, IS_FILE, LOOK_NONE, CLOUD },
	{ "access-token", ".supabase", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "application_default_credentials.json", NULL, EXACT, IS_FILE, LOOK_NONE, CLOUD },
	{ "auth.json", ".codex", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "auth.json", ".composer", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "auth.json", ".opencode", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "auth.json", "opencode", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "auth.json", NULL, EXACT, IS_FILE, LOOK_COMPOSER, TOKEN },
	{ "client_secret", NULL, PREFIX, IS_FILE, LOOK_NONE, CLOUD },
	{ "config.json", ".docker", EXACT, IS_FILE, LOOK_NONE, PASSWORDS },
	{ "configuration.toml", ".argocd", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "credentials", ".cargo", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "credentials", ".gem", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "credentials.json", ".pulumi", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "credentials.json", NULL, EXACT, IS_FILE, LOOK_JSON_KEY, CLOUD },
	{ "credentials.tfrc.json", NULL, EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "credentials.toml", ".cargo", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "firebase-adminsdk", NULL, PREFIX, IS_FILE, LOOK_NONE, CLOUD },
	{ "fish_history", NULL, EXACT, IS_FILE, LOOK_NONE, HISTORY },
	{ "gcloud", ".config", EXACT, IS_DIR, LOOK_NONE, CLOUD },
	{ "hgrc", ".hg", EXACT, IS_FILE, LOOK_ASSIGNED, PASSWORDS },
	{ "hosts.json", "github-copilot", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "hosts.yml", "gh", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "id_dsa", NULL, EXACT, IS_FILE, LOOK_NONE, "an SSH key" },
	{ "id_dsa", NULL, PREFIX, IS_FILE, LOOK_PRIVATE_KEY, "an SSH key" },
	{ "id_ecdsa", NULL, EXACT, IS_FILE, LOOK_NONE, "an SSH key" },
	{ "id_ecdsa", NULL, PREFIX, IS_FILE, LOOK_PRIVATE_KEY, "an SSH key" },
	{ "id_ed25519", NULL, EXACT, IS_FILE, LOOK_NONE, "an SSH key" },
	{ "id_ed25519", NULL, PREFIX, IS_FILE, LOOK_PRIVATE_KEY, "an SSH key" },
	{ "id_rsa", NULL, EXACT, IS_FILE, LOOK_NONE, "an SSH key" },
	{ "id_rsa", NULL, PREFIX, IS_FILE, LOOK_PRIVATE_KEY, "an SSH key" },
	{ "kaggle.json", NULL, EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "keyrings", "share", EXACT, IS_DIR, LOOK_NONE, PASSWORDS },
	{ "kubeconfig", NULL, PREFIX, IS_FILE, LOOK_NONE, CLOUD },
	{ "master.key", "config", EXACT, IS_FILE, LOOK_NONE, KEY },
	{ "oauth_creds.json", ".gemini", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "pip.conf", NULL, EXACT, IS_FILE, LOOK_URL, PASSWORDS },
	{ "rclone.conf", NULL, EXACT, IS_FILE, LOOK_NONE, CLOUD },
	{ "secrets.toml", ".streamlit", EXACT, IS_FILE, LOOK_NONE, PASSWORDS },
	{ "service-account", NULL, PREFIX, IS_FILE, LOOK_JSON_KEY, CLOUD },
	{ "service_account", NULL, PREFIX, IS_FILE, LOOK_JSON_KEY, CLOUD },
	{ "serviceaccount", NULL, PREFIX, IS_FILE, LOOK_JSON_KEY, CLOUD },
	{ "settings.local.json", ".claude", EXACT, IS_FILE, LOOK_ASSIGNED, TOKEN },
	{ "settings.xml", ".m2", EXACT, IS_FILE, LOOK_NONE, PASSWORDS },
	{ "terraform.tfstate", NULL, PREFIX, IS_FILE, LOOK_NONE, CLOUD },
	{ "token", ".huggingface", EXACT, IS_FILE, LOOK_NONE, TOKEN },
	{ "token", "huggingface", EXACT, IS_FILE, LOOK_NONE, TOKEN },
};

static const struct secret_rule suffixes[] = {
	{ ".env", NULL, SUFFIX, IS_FILE, LOOK_ASSIGNED, ENVIRONMENT },
	{ ".jks", NULL, SUFFIX, IS_FILE, LOOK_NONE, KEY },
	{ ".kdbx", NULL, SUFFIX, IS_FILE, LOOK_NONE, PASSWORDS },
	{ ".key", NULL, SUFFIX, IS_FILE, LOOK_PRIVATE_KEY, KEY },
	{ ".keystore", NULL, SUFFIX, IS_FILE, LOOK_NONE, KEY },
	{ ".ovpn", NULL, SUFFIX, IS_FILE, LOOK_PRIVATE_KEY, KEY },
	{ ".p12", NULL, SUFFIX, IS_FILE, LOOK_NONE, KEY },
	{ ".p8", NULL, SUFFIX, IS_FILE, LOOK_PRIVATE_KEY, KEY },
	{ ".pem", NULL, SUFFIX, IS_FILE, LOOK_PRIVATE_KEY, KEY },
	{ ".pfx", NULL, SUFFIX, IS_FILE, LOOK_NONE, KEY },
	{ ".ppk", NULL, SUFFIX, IS_FILE, LOOK_NONE, KEY },
	{ ".tfstate", NULL, SUFFIX, IS_FILE, LOOK_NONE, CLOUD },
	{ ".tfvars", NULL, SUFFIX, IS_FILE, LOOK_ASSIGNED, CLOUD },
};

/* Files of environment variables that are made to be shown. */
static const char *const env_examples[] = { "example", "sample",   "template", "tmpl",
					    "dist",    "defaults", "schema" };

/* First and last rule for each first letter, and the letters that suffixes end with. */
static struct {
	bool ready;
	unsigned char first[256], end[256];
	bool last[256];
} at;

static unsigned char ascii_tolower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static void index_secret_rules(void)
{
	static_assert(ARRAY_SIZE(rules) < 256, "places of rules fit a byte");

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		unsigned char c = (unsigned char)rules[i].name[0];

		BUG_ON(at.end[c] && at.end[c] != i);
		if (!at.end[c])
			at.first[c] = (unsigned char)i;
		at.end[c] = (unsigned char)(i + 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		at.last[(unsigned char)suffixes[i].name[strlen(suffixes[i].name) - 1]] = true;
	at.ready = true;
}

static bool has_suffix_nocase(const char *s, size_t len, const char *suffix)
{
	size_t n = strlen(suffix);

	return len >= n && strcasecmp(s + len - n, suffix) == 0;
}

/* "example.env" is an example as ".env.example" is. */
static bool is_shown_anyway(const char *name, size_t len)
{
	bool env = strncasecmp(name, ".env", 4) == 0 || strncasecmp(name, ".dev.vars", 9) == 0;

	if (has_suffix_nocase(name, len, ".pub"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(env_examples); i++) {
		char word[32];

		if (env && has_suffix_nocase(name, len, env_examples[i]))
			return true;
		snprintf(word, sizeof(word), "%s.env", env_examples[i]);
		if (has_suffix_nocase(name, len, word))
			return true;
	}
	return false;
}

static bool secret_rule_matches(const struct secret_rule *r, const char *parent, const char *name, size_t len,
				bool is_dir)
{
	if (!(r->kind & (is_dir ? IS_DIR : IS_FILE)))
		return false;
	if (r->how == EXACT && strcasecmp(name, r->name) != 0)
		return false;
	if (r->how == PREFIX && strncasecmp(name, r->name, strlen(r->name)) != 0)
		return false;
	if (r->how == SUFFIX && !(len > strlen(r->name) && has_suffix_nocase(name, len, r->name)))
		return false;
	return !r->parent || strcasecmp(parent, r->parent) == 0;
}

const struct secret_rule *secret_match(const char *parent, const char *name, bool is_dir)
{
	const struct secret_rule *found = NULL;
	unsigned char c = ascii_tolower(name[0]);
	size_t len;

	if (!at.ready)
		index_secret_rules();
	for (size_t i = at.first[c]; i < at.end[c] && !found; i++) {
		/* The second letter rules out most names. */
		if (ascii_tolower(name[1]) != (unsigned char)rules[i].name[1])
			continue;
		if (secret_rule_matches(&rules[i], parent, name, strlen(name), is_dir))
			found = &rules[i];
	}
	len = strlen(name);
	for (size_t i = 0; i < ARRAY_SIZE(suffixes) && !found && at.last[ascii_tolower(name[len - 1])]; i++) {
		if (secret_rule_matches(&suffixes[i], parent, name, len, is_dir))
			found = &suffixes[i];
	}
	return found && is_shown_anyway(name, len) ? NULL : found;
}

bool secret_needs_look(const struct secret_rule *r)
{
	return r->look != LOOK_NONE;
}

const char *secret_what(const struct secret_rule *r)
{
	return r->what;
}

#define LOOK_MAX 65536
#define VALUE_MIN 6 /* shorter values are "true" and the like */
#define KEY_MAX 128

static bool content_has_word(const struct buf *b, const char *word)
{
	return memmem(buf_cstr(b), b->len, word, strlen(word)) != NULL;
}

/* "://user:password@" */
static bool has_url_password(const struct buf *b)
{
	const char *p = buf_cstr(b), *end = p + b->len;

	while ((p = memmem(p, (size_t)(end - p), "://", 3))) {
		p += 3;
		for (; p < end && !strchr("/?# \t\r\n", *p); p++) {
			if (*p == '@')
				return true;
		}
	}
	return false;
}

static bool is_key_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("_.-", c));
}

static bool names_credential(const char *key, size_t len)
{
	static const char *const words[] = { "secret",	   "token",	"passw",       "api_key",
					     "apikey",	   "api-key",	"private_key", "privatekey",
					     "access_key", "credential" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		for (size_t k = 0; k + strlen(words[i]) <= len; k++) {
			if (strncasecmp(key + k, words[i], strlen(words[i])) == 0)
				return true;
		}
	}
	return false;
}

/* Is there a value of some length on the rest of a line? A reference to another variable is none. */
static bool has_value(const char *p, const char *end)
{
	size_t n = 0;

	while (p < end && *p && strchr(" \t\"'", *p))
		p++;
	if (p < end && *p == '$')
		return false;
	while (p + n < end && p[n] && !strchr(" \t\r\n\"',", p[n]))
		n++;
	return n >= VALUE_MIN;
}

/* KEY=value, key = "value", "key": "value" */
static bool has_assigned_credential(const struct buf *b)
{
	const char *start = buf_cstr(b), *end = start + b->len;

	for (const char *p = start; p < end; p++) {
		const char *key_end = p, *key;

		if (*p != '=' && *p != ':')
			continue;
		while (key_end > start && key_end[-1] && strchr(" \t\"'", key_end[-1]))
			key_end--;
		key = key_end;
		while (key > start && key_end - key < KEY_MAX && is_key_char(key[-1]))
			key--;
		if (names_credential(key, (size_t)(key_end - key)) && has_value(p + 1, end))
			return true;
	}
	return false;
}

bool secret_look(const struct secret_rule *r, int dirfd, const char *name)
{
	autobuf struct buf b = BUF_INIT;
	autoclose int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int err = fd < 0 ? -errno : fd_read_all(fd, LOOK_MAX, &b);

	if (err < 0 && err != -EFBIG)
		return true;
	switch (r->look) {
	case LOOK_PRIVATE_KEY:
		return content_has_word(&b, "PRIVATE KEY");
	case LOOK_NPM:
		return content_has_word(&b, "_auth") || content_has_word(&b, "_password") ||
		       content_has_word(&b, "npmAuth") || has_url_password(&b);
	case LOOK_URL:
		return has_url_password(&b);
	case LOOK_JSON_KEY:
		return content_has_word(&b, "private_key") || content_has_word(&b, "client_secret") ||
		       content_has_word(&b, "refresh_token");
	case LOOK_COMPOSER:
		return content_has_word(&b, "\"http-basic\"") || content_has_word(&b, "\"github-oauth\"") ||
		       content_has_word(&b, "\"gitlab-") || content_has_word(&b, "\"bitbucket-oauth\"") ||
		       content_has_word(&b, "\"bearer\"");
	case LOOK_ASSIGNED:
		return has_url_password(&b) || has_assigned_credential(&b);
	default:
		return true;
	}
}

size_t secret_match_path(const char *path, bool is_dir, const struct secret_rule **ret_rule)
{
	char parent[256] = "", name[256];
	const char *p = path;

	for (;;) {
		size_t len = strcspn(p, "/");
		const struct secret_rule *r;

		if (len == 0 || len >= sizeof(name))
			return 0;
		memcpy(name, p, len);
		name[len] = '\0';
		r = secret_match(parent, name, p[len] == '/' || is_dir);
		if (r) {
			*ret_rule = r;
			return (size_t)(p - path) + len;
		}
		if (!p[len])
			return 0;
		memcpy(parent, name, len + 1);
		p += len + 1;
	}
}
