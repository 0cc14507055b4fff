// Calls the host function of one of CuTe's tutorials (TUTORIAL: the name of its file). ELEMENT: the type of A, B and C.
// C is M contiguous.
#define main tutorial_main
#include TUTORIAL
#undef main

#include "driver.h"

extern "C" int run(Gemm const* g) {
  using Element = ELEMENT;
  gemm(char(g->trans_a), char(g->trans_b), int(g->m), int(g->n), int(g->k), Element(g->alpha),
       static_cast<Element const*>(g->a), int(g->lda), static_cast<Element const*>(g->b), int(g->ldb), Element(g->beta),
       static_cast<Element*>(g->d), int(g->ldd));
  return cudaGetLastError();
}
