// SPDX-License-Identifier: MIT-0
// Many launches as one CUDA graph: kernels of a few microseconds are then not limited by the host.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device.cuh"
#include "record.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// `launches` launches that take the input sets in turn. What `launch` enqueues must not allocate or synchronize; kernels must
/// have been launched once before, outside of a graph.
class LaunchGraph {
 public:
  LaunchGraph(TimedLaunch const& launch, int64_t launches, int sets, cudaStream_t stream) : launches_(launches) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      for (int64_t i = 0; i < launches; ++i) { launch(static_cast<int>(i % sets)); }
    } catch (Failure const&) {
      cudaStreamEndCapture(stream, &graph);  // the stream must leave capture mode, whatever it captured
      if (graph != nullptr) { cudaGraphDestroy(graph); }
      cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    cudaError_t const error = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(error, "cudaGraphInstantiate");
  }
  LaunchGraph(LaunchGraph const&) = delete;
  LaunchGraph& operator=(LaunchGraph const&) = delete;
  ~LaunchGraph() {
    if (executable_ != nullptr) { cudaGraphExecDestroy(executable_); }
  }

  int64_t launches() const { return launches_; }
  void enqueue(cudaStream_t stream) const { check(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch"); }

 private:
  int64_t launches_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace v0_1
}  // namespace mmagen::test
