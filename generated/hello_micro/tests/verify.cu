// SPDX-License-Identifier: MIT-0
// Checks hello_micro against an independent reference and times it; --help lists the options.
#include "mmagen/verify_main.cuh"
#include "subject.cuh"

int main(int argc, char** argv) { return mmagen::test::verify_main<Subject>(argc, argv); }
