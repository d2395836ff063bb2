#ifndef CALLS_H
#define CALLS_H

/// Forgets the calls so far, and records those that follow.
void calls_begin(void);

/// Writes the addresses of the functions that were called since, in order, as offsets in the program's file, a line each.
void calls_write(const char *path);

#endif
