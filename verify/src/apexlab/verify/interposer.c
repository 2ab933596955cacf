/* Which kernels does this process launch, and which library do they come from?
 *
 * Preloaded (LD_PRELOAD), this stands between every library and its CUDA runtime. It notes the
 * names under which kernels are registered, counts the launches, and hands each call on unchanged.
 * It needs no profiler. It cannot see launches through the driver's own interface (Triton, cuBLAS)
 * nor those of a library with a CUDA runtime inside.
 *
 * cc -shared -fPIC -O2 -o liblaunches.so interposer.c -ldl -lpthread
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct { unsigned x, y, z; } dim3;

/* The functions that are stood in for, as X(number, name). */
#define FUNCTIONS(X) \
    X(REGISTER, __cudaRegisterFunction) X(GET, __cudaGetKernel) X(GET_API, cudaGetKernel) \
    X(STUB, __cudaLaunchKernel) X(STUB_THREAD, __cudaLaunchKernel_ptsz) \
    X(LAUNCH, cudaLaunchKernel) X(LAUNCH_THREAD, cudaLaunchKernel_ptsz) \
    X(TOGETHER, cudaLaunchCooperativeKernel) X(TOGETHER_THREAD, cudaLaunchCooperativeKernel_ptsz) \
    X(EXTENDED, cudaLaunchKernelExC) X(EXTENDED_THREAD, cudaLaunchKernelExC_ptsz)
#define NUMBER(number, name) number,
#define NAME(number, name) #name,
enum { FUNCTIONS(NUMBER) COUNT };
static const char *const names[COUNT] = { FUNCTIONS(NAME) };

/* A loaded library or program, and the runtime functions that it would call without us. Two
 * libraries of one process may use different runtimes. */
struct object { uintptr_t low, high; char *file; void *real[COUNT]; };

/* A kernel: `key` is its host function, or a handle, which leads to the slot of its function. */
struct slot {
    _Atomic uintptr_t key;
    struct slot *_Atomic function;
    const char *_Atomic name;
    struct object *_Atomic owner;
    _Atomic uint64_t done, refused;
    atomic_flag listed;
};

struct launch { const char *name, *file; uint64_t done, refused; };

#define SLOTS (1 << 17) /* torch registers 24,000 kernels */
#define PROBES 4096
#define LISTED (1 << 14)
#define OBJECTS 1024
#define UNKNOWN_ERROR 999

static struct slot slots[SLOTS];
static struct slot *_Atomic listed[LISTED];
static struct object objects[OBJECTS];
static atomic_int object_count, listed_count, lost;
static pthread_mutex_t objects_lock = PTHREAD_MUTEX_INITIALIZER;

static int covers(struct dl_phdr_info *info, size_t size, void *wanted) {
    struct object *object = wanted;
    uintptr_t address = object->low, low = UINTPTR_MAX, high = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD) continue;
        uintptr_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;
        low = start < low ? start : low;
        high = end > high ? end : high;
    }
    if (address < low || address >= high) return 0;
    object->low = low;
    object->high = high;
    object->file = (char *)info->dlpi_name;
    return 1;
}

static int is_ours(const void *function) {
    Dl_info there, here;
    return dladdr(function, &there) && dladdr(slots, &here) && there.dli_fbase == here.dli_fbase;
}

/* The object that holds `address`, looked up in the loader: slow, once for each object. */
static struct object *learn(uintptr_t address) {
    struct object found = { .low = address, .high = address + 1 };
    if (dl_iterate_phdr(covers, &found)) {
        /* A dlopen'ed library sees its runtime through its own dependencies; RTLD_NEXT does not. */
        int program = !found.file[0];
        void *handle = program ? NULL : dlopen(found.file, RTLD_LAZY | RTLD_NOLOAD);
        for (int i = 0; handle && i < COUNT; i++) {
            void *real = dlsym(handle, names[i]);
            found.real[i] = real && !is_ours(real) ? real : NULL;
        }
        if (handle) dlclose(handle);
        found.file = realpath(program ? "/proc/self/exe" : found.file, NULL);
    }
    for (int i = 0; i < COUNT; i++)
        if (!found.real[i]) found.real[i] = dlsym(RTLD_NEXT, names[i]);
    /* The loader's own lock is not asked for under this one: a constructor holds it already. */
    pthread_mutex_lock(&objects_lock);
    int count = object_count, at = count < OBJECTS ? count : OBJECTS - 1;
    if (count < OBJECTS) {
        objects[at] = found;
        object_count = count + 1;
    } else {
        lost = 1;
    }
    pthread_mutex_unlock(&objects_lock);
    return &objects[at];
}

static struct object *object_of(const void *address) {
    uintptr_t wanted = (uintptr_t)address;
    int count = object_count;
    for (int i = 0; i < count; i++)
        if (wanted >= objects[i].low && wanted < objects[i].high) return &objects[i];
    return learn(wanted);
}

static struct slot *slot_of(const void *address) {
    uintptr_t key = (uintptr_t)address;
    size_t start = (size_t)(key * 0x9E3779B97F4A7C15u >> 40);
    for (size_t i = 0; key && i < PROBES; i++) {
        struct slot *slot = &slots[(start + i) % SLOTS];
        uintptr_t seen = 0;
        if (slot->key == key || atomic_compare_exchange_strong(&slot->key, &seen, key)
                || seen == key)
            return slot;
    }
    lost = 1;
    return NULL;
}

static int counted(const void *kernel, int status) {
    struct slot *slot = slot_of(kernel);
    if (slot && slot->function) slot = slot->function;
    if (!slot) return status;
    atomic_fetch_add(status ? &slot->refused : &slot->done, 1);
    if (!atomic_flag_test_and_set(&slot->listed)) {
        int at = atomic_fetch_add(&listed_count, 1);
        if (at < LISTED) listed[at] = slot;
        else lost = 1;
    }
    return status;
}

/* The function that `caller` would reach without us; if it would reach none, as when it is a
 * library of foreign calls, then the one of the kernel's own library. */
static void *real(int function, const void *caller, const void *kernel) {
    void *found = object_of(caller)->real[function];
    if (found || !kernel) return found;
    struct slot *slot = slot_of(kernel);
    if (slot && slot->function) slot = slot->function;
    return slot && slot->owner ? slot->owner->real[function] : NULL;
}

#define CALLER __builtin_return_address(0)

void __cudaRegisterFunction(void **binary, const char *host, char *device, const char *name,
                            int threads, void *tid, void *bid, dim3 *block, dim3 *grid, int *warp) {
    struct object *owner = object_of(CALLER);
    struct slot *slot = slot_of(host);
    if (slot) {
        slot->owner = owner;
        slot->name = name;
        slot->function = NULL;
    }
    void (*next)(void **, const char *, char *, const char *, int, void *, void *, dim3 *, dim3 *,
                 int *) = owner->real[REGISTER];
    if (next) next(binary, host, device, name, threads, tid, bid, block, grid, warp);
}

#define GET_KERNEL(name, number) \
    int name(void **handle, const void *kernel) { \
        int (*next)(void **, const void *) = real(number, CALLER, kernel); \
        int status = next ? next(handle, kernel) : UNKNOWN_ERROR; \
        if (handle && *handle && *handle != kernel) { \
            struct slot *slot = slot_of(*handle); \
            if (slot) slot->function = slot_of(kernel); \
        } \
        return status; \
    }
GET_KERNEL(__cudaGetKernel, GET)
GET_KERNEL(cudaGetKernel, GET_API)

#define LAUNCH_KERNEL(name, number) \
    int name(const void *kernel, dim3 grid, dim3 block, void **values, size_t shared, \
             void *stream) { \
        int (*next)(const void *, dim3, dim3, void **, size_t, void *) = \
            real(number, CALLER, kernel); \
        return counted(kernel, next ? next(kernel, grid, block, values, shared, stream) \
                                    : UNKNOWN_ERROR); \
    }
LAUNCH_KERNEL(__cudaLaunchKernel, STUB)
LAUNCH_KERNEL(__cudaLaunchKernel_ptsz, STUB_THREAD)
LAUNCH_KERNEL(cudaLaunchKernel, LAUNCH)
LAUNCH_KERNEL(cudaLaunchKernel_ptsz, LAUNCH_THREAD)
LAUNCH_KERNEL(cudaLaunchCooperativeKernel, TOGETHER)
LAUNCH_KERNEL(cudaLaunchCooperativeKernel_ptsz, TOGETHER_THREAD)

#define LAUNCH_EXTENDED(name, number) \
    int name(const void *config, const void *kernel, void **values) { \
        int (*next)(const void *, const void *, void **) = real(number, CALLER, kernel); \
        return counted(kernel, next ? next(config, kernel, values) : UNKNOWN_ERROR); \
    }
LAUNCH_EXTENDED(cudaLaunchKernelExC, EXTENDED)
LAUNCH_EXTENDED(cudaLaunchKernelExC_ptsz, EXTENDED_THREAD)

/* Forget what was counted. The names stay: each is registered once in a process. */
void apexlab_reset(void) {
    int count = listed_count < LISTED ? (int)listed_count : LISTED;
    for (int i = 0; i < count; i++) {
        struct slot *slot = listed[i];
        if (!slot) continue;
        slot->done = slot->refused = 0;
        atomic_flag_clear(&slot->listed);
    }
    listed_count = 0;
}

/* What was launched since: at most `room` kernels into `out`, and how many there are. `file` is
 * NULL where the library is not certain; -1 where a table was too small to hold all. */
int apexlab_launches(struct launch *out, int room) {
    if (lost) return -1;
    int count = listed_count;
    for (int i = 0; i < count && i < room; i++) {
        struct slot *slot = listed[i];
        out[i] = (struct launch){ 0 };
        if (!slot) continue; /* another thread is about to write it */
        struct object *owner = slot->owner;
        uintptr_t key = slot->key;
        /* One library's registration may name the function of another, if the loader made the two
         * share it. Then nobody knows whose machine code runs. */
        int certain = owner && key >= owner->low && key < owner->high;
        out[i] = (struct launch){ slot->name, certain ? owner->file : NULL, slot->done,
                                  slot->refused };
    }
    return count;
}
