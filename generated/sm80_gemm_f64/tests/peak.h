/* The pace of SM80_8x8x4_F64F64F64F64_TN with nothing else to wait for: what bench divides by. */
#pragma once

#include "sm80_gemm_f64/sm80_gemm_f64.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that multiplies what is already on the chip, `iterations` times; *flop: the operations it does. */
sm80_gemm_f64_status sm80_gemm_f64_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
