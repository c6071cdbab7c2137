/* version: what this build is and runs on. */
#ifndef OL_MAIN_VERSION_H
#define OL_MAIN_VERSION_H

/* Writes one line to stdout: the version of optlua and of Lua. */
void ol_version_line(void);

/* Writes the build facts to stdout: versions, compiler, BLAS, threads, instruction set. */
void ol_version_facts(void);

#endif
