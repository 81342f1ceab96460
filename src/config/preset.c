/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Presets: built-in rules with typed parameters (preset.h). A parameter's value is checked by its type, so it
 * cannot contain a pattern and never widens a rule.
 */

#include "config/preset.h"

#include "base/cleanup.h"
#include "config/read.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 64
#define VALUE_MAX 200
#define PARAMS_MAX 8

const struct preset presets[] = {
#include "config/presets.inc"
};
const size_t n_presets = ARRAY_SIZE(presets);

const struct preset *preset_find(const char *name)
{
	for (size_t i = 0; i < n_presets; i++) {
		if (str_eq(presets[i].name, name))
			return &presets[i];
	}
	return NULL;
}

/* A parameter: its declaration and its values. */
struct param {
	const char *name;
	bool list, required;
	const char *type;
	const char *fallback; /* NULL: none */
	struct strv values;
};

struct params {
	struct param v[PARAMS_MAX];
	size_t n;
};

static void params_release(struct params *p)
{
	for (size_t i = 0; i < p->n; i++)
		strv_release(&p->v[i].values);
}

static const char *ynode_text(const struct ynode *map, const char *key)
{
	const struct ynode *n = ynode_get(map, key);

	return n && n->kind == YNODE_TEXT ? n->text : NULL;
}

/* Built-in data: an error in it is a bug of ours, and is still refused. */
static int declare_params(const struct ynode *root, struct params *p, struct err *e)
{
	const struct ynode *map = ynode_get(root, "params");

	for (size_t i = 0; map && i < map->n; i++) {
		const struct ynode *d = map->items[i];
		struct param *one;
		const char *required = ynode_text(d, "required");

		if (p->n == PARAMS_MAX)
			return err_set(e, -E2BIG, "a preset has at most %d parameters", PARAMS_MAX);
		one = &p->v[p->n++];
		*one = (struct param){ .name = map->keys[i]->text, .type = ynode_text(d, "type") };
		one->list = one->type && str_ends(one->type, "s");
		one->required = required && str_eq(required, "true");
		one->fallback = ynode_text(d, "default");
	}
	return 0;
}

static bool consists_of(const char *s, size_t len, const char *more)
{
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)s[i]) && !strchr(more, s[i]))
			return false;
	}
	return len > 0;
}

static bool is_repo_name(const char *v)
{
	const char *slash = strchr(v, '/');

	return slash && consists_of(v, (size_t)(slash - v), "-_.") &&
	       consists_of(slash + 1, strlen(slash + 1), "-_.") && !str_eq(slash + 1, ".") &&
	       !str_eq(slash + 1, "..") && v[0] != '.' && !str_ends(v, ".git");
}

static bool is_ref_prefix(const char *v)
{
	return consists_of(v, strlen(v), "-_./") && v[0] != '/' && !strstr(v, "..") && !strstr(v, "//");
}

static bool is_canonical_host(const char *v)
{
	struct host h;

	return host_canon(v, strlen(v), &h, NULL) == 0 && h.kind == HOST_NAME && str_eq(h.text, v);
}

static bool is_address_with_port(const char *v)
{
	struct host h;
	uint16_t port;

	return host_port_parse(v, strlen(v), 0, &h, &port, NULL) == 0 && h.kind == HOST_ADDR;
}

static const struct {
	const char *type;
	bool (*is)(const char *);
	const char *expected, *example;
} types[] = {
	{ "repos", is_repo_name, "a repository", "owner/name" },
	{ "prefix", is_ref_prefix, "the beginning of a branch's name", "bot/" },
	{ "host", is_canonical_host, "a host name", "matrix.example.com" },
	{ "address", is_address_with_port, "an address with a port", "10.1.2.3:11434" },
};

/* Adds a value after checking it by the parameter's type. */
static int set_param_value(const struct preset *p, struct param *param, const char *value, struct err *e)
{
	char shown[VALUE_MAX + 8];

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (!param->type || !str_eq(types[i].type, param->type))
			continue;
		if (strlen(value) > VALUE_MAX || !types[i].is(value))
			return err_set(e, -EINVAL,
				       "'%s' of the preset %s must be %s, such as %s; '%s' is not valid",
				       param->name, p->name, types[i].expected, types[i].example,
				       str_safe(value, shown, sizeof(shown)));
		if (param->values.n >= (param->list ? VALUES_MAX : 1))
			return err_set(e, -E2BIG, "the preset %s takes at most %d values for '%s'", p->name,
				       param->list ? VALUES_MAX : 1, param->name);
		return strv_add(&param->values, value) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
	}
	return err_set(e, -EINVAL, "the preset %s has a parameter of an unknown type", p->name);
}

/* Finds a parameter by name; otherwise an error with the nearest name. */
static struct param *find_param(const struct preset *p, struct params *all, const char *name, struct err *e)
{
	const char *names[PARAMS_MAX], *near;
	char shown[64];

	for (size_t i = 0; i < all->n; i++) {
		if (str_eq(all->v[i].name, name))
			return &all->v[i];
		names[i] = all->v[i].name;
	}
	near = str_nearest(name, names, all->n);
	err_set(e, -EINVAL, "the preset %s has no parameter '%s'", p->name,
		str_safe(name, shown, sizeof(shown)));
	if (near || all->n)
		err_hint(e, -EINVAL, "%s", near ? near : names[0]);
	return NULL;
}

/* Gives parameters without a value their default; a required one without a value is an error. */
static int fill_param_defaults(const struct preset *p, struct params *all, struct err *e)
{
	for (size_t i = 0; i < all->n; i++) {
		struct param *one = &all->v[i];
		int r = 0;

		if (one->values.n == 0 && one->fallback)
			r = set_param_value(p, one, one->fallback, e);
		if (r < 0)
			return r;
		if (one->values.n == 0) {
			err_set(e, -EINVAL, "the preset %s needs its parameter '%s'", p->name, one->name);
			return err_hint(e, -EINVAL, "{%s: {%s: …}}, or --allow '@%s(%s=…)'", p->name,
					one->name, p->name, one->name);
		}
	}
	return 0;
}

/* The list parameter that an element refers to, not counting lists within it. */
// NOLINTNEXTLINE(misc-no-recursion): no deeper than YTREE_DEPTH_MAX
static const struct param *list_param_in(const struct ynode *n, const struct params *all)
{
	char ref[64];

	for (size_t i = 0; n->kind == YNODE_TEXT && i < all->n; i++) {
		snprintf(ref, sizeof(ref), "${%s}", all->v[i].name);
		if (all->v[i].list && strstr(n->text, ref))
			return &all->v[i];
	}
	for (size_t i = 0; n->kind == YNODE_MAP && i < n->n; i++) {
		const struct param *p = list_param_in(n->items[i], all);

		if (p)
			return p;
	}
	return NULL;
}

/* Replaces every ${NAME} in the text. */
static int replace_reference(char **text, const char *name, const char *value)
{
	autobuf struct buf b = BUF_INIT;
	char ref[64];
	const char *at = *text, *hit;
	char *s;

	snprintf(ref, sizeof(ref), "${%s}", name);
	while ((hit = strstr(at, ref))) {
		buf_add(&b, at, (size_t)(hit - at));
		buf_adds(&b, value);
		at = hit + strlen(ref);
	}
	buf_adds(&b, at);
	s = buf_take(&b);
	if (!s)
		return -ENOMEM;
	free(*text);
	*text = s;
	return 0;
}

/* Replaces one parameter by one value in all texts below. */
// NOLINTNEXTLINE(misc-no-recursion): no deeper than YTREE_DEPTH_MAX
static int substitute_param(struct ynode *n, const char *name, const char *value)
{
	int r = 0;

	if (n->kind == YNODE_TEXT)
		return strstr(n->text, "${") ? replace_reference(&n->text, name, value) : 0;
	for (size_t i = 0; r == 0 && i < n->n; i++)
		r = substitute_param(n->items[i], name, value);
	return r;
}

static int expand_lists(struct ynode *n, const struct params *all);

/* An element that refers to a list parameter is repeated for each value. */
// NOLINTNEXTLINE(misc-no-recursion): no deeper than YTREE_DEPTH_MAX
static int expand_list(struct ynode *n, const struct params *all)
{
	struct ynode old = *n;
	int r = 0;

	n->items = NULL;
	n->n = 0;
	for (size_t i = 0; i < old.n; i++) {
		const struct param *p = list_param_in(old.items[i], all);

		for (size_t k = 0; r == 0 && k < (p ? p->values.n : 1); k++) {
			struct ynode *c = ynode_copy(old.items[i]);

			r = c ? 0 : -ENOMEM;
			if (r == 0 && p)
				r = substitute_param(c, p->name, p->values.v[k]);
			if (r == 0)
				r = expand_lists(c, all);
			if (r == 0)
				r = ynode_add(n, NULL, TAKE_PTR(c));
			ynode_free(c);
		}
		ynode_free(old.items[i]);
	}
	free(old.items);
	return r;
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than YTREE_DEPTH_MAX
static int expand_lists(struct ynode *n, const struct params *all)
{
	int r = 0;

	if (n->kind == YNODE_SEQ)
		return expand_list(n, all);
	for (size_t i = 0; r == 0 && i < n->n; i++)
		r = expand_lists(n->items[i], all);
	return r;
}

/* Substitutes the parameters and reads the result like the lists of a file. */
static int apply_preset(struct source *s, const struct preset *p, struct ynode *root, struct params *all)
{
	struct source mine = *s;
	char name[192];
	int r = fill_param_defaults(p, all, s->e);

	for (size_t i = 0; r == 0 && i < all->n; i++) {
		const struct strv *values = &all->v[i].values;

		if (!all->v[i].list && values->v && substitute_param(root, all->v[i].name, values->v[0]) < 0)
			r = err_set(s->e, -ENOMEM, "out of memory");
	}
	if (r == 0 && expand_lists(root, all) < 0)
		r = err_set(s->e, -ENOMEM, "out of memory");
	if (r < 0)
		return r;
	/* The name includes the profile, if the preset comes from one. */
	snprintf(name, sizeof(name), "%.100s%spreset %s", str_starts(s->name, "profile ") ? s->name : "",
		 str_starts(s->name, "profile ") ? ", " : "", p->name);
	mine.name = name;
	mine.dir = NULL;
	return read_lists(&mine, root);
}

/* Finds and parses a preset. */
static int open_preset(struct source *s, const char *name, const struct preset **ret, struct ynode **ret_root)
{
	const char *names[64], *near;
	char shown[64], label[64];
	const struct preset *p = preset_find(name);

	if (!p) {
		size_t n = 0;

		for (; n < n_presets && n < ARRAY_SIZE(names); n++)
			names[n] = presets[n].name;
		near = str_nearest(name, names, n);
		err_set(s->e, -ENOENT, "there is no preset '%s'", str_safe(name, shown, sizeof(shown)));
		return near ? err_hint(s->e, -ENOENT, "%s", near)
			    : err_hint(s->e, -ENOENT, "coffer policy presets (lists them)");
	}
	*ret = p;
	snprintf(label, sizeof(label), "preset %s", p->name);
	return ytree_parse(label, p->text, strlen(p->text), ret_root, s->e);
}

/* Takes the parameters from a YAML mapping. */
static int params_from_map(struct source *s, const struct preset *p, const struct ynode *map,
			   struct params *all)
{
	int r = 0;

	if (ynode_is_null(map))
		return 0;
	if (map->kind != YNODE_MAP)
		return read_fail(s, map, "the parameters of a preset are a mapping (name: value)");
	for (size_t i = 0; r == 0 && i < map->n; i++) {
		const struct ynode *v = map->items[i];
		struct param *one = find_param(p, all, map->keys[i]->text, s->e);

		if (!one)
			return read_wrap(s, map->keys[i], -EINVAL);
		for (size_t k = 0; r == 0 && k < (v->kind == YNODE_SEQ ? v->n : 1); k++) {
			const struct ynode *item = v->kind == YNODE_SEQ ? v->items[k] : v;
			const char *text;

			r = read_text(s, item, "a value", &text);
			r = r < 0 ? r : read_wrap(s, item, set_param_value(p, one, text, s->e));
		}
	}
	return r;
}

int read_preset(struct source *s, const struct ynode *n, void *to)
{
	CLEANUP(ynode_freep) struct ynode *root = NULL;
	CLEANUP(params_release) struct params all = { 0 };
	const struct preset *p = NULL;
	const char *name = n->text;
	int r;

	(void)to;
	if (n->kind == YNODE_MAP && n->n == 1)
		name = n->keys[0]->text;
	else if (n->kind != YNODE_TEXT || ynode_is_null(n))
		return read_fail(s, n, "expected a preset's name, or 'name: {parameters}'");
	r = open_preset(s, name, &p, &root);
	r = r < 0 ? r : declare_params(root, &all, s->e);
	if (r < 0)
		return read_wrap(s, n, r);
	if (n->kind == YNODE_MAP)
		r = params_from_map(s, p, n->items[0], &all);
	if (r == 0)
		r = read_wrap(s, n, apply_preset(s, p, root, &all));
	return r;
}

/* Parses "repos=o/r,repos=o/s)". */
static int params_from_text(struct source *s, const struct preset *p, char *text, struct params *all)
{
	size_t len = strlen(text);
	char *save = NULL;
	int r = 0;

	if (len == 0 || text[len - 1] != ')') {
		err_set(s->e, -EINVAL, "the parameters of @%s do not end with )", p->name);
		return err_hint(s->e, -EINVAL, "'@%s(name=value,name=value)', in quotes for the shell",
				p->name);
	}
	text[len - 1] = '\0';
	for (char *one = strtok_r(text, ",", &save); r == 0 && one; one = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(one, '=');
		struct param *param;

		if (!eq)
			return err_set(s->e, -EINVAL, "a parameter of @%s is written name=value", p->name);
		*eq = '\0';
		param = find_param(p, all, one, s->e);
		r = param ? set_param_value(p, param, eq + 1, s->e) : -EINVAL;
	}
	return r;
}

int read_preset_text(struct source *s, const char *text)
{
	CLEANUP(ynode_freep) struct ynode *root = NULL;
	CLEANUP(params_release) struct params all = { 0 };
	autofree char *copy = strdup(text + (text[0] == '@'));
	const struct preset *p = NULL;
	char *open;
	int r;

	if (!copy)
		return err_set(s->e, -ENOMEM, "out of memory");
	open = strchr(copy, '(');
	if (open)
		*open++ = '\0';
	r = open_preset(s, copy, &p, &root);
	r = r < 0 ? r : declare_params(root, &all, s->e);
	if (r == 0 && open)
		r = params_from_text(s, p, open, &all);
	return r < 0 ? r : apply_preset(s, p, root, &all);
}

int preset_about(const struct preset *p, unsigned *ret_version, struct buf *about, struct buf *params,
		 struct err *e)
{
	CLEANUP(ynode_freep) struct ynode *root = NULL;
	const struct ynode *map;
	const char *text;
	uint64_t v = 0;
	int r = ytree_parse(p->name, p->text, strlen(p->text), &root, e);

	if (r < 0)
		return r;
	text = ynode_text(root, "version");
	if (!text || str_to_u64(text, &v) < 0)
		return err_set(e, -EINVAL, "the preset %s has no version", p->name);
	*ret_version = (unsigned)v;
	text = ynode_text(root, "about");
	buf_adds(about, text ? text : "");
	map = ynode_get(root, "params");
	for (size_t i = 0; map && i < map->n; i++) {
		bool optional = ynode_text(map->items[i], "default") != NULL;

		buf_addf(params, "%s%s%s%s", i ? ", " : "", optional ? "[" : "", map->keys[i]->text,
			 optional ? "]" : "");
	}
	return 0;
}

static const char *example_value(const struct param *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(types) && p->type; i++) {
		if (str_eq(types[i].type, p->type))
			return types[i].example;
	}
	return NULL;
}

/* Replaces a parameter in a copy by its default or an example, and adds a comment about it. */
static int copy_param_example(const struct param *p, char **text, struct buf *out)
{
	const char *value = p->fallback ? p->fallback : example_value(p);

	if (!value)
		return -EINVAL;
	buf_addf(out, "# %s: '%s' below is %s; put your own in its place.\n", p->name, value,
		 p->fallback ? "the default" : "an example");
	return replace_reference(text, p->name, value);
}

/* The lists of a preset become those of `egress:`, indented by two more columns. Lines that describe the
 * preset are left out. */
static void copy_preset_lists(const char *text, struct buf *out)
{
	static const char *const described[] = { "version:", "about:", "params:" };
	bool skip = true; /* the licence line comes first */

	for (const char *line = text, *end; *line; line = end) {
		size_t len;

		end = strchrnul(line, '\n');
		len = (size_t)(end - line);
		end += *end == '\n';
		if (line[0] != ' ' && len > 0) {
			skip = line[0] == '#' && line == text;
			for (size_t i = 0; i < ARRAY_SIZE(described); i++)
				skip = skip || str_starts(line, described[i]);
		}
		if (!skip && len > 0)
			buf_addf(out, "  %.*s\n", (int)len, line);
	}
}

int preset_as_policy(const struct preset *p, struct buf *out, struct err *e)
{
	CLEANUP(ynode_freep) struct ynode *root = NULL;
	CLEANUP(params_release) struct params all = { 0 };
	autofree char *text = strdup(p->text);
	const char *version, *about;
	int r = text ? ytree_parse(p->name, text, strlen(text), &root, e) : -ENOMEM;

	r = r < 0 ? r : declare_params(root, &all, e);
	if (r < 0)
		return e->code ? r : err_set(e, r, "out of memory");
	version = ynode_text(root, "version");
	about = ynode_text(root, "about");
	buf_addf(out, "# The preset %s, version %s: %s.\n", p->name, version ? version : "?",
		 about ? about : "");
	for (size_t i = 0; r == 0 && i < all.n; i++)
		r = copy_param_example(&all.v[i], &text, out);
	if (r < 0)
		return err_set(e, r, "the preset %s cannot be copied: %s", p->name, strerror(-r));
	buf_adds(out, "version: 1\negress:\n");
	copy_preset_lists(text, out);
	return 0;
}
