/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prefixes and formats of well-known credentials (shape.h): recognising them, finding them in text, and
 * placeholders that look like them. Pure; a placeholder is random but for a public prefix (shape.S1).
 */

#include "vault/common/shape_int.h"

#include "base/cleanup.h"
#include "crypto/secmem.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

/* The characters that may follow the prefix. */
enum body {
	BODY_ALNUM,
	BODY_WORD,  /* also _ and - */
	BODY_DOTS,  /* also . */
	BODY_UPPER, /* capitals and digits only */
	BODY_HEX,
};

struct known {
	struct shape shape;
	enum body body;
	size_t least; /* characters after the prefix */
};

#define GITHUB "a GitHub token", "GITHUB_TOKEN", "api.github.com"
#define OPENAI "an OpenAI key", "OPENAI_API_KEY", "api.openai.com"
#define ANTHROPIC "an Anthropic key", "ANTHROPIC_API_KEY", "api.anthropic.com"
#define SLACK(env) "a Slack token", env, "slack.com"

static const struct known known[] = {
	{ { "AGE-SECRET-KEY-1", "an age key", NULL, NULL }, BODY_UPPER, 40 },
	{ { "AIza", "a Google API key", "GEMINI_API_KEY", "generativelanguage.googleapis.com" },
	  BODY_WORD,
	  35 },
	{ { "AKIA", "an AWS access key", "AWS_ACCESS_KEY_ID", NULL }, BODY_UPPER, 16 },
	{ { "ASIA", "an AWS access key", "AWS_ACCESS_KEY_ID", NULL }, BODY_UPPER, 16 },
	{ { "ATATT3", "an Atlassian token", NULL, NULL }, BODY_DOTS, 40 },
	{ { "GOCSPX-", "a Google OAuth secret", NULL, NULL }, BODY_WORD, 24 },
	{ { "SG.", "a SendGrid key", "SENDGRID_API_KEY", "api.sendgrid.com" }, BODY_DOTS, 40 },
	{ { "dapi", "a Databricks token", "DATABRICKS_TOKEN", NULL }, BODY_HEX, 32 },
	{ { "dckr_pat_", "a Docker token", "DOCKER_TOKEN", "hub.docker.com" }, BODY_WORD, 20 },
	{ { "dop_v1_", "a DigitalOcean token", "DIGITALOCEAN_TOKEN", "api.digitalocean.com" }, BODY_HEX, 40 },
	{ { "figd_", "a Figma token", "FIGMA_TOKEN", "api.figma.com" }, BODY_WORD, 30 },
	{ { "ghp_", GITHUB }, BODY_ALNUM, 30 },
	{ { "gho_", GITHUB }, BODY_ALNUM, 30 },
	{ { "ghu_", GITHUB }, BODY_ALNUM, 30 },
	{ { "ghs_", GITHUB }, BODY_ALNUM, 30 },
	{ { "ghr_", GITHUB }, BODY_ALNUM, 30 },
	{ { "github_pat_", GITHUB }, BODY_WORD, 36 },
	{ { "glcbt-", "a GitLab job's token", "CI_JOB_TOKEN", "gitlab.com" }, BODY_WORD, 20 },
	{ { "glpat-", "a GitLab token", "GITLAB_TOKEN", "gitlab.com" }, BODY_DOTS, 20 },
	{ { "gsk_", "a Groq key", "GROQ_API_KEY", "api.groq.com" }, BODY_ALNUM, 40 },
	{ { "hf_", "a Hugging Face token", "HF_TOKEN", "huggingface.co" }, BODY_ALNUM, 30 },
	{ { "hvb.", "a HashiCorp Vault token", "VAULT_TOKEN", NULL }, BODY_WORD, 24 },
	{ { "hvs.", "a HashiCorp Vault token", "VAULT_TOKEN", NULL }, BODY_WORD, 24 },
	{ { "lin_api_", "a Linear key", "LINEAR_API_KEY", "api.linear.app" }, BODY_ALNUM, 32 },
	{ { "npm_", "an npm token", "NPM_TOKEN", "registry.npmjs.org" }, BODY_ALNUM, 30 },
	{ { "ntn_", "a Notion token", "NOTION_TOKEN", "api.notion.com" }, BODY_ALNUM, 30 },
	{ { "nvapi-", "an NVIDIA key", "NVIDIA_API_KEY", "integrate.api.nvidia.com" }, BODY_WORD, 40 },
	{ { "pplx-", "a Perplexity key", "PERPLEXITY_API_KEY", "api.perplexity.ai" }, BODY_ALNUM, 32 },
	{ { "pypi-AgEIcHlwaS5vcmc", "a PyPI token", "TWINE_PASSWORD", "upload.pypi.org" }, BODY_WORD, 40 },
	{ { "r8_", "a Replicate token", "REPLICATE_API_TOKEN", "api.replicate.com" }, BODY_ALNUM, 30 },
	{ { "rk_live_", "a Stripe key", "STRIPE_API_KEY", "api.stripe.com" }, BODY_ALNUM, 20 },
	{ { "shpat_", "a Shopify token", NULL, NULL }, BODY_HEX, 32 },
	{ { "sk-", OPENAI }, BODY_WORD, 32 },
	{ { "sk-ant-", ANTHROPIC }, BODY_WORD, 32 },
	{ { "sk-ant-api03-", ANTHROPIC }, BODY_WORD, 32 },
	{ { "sk-ant-oat01-", "a Claude token", "CLAUDE_CODE_OAUTH_TOKEN", "api.anthropic.com" },
	  BODY_WORD,
	  32 },
	{ { "sk-or-v1-", "an OpenRouter key", "OPENROUTER_API_KEY", "openrouter.ai" }, BODY_HEX, 40 },
	{ { "sk-proj-", OPENAI }, BODY_WORD, 32 },
	{ { "sk-svcacct-", OPENAI }, BODY_WORD, 32 },
	{ { "sk_live_", "a Stripe key", "STRIPE_API_KEY", "api.stripe.com" }, BODY_ALNUM, 20 },
	{ { "sntrys_", "a Sentry token", "SENTRY_AUTH_TOKEN", "sentry.io" }, BODY_WORD, 40 },
	{ { "tskey-", "a Tailscale key", NULL, "api.tailscale.com" }, BODY_WORD, 20 },
	{ { "tvly-", "a Tavily key", "TAVILY_API_KEY", "api.tavily.com" }, BODY_WORD, 24 },
	{ { "whsec_", "a webhook's secret", NULL, NULL }, BODY_ALNUM, 24 },
	{ { "xai-", "an xAI key", "XAI_API_KEY", "api.x.ai" }, BODY_ALNUM, 40 },
	{ { "xapp-", SLACK("SLACK_APP_TOKEN") }, BODY_WORD, 24 },
	{ { "xoxb-", SLACK("SLACK_BOT_TOKEN") }, BODY_WORD, 24 },
	{ { "xoxe-", SLACK(NULL) }, BODY_WORD, 24 },
	{ { "xoxp-", SLACK("SLACK_USER_TOKEN") }, BODY_WORD, 24 },
	{ { "ya29.", "a Google access token", NULL, NULL }, BODY_DOTS, 30 },
};

static const struct shape telegram = { NULL, "a Telegram bot's token", "TELEGRAM_BOT_TOKEN",
				       "api.telegram.org" };
static const struct shape jwt = { NULL, "a signed token (JWT)", NULL, NULL };
static const struct shape private_key = { NULL, "a private key", NULL, NULL };

#define TELEGRAM_DIGITS_MIN 8
#define TELEGRAM_DIGITS_MAX 10
#define TELEGRAM_TAIL 35

static bool is_ascii_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_ascii_alnum(char c)
{
	return is_ascii_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_body_char(enum body b, char c)
{
	switch (b) {
	case BODY_HEX:
		return is_ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
	case BODY_UPPER:
		return is_ascii_digit(c) || (c >= 'A' && c <= 'Z');
	case BODY_DOTS:
		return is_ascii_alnum(c) || c == '_' || c == '-' || c == '.' || c == '=';
	case BODY_WORD:
		return is_ascii_alnum(c) || c == '_' || c == '-';
	case BODY_ALNUM:
		break;
	}
	return is_ascii_alnum(c);
}

/* The longest prefix in the table that the text begins with. */
static const struct known *known_prefix_at(const char *s, size_t len)
{
	const struct known *best = NULL;
	size_t best_len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		const char *prefix = known[i].shape.prefix;
		size_t n = strlen(prefix);

		if (n > best_len && n <= len && memcmp(s, prefix, n) == 0) {
			best = &known[i];
			best_len = n;
		}
	}
	return best;
}

static size_t body_span(enum body b, const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && n < SHAPE_FIND_MAX && is_body_char(b, s[n]))
		n++;
	return n;
}

/* The number of digits before the colon of a Telegram token; 0 if it is not one. */
static size_t telegram_digits_at(const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && n <= TELEGRAM_DIGITS_MAX && is_ascii_digit(s[n]))
		n++;
	if (n < TELEGRAM_DIGITS_MIN || n > TELEGRAM_DIGITS_MAX || len < n + 1 + TELEGRAM_TAIL || s[n] != ':')
		return 0;
	return body_span(BODY_WORD, s + n + 1, len - n - 1) == TELEGRAM_TAIL ? n : 0;
}

/* The length of a JSON Web Token: three base64url parts, the first two of which begin like JSON objects; 0:
 * none. */
static size_t jwt_at(const char *s, size_t len)
{
	size_t n = 0;

	if (len < 3 || memcmp(s, "eyJ", 3) != 0)
		return 0;
	for (unsigned part = 0; part < 3; part++) {
		size_t k = body_span(BODY_WORD, s + n, len - n);

		if (k < 16 || (part == 1 && memcmp(s + n, "eyJ", 3) != 0))
			return 0;
		n += k;
		if (part < 2 && (n >= len || s[n++] != '.'))
			return 0;
	}
	return n;
}

static size_t private_key_at(const char *s, size_t len)
{
	static const char begin[] = "-----BEGIN ", end[] = "PRIVATE KEY";
	size_t line = 0;

	if (len < sizeof(begin) - 1 || memcmp(s, begin, sizeof(begin) - 1) != 0)
		return 0;
	while (line < len && line < 80 && s[line] != '\n' && s[line] != '\\')
		line++;
	return memmem(s, line, end, sizeof(end) - 1) ? line : 0;
}

const struct shape *shape_of(const char *value, size_t len)
{
	const struct known *k = known_prefix_at(value, len);

	if (k)
		return &k->shape;
	if (telegram_digits_at(value, len) && len <= TELEGRAM_DIGITS_MAX + 1 + TELEGRAM_TAIL)
		return &telegram;
	if (jwt_at(value, len))
		return &jwt;
	return private_key_at(value, len) ? &private_key : NULL;
}

/* Uniform random numbers from a seed. */
struct dice {
	const uint8_t *seed;
	uint8_t block[64];
	uint32_t counter;
	size_t used;
};

/* A uniform number below `below`: bytes from the incomplete last range are skipped, so that none is more
 * likely. */
static unsigned dice_roll(struct dice *d, unsigned below)
{
	static const uint8_t zeros[sizeof(d->block)];
	static const uint8_t nonce[crypto_stream_chacha20_ietf_NONCEBYTES];
	unsigned limit = 256 - 256 % below;
	uint8_t b;

	static_assert(SHAPE_SEED_LEN == crypto_stream_chacha20_ietf_KEYBYTES, "a seed is a key");
	do {
		if (d->used == sizeof(d->block)) {
			crypto_stream_chacha20_ietf_xor_ic(d->block, zeros, sizeof(zeros), nonce,
							   d->counter++, d->seed);
			d->used = 0;
		}
		b = d->block[d->used++];
	} while (b >= limit);
	return b % below;
}

/* The characters to choose from: the classes that the secret uses; only letters up to f if it has no
 * others. */
static size_t choose_alphabet(const char *s, size_t len, char out[63])
{
	bool digit = false, lower = false, upper = false, beyond = false;
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = s[i];

		digit |= is_ascii_digit(c);
		lower |= c >= 'a' && c <= 'z';
		upper |= c >= 'A' && c <= 'Z';
		beyond |= (c > 'f' && c <= 'z') || (c > 'F' && c <= 'Z');
	}
	/* A short secret may consist of hex digits by chance. */
	beyond |= len < SHAPE_RANDOM_MIN || (lower && upper);
	for (int c = '0'; digit && c <= '9'; c++)
		out[n++] = (char)c;
	for (int c = 'a'; lower && c <= (beyond ? 'z' : 'f'); c++)
		out[n++] = (char)c;
	for (int c = 'A'; upper && c <= (beyond ? 'Z' : 'F'); c++)
		out[n++] = (char)c;
	if (n >= 10) {
		out[n] = '\0';
		return n;
	}
	memcpy(out, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 63);
	return 62;
}

static bool is_uuid(const char *s, size_t len)
{
	for (size_t i = 0; i < len && len == 36; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' : !is_body_char(BODY_HEX, s[i]))
			return false;
	}
	return len == 36;
}

static size_t larger_of(size_t a, size_t b)
{
	return a > b ? a : b;
}

size_t shape_prefix(const char *value, size_t len)
{
	const struct known *k = known_prefix_at(value, len);
	size_t digits = k ? 0 : telegram_digits_at(value, len);

	return k ? strlen(k->shape.prefix) : digits ? digits + 1 : 0;
}

size_t shape_placeholder(const void *secret, size_t len, const uint8_t seed[SHAPE_SEED_LEN],
			 char out[SHAPE_MAX + 1])
{
	const char *s = secret;
	size_t prefix = shape_prefix(s, len), digits = telegram_digits_at(s, len);
	size_t n = larger_of(larger_of(len, SHAPE_MIN), prefix + SHAPE_RANDOM_MIN);
	struct dice d = { .seed = seed, .used = sizeof(d.block) };
	bool uuid = is_uuid(s, len);
	char from[63];
	size_t kinds = choose_alphabet(s + prefix, len - prefix, from);

	n = n > SHAPE_MAX ? SHAPE_MAX : n;
	memcpy(out, s, prefix);
	/* A bot's number is not secret, but it identifies the bot. */
	for (size_t i = 0; i < digits; i++)
		out[i] = "0123456789"[i == 0 ? 1 + dice_roll(&d, 9) : dice_roll(&d, 10)];
	if (digits)
		out[digits] = ':';
	for (size_t i = prefix; i < n; i++)
		out[i] = from[dice_roll(&d, (unsigned)kinds)];
	for (size_t i = 0; i < n && uuid; i++) {
		if (s[i] == '-')
			out[i] = '-';
	}
	out[n] = '\0';
	secmem_wipe(&d, sizeof(d));
	return n;
}

bool shape_is_example(const char *body, size_t len)
{
	static const char *const words[] = { "example",	   "EXAMPLE",  "xxxx",	      "XXXX", "0000000000",
					     "1234567890", "abcdefgh", "placeholder", "your", "redacted" };
	bool seen[256] = { false };
	unsigned kinds = 0;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (memmem(body, len, words[i], strlen(words[i])))
			return true;
	}
	for (size_t i = 0; i < len; i++) {
		kinds += !seen[(uint8_t)body[i]];
		seen[(uint8_t)body[i]] = true;
	}
	return kinds < 6;
}

/* Is there a credential exactly here? Its length, 0 if not. */
static size_t credential_at(const char *s, size_t len, const struct shape **ret)
{
	const struct known *k = known_prefix_at(s, len);
	size_t n, prefix;

	if (k) {
		prefix = strlen(k->shape.prefix);
		n = body_span(k->body, s + prefix, len - prefix);
		*ret = &k->shape;
		if (n >= k->least && !shape_is_example(s + prefix, n))
			return prefix + n;
	}
	n = telegram_digits_at(s, len);
	*ret = &telegram;
	if (n && !shape_is_example(s + n + 1, TELEGRAM_TAIL))
		return n + 1 + TELEGRAM_TAIL;
	*ret = &jwt;
	n = jwt_at(s, len);
	if (n == 0)
		n = shape_text_at(s, len, ret);
	if (n)
		return n;
	*ret = &private_key;
	return private_key_at(s, len);
}

/* The bytes that can begin a credential. Most bytes of most files cannot, which makes the search fast. */
static const bool *credential_first_bytes(void)
{
	static bool first[256];

	if (!first['e']) {
		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			first[(uint8_t)known[i].shape.prefix[0]] = true;
		for (unsigned c = '0'; c <= '9'; c++)
			first[c] = true;
		for (const char *c = SHAPE_TEXT_FIRST; *c; c++)
			first[(uint8_t)*c] = true;
		first['-'] = first['e'] = true;
	}
	return first;
}

bool shape_find(const char *text, size_t len, size_t from, struct shape_hit *ret)
{
	const bool *first = credential_first_bytes();

	for (size_t i = from; i < len; i++) {
		size_t n = text[i] == ':' && i > 0 && is_ascii_alnum(text[i - 1])
				   ? shape_url_at(text + i, len - i, &ret->shape)
				   : 0;

		if (n) {
			ret->at = i + 3;
			ret->len = n - 3;
			return true;
		}
		/* Within a longer word a match is noise. */
		if (!first[(uint8_t)text[i]] ||
		    (i > 0 && (is_ascii_alnum(text[i - 1]) || text[i - 1] == '_')))
			continue;
		n = credential_at(text + i, len - i, &ret->shape);
		if (n == 0)
			continue;
		ret->at = i;
		ret->len = n;
		return true;
	}
	return false;
}
