#ifndef AUTHFLOW_CSIMULATION_H
#define AUTHFLOW_CSIMULATION_H

#include <stdint.h>

/// Receives each Swift concurrency job that the simulating thread enqueues, with the number of its task.
typedef void (*authflow_simulation_enqueue)(void *_Nonnull context, void *_Nonnull job, uint64_t task);

/// From now on, passes the jobs that this thread enqueues to a function instead of running them. Other threads are not affected.
void authflow_simulation_begin(authflow_simulation_enqueue _Nonnull enqueue, void *_Nonnull context);

/// Ends the effect of `authflow_simulation_begin` on this thread.
void authflow_simulation_end(void);

/// Runs a job on this thread, until its task suspends or ends.
void authflow_simulation_run(void *_Nonnull job);

#endif
