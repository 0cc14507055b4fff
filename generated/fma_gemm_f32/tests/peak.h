/* The pace of UniversalFMA<float,float,float,float> with nothing else to wait for: what bench divides by. */
#pragma once

#include "fma_gemm_f32/fma_gemm_f32.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that multiplies what is already on the chip, `iterations` times; *flop: the operations it does. */
fma_gemm_f32_status fma_gemm_f32_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
