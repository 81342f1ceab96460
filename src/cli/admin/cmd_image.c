/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer image: imports, pulls, lists, inspects and removes root file system images. Archives are unpacked
 * by a fenced helper, never here; every change of the store is logged.
 */
#include "sandbox/image/image.h"

#include "audit/audit.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/core/say.h"
#include "cli/core/table.h"
#include "cli/core/verb.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>

enum { OPT_NAME = 1, OPT_QUIET, OPT_JSON, OPT_FORCE, OPT_INSECURE, OPT_MAX_ENTRIES, OPT_MAX_SIZE };

static const struct opt image_opts[] = {
	{ "name", 0, "NAME[:TAG]", "import: its name (default: the name in the archive)", OPT_NAME, "name" },
	{ "max-entries", 0, "N", "import: limit on files and directories, all layers (default: 1000000)",
	  OPT_MAX_ENTRIES },
	{ "max-size", 0, "SIZE", "import: limit on the unpacked size, all layers (default: the free space)",
	  OPT_MAX_SIZE },
	{ "insecure", 0, NULL, "pull: from a registry without TLS", OPT_INSECURE },
	{ "force", 'f', NULL, "rm: also if a kept run uses it; ignore a missing one", OPT_FORCE },
	{ "quiet", 'q', NULL, "print only names", OPT_QUIET },
	{ "json", 0, NULL, "ls, inspect: print JSON", OPT_JSON },
};

enum act { ACT_IMPORT, ACT_PULL, ACT_LS, ACT_RM, ACT_INSPECT, ACT_COUNT };
static const char act_names[] = "import pull ls rm inspect";

struct args {
	enum act act;
	struct image_import in;
	bool quiet, json, force, insecure;
	int argc;
	char **argv;
};

static int image_no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "out of memory");
}

/* Logs an intended change before it is made (`what`), or its result afterwards (`rec`). */
static int log_image_event(struct audit *a, const char *type, const char *what,
			   const struct image_record *rec, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);

	if (what)
		json_str(&j, "source", what);
	if (rec) {
		json_str(&j, "image", rec->name);
		json_str(&j, "image_digest", rec->manifest);
		json_u64(&j, "bytes", rec->bytes);
	}
	return buf_error(&b) ? image_no_memory(e) : audit_append(a, type, NULL, &b, e);
}

static void say_left_out(const struct image_notes *n)
{
	const struct {
		uint64_t n;
		const char *what;
	} left_out[] = { { n->devices, "devices" },
			 { n->pipes, "pipes" },
			 { n->setids, "setuid and setgid bits" },
			 { n->xattrs, "extended attributes" },
			 { n->strangers, "owners beyond 65535" } };
	autobuf struct buf b = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(left_out); i++) {
		if (left_out[i].n)
			buf_addf(&b, "%s%llu %s", b.len ? ", " : "", (unsigned long long)left_out[i].n,
				 left_out[i].what);
	}
	if (b.len && !buf_error(&b))
		say_note("left out, because sandboxes never have them: %s", buf_cstr(&b));
}

static int import_or_pull(struct state *st, struct audit *a, const struct args *args, const char *what,
			  struct err *e)
{
	CLEANUP(image_record_release) struct image_record rec = { 0 };
	struct image_pull pull = { .ref = what, .insecure = args->insecure };
	struct image_import in = args->in;
	struct image_notes notes = { 0 };
	char size[16];
	int r = log_image_event(a, args->act == ACT_PULL ? "image.pull" : "image.import", what, NULL, e);

	in.path = what;
	if (r == 0)
		r = args->act == ACT_PULL ? image_pull(st, &pull, &rec, &notes, e)
					  : image_import(st, &in, &rec, &notes, e);
	if (r == 0)
		r = log_image_event(a, "image.imported", NULL, &rec, e);
	if (r < 0)
		return r;
	say_left_out(&notes);
	if (args->quiet)
		printf("%s\n", rec.name);
	else
		printf("%s@%s  %s, %llu layer%s%s\n", rec.name, rec.manifest, str_from_size(rec.bytes, size),
		       (unsigned long long)notes.layers, notes.layers == 1 ? "" : "s",
		       notes.reused == notes.layers ? ", all there already" : "");
	if (!args->quiet)
		say_note("stored as %s: coffer run --image %s", rec.name, rec.name);
	return fflush(stdout) == 0 ? 0 : -EIO;
}

static void add_image_json(struct json *j, const struct image_record *r)
{
	char when[CLOCK_TEXT_LEN];

	json_obj(j, NULL);
	json_str(j, "name", r->name);
	json_str(j, "digest", r->manifest);
	json_str(j, "index", r->index[0] ? r->index : NULL);
	json_str(j, "imported", clock_format(r->imported, when));
	json_str(j, "source", r->source);
	json_u64(j, "bytes", r->bytes);
	json_end_obj(j);
}

static int add_image_rows(const struct image_records *l, struct table *t)
{
	static const char *const heads[] = { "NAME", "DIGEST", "SIZE", "IMPORTED" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(heads); i++)
		r = table_add(t, heads[i], 0);
	for (size_t i = 0; r == 0 && i < l->n; i++) {
		char size[16], when[CLOCK_TEXT_LEN], digest[24];

		snprintf(digest, sizeof(digest), "%.19s", l->v[i].manifest);
		clock_format(l->v[i].imported, when);
		when[19] = '\0'; /* cut after the seconds */
		r = table_add(t, l->v[i].name, 0);
		r = r < 0 ? r : table_add(t, digest, 0);
		r = r < 0 ? r : table_add(t, str_from_size(l->v[i].bytes, size), 0);
		r = r < 0 ? r : table_add(t, when, 0);
	}
	return r;
}

static int list_images(struct state *st, const struct args *a, struct err *e)
{
	CLEANUP(image_records_release) struct image_records l = { 0 };
	autotable struct table t = TABLE_INIT(4);
	autobuf struct buf out = BUF_INIT;
	struct json j = JSON_INIT(&out);
	int r = image_list(st, &l, e);

	if (r < 0)
		return r;
	if (a->json)
		json_arr(&j, NULL);
	for (size_t i = 0; i < l.n && (a->json || a->quiet); i++) {
		if (a->json)
			add_image_json(&j, &l.v[i]);
		else
			buf_addf(&out, "%s\n", l.v[i].name);
	}
	if (a->json) {
		json_end_arr(&j);
		buf_addc(&out, '\n');
	} else if (!a->quiet) {
		if (add_image_rows(&l, &t) < 0)
			return image_no_memory(e);
		table_format(&t, &out);
	}
	if (buf_error(&out))
		return image_no_memory(e);
	r = say_out(&out) ? -EIO : 0;
	for (size_t i = 0; i < l.n_unread; i++) {
		say_error(&l.unread[i]);
		r = -EBADMSG;
	}
	return r;
}

/* Prints record, manifest and configuration as one object; the latter two are unchanged. */
static int inspect_image(struct state *st, const char *ref, struct err *e)
{
	CLEANUP(image_record_release) struct image_record rec = { 0 };
	autobuf struct buf manifest = BUF_INIT, config = BUF_INIT, out = BUF_INIT, head = BUF_INIT;
	struct json j = JSON_INIT(&head);
	json_t *all, *m, *c;
	char *text;
	int r = image_find(st, ref, &rec, e);

	if (r == 0)
		r = image_read(st, &rec, &manifest, &config, e);
	if (r < 0)
		return r;
	add_image_json(&j, &rec);
	all = json_loadb(buf_cstr(&head), head.len, 0, NULL);
	m = json_loadb(buf_cstr(&manifest), manifest.len, 0, NULL);
	c = json_loadb(buf_cstr(&config), config.len, 0, NULL);
	r = all && m && c && json_object_set_new(all, "manifest", m) == 0 &&
			    json_object_set_new(all, "config", c) == 0
		    ? 0
		    : -ENOMEM;
	/* ASCII only: the image's own texts cannot send control sequences to a terminal. */
	text = r == 0 ? json_dumps(all, JSON_INDENT(2) | JSON_ENSURE_ASCII) : NULL;
	if (text)
		buf_addf(&out, "%s\n", text);
	free(text);
	json_decref(all);
	return r < 0 || !out.len ? image_no_memory(e) : say_out(&out) ? -EIO : 0;
}

/* Refuses to remove an image that a kept, named run is based on: its layer is useless without the image. */
static int refuse_image_in_use(struct state *st, const struct image_record *rec, struct err *e)
{
	autostrv struct strv ids = STRV_INIT;
	int r = state_run_list(st, &ids, e);

	for (size_t i = 0; r == 0 && i < ids.n; i++) {
		CLEANUP(state_meta_release) struct run_meta m = { 0 };
		bool alive = false;
		autoclose int fd = state_run_open(st, ids.v[i], &alive, NULL);

		if (fd < 0 || state_meta_read(fd, &m, NULL) < 0 || !m.name || !m.image_digest ||
		    !str_eq(m.image_digest, rec->manifest))
			continue;
		err_set(e, -EBUSY, "image %s is in use by sandbox %s", rec->name, m.name);
		return err_hint(e, -EBUSY, "coffer rm %s first, or coffer image rm -f %s", m.name, rec->name);
	}
	return r;
}

static int remove_image(struct state *st, struct audit *a, const char *ref, bool force, struct err *e)
{
	CLEANUP(image_record_release) struct image_record rec = { 0 }, gone = { 0 };
	int r = image_find(st, ref, &rec, e);

	if (r == -ENOENT && force)
		return 0;
	if (r == 0 && !force)
		r = refuse_image_in_use(st, &rec, e);
	if (r == 0)
		r = log_image_event(a, "image.rm", NULL, &rec, e);
	return r < 0 ? r : image_remove(st, ref, &gone, e);
}

static int run_image_act(struct state *st, struct audit *audit, const struct args *a, const char *what,
			 struct err *e)
{
	switch (a->act) {
	case ACT_IMPORT:
	case ACT_PULL:
		return import_or_pull(st, audit, a, what, e);
	case ACT_RM:
		return remove_image(st, audit, what, a->force, e);
	case ACT_INSPECT:
		return inspect_image(st, what, e);
	default:
		return list_images(st, a, e);
	}
}

static int run_image_acts(const struct args *a)
{
	CLEANUP(state_release) struct state st = STATE_INIT;
	CLEANUP(audit_freep) struct audit *audit = NULL;
	struct err e = ERR_INIT;
	int code = 0;

	if (state_open(&st, &e) < 0)
		return say_error(&e);
	/* Only changes are logged. */
	if (a->act != ACT_LS && a->act != ACT_INSPECT && audit_open(&audit, st.fd, &e) < 0)
		return say_error(&e);
	for (int i = 0; i < (a->act == ACT_LS ? 1 : a->argc); i++) {
		e = ERR_INIT;
		if (run_image_act(&st, audit, a, a->argv[i], &e) < 0)
			code = e.code ? say_error(&e) : EXIT_OURS;
	}
	return code;
}

static int take_image_option(struct args *a, int id, const char *value, struct err *e)
{
	switch (id) {
	case OPT_NAME:
		a->in.name = value;
		return 0;
	case OPT_MAX_ENTRIES:
		return str_to_u64(value, &a->in.entries_max) < 0 || !a->in.entries_max
			       ? err_set(e, -EINVAL, "--max-entries %s: expected a number", value)
			       : 0;
	case OPT_MAX_SIZE:
		return str_to_size(value, &a->in.bytes_max) < 0 || !a->in.bytes_max
			       ? err_set(e, -EINVAL, "--max-size %s: expected a size such as 4g", value)
			       : 0;
	default:
		break;
	}
	a->quiet = a->quiet || id == OPT_QUIET;
	a->json = a->json || id == OPT_JSON;
	a->force = a->force || id == OPT_FORCE;
	a->insecure = a->insecure || id == OPT_INSECURE;
	return 0;
}

static int check_image_args(const struct args *a, const char *act, struct err *e)
{
	if (!act)
		return err_set(e, -EINVAL, "image needs one of these words: import, pull, ls, rm, inspect");
	if (a->act == ACT_LS && a->argc)
		return err_set(e, -EINVAL, "image ls takes no arguments, but got '%.100s'", a->argv[0]);
	if (a->act != ACT_LS && !a->argc)
		return err_set(e, -EINVAL, "image %s needs an argument", act);
	if (a->in.name && (a->act != ACT_IMPORT || a->argc != 1))
		return err_set(e, -EINVAL, "--name is only valid with the import of one image");
	if ((a->in.entries_max || a->in.bytes_max) && a->act != ACT_IMPORT)
		return err_set(e, -EINVAL, "--max-entries and --max-size are only valid with image import");
	if (a->insecure && a->act != ACT_PULL)
		return err_set(e, -EINVAL, "--insecure is only valid with image pull");
	if (a->force && a->act != ACT_RM)
		return err_set(e, -EINVAL, "--force is only valid with image rm");
	if (a->json && a->act != ACT_LS && a->act != ACT_INSPECT)
		return err_set(e, -EINVAL, "--json is only valid with image ls and image inspect");
	return 0;
}

/* Options may come before, between and after the other words. Returns 1 for --help. */
static int parse_image_args(struct args *a, int argc, char **argv, struct err *e)
{
	struct optparse p = OPTPARSE_MIXED(argc, argv, image_opts, ARRAY_SIZE(image_opts));
	const char *value, *act;
	int id, r;

	while ((id = opt_next(&p, &value, e)) > 0) {
		if (id == OPT_HELP)
			return 1;
		r = take_image_option(a, id, value, e);
		if (r < 0)
			return r;
	}
	if (id < 0)
		return id;
	act = opt_take(&p);
	r = act ? opt_action("image", act, act_names, e) : 0;
	if (r < 0)
		return r;
	a->act = (enum act)r;
	a->argc = p.argc - p.index;
	a->argv = p.argv + p.index;
	return check_image_args(a, act, e);
}

static int cmd_image(int argc, char **argv)
{
	struct args a = { 0 };
	struct err e = ERR_INIT;
	int r = parse_image_args(&a, argc, argv, &e);

	if (r == 1)
		return verb_print_help(&verb_image);
	if (r < 0)
		return say_usage(&verb_image, &e);
	return run_image_acts(&a);
}

const struct verb verb_image = {
	.name = "image",
	.group = VERB_HOST,
	.synopsis = "import FILE|DIR | pull REF | ls | rm REF… | inspect REF",
	.help = "root file systems for coffer run --image",
	.opts = image_opts,
	.n_opts = ARRAY_SIZE(image_opts),
	.run = cmd_image,
	.args = "path",
	.text = "*import* adds an OCI layout (a directory or an archive of one), an archive of *docker "
		"save*, or a plain root file system (an archive or a directory; *--name* is then "
		"required). Archives may be compressed with gzip or zstd. *pull* fetches an image from "
		"a registry with skopeo(1). *ls* lists the images, *inspect* shows the configuration "
		"of one, *rm* removes one with the layers that no other image needs, unless a sandbox "
		"uses them now.\n"
		"\n"
		"REF is NAME[:TAG][@sha256:DIGEST]; the default tag is latest. A REF with a digest is "
		"refused if the stored image has another digest.\n"
		"\n"
		"Archives are not trusted: a process that can reach nothing but the new layer unpacks "
		"them. The import fails on a name that leads out of the layer, a link to a file "
		"outside of the archive, the device 0:0, attributes that steer an overlay, more "
		"entries or bytes than allowed, and a decompression bomb. Devices, pipes, extended "
		"attributes and setuid bits are left out. Every blob must match its digest, and every "
		"layer the configuration. Layers are stored once, by digest; an import that fails or "
		"is killed leaves nothing visible.\n"
		"\n"
		"For root, the files of an image keep their owners, mapped into each sandbox; an "
		"ordinary user owns them all, and inside they belong to the user that the command runs "
		"as.",
	.examples = "coffer image import --name debian:12 rootfs.tar.gz\n"
		    "\t# a plain root file system\n"
		    "docker save myapp:3 | gzip > myapp.tar.gz; coffer image import myapp.tar.gz\n"
		    "\t# from docker\n"
		    "coffer image pull alpine:3.20 && coffer run --image alpine:3.20 -- cat /etc/os-release\n"
		    "\t# from a registry\n",
};
