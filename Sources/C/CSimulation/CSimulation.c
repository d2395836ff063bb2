#include "CSimulation.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SWIFT_CALL __attribute__((swiftcall))

// The runtime's hooks (swift/include/swift/Runtime/Concurrency.h, "SWIFT_CONCURRENCY_HOOK"): each receives the arguments of the function
// that it replaces, and the function itself.
typedef SWIFT_CALL void (*original_enqueue)(void *job);
typedef SWIFT_CALL void (*original_delayed)(unsigned long long delay, void *job);
typedef SWIFT_CALL void (*original_deadline)(long long, long long, long long, long long, int, void *job);

extern SWIFT_CALL void (*swift_task_enqueueGlobal_hook)(void *job, original_enqueue original);
extern SWIFT_CALL void (*swift_task_enqueueGlobalWithDelay_hook)(
  unsigned long long delay, void *job, original_delayed original);
extern SWIFT_CALL void (*swift_task_enqueueGlobalWithDeadline_hook)(
  long long sec, long long nsec, long long tsec, long long tnsec, int clock, void *job, original_deadline original);

extern SWIFT_CALL uint64_t swift_task_getJobTaskId(void *job);
// The executor is two words; zero is the global executor.
extern SWIFT_CALL void swift_job_run(void *job, void *identity, uintptr_t implementation);

static _Thread_local authflow_simulation_enqueue enqueue;
static _Thread_local void *context;

static SWIFT_CALL void enqueue_hook(void *job, original_enqueue original) {
  if (enqueue) {
    enqueue(context, job, swift_task_getJobTaskId(job));
  } else {
    original(job);
  }
}

static void refuse(void) {
  if (!enqueue) return;
  fputs("A simulated task sleeps on the system's clock, and not on the one that it was given.\n", stderr);
  abort();
}

static SWIFT_CALL void delay_hook(unsigned long long delay, void *job, original_delayed original) {
  refuse();
  original(delay, job);
}

static SWIFT_CALL void deadline_hook(
  long long sec, long long nsec, long long tsec, long long tnsec, int clock, void *job, original_deadline original) {
  refuse();
  original(sec, nsec, tsec, tnsec, clock, job);
}

static void install(void) {
  swift_task_enqueueGlobal_hook = enqueue_hook;
  swift_task_enqueueGlobalWithDelay_hook = delay_hook;
  swift_task_enqueueGlobalWithDeadline_hook = deadline_hook;
}

void authflow_simulation_begin(authflow_simulation_enqueue function, void *argument) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
  context = argument;
  enqueue = function;
}

void authflow_simulation_end(void) {
  enqueue = NULL;
  context = NULL;
}

void authflow_simulation_run(void *job) { swift_job_run(job, NULL, 0); }
