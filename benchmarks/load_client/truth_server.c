/* A completions server with a known schedule, on one core: the truth that load clients are held
 * against. It answers every POST with `max_tokens` events: the first TTFT after the request's
 * arrival (stamped by the kernel), then one every ITL, never slowed by what came before. It stamps
 * what it writes, so that its own lateness is known and not charged to a client.
 *
 *   truth_server TTFT_US ITL_US       prints its port, serves until killed
 *   GET /truth                        its account since the last such request, as JSON
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MOST_CONNECTIONS 16384
#define MOST_SAMPLES (1 << 23)
#define REQUEST_BYTES (1 << 20)
#define QUEUE (MOST_CONNECTIONS * 2)

typedef long long ns_t;

struct connection {
    int fd, sent, wanted, busy;
    unsigned generation;
    ns_t due, last_write;
    char *in;
    size_t in_length;
    char *out;
    size_t out_length;
};

struct queue {
    struct { int fd; unsigned generation; ns_t due; } item[QUEUE];
    unsigned head, tail;
};

struct samples {
    float *value_us;
    size_t count;
};

static struct connection connections[MOST_CONNECTIONS];
static struct queue first_tokens, next_tokens;
static struct samples ttft, itl, late;
static ns_t ttft_ns, itl_ns, first_write, last_write;
static int poller;

static ns_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static ns_t now_ns(void) { return clock_ns(CLOCK_REALTIME); }

static void add(struct samples *s, ns_t value)
{
    if (s->count < MOST_SAMPLES)
        s->value_us[s->count++] = (float)value / 1000.0f;
}

static void push(struct queue *q, struct connection *c, ns_t due)
{
    unsigned at = q->tail++ % QUEUE;
    q->item[at].fd = c->fd;
    q->item[at].generation = c->generation;
    q->item[at].due = due;
}

static void drop(struct connection *c)
{
    close(c->fd);
    c->generation++;
    c->busy = 0;
    c->in_length = c->out_length = 0;
}

static void watch(struct connection *c, int operation, int writable)
{
    struct epoll_event event = {.events = EPOLLIN | (writable ? EPOLLOUT : 0), .data.fd = c->fd};
    epoll_ctl(poller, operation, c->fd, &event);
}

static void write_out(struct connection *c, const char *data, size_t length)
{
    if (c->out_length == 0) {
        ssize_t done = send(c->fd, data, length, MSG_NOSIGNAL);
        if (done < 0 && errno != EAGAIN) {
            drop(c);
            return;
        }
        if (done == (ssize_t)length)
            return;
        data += done > 0 ? done : 0;
        length -= done > 0 ? (size_t)done : 0;
        watch(c, EPOLL_CTL_MOD, 1);
    }
    c->out = realloc(c->out, c->out_length + length);
    memcpy(c->out + c->out_length, data, length);
    c->out_length += length;
}

static void flush_out(struct connection *c)
{
    ssize_t done = send(c->fd, c->out, c->out_length, MSG_NOSIGNAL);
    if (done < 0)
        return;
    memmove(c->out, c->out + done, c->out_length - (size_t)done);
    c->out_length -= (size_t)done;
    if (c->out_length == 0)
        watch(c, EPOLL_CTL_MOD, 0);
}

static size_t chunk(char *to, const char *format, ...)
{
    char body[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(body, sizeof body, format, arguments);
    va_end(arguments);
    return (size_t)sprintf(to, "%x\r\n%s\r\n", length, body);
}

static void emit_token(struct connection *c)
{
    char text[4096];
    ns_t before = now_ns();
    int number = ++c->sent, last = number == c->wanted;
    size_t length = chunk(
        text,
        "data: {\"id\":\"cmpl-3f0d1c5e9a7b4d2f8c6e\",\"object\":\"text_completion\","
        "\"created\":1790000000,\"model\":\"truth\",\"choices\":[{\"index\":0,\"text\":\" token\","
        "\"logprobs\":null,\"finish_reason\":%s,\"stop_reason\":null}],\"usage\":{"
        "\"prompt_tokens\":16,\"total_tokens\":%d,\"completion_tokens\":%d}}\n\n",
        last ? "\"length\"" : "null", 16 + number, number);
    if (last)
        length += (size_t)sprintf(text + length, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    add(&late, before - c->due);
    if (number > 1)
        add(&itl, before - c->last_write);
    else
        add(&ttft, before - c->due + ttft_ns);
    c->last_write = last_write = before;
    if (!first_write)
        first_write = before;
    if (last) {
        c->busy = 0;
    } else {
        c->due += itl_ns;
        push(&next_tokens, c, c->due);
    }
    write_out(c, text, length);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int describe(char *to, const char *name, struct samples *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->count; i++)
        sum += s->value_us[i];
    qsort(s->value_us, s->count, sizeof(float), by_value);
    double mean = s->count ? sum / (double)s->count : 0;
    double p99 = s->count ? s->value_us[(size_t)(0.99 * (double)(s->count - 1))] : 0;
    int length = sprintf(to, "\"%s\": {\"n\": %zu, \"mean_us\": %.2f, \"p99_us\": %.2f}",
                         name, s->count, mean, p99);
    s->count = 0;
    return length;
}

static void answer_truth(struct connection *c)
{
    char body[1024], text[2048];
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    int length = sprintf(body, "{\"cpu_s\": %.3f, \"first_unix_s\": %.6f, \"last_unix_s\": %.6f, ",
                         cpu_s, (double)first_write / 1e9, (double)last_write / 1e9);
    first_write = 0;
    length += describe(body + length, "ttft", &ttft);
    length += sprintf(body + length, ", ");
    length += describe(body + length, "itl", &itl);
    length += sprintf(body + length, ", ");
    length += describe(body + length, "late", &late);
    length += sprintf(body + length, "}");
    int whole = sprintf(text, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, body);
    write_out(c, text, (size_t)whole);
}

static void answer(struct connection *c, ns_t arrival)
{
    static const char head[] =
        "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 00:00:00 GMT\r\nserver: truth\r\n"
        "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    c->in[c->in_length] = 0;
    char *end = strstr(c->in, "\r\n\r\n");
    if (!end)
        return;
    char *length_at = strcasestr(c->in, "content-length:");
    size_t head_length = (size_t)(end - c->in) + 4;
    size_t body_length = length_at && length_at < end ? (size_t)atol(length_at + 15) : 0;
    if (c->in_length < head_length + body_length)
        return;
    char *wanted_at = strstr(c->in + head_length, "\"max_tokens\":");
    c->in_length = 0;
    if (!strncmp(c->in, "GET", 3)) {
        answer_truth(c);
        return;
    }
    c->wanted = wanted_at ? atoi(wanted_at + 13) : 1;
    c->sent = 0;
    c->busy = 1;
    c->due = arrival + ttft_ns;
    push(&first_tokens, c, c->due);
    write_out(c, head, sizeof head - 1);
}

static void readable(struct connection *c)
{
    char control[256];
    struct iovec space = {c->in + c->in_length, REQUEST_BYTES - c->in_length - 1};
    struct msghdr message = {
        .msg_iov = &space, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(c->fd, &message, 0);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN)
            drop(c);
        return;
    }
    ns_t arrival = now_ns();
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h))
        if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec t;
            memcpy(&t, CMSG_DATA(h), sizeof t);
            arrival = t.tv_sec * 1000000000LL + t.tv_nsec;
        }
    c->in_length += (size_t)got;
    answer(c, arrival);
}

static void welcome(int listener)
{
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (fd >= MOST_CONNECTIONS) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
    struct connection *c = &connections[fd];
    c->fd = fd;
    if (!c->in)
        c->in = malloc(REQUEST_BYTES);
    watch(c, EPOLL_CTL_ADD, 0);
}

static struct queue *earlier(void)
{
    int no_first = first_tokens.head == first_tokens.tail;
    int no_next = next_tokens.head == next_tokens.tail;
    if (no_first)
        return no_next ? NULL : &next_tokens;
    if (no_next)
        return &first_tokens;
    ns_t a = first_tokens.item[first_tokens.head % QUEUE].due;
    ns_t b = next_tokens.item[next_tokens.head % QUEUE].due;
    return a < b ? &first_tokens : &next_tokens;
}

static ns_t emit_due(void)
{
    for (int burst = 0;; burst++) {
        struct queue *q = earlier();
        if (!q)
            return 1000000000LL;
        ns_t left = q->item[q->head % QUEUE].due - now_ns();
        if (left > 0 || burst >= 64)
            return left > 0 ? left : 0;
        unsigned at = q->head++ % QUEUE;
        struct connection *c = &connections[q->item[at].fd];
        if (c->busy && c->generation == q->item[at].generation)
            emit_token(c);
    }
}

static int listen_on_loopback(void)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096))
        exit(1);
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    struct rlimit files = {MOST_CONNECTIONS, MOST_CONNECTIONS};
    setrlimit(RLIMIT_NOFILE, &files);
    ttft_ns = atoll(arguments[1]) * 1000;
    itl_ns = atoll(arguments[2]) * 1000;
    ttft.value_us = malloc(MOST_SAMPLES * sizeof(float));
    itl.value_us = malloc(MOST_SAMPLES * sizeof(float));
    late.value_us = malloc(MOST_SAMPLES * sizeof(float));
    poller = epoll_create1(EPOLL_CLOEXEC);
    int listener = listen_on_loopback();
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        ns_t left = emit_due();
        struct timespec wait = {left / 1000000000LL, left % 1000000000LL};
        int ready = epoll_pwait2(poller, events, 256, &wait, NULL);
        for (int i = 0; i < ready; i++) {
            struct connection *c = &connections[events[i].data.fd];
            if (events[i].data.fd == listener)
                welcome(listener);
            else if (events[i].events & EPOLLOUT)
                flush_out(c);
            else
                readable(c);
        }
    }
}
