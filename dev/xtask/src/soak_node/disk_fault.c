/* A disk that fails: loaded in front of the system's library by `cargo xtask soak-node`, never part of the product.
 *
 * SOAK_DISK_FAULT=PATH:ERRNO:AFTER:COUNT lets AFTER changes of files with PATH in their names pass and then fails
 * COUNT of them with ERRNO; the disk works again afterwards. If ERRNO is ENOSPC and the first of the COUNT changes is a
 * `write`, or a `pwrite` at the end of a file, this change does not fail but writes only half of its bytes, as on a
 * disk that fills up. A `pwrite` into existing bytes fails as a whole: it needs no new block, so no disk tears it.
 * Changes without a descriptor (rename, unlink) pass. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char path_part[64];
static int fault_number;
static long first_call, last_call;
static atomic_long calls;
static int is_armed;

__attribute__((constructor)) static void arm(void) {
    const char *text = getenv("SOAK_DISK_FAULT");
    long count = 0;
    if (text && sscanf(text, "%63[^:]:%d:%ld:%ld", path_part, &fault_number, &first_call, &count) == 4) {
        last_call = first_call + count;
        is_armed = 1;
    }
}

/* 0: passes; 1: fails; 2: the first that fails. */
static int verdict(int descriptor) {
    char link[48], path[512];
    if (!is_armed || atomic_load(&calls) >= last_call) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    if (!strstr(path, path_part)) return 0;
    long call = atomic_fetch_add(&calls, 1);
    if (call < first_call || call >= last_call) return 0;
    return call == first_call ? 2 : 1;
}

#define REAL(name, type) \
    static __typeof__((type)0) real; \
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, name)
#define FAIL \
    do { errno = fault_number; return -1; } while (0)

ssize_t write(int descriptor, const void *bytes, size_t count) {
    REAL("write", ssize_t (*)(int, const void *, size_t));
    int is_failing = verdict(descriptor);
    if (is_failing == 2 && fault_number == ENOSPC && count > 1) return real(descriptor, bytes, count / 2);
    if (is_failing) FAIL;
    return real(descriptor, bytes, count);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    REAL("writev", ssize_t (*)(int, const struct iovec *, int));
    if (verdict(descriptor)) FAIL;
    return real(descriptor, parts, count);
}

static int is_at_end(int descriptor, long long offset) {
    struct stat facts;
    return offset > 0 && fstat(descriptor, &facts) == 0 && offset >= facts.st_size;
}

#define POSITIONED(name, offset_type) \
    ssize_t name(int descriptor, const void *bytes, size_t count, offset_type offset) { \
        REAL(#name, ssize_t (*)(int, const void *, size_t, offset_type)); \
        int is_failing = verdict(descriptor); \
        if (is_failing == 2 && fault_number == ENOSPC && count > 1 && is_at_end(descriptor, offset)) \
            return real(descriptor, bytes, count / 2, offset); \
        if (is_failing) FAIL; \
        return real(descriptor, bytes, count, offset); \
    }
POSITIONED(pwrite, off_t)
POSITIONED(pwrite64, off64_t)

#define ON_DESCRIPTOR(name) \
    int name(int descriptor) { \
        REAL(#name, int (*)(int)); \
        if (verdict(descriptor)) FAIL; \
        return real(descriptor); \
    }
ON_DESCRIPTOR(fsync)
ON_DESCRIPTOR(fdatasync)

#define RESIZING(name, offset_type) \
    int name(int descriptor, offset_type length) { \
        REAL(#name, int (*)(int, offset_type)); \
        if (verdict(descriptor)) FAIL; \
        return real(descriptor, length); \
    }
RESIZING(ftruncate, off_t)
RESIZING(ftruncate64, off64_t)
