/* The operands of the compiled caller, for a test: what read_matrices() says of an array. */
#include "fast_operands.h"

/* 1 and the bytes that the array takes, or 0. */
int matrices_are_read(int bits, int dimensions, int64_t* shape, int64_t* strides, int64_t* bytes) {
  Type const type = {2, (uint8_t)bits, true};
  DLTensor const tensor = {0, 1, 0, dimensions, type.code, type.bits, 1, shape, strides, 0};
  Operand found = {.tensor = tensor};
  int const read = read_matrices(&tensor, type, &found);
  *bytes = found.bytes;
  return read;
}
