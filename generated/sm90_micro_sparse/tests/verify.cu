// SPDX-License-Identifier: MIT-0
// Checks sm90_micro_sparse against an independent reference; --help lists the options.
#include "mmagen/instruction_main.cuh"
#include "subject.cuh"

int main(int argc, char** argv) { return mmagen::test::instruction_main<Subject>(argc, argv); }
