/* A C99 program that uses one library of bf16 TN kernels on a GPU: KERNEL is its name, HEADER its header. Prints one line for each
 * promise that is not kept, and returns their number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include HEADER

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define CALL(function) JOIN(KERNEL, function)

/* Of the CUDA runtime, as C declares them: its own headers are not C99. */
extern int cudaMalloc(void **, size_t);
extern int cudaMemcpy(void *, const void *, size_t, int);
extern int cudaMemset(void *, int, size_t);
extern int cudaDeviceSynchronize(void);
extern int cudaStreamCreate(struct CUstream_st **);
extern int cudaStreamSynchronize(struct CUstream_st *);

enum { M = 200, N = 136, K = 104, LDA = 112, LDB = 104, LDD = 144, BATCH = 2, TO_DEVICE = 1, TO_HOST = 2, GUARD = 0x5a5a };

typedef uint16_t bf16;

static bf16 a[BATCH][M][LDA], b[BATCH][N][LDB], d[BATCH][M][LDD];
static int broken = 0;

static bf16 small(int value) {
  float const f = (float)value;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return (bf16)(bits >> 16);
}

static float wide(bf16 value) {
  uint32_t const bits = (uint32_t)value << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static void expect(int holds, char const *what) {
  if (!holds) {
    ++broken;
    printf("%s; status text: %s; cuda error %d\n", what, CALL(_error_text)(), CALL(_cuda_error)());
  }
}

static void *on_device(void const *host, size_t bytes) {
  void *made = NULL;
  if (cudaMalloc(&made, bytes) != 0 || cudaMemcpy(made, host, bytes, TO_DEVICE) != 0) { exit(99); }
  return made;
}

static int digit(int i, int j) { return (i * 7 + j * 5) % 3 - 1; }

/* D is alpha * A * B, rounded to nearest even: sums of +-1 up to 104 are exact in bf16. Beyond N it is as it was. */
static void check(float alpha, char const *what) {
  int z, i, j, k;
  for (z = 0; z < BATCH; ++z) {
    for (i = 0; i < M; ++i) {
      for (j = 0; j < LDD; ++j) {
        float sum = 0;
        for (k = 0; k < K && j < N; ++k) { sum += wide(a[z][i][k]) * wide(b[z][j][k]); }
        if (j < N ? wide(d[z][i][j]) != alpha * sum : d[z][i][j] != GUARD) {
          ++broken;
          printf("%s: d[%d][%d][%d] is %g, not %g\n", what, z, i, j, (double)wide(d[z][i][j]), (double)(alpha * sum));
          return;
        }
      }
    }
  }
}

int main(void) {
  JOIN(KERNEL, _args) args;
  struct CUstream_st *stream = NULL;
  float const two = 2;
  bf16 const *before;
  int z, i, j;
  for (z = 0; z < BATCH; ++z) {
    for (i = 0; i < M; ++i) {
      for (j = 0; j < LDA; ++j) { a[z][i][j] = small(digit(i + z, j)); }
      for (j = 0; j < LDD; ++j) { d[z][i][j] = GUARD; }
    }
    for (i = 0; i < N; ++i) {
      for (j = 0; j < LDB; ++j) { b[z][i][j] = small(digit(i, j + z)); }
    }
  }
  memset(&args, 0, sizeof args); /* the header allows zeros and struct_size */
  args.struct_size = sizeof args;
  args.m = M, args.n = N, args.k = K, args.batch = BATCH, args.alpha = 1;
  args.a = on_device(a, sizeof a), args.lda = LDA, args.batch_stride_a = M * LDA;
  args.b = on_device(b, sizeof b), args.ldb = LDB, args.batch_stride_b = N * LDB;
  args.d = on_device(d, sizeof d), args.ldd = LDD, args.batch_stride_d = M * LDD;
  before = (bf16 const *)on_device(d, sizeof d);
  expect(strlen(CALL(_version)()) >= 5 && strstr(CALL(_description)(), "bf16") != NULL, "version and description");
  expect(CALL(_can_run)(&args) == 0, "can_run");
  expect(cudaStreamCreate(&stream) == 0 && CALL(_run)(&args, stream) == 0, "run");
  expect(cudaStreamSynchronize(stream) == 0 && cudaMemcpy(d, args.d, sizeof d, TO_HOST) == 0, "the kernel");
  check(1, "alpha of the host");
  args.alpha_device = on_device(&two, sizeof two);
  expect(CALL(_run)(&args, NULL) == 0 && cudaDeviceSynchronize() == 0, "run with alpha in device memory");
  expect(cudaMemcpy(d, args.d, sizeof d, TO_HOST) == 0, "the copy");
  check(2, "alpha of the device");
  args.alpha_device = NULL;

  /* Refused, and D untouched. */
  cudaMemcpy(args.d, before, sizeof d, 3);
  {
    JOIN(KERNEL, _args) bad = args;
    bad.struct_size = 8;
    expect(CALL(_run)(&bad, stream) == 17 && strlen(CALL(_error_text)()) > 8, "struct_size");
    bad = args, bad.lda = K - 1;
    expect(CALL(_run)(&bad, stream) == 80 && strstr(CALL(_error_text)(), "lda is 103") != NULL, "short lda");
    bad = args, bad.b = NULL;
    expect(CALL(_run)(&bad, stream) == 49 && CALL(_can_run)(&bad) == 49, "b is NULL");
    bad = args, bad.d = (char *)args.d + 1;
    expect(CALL(_run)(&bad, stream) == 67, "misaligned d");
    bad = args, bad.beta = 1;
    expect(CALL(_run)(&bad, stream) == 50, "c is NULL and beta is not");
    bad = args, bad.batch_stride_d = 0;
    expect(CALL(_run)(&bad, stream) == 98, "shared d");
    bad = args, bad.m = -1;
    expect(CALL(_run)(&bad, stream) == 32, "negative m");
    expect(CALL(_run)(NULL, stream) == 16, "no struct");
  }
  expect(cudaDeviceSynchronize() == 0 && cudaMemcpy(d, args.d, sizeof d, TO_HOST) == 0, "the device after refusals");
  for (i = 0; i < BATCH * M * LDD; ++i) {
    if (d[0][0][i] != GUARD) {
      expect(0, "a refused call wrote D");
      break;
    }
  }
  /* batch 0 is 1. */
  args.batch = 0;
  expect(CALL(_run)(&args, stream) == 0 && cudaDeviceSynchronize() == 0, "batch 0");
  expect(cudaMemcpy(d, args.d, sizeof d, TO_HOST) == 0 && wide(d[0][1][1]) != wide(GUARD), "batch 0 computes one matrix");
  expect(d[1][0][0] == GUARD, "batch 0 computes one matrix only");
  printf("%d broken\n", broken);
  return broken;
}
