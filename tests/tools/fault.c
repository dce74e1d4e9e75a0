/* usage: fault kill|enospc|eio N FOLDER COUNT-FILE COMMAND…
 *
 * Runs a command and lets the Nth call that changes a file fail: the process is killed before
 * the call, or the call answers "no space left on device" or "input/output error". Calls of all threads are counted
 * together, in their order; strace counts for each thread, which leaves most calls out. Calls on
 * open files count below FOLDER only, so that sockets, pipes and logs stay out of it. How many
 * calls there were is written to COUNT-FILE. Exits as the command did, 137 when it was killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A call, and which argument is the open file; -1 where it takes paths. */
static const struct { int number, file; } calls[] = {
    {SYS_write, 0}, {SYS_writev, 0}, {SYS_pwrite64, 0}, {SYS_pwritev, 0}, {SYS_pwritev2, 0},
    {SYS_copy_file_range, 2}, {SYS_sendfile, 0}, {SYS_ftruncate, 0}, {SYS_fallocate, 0},
    {SYS_fsync, 0}, {SYS_fdatasync, 0}, {SYS_sync_file_range, 0}, {SYS_syncfs, 0},
    {SYS_renameat2, -1}, {SYS_linkat, -1}, {SYS_symlinkat, -1}, {SYS_mkdirat, -1},
#ifdef SYS_renameat
    {SYS_renameat, -1},
#endif
#ifdef SYS_rename
    {SYS_rename, -1}, {SYS_link, -1}, {SYS_symlink, -1}, {SYS_mkdir, -1},
#endif
};
enum { N_CALLS = sizeof calls / sizeof *calls };

static void give_up(const char *what)
{
    perror(what);
    exit(125);
}

/* Has the calls above decided by whoever holds the descriptor that is returned. */
static int install(void)
{
    struct sock_filter filter[2 * N_CALLS + 2];
    struct sock_fprog program = {.filter = filter};
    int i, n = 0;

    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (i = 0; i < N_CALLS; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program.len = n;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        give_up("no_new_privs");
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* Passes a descriptor on through a socket: send when `fd` is not negative, else receive. */
static int pass(int socket, int fd)
{
    char byte = 0, space[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    if (fd < 0) {
        if (recvmsg(socket, &message, 0) != 1 || !(header = CMSG_FIRSTHDR(&message)))
            return -1;
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
        return fd;
    }
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, 0) == 1 ? fd : -1;
}

static int counts(const struct seccomp_notif *call, const char *folder)
{
    char link[64], path[4096];
    ssize_t length;
    int i;

    for (i = 0; i < N_CALLS && calls[i].number != call->data.nr; i++)
        ;
    if (i == N_CALLS || calls[i].file < 0)
        return 1;
    snprintf(link, sizeof link, "/proc/%d/fd/%d", call->pid, (int)call->data.args[calls[i].file]);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

int main(int argc, char **argv)
{
    long wanted, count = 0;
    int sockets[2], listener, status, kill_it;
    pid_t child;
    FILE *out;

    if (argc < 6) {
        fputs("usage: fault kill|enospc|eio N FOLDER COUNT-FILE COMMAND…\n", stderr);
        return 2;
    }
    kill_it = !strcmp(argv[1], "kill");
    wanted = atol(argv[2]);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) || (child = fork()) < 0)
        give_up("fork");
    if (!child) {
        if ((listener = install()) < 0)
            give_up("seccomp");
        if (pass(sockets[1], listener) < 0)
            give_up("sendmsg");
        close(listener);
        execvp(argv[5], argv + 5);
        _exit(127);
    }
    close(sockets[1]);
    if ((listener = pass(sockets[0], -1)) < 0)
        give_up("recvmsg");
    for (;;) {
        struct pollfd ready = {listener, POLLIN, 0};
        struct seccomp_notif call = {0};
        struct seccomp_notif_resp answer = {0};

        if (poll(&ready, 1, -1) < 0 && errno != EINTR)
            give_up("poll");
        if (ready.revents & POLLHUP)
            break; /* all threads have ended */
        if (!(ready.revents & POLLIN) || ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
            continue; /* the caller was killed meanwhile */
        answer.id = call.id;
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        if (counts(&call, argv[3]) && ++count == wanted) {
            if (kill_it) {
                kill(child, SIGKILL);
                continue;
            }
            answer.flags = 0;
            answer.error = strcmp(argv[1], "eio") ? -ENOSPC : -EIO;
        }
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    if (!(out = fopen(argv[4], "w")) || fprintf(out, "%ld\n", count) < 0 || fclose(out))
        give_up(argv[4]);
    if (waitpid(child, &status, 0) != child)
        give_up("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
