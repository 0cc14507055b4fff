/* The C interface of a kernel for f32, computed by the host in its own memory: what the Python binding is tested with. KERNEL
 * is the name of the library; HEADER, DESCRIPTION and the contiguous modes come from its plan. */
#include HEADER

#include <stdio.h>

#define JOIN_(name, function) name##_##function
#define JOIN(name, function) JOIN_(name, function)
#define NAME(function) JOIN(KERNEL, function)

static char text[200] = "success";
static int cuda_error;

static int64_t at(int64_t row, int64_t column, int64_t ld, int row_contiguous) {
  return row_contiguous ? row + column * ld : row * ld + column;
}

NAME(status) NAME(can_run)(const NAME(args) * args) {
  cuda_error = 0;
  if (args->m == 77) { /* as on a machine without a driver */
    snprintf(text, sizeof text, "no driver: this machine has no CUDA driver");
    cuda_error = 35;
    return (NAME(status))2;
  }
  if (args->m == 78) {
    snprintf(text, sizeof text, "lda is %lld; a line of A along K has 1 elements", (long long)args->lda);
    return (NAME(status))80;
  }
  return (NAME(status))0;
}

NAME(status) NAME(run)(const NAME(args) * args, struct CUstream_st* stream) {
  double const alpha = args->alpha_device ? *(float const*)args->alpha_device : args->alpha;
  double const beta = args->beta_device ? *(float const*)args->beta_device : args->beta;
  NAME(status) const status = NAME(can_run)(args);
  if (status) { return status; }
  if (args->struct_size != sizeof(NAME(args))) { return (NAME(status))17; }
  for (int64_t i = 0; i < args->batch; ++i) {
    float const* const a = (float const*)args->a + i * args->batch_stride_a;
    float const* const b = (float const*)args->b + i * args->batch_stride_b;
    float const* const c = (float const*)args->c + i * args->batch_stride_c;
    float* const d = (float*)args->d + i * args->batch_stride_d;
    for (int64_t m = 0; m < args->m; ++m) {
      for (int64_t n = 0; n < args->n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < args->k; ++k) { sum += (double)a[at(m, k, args->lda, A_M)] * b[at(n, k, args->ldb, B_N)]; }
        sum = alpha * sum + (beta != 0 ? beta * c[at(m, n, args->ldc, D_M)] : 0);
        d[at(m, n, args->ldd, D_M)] = (float)sum;
      }
    }
  }
  /* What the test wants to see of the call. */
  snprintf(text, sizeof text, "stream %lld workspace %lld", (long long)(intptr_t)stream, (long long)args->workspace_bytes);
  return (NAME(status))0;
}

NAME(status) NAME(workspace_bytes)(const NAME(args) * args, int64_t* bytes) {
  *bytes = args->k > 100 ? 4096 : 0;
  return (NAME(status))0;
}

char const* NAME(config_name)(const NAME(args) * args) { return args ? "host" : ""; }
char const* NAME(error_text)(void) { return text; }
int NAME(cuda_error)(void) { return cuda_error; }
char const* NAME(description)(void) { return DESCRIPTION; }
