/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of the documentation after `make install`. Every text that refers a reader to a file of doc/ uses
 * these names. */
#ifndef CLI_DOCS_H
#define CLI_DOCS_H

/* Set by the build: a directory below the prefix, laid out like the repository (doc/, examples/). */
#define DOCS_DIR COFFER_DOCDIR
#define DOCS_EGRESS DOCS_DIR "/doc/egress.md"
#define DOCS_NOTIFY DOCS_DIR "/doc/notify.md"
#define DOCS_PROCESSES DOCS_DIR "/doc/processes.md"
#define DOCS_SECRETS DOCS_DIR "/doc/secrets.md"
#define DOCS_TRIGGERS DOCS_DIR "/doc/triggers.md"
#define DOCS_UI DOCS_DIR "/doc/ui.md"

#endif
