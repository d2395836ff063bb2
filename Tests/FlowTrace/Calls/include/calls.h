#ifndef CALLS_H
#define CALLS_H

/// Discards the calls recorded so far, and records all subsequent calls.
void calls_begin(void);

/// Writes the addresses of the recorded calls, in order, one per line, as offsets in the program's file.
void calls_write(const char *path);

#endif
