/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a runsc, and remembering whether it works. See runsc.h. It must not accept a file that others may
 * write, or whose digest is not the named one.
 */
#include "sandbox/engine/runsc.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/jsonget.h"
#include "sandbox/engine/helper.h"
#include "sandbox/engine/runsc_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define VERDICT_MAX 8192
#define RETRY_HUNG_AFTER (600 * NSEC_PER_SEC) /* a runsc that hung is tried again after this */

static const char *const usual_paths[] = { "/usr/local/bin/runsc", "/usr/bin/runsc", "/usr/sbin/runsc" };

void runsc_release(struct runsc *r)
{
	fd_close(r->fd);
	free(r->path);
	*r = RUNSC_INIT;
}

static int parse_named_runsc(const char *named, struct runsc *r, struct err *e)
{
	static const char mark[] = "@sha256:";
	const char *at = strstr(named, mark);
	unsigned char raw[HASH_LEN];

	if (!*named || at == named)
		return err_set(e, -EINVAL, "'%.80s' does not name a runsc: the path is missing", named);
	r->path = at ? strndup(named, (size_t)(at - named)) : strdup(named);
	if (!r->path)
		return err_set(e, -ENOMEM, "out of memory");
	if (!at)
		return 0;
	at += sizeof(mark) - 1;
	if (strlen(at) != HASH_HEX_LEN || hash_unhex(at, HASH_LEN, raw) < 0)
		return err_set(e, -EINVAL, "a digest is %d hexadecimal digits, not '%.80s'", HASH_HEX_LEN,
			       at);
	memcpy(r->pinned, at, HASH_HEX_LEN + 1);
	return 0;
}

int runsc_from_env(const char **ret, struct err *e)
{
	const char *env = getenv("COFFER_RUNSC"); // NOLINT(concurrency-mt-unsafe): one thread
	int r;

	*ret = env;
	if (!env || *env == '/')
		return 0;
	r = *env ? err_set(e, -EINVAL, "COFFER_RUNSC must be an absolute path, not '%.200s'", env)
		 : err_set(e, -EINVAL, "COFFER_RUNSC is set, but empty: it names no runsc");
	return err_hint(e, r, "name a runsc (PATH or PATH@sha256:DIGEST), or unset the variable");
}

static int find_usual_runsc(struct runsc *r, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(usual_paths); i++) {
		if (access(usual_paths[i], F_OK) < 0)
			continue;
		r->path = strdup(usual_paths[i]);
		return r->path ? 0 : err_set(e, -ENOMEM, "out of memory");
	}
	err_set(e, -ENOENT, "runsc is not installed");
	return err_hint(e, -ENOENT, "`coffer doctor` tells how to get it; --engine ns needs no runsc");
}

int runsc_open(const char *named, struct runsc *ret, struct err *e)
{
	CLEANUP(runsc_release) struct runsc r = RUNSC_INIT;
	int ret_code = named ? parse_named_runsc(named, &r, e) : find_usual_runsc(&r, e);

	if (ret_code < 0)
		return ret_code;
	r.fd = r.pinned[0] ? open(r.path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
			   : helper_open_trusted(r.path, e);
	if (r.fd < 0)
		return e && e->code ? r.fd : err_sys(e, r.pinned[0] ? -errno : r.fd, "cannot use %s", r.path);
	/* runsc.S2: a user who may write to the file could change it after its digest was checked. */
	ret_code = r.pinned[0] ? helper_check_fd(r.fd, r.path, e) : 0;
	if (ret_code < 0)
		return ret_code;
	*ret = r;
	r = RUNSC_INIT;
	return 0;
}

/* All that a verdict depends on, as one line: file, kernel, user, version of coffer. */
static int verdict_identity(const struct runsc *r, struct buf *out)
{
	struct utsname u;
	struct stat st;

	if (fstat(r->fd, &st) < 0 || uname(&u) < 0)
		return -errno;
	buf_addf(out, "%ju:%ju %jd %jd.%09ld %jd.%09ld %s %s %d %s", (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino, (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
		 (intmax_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec, u.release, u.version, (int)geteuid(),
		 COFFER_VERSION);
	return buf_error(out);
}

static int digest_runsc(struct runsc *r, struct err *e)
{
	static const char elf[] = { 0x7f, 'E', 'L', 'F' };
	struct stat st;
	void *data;

	if (fstat(r->fd, &st) < 0)
		return err_sys(e, -errno, "cannot look at %s", r->path);
	if (!S_ISREG(st.st_mode) || st.st_size <= 0)
		return err_set(e, -ENOEXEC, "%s is not a program", r->path);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, r->fd, 0);
	if (data == MAP_FAILED)
		return err_sys(e, -errno, "cannot read %s", r->path);
	hash_sha256_hex(data, (size_t)st.st_size, r->sha256);
	/* It is executed by descriptor in a root without a shell or a library. */
	if ((size_t)st.st_size < sizeof(elf) || memcmp(data, elf, sizeof(elf)) != 0)
		err_set(e, -ENOEXEC, "%s is not runsc itself; a script that starts it cannot be used",
			r->path);
	munmap(data, (size_t)st.st_size);
	return e->code;
}

static int check_pinned_digest(const struct runsc *r, struct err *e)
{
	if (!r->pinned[0] || str_eq(r->pinned, r->sha256))
		return 0;
	return err_set(e, -EPERM, "will not run %s: its digest is sha256:%s, not the one that was named",
		       r->path, r->sha256);
}

/* Each path of a runsc has a verdict file of its own. */
static void verdict_file_name(const struct runsc *r, char out[32])
{
	char hex[HASH_HEX_LEN + 1];

	hash_sha256_hex(r->path, strlen(r->path), hex);
	snprintf(out, 32, "runsc-%.16s", hex);
}

static bool copy_verdict_text(const json_t *o, const char *key, char *out, size_t cap)
{
	const char *s = jsonget_text_or_null(o, key);

	return s && (size_t)snprintf(out, cap, "%s", s) < cap;
}

/* 1: a stored verdict says that it works; 0: there is none; negative: a stored verdict says that it does not, and why. */
static int read_verdict(struct runsc *r, struct state *st, const char *id, struct err *e)
{
	autobuf struct buf b = BUF_INIT;
	char name[32], why[sizeof(e->msg)] = "";
	const char *of;
	json_t *o;
	int ret = 0;

	verdict_file_name(r, name);
	if (fd_read_file(st->fd, name, VERDICT_MAX, &b) < 0)
		return 0;
	o = json_loadb(b.data ? b.data : "", b.len, 0, NULL);
	of = jsonget_text_or_null(o, "of");
	if (of && str_eq(of, id) && copy_verdict_text(o, "sha256", r->sha256, sizeof(r->sha256)) &&
	    copy_verdict_text(o, "version", r->version, sizeof(r->version)) &&
	    copy_verdict_text(o, "hostnet", r->hostnet, sizeof(r->hostnet))) {
		uint64_t when = (uint64_t)json_integer_value(json_object_get(o, "when"));
		uint64_t now = clock_nsec(CLOCK_REALTIME);

		if (json_is_true(json_object_get(o, "works")))
			ret = 1;
		else if (copy_verdict_text(o, "why", why, sizeof(why)) && now >= when &&
			 now - when < RETRY_HUNG_AFTER)
			ret = err_set(e, -ENOTSUP, "%s", why);
	}
	json_decref(o);
	return ret;
}

/* A verdict that cannot be stored is made again by the next run: only time is lost. */
static void store_verdict(const struct runsc *r, struct state *st, const char *id, const struct err *why)
{
	autobuf struct buf b = BUF_INIT;
	struct json j = JSON_INIT(&b);
	char name[32];
	int ret;

	verdict_file_name(r, name);
	json_obj(&j, NULL);
	json_str(&j, "of", id);
	json_str(&j, "path", r->path);
	json_str(&j, "version", r->version);
	json_str(&j, "sha256", r->sha256);
	json_str(&j, "hostnet", r->hostnet);
	json_u64(&j, "when", clock_nsec(CLOCK_REALTIME));
	json_bool(&j, "works", why->code == 0);
	if (why->code)
		json_str(&j, "why", why->msg);
	json_end_obj(&j);
	ret = buf_error(&b) ? 0 : fd_replace_file(st->fd, name, b.data, b.len, 0600);
	(void)ret;
}

int runsc_check(struct runsc *r, struct state *st, struct err *e)
{
	autobuf struct buf id = BUF_INIT;
	struct err why = ERR_INIT;
	int ret = verdict_identity(r, &id);

	if (ret < 0)
		return err_sys(e, ret, "cannot look at %s", r->path);
	ret = read_verdict(r, st, buf_cstr(&id), &why);
	if (ret == 0) {
		ret = digest_runsc(r, e);
		/* A file with another digest than the pinned one is not executed at all, not even for its version. */
		if (ret == 0)
			ret = check_pinned_digest(r, e);
		if (ret < 0)
			return ret;
		ret = runsc_probe(r, st, &why);
		/* A quick failure is not stored: trying again costs little, and its cause may be gone by then. */
		if (ret == 0 || ret == -ETIMEDOUT)
			store_verdict(r, st, buf_cstr(&id), &why);
	} else {
		int pin = check_pinned_digest(r, e);

		if (pin < 0)
			return pin;
	}
	if (ret < 0) {
		err_set(e, ret, "%s", why.msg);
		return err_hint(e, ret, "--engine ns needs no gVisor; --runsc PATH names another runsc");
	}
	return 0;
}
