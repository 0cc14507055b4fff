// Prints what the judge of a kernel of one instruction draws and expects, for a test to compare with its own reckoning.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "mmagen/instruction_main.cuh"

inline void print(char const* key, std::vector<unsigned char> const& bytes) {
  std::printf("\"%s\": \"", key);
  for (unsigned char const byte : bytes) { std::printf("%02x", byte); }
  std::printf("\", ");
}

inline void print(char const* key, std::vector<double> const& values, char const* end) {
  std::printf("\"%s\": [", key);
  for (std::size_t i = 0; i < values.size(); ++i) { std::printf("%s%.17g", i == 0 ? "" : ", ", values[i]); }
  std::printf("]%s", end);
}

template <class Subject>
void dump() {
  using namespace mmagen::test;
  std::vector<Inputs> const kinds = chosen_inputs(Options{}, Subject::Acc::kInteger);
  for (Inputs const inputs : kinds) {
    InstructionMatrices const made = draw_operands<Subject>(inputs, 7);
    Reference<Subject> const truth(made);
    std::printf("{\"name\": \"%s\", \"inputs\": \"%s\", ", Subject::kName, text(inputs));
    print("A", packed(made.a, Subject::kBitsA, Subject::kShiftA));
    print("B", packed(made.b, Subject::kBitsB, Subject::kShiftB));
    print("C", packed(made.c, 8 * sizeof(StoredPart<typename Subject::Acc>), 0));
    print("E", packed(made.e, 8, 0));
    print("SFA", packed(made.sfa, 8, 0));
    print("SFB", packed(made.sfb, 8, 0));
    std::vector<double> low, high;
    for (std::size_t i = 0; i < truth.sum.size(); ++i) {
      Interval const may = allowed_of_instruction<Subject>(inputs != Inputs::kUniform, truth.sum[i], truth.magnitude[i]);
      low.push_back(may.low);
      high.push_back(may.high);
    }
    print("low", low, ", ");
    print("high", high, "}\n");
  }
}
