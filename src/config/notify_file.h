/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notification targets, as the operator wrote them:
 *
 *	version: 1
 *	ui: https://coffer.example.org/                      # where `coffer ui` is reached: the link in notifications
 *	notify:
 *	  - command: [notify-send, Cofferdam]            # the event as JSON on its standard input
 *	  - name: ops
 *	    webhook: { url: "https://hooks.example.com/coffer", secret: ops-hook }
 *	  - matrix: { homeserver: "https://matrix.example.org", room: "!abc:example.org", secret: matrix-token }
 *
 * In webhook and matrix: `secret` names a secret of the vault that is bound to that host; `secret_file` is, instead, a file that
 * only its owner may read. `ca` is a PEM file with the only trusted CAs; `to: ADDRESS[:PORT]` is the only address that is dialled,
 * and the only way to a private one. `timeout` applies to each attempt.
 */
#ifndef CONFIG_NOTIFY_FILE_H
#define CONFIG_NOTIFY_FILE_H

#include "base/str.h"
#include "codec/net/host.h"

#define NOTIFY_FILE_MAX (64u << 10)
#define NOTIFY_TARGETS_MAX 16
#define NOTIFY_NAME_MAX 31
#define NOTIFY_ARGV_MAX 32
#define NOTIFY_PATH_MAX 1024
#define NOTIFY_ROOM_MAX 255
#define NOTIFY_UI_MAX 200
#define NOTIFY_TIMEOUT 15 /* seconds, by default */

enum notify_kind { NOTIFY_COMMAND, NOTIFY_WEBHOOK, NOTIFY_MATRIX, NOTIFY_KIND_COUNT };
const char *config_notify_kind_name(enum notify_kind k); /* "webhook" */

struct notify_target {
	enum notify_kind kind;
	char name[NOTIFY_NAME_MAX + 1]; /* default: its kind and index, "webhook-2" */
	struct strv argv;		/* NOTIFY_COMMAND */
	struct host host;
	uint16_t port;
	/* canonical, with query; of a homeserver: its prefix, without a trailing slash */
	char path[NOTIFY_PATH_MAX + 1];
	char room[NOTIFY_ROOM_MAX + 1];
	char secret[64];
	char *secret_file, *ca; /* absolute */
	bool has_pin;
	struct addr pin;
	uint16_t pin_port;
	uint32_t timeout; /* seconds */
};

struct notify_conf {
	struct notify_target targets[NOTIFY_TARGETS_MAX];
	size_t n;
	char ui[NOTIFY_UI_MAX + 1]; /* where the page is reached; "": not specified */
};

#define NOTIFY_CONF_INIT ((struct notify_conf){ 0 })

/* Refuses a file that others may write to. path NULL: /etc/cofferdam/notify.yaml for root, otherwise
 * cofferdam/notify.yaml in the user's configuration; -ENOENT if that does not exist. */
int config_notify_load(struct notify_conf *ret, const char *path, struct err *e) MUST_CHECK;
/* Does the file exist, valid or not? */
bool config_notify_is_there(void);
int config_notify_parse(struct notify_conf *ret, const char *name, const char *dir, const char *text,
			size_t len, struct err *e) MUST_CHECK;
void config_notify_release(struct notify_conf *c);

#endif
