/* The reception of a validator of the rig, which can be switched off (LD_PRELOAD).
 *
 * While the file RIG_DEAF_FILE exists, datagrams received by recv, recvfrom, recvmsg and recvmmsg are dropped, so that
 * the validator hears nothing. It still sends. Connections over TCP are not affected.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *deaf_file;

__attribute__((constructor)) static void read_environment(void) {
    deaf_file = getenv("RIG_DEAF_FILE");
}

/* Returns the result of a reception, or "nothing was received". */
static long receive(int socket, long received) {
    int kind = 0;
    socklen_t length = sizeof kind;
    if (received <= 0 || !deaf_file || access(deaf_file, F_OK) != 0) return received;
    if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &kind, &length) != 0) return received;
    if (kind != SOCK_DGRAM) return received;
    errno = EAGAIN;
    return -1;
}
int recvmmsg(int socket, struct mmsghdr *all, unsigned count, int flags, struct timespec *limit) {
    return (int)receive(socket, syscall(SYS_recvmmsg, socket, all, count, flags, limit));
}
ssize_t recvmsg(int socket, struct msghdr *message, int flags) {
    return receive(socket, syscall(SYS_recvmsg, socket, message, flags));
}
ssize_t recvfrom(int socket, void *bytes, size_t length, int flags, struct sockaddr *from,
                 socklen_t *from_length) {
    return receive(socket, syscall(SYS_recvfrom, socket, bytes, length, flags, from, from_length));
}
ssize_t recv(int socket, void *bytes, size_t length, int flags) {
    return receive(socket, syscall(SYS_recvfrom, socket, bytes, length, flags, 0, 0));
}
