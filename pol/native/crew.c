/* Threads that share the instructions of a run.
 *
 * They are started once, because a sandbox forbids it later. Between two instructions they look for the next one for a
 * moment before they sleep.
 */

#define _POSIX_C_SOURCE 200809L

#include "crew.h"

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST 64
#define LOOKS 2000 /* before a thread sleeps */
#define STACK (512 * 1024) /* bytes: no part needs a tenth, and it counts against the bounds of a sandbox */

struct Crew {
    pthread_mutex_t lock;
    pthread_cond_t called, done;
    pthread_t threads[MOST];
    int64_t workers; /* without the caller */
    _Atomic uint64_t call;
    _Atomic int64_t busy; /* workers that have not answered the last call */
    _Atomic int64_t next;
    int64_t parts;
    Part part;
    const void *context;
    int is_over;
    _Atomic int is_taken;
    pid_t process;
};

static void pause_a_moment(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void take_parts(Crew *crew)
{
    int64_t part;
    while ((part = atomic_fetch_add(&crew->next, 1)) < crew->parts)
        crew->part(crew->context, part);
}

static void wait_for_call(Crew *crew, uint64_t last)
{
    for (int look = 0; look < LOOKS; look++) {
        if (atomic_load(&crew->call) != last)
            return;
        pause_a_moment();
    }
    pthread_mutex_lock(&crew->lock);
    while (atomic_load(&crew->call) == last)
        pthread_cond_wait(&crew->called, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

static void *work(void *argument)
{
    Crew *crew = argument;
    /* A thread begins as the one that made it: it may have been told to round otherwise since it was asked. */
    fesetenv(FE_DFL_ENV);
    for (uint64_t last = 0;; last++) {
        wait_for_call(crew, last);
        if (crew->is_over)
            break;
        take_parts(crew);
        if (atomic_fetch_sub(&crew->busy, 1) == 1) {
            pthread_mutex_lock(&crew->lock);
            pthread_cond_signal(&crew->done);
            pthread_mutex_unlock(&crew->lock);
        }
    }
    forget_scratch();
    return NULL;
}

/* Tell every worker that there is something new. */
static void call(Crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    atomic_fetch_add(&crew->call, 1);
    pthread_cond_broadcast(&crew->called);
    pthread_mutex_unlock(&crew->lock);
}

Crew *assay_crew_begin(int64_t threads)
{
    if (threads > MOST)
        threads = MOST;
    Crew *crew = threads < 2 ? NULL : calloc(1, sizeof *crew);
    if (crew == NULL)
        return NULL;
    crew->process = getpid();
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->called, NULL);
    pthread_cond_init(&crew->done, NULL);
    /* Signals are for the threads that the process had before. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    while (crew->workers < threads - 1 && pthread_create(&crew->threads[crew->workers], &small, work, crew) == 0)
        crew->workers++;
    pthread_attr_destroy(&small);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (crew->workers == 0) {
        assay_crew_end(crew);
        return NULL;
    }
    return crew;
}

Crew *crew_take(Crew *crew)
{
    if (crew == NULL || crew->process != getpid() || atomic_exchange(&crew->is_taken, 1))
        return NULL;
    return crew;
}

void crew_give_back(Crew *crew)
{
    if (crew != NULL)
        atomic_store(&crew->is_taken, 0);
}

int64_t crew_size(const Crew *crew)
{
    return crew == NULL ? 1 : crew->workers + 1;
}

void crew_do(Crew *crew, int64_t parts, Part part, const void *context)
{
    if (crew == NULL || parts < 2) {
        for (int64_t i = 0; i < parts; i++)
            part(context, i);
        return;
    }
    crew->part = part;
    crew->context = context;
    crew->parts = parts;
    atomic_store(&crew->next, 0);
    atomic_store(&crew->busy, crew->workers);
    call(crew);
    take_parts(crew);
    for (int look = 0; look < LOOKS && atomic_load(&crew->busy); look++)
        pause_a_moment();
    pthread_mutex_lock(&crew->lock);
    while (atomic_load(&crew->busy))
        pthread_cond_wait(&crew->done, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

void assay_crew_end(Crew *crew)
{
    /* Where it was not started there is nobody to wait for. */
    if (crew == NULL || crew->process != getpid())
        return;
    crew->is_over = 1;
    call(crew);
    for (int64_t i = 0; i < crew->workers; i++)
        pthread_join(crew->threads[i], NULL);
    pthread_cond_destroy(&crew->called);
    pthread_cond_destroy(&crew->done);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}
