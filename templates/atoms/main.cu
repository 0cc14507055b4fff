// Runs the cases of a file on the kernels of this batch.
#include "mmagen/atom_main.cuh"

extern mmagen::atoms::Kernel const kKernels[];
extern uint32_t const kKernelCount;

int main(int argc, char** argv) { return mmagen::atoms::atom_main(argc, argv, kKernels, kKernelCount); }
