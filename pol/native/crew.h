/* Threads that share the instructions of a run. */

#ifndef ASSAY_CREW_H
#define ASSAY_CREW_H

#include "exact.h"

typedef struct Crew Crew;

/* One of so many parts of an instruction; parts write to different places, so their order is free. */
typedef void (*Part)(const void *context, int64_t part);

/* Start threads, so that there are ``threads`` with the one that runs; NULL for one, and where no other can start. */
EXPORT Crew *assay_crew_begin(int64_t threads);

/* End the threads; nobody has the crew. */
EXPORT void assay_crew_end(Crew *crew);

/* Return the crew for a run, or NULL where another run has it, or its threads are in the process that forked this one. */
Crew *crew_take(Crew *crew);

void crew_give_back(Crew *crew);

/* How many threads there are. */
int64_t crew_size(const Crew *crew);

/* Say how much work there is to share, before it is shared: threads that sleep are woken when in this run there was
 * ``enough`` without them.
 */
void crew_expect(Crew *crew, double work, double enough);

/* Do all parts, and come back when they are done. */
void crew_do(Crew *crew, int64_t parts, Part part, const void *context);

#endif
