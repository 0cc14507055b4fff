// The program tests/verify.cu of an ownership project: marks elements on the device, prints the tables, and compares them
// with those of the layout algebra.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "device.cuh"
#include "record.cuh"
#include "options.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// One matrix of the tile. staged: it lies in shared memory. planes: copies of it, one for each thread, one if staged.
/// expected: (planes, values), the element r * columns + c of each value of each thread, or at each place of the stage.
struct OwnedMatrix {
  char letter;
  char const* modes;
  int rows, columns;
  bool staged;
  int planes, values;
  int32_t const* expected;
};

struct OwnershipSubject {
  std::string name, spec_sha, mmagen_version, atom, types;
  int threads;
  OwnedMatrix matrices[3];
  int (*stamp)(int32_t* a, int32_t* b, int32_t* c, cudaStream_t stream);
  char const* (*error_text)();
};

/// Planes (rows, columns) of stamps; 0: not owned, else 1 + the value's number.
using Stamps = std::vector<int32_t>;

inline std::string owner_text(OwnedMatrix const& matrix, int thread, int value) {
  char text[32];
  if (matrix.staged) {
    std::snprintf(text, sizeof text, "%d", value);
  } else {
    std::snprintf(text, sizeof text, "T%02dv%d", thread, value);
  }
  return text;
}

/// Empty, or the first difference between the marks of the device and the expected ones, in either direction.
inline std::string first_difference(OwnedMatrix const& matrix, Stamps const& stamps) {
  int const elements = matrix.rows * matrix.columns;
  auto const place = [&](int element) {
    return std::string(1, matrix.letter) + "(" + std::to_string(element / matrix.columns) + "," +
           std::to_string(element % matrix.columns) + ")";
  };
  for (int thread = 0; thread < matrix.planes; ++thread) {
    int const* const expected = matrix.expected + std::size_t(thread) * matrix.values;
    int32_t const* const plane = stamps.data() + std::size_t(thread) * elements;
    int stamped = 0;
    for (int element = 0; element < elements; ++element) { stamped += plane[element] != 0; }
    for (int value = 0; value < matrix.values; ++value) {
      if (plane[expected[value]] == value + 1) { continue; }
      int const found = plane[expected[value]];
      return place(expected[value]) + " should be " + owner_text(matrix, thread, value) + ", the device " +
             (found == 0 ? "did not stamp it" : "made it " + owner_text(matrix, thread, found - 1));
    }
    if (stamped != matrix.values) {
      return "thread " + std::to_string(thread) + " stamped " + std::to_string(stamped) + " elements of " + matrix.letter +
             ", not " + std::to_string(matrix.values);
    }
  }
  return "";
}

/// Prints a table: the first owner of each element, and how many owners there are; its place, if it lies in shared memory.
inline void print_owners(OwnedMatrix const& matrix, Stamps const& stamps) {
  int const elements = matrix.rows * matrix.columns;
  std::vector<std::string> cells(static_cast<std::size_t>(elements));
  std::size_t owners = 0, width = 0;
  for (int thread = 0; thread < matrix.planes; ++thread) {
    for (int element = 0; element < elements; ++element) {
      int const stamp = stamps[std::size_t(thread) * elements + element];
      if (stamp == 0) { continue; }
      owners += element == 0;
      std::string& cell = cells[static_cast<std::size_t>(element)];
      if (cell.empty()) { cell = owner_text(matrix, thread, stamp - 1); }
      width = std::max(width, cell.size());
    }
  }
  std::cout << '\n'
            << matrix.letter << " (" << matrix.modes[0] << "," << matrix.modes[1] << "), " << matrix.rows << " x "
            << matrix.columns << ", ";
  if (matrix.staged) {
    std::cout << "in shared memory: elements between the begin of the stage and each";
  } else {
    std::cout << matrix.values << " values a thread";
  }
  if (owners > 1) { std::cout << ", " << owners << " threads own each element; the first is shown"; }
  std::cout << '\n';
  for (int row = 0; row < matrix.rows; ++row) {
    for (int column = 0; column < matrix.columns; ++column) {
      std::string cell = cells[static_cast<std::size_t>(row * matrix.columns + column)];
      cell.resize(width, ' ');
      std::cout << cell << (column + 1 < matrix.columns ? " " : "");
    }
    std::cout << '\n';
  }
}

/// Device memory for the stamps of the three matrices, zeroed, and back to the host after the launch.
inline std::vector<Stamps> stamp_on_device(OwnershipSubject const& subject) {
  int32_t* device[3] = {};
  std::vector<Stamps> stamps;
  for (int i = 0; i < 3; ++i) {
    OwnedMatrix const& matrix = subject.matrices[i];
    stamps.emplace_back(std::size_t(matrix.planes) * matrix.rows * matrix.columns);
    check(cudaMalloc(&device[i], stamps[i].size() * sizeof(int32_t)), "allocating the stamps");
    check(cudaMemset(device[i], 0, stamps[i].size() * sizeof(int32_t)), "clearing the stamps");
  }
  int const status = subject.stamp(device[0], device[1], device[2], nullptr);
  if (status != 0) {
    throw Failure{is_about_device(status) ? Disposition::kNotSupported : Disposition::kFailed, subject.error_text()};
  }
  check(cudaDeviceSynchronize(), "stamping");
  for (int i = 0; i < 3; ++i) {
    check(cudaMemcpy(stamps[i].data(), device[i], stamps[i].size() * sizeof(int32_t), cudaMemcpyDeviceToHost),
          "reading the stamps");
    check(cudaFree(device[i]), "cudaFree");
  }
  return stamps;
}

/// Options: --json (one object a line for each matrix), --help. Options for timing and problems are accepted and ignored, so
/// that one command line works for every project's program.
inline int ownership_main(OwnershipSubject const& subject, int argc, char** argv) {
  Options options;
  std::string const fault = parse_options(Program::kVerify, {argv + 1, argv + std::max(argc, 1)}, &options);
  if (!fault.empty()) {
    std::cerr << argv[0] << ": " << fault << '\n';
    return 2;
  }
  if (options.help) {
    std::cout << usage(Program::kVerify);
    return 0;
  }
  Nvml const nvml;
  DeviceFacts const device = find_device(nvml);
  Report report(options.json, 24);
  report.heading(subject.name + ": ownership in a TiledMMA of " + subject.atom + ", " + std::to_string(subject.threads) +
                 " threads, on " + (device.missing.empty() ? device.name : "no device"));

  std::vector<Stamps> stamps;
  Record common;
  common.name = subject.name;
  common.layout = subject.atom;
  common.types = subject.types;
  common.device = device.name;
  common.driver = device.driver;
  common.cuda = device.cuda;
#if defined(MMAGEN_CUTLASS_VERSION)
  common.cutlass = MMAGEN_CUTLASS_VERSION;
#endif
  common.mmagen = subject.mmagen_version;
  common.spec_sha = subject.spec_sha;
  common.input_dist = "stamps";
  common.disposition = Disposition::kPassed;
  if (!device.missing.empty()) {
    common.disposition = Disposition::kNotSupported;
    common.reason = device.missing;
  } else {
    try {
      stamps = stamp_on_device(subject);
    } catch (Failure const& failure) {
      common.disposition = failure.disposition;
      common.reason = failure.reason;
    }
  }
  for (int i = 0; i < 3; ++i) {
    OwnedMatrix const& matrix = subject.matrices[i];
    Record record = common;
    record.problem = std::string(1, matrix.letter) + " " + std::to_string(matrix.rows) + "x" + std::to_string(matrix.columns);
    if (!stamps.empty()) {
      if (!options.json) { print_owners(matrix, stamps[i]); }
      record.reason = first_difference(matrix, stamps[i]);
      record.max_abs_err = record.reason.empty() ? 0 : 1;  // exact
      record.bound = 0;
      if (!record.reason.empty()) { record.disposition = Disposition::kIncorrect; }
    }
    report.add(record);
  }
  report.verdict();
  return report.exit_code();
}

}  // namespace v0_1
}  // namespace mmagen::test
