/* Threads that share the instructions of a run.
 *
 * The threads are started once, because a sandbox forbids new threads later. The thread that runs an instruction publishes
 * its parts. It then takes parts one after another, as does every other thread that is awake. It waits only for threads
 * that have taken a part. A thread that finds no parts for a moment sleeps. Waking it takes longer than most instructions,
 * so it is woken only after a run had enough work to share without it.
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
#define LOOKS 4000 /* checks for parts before a thread sleeps */
#define STACK (512 * 1024) /* bytes; no part needs a tenth of it, and it counts against the memory limit of a sandbox */

struct Crew {
    pthread_mutex_t lock;
    pthread_cond_t called, done;
    pthread_t threads[MOST];
    int64_t workers;          /* number of threads, without the caller */
    _Atomic int64_t open;     /* parts that no thread has taken */
    _Atomic int64_t unended;  /* parts that are not done */
    _Atomic int is_waited_for;
    _Atomic int64_t awake;
    int64_t calls;
    int is_over;
    double missed; /* work that was done without the workers in this run */
    int64_t parts;
    Part part;
    const void *context;
    _Atomic int is_taken;
    pid_t process;
};

static void pause_a_moment(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* A thread takes a part first and reads its description afterwards, which does not change until the part is done. */
static void take_parts(Crew *crew)
{
    int64_t open = atomic_load(&crew->open);
    while (open > 0) {
        if (!atomic_compare_exchange_weak(&crew->open, &open, open - 1))
            continue;
        crew->part(crew->context, crew->parts - open);
        if (atomic_fetch_sub(&crew->unended, 1) == 1 && atomic_load(&crew->is_waited_for)) {
            pthread_mutex_lock(&crew->lock);
            pthread_cond_signal(&crew->done);
            pthread_mutex_unlock(&crew->lock);
        }
        open = atomic_load(&crew->open);
    }
}

static void *work(void *argument)
{
    Crew *crew = argument;
    /* A new thread inherits the rounding mode of its creator, which may have changed since it was checked. */
    fesetenv(FE_DFL_ENV);
    for (int64_t last = 0;;) {
        pthread_mutex_lock(&crew->lock);
        while (crew->calls == last)
            pthread_cond_wait(&crew->called, &crew->lock);
        last = crew->calls;
        int is_over = crew->is_over;
        pthread_mutex_unlock(&crew->lock);
        if (is_over)
            break;
        atomic_fetch_add(&crew->awake, 1);
        for (int look = 0; look < LOOKS; look++) {
            if (atomic_load(&crew->open) > 0) {
                take_parts(crew);
                look = 0;
            }
            pause_a_moment();
        }
        atomic_fetch_sub(&crew->awake, 1);
    }
    forget_scratch();
    return NULL;
}

/* Wake all sleeping workers. */
static void call(Crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    crew->calls++;
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
    /* The other threads of the process handle signals. */
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
    crew->missed = 0.0;
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

void crew_expect(Crew *crew, double work, double enough)
{
    if (crew == NULL || atomic_load(&crew->awake) == crew->workers)
        return;
    crew->missed += work;
    if (crew->missed < enough)
        return;
    crew->missed = 0.0;
    call(crew);
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
    atomic_store(&crew->unended, parts);
    atomic_store(&crew->open, parts);
    take_parts(crew);
    for (int look = 0; look < LOOKS && atomic_load(&crew->unended); look++)
        pause_a_moment();
    if (!atomic_load(&crew->unended))
        return;
    pthread_mutex_lock(&crew->lock);
    atomic_store(&crew->is_waited_for, 1);
    while (atomic_load(&crew->unended))
        pthread_cond_wait(&crew->done, &crew->lock);
    atomic_store(&crew->is_waited_for, 0);
    pthread_mutex_unlock(&crew->lock);
}

void assay_crew_end(Crew *crew)
{
    /* In another process, the threads do not exist. */
    if (crew == NULL || crew->process != getpid())
        return;
    pthread_mutex_lock(&crew->lock);
    crew->is_over = 1;
    pthread_mutex_unlock(&crew->lock);
    call(crew);
    for (int64_t i = 0; i < crew->workers; i++)
        pthread_join(crew->threads[i], NULL);
    pthread_cond_destroy(&crew->called);
    pthread_cond_destroy(&crew->done);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}
