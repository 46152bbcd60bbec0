/* libnvidia-ml.so.1 for a machine without a GPU: replays a trace to unmodified nvidia-ml-py.
 *
 * A trace is a CSV without header, one row per line:
 *   t_ms, gpu %, memory %, used MiB, process MiB, energy mJ, power mW, SM MHz, memory MHz, degrees C, throttle mask
 * A row holds until the next; energy alone is linear between rows, and flat after the last. Of it are made:
 *   the driver's sample buffer: every SAMPLE_MS since time zero the mean of gpu % over the SAMPLE_MS before, rounded;
 *   GPM between two samples: SM activity = mean of gpu %, occupancy = half, tensor = a quarter, DRAM = mean of memory %.
 *
 * NVML_TRACE       the trace of the first card; without it the driver is "not loaded"
 * NVML_TRACE_B     of the second card, which is idle without it; NVML_SWAPPED=1 shows it first
 * NVML_DEVICES     how many cards there are, 1 to CARDS; NVML_TRACE_C to NVML_TRACE_H are the traces of the others
 * NVML_T0          time zero of the traces, ns of the monotonic clock
 * NVML_NOW_MS      the time since then, for a test that makes its own time; epoch = monotonic + MADE_UP_EPOCH_NS then
 * NVML_COUNTER_MS  how often the counter of the energy rises; without it, always
 * NVML_CLOCK_MS    how far the driver's clock is ahead of the machine's
 * NVML_PID_FILE    file with the id of the process that holds process MiB, as long as it lives
 * NVML_FOREIGN     before, during, after: when, seen from that process, another one is on the card
 * NVML_CONTAINER=1 ids are those of another name space
 * NVML_GRAPHICS    how many processes draw on the card; a desktop's
 * NVML_PROCESS_MEMORY=unknown | garbage | nothing
 * NVML_FAIL        call=code,...; "*" is every call, code -1 never returns, any other -N succeeds after N ms.
 *                  NVML_FAIL_FROM names a file: they fail once it is there.
 *                  A name of a field or of a GPM metric fails that one alone: FIELD_186=3, GPM_5=3
 * NVML_SAMPLES     doubled: an answer holds the driver's samples above 50 % twice;
 *                  repeated: an answer starts with all that the ones before it held;
 *                  disputed: samples from 10 % on come twice in an answer, 10 below and 10 above their value
 * NVML_MIG         numbers of the cards in MIG mode, as 0 or 013: they have no utilisation
 * NVML_STALE=1     power and clocks are as late as those of other people's cards: a reading holds for HOLD_MS, is
 *                  DELAY_MS old then, and power stays as high as it was in the LINGER_MS before that
 * NVML_CAPABILITY  compute capability of each card, "9.0"; without it the call is not supported
 * NVML_GPM=0       a card older than Hopper
 * NVML_MEMORY_MIB  memory of each card, else 8 GiB; NVML_LIMIT_MW its enforced power limit, else 300 W
 * Compiled with -DOLD_DRIVER it lacks the calls that older drivers lack.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define DRIVER_NOT_LOADED 9
#define MIB (1024ull * 1024ull)
#define TOTAL (number_of("NVML_MEMORY_MIB", 8192) * MIB)
#define RESERVED (256 * MIB) /* in `used` of the first version of the memory call */
#define LIMIT_MW number_of("NVML_LIMIT_MW", 300000)
#define SAMPLE_MS 100
#define KEPT 120 /* samples in the driver's buffer */
#define MADE_UP_EPOCH_NS 1700000000000000000ll
#define FOREIGN_PID 4000000
#define ROWS 262144 /* 7 hours at 10 Hz; a longer trace ends the program */
#define CARDS 8
#define HOLD_MS 550
#define DELAY_MS 450
#define LINGER_MS 3500
#define MAY_FAIL do { int code = failure(__func__); if (code) return code; } while (0)

enum { T, GPU, MEMORY, USED, PROCESS, ENERGY, POWER, SM_CLOCK, MEMORY_CLOCK, TEMPERATURE, THROTTLE, COLUMNS };

typedef struct { char path[1024]; int count; double (*rows)[COLUMNS]; } trace;
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned int gpu, memory; } utilization;
typedef struct { unsigned int version, sensor; int degrees; } temperature;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process;
typedef struct { unsigned long long time_us; union { double d; unsigned int u; unsigned long long ull; } value; } sample;
typedef struct {
    unsigned int id, scope;
    long long time_us, latency_us;
    unsigned int type, code;
    union { double d; unsigned int u; unsigned long long ull; } value;
} field;
typedef struct { trace *card; double t_ms; } gpm_sample;
typedef struct { unsigned int id, code; double value; const char *names[3]; } gpm_metric;
typedef struct { unsigned int version, count; gpm_sample *one, *two; gpm_metric metrics[]; } gpm_request;

static trace cards[CARDS];
static const char *const UUIDS[CARDS] = {
    "GPU-00000000-1111-2222-3333-444444444444", "GPU-99999999-8888-7777-6666-555555555555",
    "GPU-22222222-1111-2222-3333-444444444444", "GPU-33333333-1111-2222-3333-444444444444",
    "GPU-44444444-1111-2222-3333-444444444444", "GPU-55555555-1111-2222-3333-444444444444",
    "GPU-66666666-1111-2222-3333-444444444444", "GPU-77777777-1111-2222-3333-444444444444"};

static int set(const char *name) { return getenv(name) && strcmp(getenv(name), "0") != 0; }

static unsigned long long number_of(const char *name, unsigned long long usual) {
    return getenv(name) ? strtoull(getenv(name), NULL, 10) : usual;
}

static int divided(const void *handle) {
    return getenv("NVML_MIG") && strchr(getenv("NVML_MIG"), (int)('0' + ((const trace *)handle - cards))) != NULL;
}

static unsigned int devices(void) {
    unsigned long long count = number_of("NVML_DEVICES", 1);
    if (count >= 1 && count <= CARDS) return (unsigned int)count;
    fprintf(stderr, "NVML_DEVICES: 1 to %d\n", CARDS);
    abort();
}

static int told_to(const char *code) {
    if (atoi(code) == -1) for (;;) pause();
    if (atoi(code) < 0) usleep(-1000 * atoi(code));
    return atoi(code) < 0 ? SUCCESS : atoi(code);
}

static int failure(const char *name) {
    const char *at = getenv("NVML_FAIL"), *from = getenv("NVML_FAIL_FROM");
    size_t length = strlen(name);
    if (!at || (from && access(from, F_OK) != 0)) return SUCCESS;
    for (; *at; at += strcspn(at, ","), at += *at == ',') {
        if (strncmp(at, "*=", 2) == 0) return told_to(at + 2);
        if (strncmp(at, name, length) == 0 && at[length] == '=') return told_to(at + length + 1);
    }
    return SUCCESS;
}

static double zero_ms(void) { return getenv("NVML_T0") ? strtoull(getenv("NVML_T0"), NULL, 10) / 1e6 : 0; }

static double clock_ms(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static double now_ms(void) {
    return getenv("NVML_NOW_MS") ? atof(getenv("NVML_NOW_MS")) : clock_ms(CLOCK_MONOTONIC) - zero_ms();
}

static __attribute__((unused)) unsigned long long epoch_us(double t_ms) {
    double ahead_ms = getenv("NVML_CLOCK_MS") ? atof(getenv("NVML_CLOCK_MS")) : 0;
    double epoch_ms = getenv("NVML_NOW_MS") ? zero_ms() + now_ms() + MADE_UP_EPOCH_NS / 1e6 : clock_ms(CLOCK_REALTIME);
    return (unsigned long long)((epoch_ms - now_ms() + t_ms + ahead_ms) * 1e3);
}

static trace *read_trace(void *handle) {
    trace *card = handle;
    char name[] = "NVML_TRACE_A";
    const char *path;
    double *r;
    FILE *file;
    name[11] = (char)('A' + (card - cards));
    path = getenv(card == cards ? "NVML_TRACE" : name);
    if (path && strcmp(card->path, path) == 0) return card;
    card->count = 0;
    if (!card->rows && !(card->rows = malloc(ROWS * sizeof *card->rows))) abort();
    if (path && (file = fopen(path, "r"))) {
        snprintf(card->path, sizeof card->path, "%s", path);
        for (; card->count < ROWS; card->count++) {
            r = card->rows[card->count];
            if (fscanf(file, "%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf,%lf", r, r + 1, r + 2, r + 3, r + 4, r + 5,
                       r + 6, r + 7, r + 8, r + 9, r + 10) != COLUMNS) break;
        }
        if (fscanf(file, " %*c") != EOF) {
            fprintf(stderr, "%s: row %d of the trace is no row, or one too many\n", path, card->count + 1);
            abort();
        }
        fclose(file);
    }
    return card;
}

static int row_at(const trace *card, double t_ms) {
    int low = 0, high = card->count;
    while (high - low > 1) *(card->rows[(low + high) / 2][T] <= t_ms ? &low : &high) = (low + high) / 2;
    return low;
}

static double value(void *handle, int column, double t_ms) {
    trace *card = read_trace(handle);
    int i;
    double *row, *next;
    if (!card->count) return 0;
    i = row_at(card, t_ms);
    row = card->rows[i];
    next = card->rows[i + 1 < card->count ? i + 1 : i];
    if (column != ENERGY || next == row || t_ms < row[T]) return row[column];
    return row[ENERGY] + (next[ENERGY] - row[ENERGY]) * (t_ms - row[T]) / (next[T] - row[T]);
}

static double late(void *handle, int column) {
    double t_ms = now_ms(), most;
    trace *card = read_trace(handle);
    if (!set("NVML_STALE")) return value(handle, column, t_ms);
    t_ms = HOLD_MS * (double)(long long)(t_ms / HOLD_MS) - DELAY_MS;
    most = value(handle, column, t_ms);
    for (int i = row_at(card, t_ms - LINGER_MS); column == POWER && i < card->count && card->rows[i][T] <= t_ms; i++)
        if (card->rows[i][POWER] > most) most = card->rows[i][POWER];
    return most;
}

static __attribute__((unused)) double mean(void *handle, int column, double from_ms, double to_ms) {
    trace *card = read_trace(handle);
    double sum = 0, at = from_ms, until;
    for (int i = 0; i <= card->count && at < to_ms; i++) {
        until = i < card->count && card->rows[i][T] < to_ms ? card->rows[i][T] : to_ms;
        if (until > at) sum += value(handle, column, at) * (until - at), at = until;
    }
    return to_ms > from_ms ? sum / (to_ms - from_ms) : 0;
}

int nvmlInitWithFlags(unsigned int flags) { MAY_FAIL; return getenv("NVML_TRACE") ? SUCCESS : DRIVER_NOT_LOADED; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { MAY_FAIL; return SUCCESS; }
const char *nvmlErrorString(int code) { return code == 19 ? "In Use" : "an error of the stand-in"; }
int nvmlSystemGetDriverVersion(char *text, unsigned int size) { MAY_FAIL; snprintf(text, size, "999.00"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { MAY_FAIL; *version = 12040; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned int *count) { MAY_FAIL; *count = devices(); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) {
    MAY_FAIL;
    if (index >= devices()) return INVALID_ARGUMENT;
    *handle = &cards[set("NVML_SWAPPED") && index < 2 ? index ^ 1 : index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    MAY_FAIL;
    for (unsigned int i = 0; i < devices(); i++) {
        *handle = &cards[i];
        if (strcmp(uuid, UUIDS[i]) == 0) return SUCCESS;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetName(void *handle, char *text, unsigned int size) {
    MAY_FAIL;
    snprintf(text, size, "Stand-in%s %llu GiB", handle == cards + 1 ? " B" : "", TOTAL / (1024 * MIB));
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned int size) {
    MAY_FAIL;
    snprintf(text, size, "%s", UUIDS[(trace *)handle - cards]);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_v1 *info) {
    MAY_FAIL;
    info->total = TOTAL;
    info->used = value(handle, USED, now_ms()) * MIB + RESERVED;
    info->free = TOTAL - info->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *handle, utilization *rates) {
    MAY_FAIL;
    if (divided(handle)) return NOT_SUPPORTED;
    rates->gpu = value(handle, GPU, now_ms());
    rates->memory = value(handle, MEMORY, now_ms());
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned int *mw) {
    MAY_FAIL;
    *mw = late(handle, POWER);
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *mj) {
    MAY_FAIL;
    double step_ms = getenv("NVML_COUNTER_MS") ? atof(getenv("NVML_COUNTER_MS")) : 0, t_ms = now_ms();
    if (step_ms > 0) t_ms = step_ms * (unsigned long long)(t_ms / step_ms);
    *mj = value(handle, ENERGY, t_ms);
    return SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned int *mw) { MAY_FAIL; *mw = LIMIT_MW; return SUCCESS; }

int nvmlDeviceGetClockInfo(void *handle, unsigned int type, unsigned int *mhz) {
    MAY_FAIL;
    *mhz = late(handle, type == 1 ? SM_CLOCK : MEMORY_CLOCK);
    return type == 1 || type == 2 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    MAY_FAIL;
    (void)handle;
    return getenv("NVML_CAPABILITY") && sscanf(getenv("NVML_CAPABILITY"), "%d.%d", major, minor) == 2
        ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetTemperature(void *handle, unsigned int sensor, unsigned int *degrees) {
    MAY_FAIL;
    *degrees = value(handle, TEMPERATURE, now_ms());
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *mask) {
    MAY_FAIL;
    *mask = value(handle, THROTTLE, now_ms());
    return SUCCESS;
}

static unsigned long long implausible(unsigned long long used) {
    const char *told = getenv("NVML_PROCESS_MEMORY");
    if (told && strcmp(told, "nothing") == 0) return 0;
    return !told ? used : strcmp(told, "garbage") == 0 ? 1ull << 60 : ~0ull;
}

static int list(void *handle, unsigned int *count, process *room) {
    unsigned int there = 0, size = *count, moved = set("NVML_CONTAINER") ? 1000000 : 0;
    const char *path = getenv("NVML_PID_FILE"), *foreign = getenv("NVML_FOREIGN");
    process found[2] = {{0}};
    int pid = 0, lives;
    double used = value(handle, PROCESS, now_ms());
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file && fscanf(file, "%d", &pid) != 1) pid = 0;
    if (file) fclose(file);
    lives = pid && kill(pid, 0) == 0;
    if (lives && used > 0) {
        found[there].pid = pid + moved;
        found[there++].used = implausible(used * MIB);
    }
    if (foreign && strstr(foreign, !pid ? "before" : lives ? "during" : "after")) {
        found[there].pid = FOREIGN_PID;
        found[there++].used = implausible(100 * MIB);
    }
    *count = there;
    if (there > size) return INSUFFICIENT_SIZE;
    if (there) memcpy(room, found, there * sizeof(process));
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned int *count, process *room) {
    MAY_FAIL;
    return list(handle, count, room);
}

#ifndef OLD_DRIVER

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, process *room) {
    MAY_FAIL;
    return list(handle, count, room);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned int *count, process *room) {
    unsigned int there = getenv("NVML_GRAPHICS") ? atoi(getenv("NVML_GRAPHICS")) : 0, size = *count;
    MAY_FAIL;
    (void)handle;
    *count = there;
    if (there > size) return INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < there; i++) room[i] = (process){.pid = FOREIGN_PID + 1 + i, .used = MIB};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2 *info) {
    MAY_FAIL;
    info->total = TOTAL;
    info->reserved = RESERVED;
    info->used = value(handle, USED, now_ms()) * MIB;
    info->free = TOTAL - RESERVED - info->used;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(void *handle, unsigned int *current, unsigned int *pending) {
    MAY_FAIL;
    *current = *pending = divided(handle);
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *handle, unsigned long long *mask) {
    MAY_FAIL;
    *mask = value(handle, THROTTLE, now_ms());
    return SUCCESS;
}

int nvmlDeviceGetTemperatureV(void *handle, temperature *asked) {
    MAY_FAIL;
    asked->degrees = value(handle, TEMPERATURE, now_ms());
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(void *handle, int count, field *fields) {
    char name[32];
    MAY_FAIL;
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "FIELD_%u", fields[i].id);
        fields[i].code = fields[i].id == 185 || fields[i].id == 186 ? failure(name) : NOT_SUPPORTED;
        fields[i].type = 1;
        fields[i].value.u = late(handle, POWER);
    }
    return SUCCESS;
}

int nvmlDeviceGetSamples(void *handle, int kind, unsigned long long seen, int *type, unsigned int *count, sample *room) {
    unsigned int there = 0, room_for = room ? *count : 0, percent, times;
    const char *how = getenv("NVML_SAMPLES") ? getenv("NVML_SAMPLES") : "";
    int disputed = strcmp(how, "disputed") == 0;
    long newest = (long)(now_ms() / SAMPLE_MS), oldest = newest > KEPT ? newest - KEPT + 1 : 1;
    MAY_FAIL;
    if (divided(handle) || kind != 1) return NOT_SUPPORTED;
    for (long k = oldest; k <= newest; k++) {
        unsigned long long at = epoch_us((double)k * SAMPLE_MS);
        if (at <= seen + 500 && strcmp(how, "repeated") != 0) continue; /* two clocks' reads differ by microseconds */
        percent = mean(handle, GPU, (k - 1.0) * SAMPLE_MS, (double)k * SAMPLE_MS) + 0.5;
        times = (strcmp(how, "doubled") == 0 && percent > 50) || (disputed && percent >= 10) ? 2 : 1;
        for (unsigned int i = 0; i < times; i++, there++) {
            if (!room || there >= room_for) continue;
            room[there].time_us = at;
            room[there].value.u = disputed && times == 2 ? percent + 20 * i - 10 : percent;
        }
    }
    *type = 1;
    *count = room && room_for < there ? room_for : there;
    return there ? SUCCESS : NOT_FOUND;
}

int nvmlGpmQueryDeviceSupport(void *handle, unsigned int *support) {
    MAY_FAIL;
    support[1] = !getenv("NVML_GPM") || set("NVML_GPM");
    return SUCCESS;
}

int nvmlGpmSampleAlloc(gpm_sample **sample) { MAY_FAIL; *sample = calloc(1, sizeof **sample); return SUCCESS; }
int nvmlGpmSampleFree(gpm_sample *sample) { free(sample); return SUCCESS; }

int nvmlGpmSampleGet(void *handle, gpm_sample *sample) {
    MAY_FAIL;
    *sample = (gpm_sample){handle, now_ms()};
    return SUCCESS;
}

int nvmlGpmMetricsGet(gpm_request *asked) {
    char name[32];
    MAY_FAIL;
    for (unsigned int i = 0; i < asked->count; i++) {
        gpm_metric *metric = &asked->metrics[i];
        double busy = mean(asked->one->card, GPU, asked->one->t_ms, asked->two->t_ms);
        snprintf(name, sizeof name, "GPM_%u", metric->id);
        metric->code = failure(name);
        metric->value = metric->id == 2 ? busy : metric->id == 3 ? busy / 2 : metric->id == 5 ? busy / 4
                      : mean(asked->one->card, MEMORY, asked->one->t_ms, asked->two->t_ms);
    }
    return SUCCESS;
}

#endif
