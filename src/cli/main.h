/* SPDX-License-Identifier: Apache-2.0 */
/* The whole command line as one function, which src/bin/coffer.c calls. */
#ifndef CLI_MAIN_H
#define CLI_MAIN_H

int coffer_main(int argc, char **argv); /* the exit code */

#endif
