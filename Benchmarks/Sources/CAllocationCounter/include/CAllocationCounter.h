#ifndef C_ALLOCATION_COUNTER_H
#define C_ALLOCATION_COUNTER_H

/// The number of memory allocations by this process since it started.
unsigned long allocation_count(void);

#endif
