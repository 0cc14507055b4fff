/* A C99 program that uses one library of bf16 TN kernels on two GPUs: KERNEL is its name, HEADER its header. Prints one line
 * for each promise that is not kept, and returns their number. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include HEADER

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define CALL(function) JOIN(KERNEL, function)
typedef JOIN(KERNEL, _args) Args;

/* Of the CUDA runtime, as C declares them: its own headers are not C99. */
extern int cudaSetDevice(int);
extern int cudaMalloc(void**, size_t);
extern int cudaFree(void*);
extern int cudaMemcpy(void*, void const*, size_t, int);
extern int cudaMemset(void*, int, size_t);
extern int cudaDeviceSynchronize(void);
extern int cudaDeviceReset(void);
extern int cudaGetLastError(void);
extern int cudaStreamCreate(struct CUstream_st**);

enum { TO_DEVICE = 1, TO_HOST = 2, MOST = 1 << 22, ROUNDS = 6 };

typedef uint16_t bf16;

/* m, n, k: one tile, residues, a long K that a library shares through a workspace. */
static int const sizes[][3] = {{128, 128, 64}, {200, 136, 104}, {64, 128, 8192}, {1000, 520, 72}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
static int broken = 0;

static void expect(int holds, int device, char const* what) {
  if (holds) { return; }
  pthread_mutex_lock(&printing);
  ++broken;
  printf("device %d: %s; status text: %s; cuda error %d\n", device, what, CALL(_error_text)(), CALL(_cuda_error)());
  pthread_mutex_unlock(&printing);
}

static bf16 rounded(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float sign_of(int i, int k, int seed) { return (float)((i * 7 + k * 5 + seed) % 3 - 1); }

/* Operands in the memory of one device. */
typedef struct {
  int device;
  bf16 *a, *b, *d, *workspace;
  bf16* host;
} Memory;

static Memory memory_on(int device) {
  Memory it = {device, NULL, NULL, NULL, NULL, NULL};
  expect(cudaSetDevice(device) == 0, device, "cudaSetDevice");
  expect(cudaMalloc((void**)&it.a, MOST) == 0 && cudaMalloc((void**)&it.b, MOST) == 0, device, "cudaMalloc");
  expect(cudaMalloc((void**)&it.d, MOST) == 0 && cudaMalloc((void**)&it.workspace, 16 * MOST) == 0, device, "cudaMalloc");
  it.host = malloc(MOST);
  return it;
}

static Args args_of(Memory const* it, int m, int n, int k) {
  Args args;
  memset(&args, 0, sizeof args);
  args.struct_size = sizeof args;
  args.m = m, args.n = n, args.k = k, args.alpha = 1;
  args.a = it->a, args.lda = k;
  args.b = it->b, args.ldb = k;
  args.d = it->d, args.ldd = n;
  return args;
}

/* One product on the device of `it`, compared with that of the host; the device is current. */
static void multiply(Memory const* it, int const* size, int seed) {
  int const m = size[0], n = size[1], k = size[2];
  int i, j, l;
  int64_t bytes = 0;
  Args args = args_of(it, m, n, k);
  for (i = 0; i < m; ++i) {
    for (l = 0; l < k; ++l) { it->host[i * k + l] = rounded(sign_of(i, l, seed)); }
  }
  expect(cudaMemcpy(it->a, it->host, (size_t)m * k * 2, TO_DEVICE) == 0, it->device, "copy of A");
  for (j = 0; j < n; ++j) {
    for (l = 0; l < k; ++l) { it->host[j * k + l] = rounded(sign_of(j, l, 2 * seed)); }
  }
  expect(cudaMemcpy(it->b, it->host, (size_t)n * k * 2, TO_DEVICE) == 0, it->device, "copy of B");
  expect(cudaMemset(it->d, 0x7f, (size_t)m * n * 2) == 0, it->device, "memset of D");
  expect(CALL(_workspace_bytes)(&args, &bytes) == 0 && bytes <= 16 * MOST, it->device, "workspace_bytes");
  args.workspace = bytes ? it->workspace : NULL;
  args.workspace_bytes = bytes;
  expect(CALL(_can_run)(&args) == 0, it->device, "can_run");
  expect(CALL(_run)(&args, NULL) == 0, it->device, "run");
  expect(cudaDeviceSynchronize() == 0, it->device, "the kernel");
  expect(cudaMemcpy(it->host, it->d, (size_t)m * n * 2, TO_HOST) == 0, it->device, "copy of D");
  for (i = 0; i < m; i += 7) {
    for (j = 0; j < n; j += 5) {
      float sum = 0;
      for (l = 0; l < k; ++l) { sum += sign_of(i, l, seed) * sign_of(j, l, 2 * seed); }
      if (it->host[i * n + j] != rounded(sum)) {
        expect(0, it->device, "an element of D");
        return;
      }
    }
  }
}

static void* many(void* device) {
  Memory const it = memory_on(*(int*)device);
  int i;
  for (i = 0; i < ROUNDS * SIZES; ++i) { multiply(&it, sizes[i % SIZES], i + it.device); }
  return NULL;
}

/* Status 20: NAME_WRONG_STREAM. */
static void of_another_stream(Memory const* first, Memory const* second) {
  struct CUstream_st* stream = NULL;
  Args const args = args_of(first, 128, 128, 64);
  expect(cudaSetDevice(second->device) == 0 && cudaStreamCreate(&stream) == 0, second->device, "a stream");
  expect(cudaSetDevice(first->device) == 0 && cudaMemset(first->d, 0x5a, MOST) == 0, first->device, "memset");
  expect((int)CALL(_run)(&args, stream) == 20, first->device, "a stream of another device");
  printf("a stream of another device: %s\n", CALL(_error_text)());
  expect(strstr(CALL(_error_text)(), "stream") != NULL, first->device, "the sentence about the stream");
  expect(cudaGetLastError() == 0 && cudaDeviceSynchronize() == 0, first->device, "the runtime after a refusal");
  expect(cudaMemcpy(first->host, first->d, MOST, TO_HOST) == 0, first->device, "copy of D");
  expect(first->host[0] == 0x5a5a && first->host[128 * 128 - 1] == 0x5a5a, first->device, "a refused call wrote D");
  expect(cudaSetDevice(second->device) == 0 && cudaDeviceSynchronize() == 0, second->device, "the other device");
}

/* Status 21: NAME_FOREIGN_MEMORY. */
static void of_foreign_memory(Memory const* first, Memory const* second) {
  Args const good = args_of(first, 128, 128, 64);
  Args bad = good;
  expect(cudaSetDevice(first->device) == 0 && CALL(_can_run)(&good) == 0, first->device, "memory of its own");
  bad.b = second->b;
  expect((int)CALL(_can_run)(&bad) == 21, first->device, "memory of another device");
  printf("memory of another device: %s\n", CALL(_error_text)());
  expect(strstr(CALL(_error_text)(), "b is memory of device") != NULL, first->device, "the sentence about b");
  bad = good, bad.d = first->host;
  expect((int)CALL(_can_run)(&bad) == 21, first->device, "memory of the host");
  printf("memory of the host: %s\n", CALL(_error_text)());
  expect(strstr(CALL(_error_text)(), "d is ") != NULL, first->device, "the sentence about d");
  expect(cudaGetLastError() == 0, first->device, "the runtime after a refusal");
}

/* A context of its own, and a device that was reset: attributes of kernels belong to a context. */
static void of_contexts(void) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*create)(void**, void*, unsigned, int) = NULL, (*destroy)(void*) = NULL;
  void* context = NULL;
  Memory it;
  if (driver == NULL) { return; }
  *(void**)&create = dlsym(driver, "cuCtxCreate_v4");
  *(void**)&destroy = dlsym(driver, "cuCtxDestroy_v2");
  if (create != NULL && create(&context, NULL, 0, 0) == 0) {
    it.device = 0;
    it.host = malloc(MOST);
    expect(cudaMalloc((void**)&it.a, MOST) == 0 && cudaMalloc((void**)&it.b, MOST) == 0, 0, "cudaMalloc in a context");
    expect(cudaMalloc((void**)&it.d, MOST) == 0 && cudaMalloc((void**)&it.workspace, 16 * MOST) == 0, 0, "cudaMalloc");
    multiply(&it, sizes[1], 5);
    printf("a context of its own: %d broken\n", broken);
    destroy(context);
  }
  expect(cudaSetDevice(0) == 0 && cudaDeviceReset() == 0, 0, "cudaDeviceReset");
  it = memory_on(0);
  multiply(&it, sizes[1], 6);
  printf("a device that was reset: %d broken\n", broken);
}

int main(void) {
  int devices[2] = {0, 1}, i;
  pthread_t threads[2];
  Memory memory[2];
  for (i = 0; i < 2; ++i) { pthread_create(&threads[i], NULL, many, &devices[i]); }
  for (i = 0; i < 2; ++i) { pthread_join(threads[i], NULL); }
  printf("two threads: %d broken\n", broken);
  for (i = 0; i < 2; ++i) { memory[i] = memory_on(i); }
  for (i = 0; i < 2 * SIZES; ++i) {
    Memory const* it = &memory[i % 2];
    expect(cudaSetDevice(it->device) == 0, it->device, "cudaSetDevice");
    multiply(it, sizes[i / 2], i);
  }
  printf("in turn: %d broken\n", broken);
  for (i = 0; i < 2; ++i) { of_foreign_memory(&memory[i], &memory[1 - i]); }
  of_another_stream(&memory[0], &memory[1]);
  of_another_stream(&memory[1], &memory[0]);
  of_contexts();
  printf("%d broken\n", broken);
  return broken;
}
