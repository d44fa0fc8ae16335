/* Memory that each thread keeps, so that a product need not map new pages each time. */

#include <stdlib.h>

#include "exact.h"

#define LINE ((size_t)64)

static _Thread_local void *kept;
static _Thread_local size_t kept_bytes;

void *scratch(size_t bytes)
{
    if (bytes > kept_bytes) {
        size_t wanted = (bytes + bytes / 4 + LINE) / LINE * LINE;
        free(kept);
        kept = aligned_alloc(LINE, wanted);
        kept_bytes = kept == NULL ? 0 : wanted;
    }
    return kept;
}

void forget_scratch(void)
{
    free(kept);
    kept = NULL;
    kept_bytes = 0;
}

EXPORT void assay_forget(void)
{
    forget_scratch();
}
