#ifndef C_ALLOCATION_COUNTER_H
#define C_ALLOCATION_COUNTER_H

/// How often this process has allocated memory since it began.
unsigned long allocation_count(void);

#endif
