/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the arguments of a tool call against the tool's table of parameters, and makes the JSON schema for
 * clients from the same table, so the two cannot differ. Pure: no I/O.
 */
#include "adapter/mcp_args.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/jsonget.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static const char *const type_names[] = {
	[MCP_TEXT] = "string",	[MCP_WORD] = "string", [MCP_INTEGER] = "integer",
	[MCP_BOOL] = "boolean", [MCP_LIST] = "array",  [MCP_MAP] = "object",
};
static_assert(ARRAY_SIZE(type_names) == MCP_MAP + 1, "a name for each type");

static void add_enum_words(struct json *j, const char *words)
{
	json_arr(j, "enum");
	while (*words) {
		size_t n = strcspn(words, " ");

		json_strn(j, NULL, words, n);
		words += n + (words[n] == ' ');
	}
	json_end_arr(j);
}

static void add_param_schema(struct json *j, const struct mcp_param *p)
{
	json_obj(j, p->name);
	json_str(j, "type", type_names[p->type]);
	json_str(j, "description", p->help);
	if (p->type == MCP_WORD)
		add_enum_words(j, p->words);
	if (p->type == MCP_INTEGER) {
		json_u64(j, "minimum", 0);
		json_u64(j, "maximum", p->max);
	}
	if (p->type == MCP_LIST || p->type == MCP_MAP) {
		json_obj(j, p->type == MCP_LIST ? "items" : "additionalProperties");
		json_str(j, "type", "string");
		json_end_obj(j);
	}
	json_end_obj(j);
}

void mcp_schema(const struct mcp_param *p, size_t n, struct json *j)
{
	json_str(j, "type", "object");
	json_obj(j, "properties");
	for (size_t i = 0; i < n; i++)
		add_param_schema(j, &p[i]);
	json_end_obj(j);
	json_arr(j, "required");
	for (size_t i = 0; i < n; i++) {
		if (p[i].required)
			json_str(j, NULL, p[i].name);
	}
	json_end_arr(j);
	json_bool(j, "additionalProperties", false);
}

static bool is_word_of(const char *words, const char *word)
{
	size_t len = strlen(word);

	while (*words) {
		size_t n = strcspn(words, " ");

		if (n == len && memcmp(words, word, n) == 0)
			return true;
		words += n + (words[n] == ' ');
	}
	return false;
}

static int refuse_param(struct err *e, const struct mcp_param *p, const char *what)
{
	return err_set(e, -EINVAL, "%s: expected %s", p->name, what);
}

static bool is_list_item(const json_t *v)
{
	return json_is_string(v) && json_string_length(v) <= MCP_TEXT_IN_LIST;
}

static int check_list_param(const struct mcp_param *p, const json_t *v, struct err *e)
{
	size_t i;
	json_t *item;

	if (!json_is_array(v) || json_array_size(v) > p->max)
		return err_set(e, -EINVAL, "%s: expected a list of at most %llu texts", p->name,
			       (unsigned long long)p->max);
	json_array_foreach(v, i, item)
	{
		if (!is_list_item(item))
			return refuse_param(e, p, "texts of at most 1 MiB in the list");
	}
	return 0;
}

static int check_map_param(const struct mcp_param *p, const json_t *v, struct err *e)
{
	const char *key;
	json_t *item;

	if (!json_is_object(v) || json_object_size(v) > p->max)
		return err_set(e, -EINVAL, "%s: expected an object of at most %llu texts", p->name,
			       (unsigned long long)p->max);
	/* NOLINTNEXTLINE(bugprone-assignment-in-if-condition): jansson's macro */
	json_object_foreach((json_t *)v, key, item)
	{
		if (!is_list_item(item))
			return refuse_param(e, p, "texts of at most 1 MiB in the object");
	}
	return 0;
}

static int check_param(const struct mcp_param *p, const json_t *v, struct err *e)
{
	switch (p->type) {
	case MCP_TEXT:
		if (json_is_string(v) && json_string_length(v) <= p->max)
			return 0;
		return err_set(e, -EINVAL, "%s: expected a text of at most %llu bytes", p->name,
			       (unsigned long long)p->max);
	case MCP_WORD:
		if (json_is_string(v) && is_word_of(p->words, json_string_value(v)))
			return 0;
		return err_set(e, -EINVAL, "%s: expected one of: %s", p->name, p->words);
	case MCP_INTEGER:
		if (json_is_integer(v) && json_integer_value(v) >= 0 &&
		    (uint64_t)json_integer_value(v) <= p->max)
			return 0;
		return err_set(e, -EINVAL, "%s: expected a whole number from 0 to %llu", p->name,
			       (unsigned long long)p->max);
	case MCP_BOOL:
		return json_is_boolean(v) ? 0 : refuse_param(e, p, "true or false");
	case MCP_LIST:
		return check_list_param(p, v, e);
	default:
		return check_map_param(p, v, e);
	}
}

static const struct mcp_param *find_param(const struct mcp_param *p, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(p[i].name, name))
			return &p[i];
	}
	return NULL;
}

int mcp_args_check(const struct mcp_param *p, size_t n, const json_t *args, struct err *e)
{
	const char *key;
	json_t *v;

	if (args && !json_is_object(args))
		return err_set(e, -EINVAL, "arguments must be an object");
	for (size_t i = 0; i < n; i++) {
		if (p[i].required && !json_object_get(args, p[i].name))
			return err_set(e, -EINVAL, "%s is missing", p[i].name);
	}
	json_object_foreach((json_t *)args, key, v)
	{
		const struct mcp_param *one = find_param(p, n, key);
		char safe[64];
		int r;

		if (!one)
			return err_set(e, -EINVAL, "there is no argument '%s'",
				       str_safe(key, safe, sizeof(safe)));
		r = check_param(one, v, e);
		if (r < 0)
			return r;
	}
	return 0;
}

const char *mcp_text(const json_t *args, const char *name)
{
	return jsonget_text_or_null(args, name);
}

uint64_t mcp_integer(const json_t *args, const char *name, uint64_t otherwise)
{
	const json_t *v = json_object_get(args, name);

	return v ? (uint64_t)json_integer_value(v) : otherwise;
}

bool mcp_bool(const json_t *args, const char *name, bool otherwise)
{
	const json_t *v = json_object_get(args, name);

	return v ? json_is_true(v) : otherwise;
}
