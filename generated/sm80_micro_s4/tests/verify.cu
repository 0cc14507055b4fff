// Checks sm80_micro_s4 against an independent reference; --help lists the options.
#include "mmagen/instruction_main.cuh"
#include "subject.cuh"

int main(int argc, char** argv) { return mmagen::test::instruction_main<Subject>(argc, argv); }
