/* SPDX-License-Identifier: Apache-2.0 */
/* The table of well-known secrets and their variables (envname.h). Pure. */

#include "vault/common/envname.h"

#include "base/cleanup.h"
#include "base/str.h"

static const struct {
	const char *name, *variable;
} known[] = {
	{ "anthropic", "ANTHROPIC_API_KEY" }, { "deepseek", "DEEPSEEK_API_KEY" },
	{ "gemini", "GEMINI_API_KEY" },	      { "github", "GITHUB_TOKEN" },
	{ "gitlab", "GITLAB_TOKEN" },	      { "google", "GOOGLE_API_KEY" },
	{ "groq", "GROQ_API_KEY" },	      { "huggingface", "HF_TOKEN" },
	{ "mistral", "MISTRAL_API_KEY" },     { "npm", "NPM_TOKEN" },
	{ "openai", "OPENAI_API_KEY" },	      { "openrouter", "OPENROUTER_API_KEY" },
	{ "pypi", "TWINE_PASSWORD" },	      { "slack", "SLACK_BOT_TOKEN" },
	{ "telegram", "TELEGRAM_BOT_TOKEN" }, { "xai", "XAI_API_KEY" },
};

const char *envname_variable(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (str_eq(name, known[i].name))
			return known[i].variable;
	}
	return NULL;
}

const char *envname_secret(const char *variable)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (str_eq(variable, known[i].variable))
			return known[i].name;
	}
	return NULL;
}
