/* libnvidia-ml.so.1 for a machine without a GPU: replays a trace to unmodified nvidia-ml-py.
 *
 * NVML_TRACE       CSV without header: t_ms, gpu_percent, used_mib, process_mib; a row holds until the next
 * NVML_TRACE_T0    time zero of the trace, ns of the monotonic clock (shared by all processes)
 * NVML_TRACE_PID   process id that holds process_mib; NVML_TRACE_FOREIGN adds a second one with 100 MiB
 * NVML_FAIL        names of calls that answer NVML_ERROR_NOT_SUPPORTED, comma-separated
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define MIB (1024ull * 1024ull)
#define TOTAL (8192 * MIB)
#define UUID "GPU-00000000-1111-2222-3333-444444444444"
#define CHECK(name) if (fails(name)) return NOT_SUPPORTED

typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned int gpu, memory; } utilization;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process;
typedef struct { double gpu, used, process; } row;

static int fails(const char *name) {
    const char *list = getenv("NVML_FAIL");
    return list && strstr(list, name) != NULL;
}

static row now(void) {
    row found = {0, 0, 0}, next;
    struct timespec t;
    double at, start_ms;
    FILE *file = fopen(getenv("NVML_TRACE"), "r");
    clock_gettime(CLOCK_MONOTONIC, &t);
    at = t.tv_sec * 1e3 + t.tv_nsec / 1e6 - strtoull(getenv("NVML_TRACE_T0"), NULL, 10) / 1e6;
    while (fscanf(file, "%lf,%lf,%lf,%lf", &start_ms, &next.gpu, &next.used, &next.process) == 4 && start_ms <= at)
        found = next;
    fclose(file);
    return found;
}

int nvmlInitWithFlags(unsigned int flags) { (void)flags; CHECK("nvmlInit"); return SUCCESS; }
int nvmlInit_v2(void) { CHECK("nvmlInit"); return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "Error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned int size) { snprintf(text, size, "999.00"); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 1; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) {
    *handle = (void *)1;
    return index == 0 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    *handle = (void *)1;
    return strcmp(uuid, UUID) == 0 ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetName(void *handle, char *text, unsigned int size) {
    (void)handle;
    CHECK("nvmlDeviceGetName");
    snprintf(text, size, "Stand-in 8 GiB");
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned int size) {
    (void)handle;
    snprintf(text, size, UUID);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_v1 *info) {
    (void)handle;
    CHECK("nvmlDeviceGetMemoryInfo,");
    info->total = TOTAL;
    info->used = now().used * MIB;
    info->free = TOTAL - info->used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2 *info) {
    (void)handle;
    CHECK("nvmlDeviceGetMemoryInfo_v2");
    info->total = TOTAL;
    info->reserved = 0;
    info->used = now().used * MIB;
    info->free = TOTAL - info->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *handle, utilization *rates) {
    (void)handle;
    CHECK("nvmlDeviceGetUtilizationRates");
    rates->gpu = now().gpu;
    rates->memory = 0;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, process *list) {
    unsigned int there = 0, room = *count;
    row at = now();
    process found[2] = {{0}};
    (void)handle;
    CHECK("nvmlDeviceGetComputeRunningProcesses_v3");
    if (getenv("NVML_TRACE_PID") && at.process > 0) {
        found[there].pid = atoi(getenv("NVML_TRACE_PID"));
        found[there++].used = at.process * MIB;
    }
    if (getenv("NVML_TRACE_FOREIGN")) {
        found[there].pid = atoi(getenv("NVML_TRACE_FOREIGN"));
        found[there++].used = 100 * MIB;
    }
    *count = there;
    if (there > room) return INSUFFICIENT_SIZE;
    memcpy(list, found, there * sizeof(process));
    return SUCCESS;
}
