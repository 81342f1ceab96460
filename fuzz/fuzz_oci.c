/* SPDX-License-Identifier: Apache-2.0 */
/* An image's description of itself, its name, and its users. */
#include "sandbox/image/image_ref.h"
#include "sandbox/image/oci.h"
#include "sandbox/image/passwd.h"

#include "base/cleanup.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_index(const struct oci_index *x, size_t max)
{
	BUG_ON(x->n > max);
	for (size_t i = 0; i < x->n; i++)
		BUG_ON(!oci_is_digest(x->v[i].digest));
}

static void parse_lists(const char *text, size_t len)
{
	CLEANUP(oci_index_release) struct oci_index x = { 0 };
	CLEANUP(oci_manifest_release) struct oci_manifest m = { 0 };
	struct err e = ERR_INIT;

	if (oci_parse_index(text, len, &x, &e) == 0) {
		const struct oci_desc *one = oci_choose(&x, &e);

		check_index(&x, OCI_LIST_MAX);
		BUG_ON(one && (one < x.v || one >= x.v + x.n));
	}
	if (oci_parse_manifest(text, len, &m, &e) == 0) {
		check_index(&m.layers, OCI_LAYERS_MAX);
		BUG_ON(!oci_is_digest(m.config.digest));
	}
}

static void parse_configs(const char *text, size_t len)
{
	CLEANUP(oci_config_release) struct oci_config c = { 0 };
	CLEANUP(oci_docker_release) struct oci_docker d = { 0 };
	struct err e = ERR_INIT;
	bool good = true;

	if (oci_parse_config(text, len, &c, &e) == 0) {
		for (size_t i = 0; i < c.env.n; i++)
			good = good && strchr(c.env.v[i], '=');
		for (size_t i = 0; i < c.diff_ids.n; i++)
			good = good && oci_is_digest(c.diff_ids.v[i]);
	}
	if (oci_parse_docker(text, len, "test:1", &d, &e) == 0)
		good = good && d.config && d.layers.n <= OCI_LAYERS_MAX;
	BUG_ON(!good);
}

static void parse_name(const char *text)
{
	struct image_ref r, again;
	struct err e = ERR_INIT;
	char name[IMAGE_NAME_MAX + 1], twice[IMAGE_NAME_MAX + 1];

	if (image_ref_parse(text, &r, &e) < 0)
		return;
	BUG_ON(!r.repo[0] || strstr(r.repo, "..") == r.repo || r.repo[0] == '/');
	BUG_ON(!r.tag[0] && !r.digest[0]);
	image_ref_name(&r, name);
	/* A name is its own name. */
	BUG_ON(image_ref_parse(name, &again, &e) < 0);
	BUG_ON(strcmp(image_ref_name(&again, twice), name) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree char *text = malloc(size + 1), *copy = malloc(size + 1);
	char *fields[7] = { 0 };

	if (!text || !copy)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	memcpy(copy, text, size + 1);
	parse_lists(text, size);
	parse_configs(text, size);
	parse_name(text);
	if (passwd_find(copy, "root", 0, fields, 7))
		BUG_ON(strcmp(fields[0], "root") != 0 || !fields[2]);
	return 0;
}
