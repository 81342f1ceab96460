/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of secrets that coffer-egress is handed (egress/wire/fds.h), for tests that start it by hand:
 *
 *	mkgrants BY_LINE [mark=SEED] 'NAME HANDLE PLACEHOLDER|HOST AS [USER]|HOST AS…' … > list
 *
 * or, to make a placeholder that has the mark of such a seed (64 digits of hex):
 *
 *	mkgrants mark=SEED PLACEHOLDER
 */
#include "base/fd.h"
#include "crypto/hash.h"
#include "egress/wire/fds.h"
#include "vault/common/mark.h"
#include "vault/common/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int add_binding(struct vault_grant *g, char *text, struct err *e)
{
	struct binding *b = &g->bindings[g->n_bindings++];
	char *save = NULL, *host = strtok_r(text, " ", &save), *as = strtok_r(NULL, " ", &save);
	char *user = strtok_r(NULL, " ", &save);

	if (!host || !as)
		return err_set(e, -EINVAL, "a binding is HOST AS [USER]");
	if (binding_parse_host(host, strlen(host), 0, b, e) < 0 || binding_parse_as(as, strlen(as), b, e) < 0)
		return -EINVAL;
	return user ? binding_set_user(b, user, e) : 0;
}

static int add_grant(struct vault_grants *all, char *text, struct err *e)
{
	struct vault_grant *g = grants_add(all);
	char *save = NULL, *head = strtok_r(text, "|", &save), *part;
	char handle[16];

	if (!g || !head || sscanf(head, "%63s %15s %1024s", g->name, handle, g->placeholder) != 3)
		return err_set(e, -EINVAL, "a secret is NAME HANDLE PLACEHOLDER");
	g->handle = (uint32_t)strtoul(handle, NULL, 10);
	g->placeholder_len = strlen(g->placeholder);
	while ((part = strtok_r(NULL, "|", &save)) != NULL) {
		if (add_binding(g, part, e) < 0)
			return -EINVAL;
	}
	return 0;
}

static bool read_mark(const char *arg, struct marks *ret)
{
	unsigned char seed[MARK_SEED_LEN];

	if (strncmp(arg, "mark=", 5) != 0 || strlen(arg) != 5 + 2 * sizeof(seed) ||
	    hash_unhex(arg + 5, sizeof(seed), seed) < 0)
		return false;
	marks_make(seed, ret);
	return true;
}

static int print_marked(const struct marks *m, const char *text)
{
	char out[GRANTS_PLACEHOLDER_MAX + 1];

	if (strlen(text) > SHAPE_MAX)
		return 2;
	snprintf(out, sizeof(out), "%s", text);
	out[marks_put(m, out, strlen(out))] = '\0';
	return puts(out) < 0;
}

int main(int argc, char **argv)
{
	autogrants struct vault_grants all = GRANTS_INIT;
	autobuf struct buf packed = BUF_INIT;
	struct secrets_head h = { 0 };
	struct marks marks = { 0 };
	struct err e = ERR_INIT;

	if (argc < 2)
		return 2;
	if (argc == 3 && read_mark(argv[1], &marks))
		return print_marked(&marks, argv[2]);
	for (int i = 2; i < argc; i++) {
		if (!read_mark(argv[i], &marks) && add_grant(&all, argv[i], &e) < 0) {
			fprintf(stderr, "mkgrants: %s\n", e.msg);
			return 1;
		}
	}
	memcpy(h.magic, SECRETS_MAGIC, sizeof(h.magic));
	memcpy(h.marks, marks.v, sizeof(h.marks));
	h.by_line = strtoull(argv[1], NULL, 0);
	if (grants_pack(&all, GRANTS_GRANTED, &packed) < 0)
		return 1;
	h.len = (uint32_t)packed.len;
	return fd_write_all(STDOUT_FILENO, &h, sizeof(h)) < 0 ||
	       fd_write_all(STDOUT_FILENO, packed.data, packed.len) < 0;
}
