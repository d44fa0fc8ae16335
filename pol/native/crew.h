/* Threads that share the instructions of one run. */

#ifndef ASSAY_CREW_H
#define ASSAY_CREW_H

#include "exact.h"

typedef struct Crew Crew;

/* One of so many parts of an instruction; parts write to different places, so their order is free. */
typedef void (*Part)(const void *context, int64_t part);

/* Begin with ``threads`` in all, the caller among them; NULL for one, and where no other can be started. */
Crew *crew_begin(int64_t threads);

/* Do all parts, and come back when they are done. */
void crew_do(Crew *crew, int64_t parts, Part part, const void *context);

/* How many threads there are. */
int64_t crew_size(const Crew *crew);

/* End the threads. */
void crew_end(Crew *crew);

#endif
