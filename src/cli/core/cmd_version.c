/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer version: prints the version that was set when coffer was built, as text or as JSON. It must not need
 * a state directory.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/core/say.h"
#include "cli/core/verb.h"

#include <errno.h>

enum { OPT_JSON = 1 };

static const struct opt version_opts[] = {
	{ "json", 0, NULL, "print one JSON object", OPT_JSON },
};

static int cmd_version(int argc, char **argv)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, version_opts, ARRAY_SIZE(version_opts));
	autobuf struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	bool as_json = false;
	const char *value;
	int id;

	while ((id = opt_next(&p, &value, &e)) > 0) {
		if (id == OPT_HELP)
			return verb_print_help(&verb_version);
		as_json = true;
	}
	if (id == 0 && p.index < p.argc)
		id = err_set(&e, -EINVAL, "version takes no arguments");
	if (id < 0)
		return say_usage(&verb_version, &e);
	if (as_json) {
		struct json j = JSON_INIT(&out);

		json_obj(&j, NULL);
		json_str(&j, "version", COFFER_VERSION);
		json_end_obj(&j);
		buf_addc(&out, '\n');
	} else {
		buf_adds(&out, "coffer " COFFER_VERSION "\n");
	}
	return say_out(&out);
}

const struct verb verb_version = {
	.name = "version",
	.group = VERB_HOST,
	.synopsis = "[--json]",
	.help = "print the version",
	.opts = version_opts,
	.n_opts = ARRAY_SIZE(version_opts),
	.run = cmd_version,
	.text = "Prints the version of this program.",
};
