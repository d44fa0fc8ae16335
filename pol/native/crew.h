/* Threads that share the instructions of a run. */

#ifndef ASSAY_CREW_H
#define ASSAY_CREW_H

#include "exact.h"

typedef struct Crew Crew;

/* A function that computes one part of an instruction. Parts write to different places, so their order is free. */
typedef void (*Part)(const void *context, int64_t part);

/* Start threads so that there are ``threads`` including the caller. Return NULL if ``threads`` is 1 or no thread starts. */
EXPORT Crew *assay_crew_begin(int64_t threads);

/* End the threads. No run may be using the crew. */
EXPORT void assay_crew_end(Crew *crew);

/* Return the crew for a run, or NULL if another run uses it, or if it was started in another process (before a fork). */
Crew *crew_take(Crew *crew);

/* End the use of the crew by a run. */
void crew_give_back(Crew *crew);

/* Return the number of threads, including the caller. */
int64_t crew_size(const Crew *crew);

/* Announce work before it is shared. Sleeping threads are woken once ``enough`` work was done without them in this run. */
void crew_expect(Crew *crew, double work, double enough);

/* Compute all parts, and return when they are done. */
void crew_do(Crew *crew, int64_t parts, Part part, const void *context);

#endif
