/* What the machine offers: instruction set features by their LLVM names, and how many CPUs this process may use. */
#define _GNU_SOURCE
#include "forge_internal.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_SIZE = 32, PATH_SIZE = 512, FEATURES_SIZE = 2048 };

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <sys/syscall.h>

#define OLDER_CPU "llvm -mcpu=x86-64-v2"

enum { EAX, EBX, ECX, EDX };
enum { ANY_STATE, YMM = 0x06, ZMM = 0xe6, TILE = 0x60000 }; /* bits of XCR0 that the system must have enabled */

typedef struct {
  const char *name;
  uint32_t leaf;
  uint8_t subleaf, reg, bit;
  uint32_t state;
} cpu_feature;

static const cpu_feature FEATURES[] = {
    {"sse3", 1, 0, ECX, 0, 0}, {"pclmul", 1, 0, ECX, 1, 0}, {"ssse3", 1, 0, ECX, 9, 0}, {"fma", 1, 0, ECX, 12, YMM},
    {"cx16", 1, 0, ECX, 13, 0}, {"sse4.1", 1, 0, ECX, 19, 0}, {"sse4.2", 1, 0, ECX, 20, 0}, {"crc32", 1, 0, ECX, 20, 0},
    {"movbe", 1, 0, ECX, 22, 0}, {"popcnt", 1, 0, ECX, 23, 0}, {"aes", 1, 0, ECX, 25, 0}, {"xsave", 1, 0, ECX, 27, 0},
    {"avx", 1, 0, ECX, 28, YMM}, {"f16c", 1, 0, ECX, 29, YMM}, {"rdrnd", 1, 0, ECX, 30, 0},
    {"x87", 1, 0, EDX, 0, 0}, {"cx8", 1, 0, EDX, 8, 0}, {"cmov", 1, 0, EDX, 15, 0}, {"mmx", 1, 0, EDX, 23, 0},
    {"fxsr", 1, 0, EDX, 24, 0}, {"sse", 1, 0, EDX, 25, 0}, {"sse2", 1, 0, EDX, 26, 0},
    {"fsgsbase", 7, 0, EBX, 0, 0}, {"sgx", 7, 0, EBX, 2, 0}, {"bmi", 7, 0, EBX, 3, 0}, {"avx2", 7, 0, EBX, 5, YMM},
    {"bmi2", 7, 0, EBX, 8, 0}, {"invpcid", 7, 0, EBX, 10, 0}, {"rtm", 7, 0, EBX, 11, 0}, {"avx512f", 7, 0, EBX, 16, ZMM},
    {"evex512", 7, 0, EBX, 16, ZMM}, {"avx512dq", 7, 0, EBX, 17, ZMM}, {"rdseed", 7, 0, EBX, 18, 0}, {"adx", 7, 0, EBX, 19, 0},
    {"avx512ifma", 7, 0, EBX, 21, ZMM}, {"clflushopt", 7, 0, EBX, 23, 0}, {"clwb", 7, 0, EBX, 24, 0},
    {"avx512cd", 7, 0, EBX, 28, ZMM}, {"sha", 7, 0, EBX, 29, 0}, {"avx512bw", 7, 0, EBX, 30, ZMM},
    {"avx512vl", 7, 0, EBX, 31, ZMM},
    {"avx512vbmi", 7, 0, ECX, 1, ZMM}, {"pku", 7, 0, ECX, 4, 0}, {"waitpkg", 7, 0, ECX, 5, 0}, {"avx512vbmi2", 7, 0, ECX, 6, ZMM},
    {"shstk", 7, 0, ECX, 7, 0}, {"gfni", 7, 0, ECX, 8, 0}, {"vaes", 7, 0, ECX, 9, YMM}, {"vpclmulqdq", 7, 0, ECX, 10, YMM},
    {"avx512vnni", 7, 0, ECX, 11, ZMM}, {"avx512bitalg", 7, 0, ECX, 12, ZMM}, {"avx512vpopcntdq", 7, 0, ECX, 14, ZMM},
    {"rdpid", 7, 0, ECX, 22, 0}, {"kl", 7, 0, ECX, 23, 0}, {"cldemote", 7, 0, ECX, 25, 0}, {"movdiri", 7, 0, ECX, 27, 0},
    {"movdir64b", 7, 0, ECX, 28, 0}, {"enqcmd", 7, 0, ECX, 29, 0},
    {"uintr", 7, 0, EDX, 5, 0}, {"avx512vp2intersect", 7, 0, EDX, 8, ZMM}, {"serialize", 7, 0, EDX, 14, 0},
    {"tsxldtrk", 7, 0, EDX, 16, 0}, {"pconfig", 7, 0, EDX, 18, 0}, {"amx-bf16", 7, 0, EDX, 22, TILE},
    {"avx512fp16", 7, 0, EDX, 23, ZMM}, {"amx-tile", 7, 0, EDX, 24, TILE}, {"amx-int8", 7, 0, EDX, 25, TILE},
    {"sha512", 7, 1, EAX, 0, YMM}, {"sm3", 7, 1, EAX, 1, YMM}, {"sm4", 7, 1, EAX, 2, YMM}, {"raoint", 7, 1, EAX, 3, 0},
    {"avxvnni", 7, 1, EAX, 4, YMM}, {"avx512bf16", 7, 1, EAX, 5, ZMM}, {"cmpccxadd", 7, 1, EAX, 7, 0},
    {"amx-fp16", 7, 1, EAX, 21, TILE}, {"hreset", 7, 1, EAX, 22, 0}, {"avxifma", 7, 1, EAX, 23, YMM},
    {"avxvnniint8", 7, 1, EDX, 4, YMM}, {"avxneconvert", 7, 1, EDX, 5, YMM}, {"amx-complex", 7, 1, EDX, 8, TILE},
    {"avxvnniint16", 7, 1, EDX, 10, YMM}, {"prefetchi", 7, 1, EDX, 14, 0}, {"usermsr", 7, 1, EDX, 15, 0},
    {"avx10.1", 7, 1, EDX, 19, ZMM}, {"avx10.1-512", 7, 1, EDX, 19, ZMM},
    {"xsaveopt", 0xd, 1, EAX, 0, 0}, {"xsavec", 0xd, 1, EAX, 1, 0}, {"xsaves", 0xd, 1, EAX, 3, 0},
    {"ptwrite", 0x14, 0, EBX, 4, 0}, {"widekl", 0x19, 0, EBX, 2, 0},
    {"sahf", 0x80000001, 0, ECX, 0, 0}, {"lzcnt", 0x80000001, 0, ECX, 5, 0}, {"sse4a", 0x80000001, 0, ECX, 6, 0},
    {"prfchw", 0x80000001, 0, ECX, 8, 0}, {"xop", 0x80000001, 0, ECX, 11, YMM}, {"lwp", 0x80000001, 0, ECX, 15, 0},
    {"fma4", 0x80000001, 0, ECX, 16, YMM}, {"tbm", 0x80000001, 0, ECX, 21, 0}, {"mwaitx", 0x80000001, 0, ECX, 29, 0},
    {"64bit", 0x80000001, 0, EDX, 29, 0},
    {"clzero", 0x80000008, 0, EBX, 0, 0}, {"rdpru", 0x80000008, 0, EBX, 4, 0}, {"wbnoinvd", 0x80000008, 0, EBX, 9, 0},
};

static uint32_t enabled_state(void) {
  uint32_t low, high, registers[4];
  if (!__get_cpuid(1, &registers[EAX], &registers[EBX], &registers[ECX], &registers[EDX])) return 0;
  if ((registers[ECX] & (1u << 27)) == 0) return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

static bool has_feature(const cpu_feature *feature) {
  uint32_t registers[4];
  if (!__get_cpuid_count(feature->leaf, feature->subleaf, &registers[EAX], &registers[EBX], &registers[ECX], &registers[EDX]))
    return false;
  if ((registers[feature->reg] >> feature->bit & 1) == 0) return false;
  return feature->state == ANY_STATE || (enabled_state() & feature->state) == feature->state;
}

/* Linux lets a process use the 8 KiB of tile registers only once it has asked; the answer holds for all of its threads. */
static bool is_allowed(const cpu_feature *feature) {
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
#ifdef SYS_arch_prctl
  return feature->state != TILE || syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
  return feature->state != TILE;
#endif
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

#define OLDER_CPU "llvm -mtriple=aarch64-linux-gnu -mcpu=generic"

typedef struct {
  const char *name;
  uint8_t vector, bit; /* vector 0: AT_HWCAP, 1: AT_HWCAP2 */
} cpu_feature;

static const cpu_feature FEATURES[] = {
    {"fp-armv8", 0, 0}, {"neon", 0, 1}, {"aes", 0, 3}, {"sha2", 0, 6}, {"crc", 0, 7}, {"lse", 0, 8}, {"fullfp16", 0, 10},
    {"rdm", 0, 12}, {"jsconv", 0, 13}, {"complxnum", 0, 14}, {"rcpc", 0, 15}, {"ccpp", 0, 16}, {"sha3", 0, 17}, {"sm4", 0, 19},
    {"dotprod", 0, 20}, {"sve", 0, 22}, {"fp16fml", 0, 23}, {"dit", 0, 24}, {"rcpc-immo", 0, 26}, {"flagm", 0, 27},
    {"ssbs", 0, 28}, {"sb", 0, 29}, {"pauth", 0, 30},
    {"ccdp", 1, 0}, {"sve2", 1, 1}, {"sve2-aes", 1, 2}, {"sve2-bitperm", 1, 4}, {"sve2-sha3", 1, 5}, {"sve2-sm4", 1, 6},
    {"altnzcv", 1, 7}, {"fptoint", 1, 8}, {"i8mm", 1, 13}, {"bf16", 1, 14}, {"rand", 1, 16}, {"bti", 1, 17}, {"mte", 1, 18},
};

static bool has_feature(const cpu_feature *feature) {
  return getauxval(feature->vector ? AT_HWCAP2 : AT_HWCAP) >> feature->bit & 1;
}

static bool is_allowed(const cpu_feature *feature) { return feature != NULL; }

#else

#define OLDER_CPU "llvm -mcpu=generic"

typedef struct {
  const char *name;
} cpu_feature;

static const cpu_feature FEATURES[] = {{"\x01"}};

static bool has_feature(const cpu_feature *feature) { return feature->name == NULL; }

static bool is_allowed(const cpu_feature *feature) { return feature != NULL; }

#endif

static const cpu_feature *find_feature(const char *name) {
  for (size_t i = 0; i < sizeof FEATURES / sizeof *FEATURES; i++)
    if (strcmp(FEATURES[i].name, name) == 0) return &FEATURES[i];
  return NULL;
}

static int32_t check_feature(const char *name, forge_error *error) {
  if (*name == '\0' || *name == '-') return FORGE_OK;
  if (*name == '+') name++;
  const cpu_feature *feature = find_feature(name);
  if (feature == NULL)
    return forge_fail(error, FORGE_ERROR_CPU,
                      "model: it needs the CPU feature '%s', which this runtime does not know; update the runtime", name);
  if (has_feature(feature)) {
    if (is_allowed(feature)) return FORGE_OK;
    return forge_fail(error, FORGE_ERROR_CPU,
                      "model: it needs the CPU feature '%s', which the system does not let this process use; run it where it may, or "
                      "compile it without tile registers (target 'llvm -mattr=-amx-tile')",
                      name);
  }
  return forge_fail(error, FORGE_ERROR_CPU,
                    "model: it needs the CPU feature '%s', which this CPU lacks; compile it for this CPU (target 'llvm') or for an "
                    "older one ('" OLDER_CPU "')",
                    name);
}

static int32_t check_features(const char *features, forge_error *error) {
  while (*features) {
    const size_t length = strcspn(features, ",");
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%.*s", (int)(length < NAME_SIZE ? length : NAME_SIZE - 1), features);
    const int32_t status = check_feature(name, error);
    if (status != FORGE_OK) return status;
    features += length + (features[length] == ',');
  }
  return FORGE_OK;
}

int32_t forge_check_cpu(const char *features, forge_error *error) {
  static _Thread_local char good[FEATURES_SIZE]; /* cpuid takes microseconds in a virtual machine: remember the last answer */
  if (features == NULL || strcmp(features, good) == 0) return FORGE_OK;
  const int32_t status = check_features(features, error);
  if (status == FORGE_OK && strlen(features) < sizeof good) strcpy(good, features);
  return status;
}

static int32_t affinity_cpus(void) {
  for (size_t cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
    cpu_set_t *set = CPU_ALLOC(cpus);
    if (set == NULL) break;
    const size_t size = CPU_ALLOC_SIZE(cpus);
    const int32_t count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int32_t)online : 1;
}

static bool read_line(const char *path, char *line, int32_t size) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  const bool read = fgets(line, size, file) != NULL;
  fclose(file);
  return read;
}

/* CPUs that a quota allows, rounded up; 0: no limit. */
static int32_t quota_cpus(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return 0;
  const long long cpus = (quota + period - 1) / period;
  return cpus < INT32_MAX ? (int32_t)cpus : 0;
}

static int32_t smaller_limit(int32_t a, int32_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/* The smallest quota on the way from this process's cgroup to the root (version 2). */
static int32_t cgroup2_cpus(void) {
  char line[PATH_SIZE], path[2 * PATH_SIZE], group[PATH_SIZE] = "";
  if (!read_line("/proc/self/cgroup", line, sizeof line) || strncmp(line, "0::", 3) != 0) return 0;
  snprintf(group, sizeof group, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
  int32_t limit = 0;
  for (;;) {
    long long quota, period;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
    if (read_line(path, line, sizeof line) && sscanf(line, "%lld %lld", &quota, &period) == 2)
      limit = smaller_limit(limit, quota_cpus(quota, period));
    char *parent = strrchr(group, '/');
    if (parent == NULL) return limit;
    *parent = '\0';
  }
}

static int32_t cgroup1_cpus(void) {
  char quota[64], period[64];
  if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota)) return 0;
  if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period)) return 0;
  return quota_cpus(atoll(quota), atoll(period));
}

int32_t forge_usable_cpus(void) {
  const int32_t quota = smaller_limit(cgroup2_cpus(), cgroup1_cpus());
  return smaller_limit(affinity_cpus(), quota);
}
